package commands

import (
	"errors"
	"strings"
	"testing"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/notices"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// namesOf returns an empty table of names.
func namesOf(t *testing.T) *accountnames.Table {
	t.Helper()
	names, _ := namesIn(t, sqlstoretest.SQLite(t))
	return names
}

// namesIn returns an empty table of names in a database.
func namesIn(t *testing.T, cfg sqlstore.Config) (*accountnames.Table, *sqlstore.Store) {
	t.Helper()
	store := testmust.Get(sqlstore.Open(t.Context(), cfg))(t)
	t.Cleanup(func() { testmust.Succeed(t, store.Close()) })
	names := testmust.Get(accountnames.New(t.Context(), store))(t)
	return names, store
}

// noticesOf returns the commands of notices on a world, with an account.
func noticesOf(t *testing.T, events eventschemas.Encoder) (*world, *Notices, string) {
	t.Helper()
	w := newWorld(t)
	names := namesOf(t)
	d := w.writer(AccountWriterConfig{Config: streamwriter.Config{Encoder: events}})
	return w, NewNotices(w.log, events, time.Now, d, names), w.opened(d, 0)
}

// onStream returns the events of an account's stream of notices, none of which has a destination.
func onStream(w *world, id string) []eventschemas.Event {
	w.Helper()
	return eventsWithout(w, notices.Stream(id), "example")
}

func TestSetNotices_ChangesOnlyWhatIsGiven(t *testing.T) {
	w, n, id := noticesOf(t, eventschemas.Encoder{})
	number := func(v int64) *int64 { return &v }
	text := func(v string) *string { return &v }
	const url, address = "https://hooks.example.com/letterhead?token=1", "billing@example.com"
	for i, s := range []struct {
		in           SetNotices
		want         eventschemas.NoticesSet
		events       int
		url, address string
	}{
		{SetNotices{LowBalance: number(100)}, eventschemas.NoticesSet{LowBalance: 100}, 1, "", ""},
		{SetNotices{LowBalance: number(100)}, eventschemas.NoticesSet{LowBalance: 100}, 1, "", ""},
		{SetNotices{Webhook: text(url)}, eventschemas.NoticesSet{LowBalance: 100, Webhook: true}, 2, url, ""},
		{SetNotices{Email: text(address), LowBalance: number(50)}, eventschemas.NoticesSet{LowBalance: 50, Webhook: true, Email: true}, 3, url, address},
		{SetNotices{Webhook: text(url + "2")}, eventschemas.NoticesSet{LowBalance: 50, Webhook: true, Email: true}, 4, url + "2", address},
		{SetNotices{Webhook: text("")}, eventschemas.NoticesSet{LowBalance: 50, Email: true}, 5, "", address},
	} {
		s.in.Request, s.in.AccountID = w.request(), id
		if _, err := n.Set(t.Context(), s.in); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		events := onStream(w, id)
		if len(events) != s.events || events[len(events)-1] != s.want {
			t.Errorf("step %d: events %+v, want %d and last %+v", i, events, s.events, s.want)
		}
		got, err := n.Destinations(t.Context(), id)
		if err != nil || got[notices.Webhook] != s.url || got[notices.Email] != s.address {
			t.Errorf("step %d: destinations %v, %v", i, got, err)
		}
	}
	testmust.Succeed(t, n.Erase(t.Context(), id))
	if got, err := n.Destinations(t.Context(), id); err != nil || len(got) != 0 {
		t.Errorf("erased destinations: %v, %v", got, err)
	}
}

func TestSetNotices_Rejected_StoresNothing(t *testing.T) {
	w, n, id := noticesOf(t, eventschemas.Encoder{})
	negative := int64(-1)
	bad := map[string]SetNotices{"a negative threshold": {LowBalance: &negative}}
	for _, url := range []string{"http://example.com/", "example.com", "https://127.0.0.1/", "https://10.0.0.1", "https://localhost/", "https://user:pw@example.com/", "https://example.com:8443/", "https://example.com/" + strings.Repeat("a", 1000), "ftp://example.com"} {
		bad["webhook "+url[:min(len(url), 40)]] = SetNotices{Webhook: &url}
	}
	for _, address := range []string{"billing", "a@b.example\r\nBcc: c@d.example", "Billing <a@b.example>", "a@b.example, c@d.example", " a@b.example", strings.Repeat("a", 300) + "@b.example", "bücher@b.example"} {
		bad["address "+address[:min(len(address), 40)]] = SetNotices{Email: &address}
	}
	for name, in := range bad {
		in.Request, in.AccountID = w.request(), id
		if _, err := n.Set(t.Context(), in); !errors.Is(err, notices.ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, notices.ErrInvalid)
		}
	}
	good := "https://hooks.example.com/"
	if _, err := n.Set(t.Context(), SetNotices{Request: w.request(), AccountID: "none", Webhook: &good}); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("an unknown account: %v, want %v", err, account.ErrNotFound)
	}
	testmust.Succeed(t, testmust.Err(n.accounts.Close(t.Context(), CloseAccount{Request: w.request(), AccountID: id, Reason: "operator"})))
	if _, err := n.Set(t.Context(), SetNotices{Request: w.request(), AccountID: id, Webhook: &good}); !errors.Is(err, account.ErrClosed) {
		t.Errorf("a closed account: %v, want %v", err, account.ErrClosed)
	}
	for _, of := range []string{id, "none"} {
		got, err := n.Destinations(t.Context(), of)
		if events := onStream(w, of); err != nil || len(got) != 0 || len(events) != 0 {
			t.Errorf("account %s has destinations %v and events %v; %v", of, got, events, err)
		}
	}
}

// TestAppendNotice_SameRevisionTwice_OneWins appends the same attempt from two nodes.
func TestAppendNotice_SameRevisionTwice_OneWins(t *testing.T) {
	w, n, id := noticesOf(t, eventschemas.Encoder{})
	attempt := eventschemas.NoticeAttempted{NoticeID: "n", Destination: notices.Webhook, Attempt: 1}
	results := make(chan error, 2)
	for range cap(results) {
		go func() {
			_, err := n.Append(t.Context(), w.request(), id, 0, attempt)
			results <- err
		}()
	}
	won := 0
	for range cap(results) {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, eventlog.ErrWrongRevision) {
			t.Error(err)
		}
	}
	if events := onStream(w, id); won != 1 || len(events) != 1 {
		t.Errorf("%d of 2 nodes may send, events %v", won, events)
	}
	// The outcome is recorded although the settings have changed meanwhile.
	low := int64(5)
	testmust.Succeed(t, testmust.Err(n.Set(t.Context(), SetNotices{Request: w.request(), AccountID: id, LowBalance: &low})))
	settled := eventschemas.NoticeSettled{NoticeID: "n", Destination: notices.Webhook, Attempt: 1, Outcome: notices.Delivered}
	if count, err := n.Settle(t.Context(), w.request(), id, settled); err != nil || count != 3 {
		t.Errorf("Settle = %d, %v, want 3", count, err)
	}
}

func TestAppendNotice_OutcomeUnknown_IsRepeated(t *testing.T) {
	w, n, id := noticesOf(t, eventschemas.Encoder{})
	lost := 1
	w.log.set(func(f *faults) {
		f.after = func(_ sentAppend, err error) error {
			if lost--; lost >= 0 {
				return ambiguous()
			}
			return err
		}
	})
	attempt := eventschemas.NoticeAttempted{NoticeID: "n", Destination: notices.Webhook, Attempt: 1}
	if count, err := n.Append(t.Context(), w.request(), id, 0, attempt); err != nil || count != 1 {
		t.Errorf("Append = %d, %v, want 1", count, err)
	}
	if events := onStream(w, id); len(events) != 1 {
		t.Errorf("events %v, want one", events)
	}
}
