package commands

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// signInsOf returns the commands of sign-ins on a world, with an account.
func signInsOf(t *testing.T, now func() time.Time) (*world, *SignIns, string) {
	t.Helper()
	w := newWorld(t)
	d := w.writer(AccountWriterConfig{})
	return w, NewSignIns(w.log, eventschemas.Encoder{}, now, d, namesOf(t)), w.opened(d, 0)
}

func link(w *world, s *SignIns, id string) (token string) {
	w.Helper()
	token, _, err := s.IssueLink(w.Context(), w.request(), id, "")
	testmust.Succeed(w, err)
	return token
}

// signInEvents returns the stream of an account's sign-ins, in which no secret may be.
func signInEvents(w *world, id string, secrets ...string) []eventschemas.Event {
	w.Helper()
	return eventsWithout(w, signin.Stream(id), secrets...)
}

// eventsWithout returns the events of a stream, in which no secret may be.
func eventsWithout(w *world, stream string, secrets ...string) []eventschemas.Event {
	w.Helper()
	var all []eventschemas.Event
	err := eventlog.ReadPages(w.Context(), w.log, stream, 10, func(page []eventlog.Recorded) error {
		for i := range page {
			for _, secret := range secrets {
				if strings.Contains(fmt.Sprint(string(page[i].Data), page[i].Metadata), secret) {
					w.Errorf("an event has a token: %s", page[i].Data)
				}
			}
			ev, err := eventlog.Decode(&page[i], eventschemas.Decode)
			if err != nil {
				return err
			}
			all = append(all, ev)
		}
		return nil
	})
	testmust.Succeed(w, err)
	return all
}

// Rule 13.
func TestSignIn_LinkUntilSignedOut(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	w, s, id := signInsOf(t, func() time.Time { return now })
	token, expires, err := s.IssueLink(t.Context(), w.request(), id, "p2")
	if err != nil || len(token) != 43 || !expires.Equal(now.Add(signin.LinkLifetime)) {
		t.Fatalf("IssueLink = %d characters, %s, %v", len(token), expires, err)
	}
	session, begun, err := s.Enter(t.Context(), w.request(), id, token)
	want := signin.Session{ID: begun.ID, AccountID: id, Person: "p2", StartedAt: now, ExpiresAt: now.Add(signin.SessionLifetime)}
	if err != nil || len(session) != 43 || session == token || begun.Session != want || begun.ID == "" || begun.Position == 0 {
		t.Fatalf("Enter = %d characters, %+v, %v; want %+v", len(session), begun, err, want)
	}
	if _, _, err := s.Enter(t.Context(), w.request(), id, token); !errors.Is(err, signin.ErrLinkUsed) {
		t.Errorf("the link again: %v", err)
	}
	for i, repeated := range []bool{false, true} {
		if done, err := s.SignOut(t.Context(), w.request(), id, begun.ID); err != nil || done.Repeated != repeated || done.Position <= begun.Position {
			t.Errorf("sign-out %d: %+v, %v", i, done, err)
		}
	}
	for i, repeated := range []bool{false, true} {
		if i == 0 {
			link(w, s, id)
		}
		if done, err := s.SignOutEverywhere(t.Context(), w.request(), id, ""); err != nil || done.Repeated != repeated {
			t.Errorf("sign-out everywhere %d: %+v, %v", i, done, err)
		}
	}
	events := signInEvents(w, id, token, session)
	if issued, ok := events[0].(eventschemas.SignInLinkIssued); !ok || issued.Hash != hashHex(token) || len(events) != 5 {
		t.Errorf("events %+v", events)
	}
	if in, ok := events[1].(eventschemas.SignedIn); !ok || in.Hash != hashHex(session) {
		t.Errorf("events %+v", events)
	}
}

func TestSignIns_BadInput_IsRejected(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	token := link(w, s, id)
	other := w.opened(s.accounts, 0)
	for name, in := range map[string][2]string{
		"another account": {other, token}, "an unknown account": {uuid.NewString(), token}, "no account": {"", token}, "an id that is none": {strings.Repeat("x", 1000), token},
		"another token": {id, strings.Repeat("A", len(token))}, "no token": {id, ""}, "a longer token": {id, token + "AA"}, "no base64": {id, token[1:] + "+"},
	} {
		if _, _, err := s.Enter(t.Context(), w.request(), in[0], in[1]); !errors.Is(err, signin.ErrUnknownLink) {
			t.Errorf("%s: %v, want %v", name, err, signin.ErrUnknownLink)
		}
	}
	if _, _, err := s.IssueLink(t.Context(), w.request(), id, "jane@example.com"); !errors.Is(err, signin.ErrInvalid) {
		t.Errorf("an address as person: %v", err)
	}
	if _, _, err := s.IssueLink(t.Context(), Request{}, id, ""); !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("no request: %v", err)
	}
	for _, unknown := range []string{uuid.NewString(), "none", ""} {
		if _, _, err := s.IssueLink(t.Context(), w.request(), unknown, ""); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("account %q: %v, want %v", unknown, err, account.ErrNotFound)
		}
	}
	if events := signInEvents(w, id); len(events) != 1 {
		t.Errorf("events %+v, want the link only", events)
	}
}

// TestEnter_ConcurrentUsesOfALink_OneWins uses a link many times at once, on two nodes.
func TestEnter_ConcurrentUsesOfALink_OneWins(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	nodes := []*SignIns{s, NewSignIns(w.log, eventschemas.Encoder{}, time.Now, w.writer(AccountWriterConfig{}), nil)}
	token := link(w, s, id)
	results := make(chan error, 16)
	for i := range cap(results) {
		go func() {
			_, _, err := nodes[i%2].Enter(t.Context(), w.request(), id, token)
			results <- err
		}()
	}
	won := 0
	for range cap(results) {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, signin.ErrLinkUsed) {
			t.Error(err)
		}
	}
	if events := signInEvents(w, id); won != 1 || len(events) != 2 {
		t.Errorf("%d of %d began a session; events %+v", won, cap(results), events)
	}
}

func TestEnter_OutcomeUnknown_BeginsOneSession(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	token := link(w, s, id)
	var lost atomic.Bool
	w.log.set(func(f *faults) {
		f.after = func(a sentAppend, err error) error {
			if a.stream == signin.Stream(id) && lost.CompareAndSwap(false, true) {
				return ambiguous()
			}
			return err
		}
	})
	session, begun, err := s.Enter(t.Context(), w.request(), id, token)
	events := signInEvents(w, id)
	if err != nil || len(events) != 2 || begun.Position == 0 {
		t.Fatalf("Enter: %+v, %v; events %+v", begun, err, events)
	}
	if in := events[1].(eventschemas.SignedIn); in.SessionID != begun.ID || in.Hash != hashHex(session) || !begun.ExpiresAt.Equal(in.ExpiresAt) {
		t.Errorf("the event is %+v, Enter returned %+v", in, begun)
	}
}

func TestSignIns_ClosedAccount_OpenNothing(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	token := link(w, s, id)
	_, begun, err := s.Enter(t.Context(), w.request(), id, link(w, s, id))
	testmust.Succeed(t, err)
	testmust.Succeed(t, testmust.Err(s.accounts.Suspend(t.Context(), SuspendAccount{Request: w.request(), AccountID: id, Reason: "operator"})))
	link(w, s, id) // a suspended account has people who pay its bill
	testmust.Succeed(t, testmust.Err(s.accounts.Close(t.Context(), CloseAccount{Request: w.request(), AccountID: id, Reason: "operator"})))
	if _, _, err := s.Enter(t.Context(), w.request(), id, token); !errors.Is(err, account.ErrClosed) {
		t.Errorf("enter: %v, want %v", err, account.ErrClosed)
	}
	if _, _, err := s.IssueLink(t.Context(), w.request(), id, ""); !errors.Is(err, account.ErrClosed) {
		t.Errorf("issue a link: %v, want %v", err, account.ErrClosed)
	}
	if done, err := s.SignOut(t.Context(), w.request(), id, begun.ID); err != nil || done.Repeated {
		t.Errorf("sign out: %+v, %v", done, err)
	}
	if done, err := s.SignOutEverywhere(t.Context(), w.request(), id, ""); err != nil || done.Repeated {
		t.Errorf("sign out everywhere: %+v, %v", done, err)
	}
}

// TestEnter_AccountIsClosedMeanwhile_LeavesNoSession closes an account, and ends its sessions, after a sign-in has found the
// account open.
func TestEnter_AccountIsClosedMeanwhile_LeavesNoSession(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	token := link(w, s, id)
	var closing atomic.Bool
	w.log.set(func(f *faults) {
		f.before = func(a sentAppend) error {
			if a.stream != signin.Stream(id) || !closing.CompareAndSwap(false, true) {
				return nil
			}
			_, err := s.accounts.Close(context.WithoutCancel(a.ctx), CloseAccount{Request: w.request(), AccountID: id, Reason: "operator"})
			if err == nil {
				_, err = s.SignOutEverywhere(a.ctx, w.request(), id, "")
			}
			return err
		}
	})
	if _, _, err := s.Enter(t.Context(), w.request(), id, token); err == nil {
		t.Error("a session began after its account was closed")
	}
	for _, ev := range signInEvents(w, id) {
		if _, ok := ev.(eventschemas.SignedIn); ok {
			t.Errorf("%+v after the account was closed", ev)
		}
	}
}

// TestSignIns_LongStream_OnlyRelevantEventsAreRead has people sign in for months, and then many times in a day.
func TestSignIns_LongStream_OnlyRelevantEventsAreRead(t *testing.T) {
	now := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	w, s, id := signInsOf(t, func() time.Time { return now })
	enter := func() Session {
		t.Helper()
		_, begun, err := s.Enter(t.Context(), w.request(), id, link(w, s, id))
		testmust.Succeed(t, err)
		return begun
	}
	signOut := func(sessionID string) (reads int64) {
		t.Helper()
		before := w.log.reads.Load()
		if done, err := s.SignOut(t.Context(), w.request(), id, sessionID); err != nil || done.Repeated {
			t.Fatalf("sign out: %+v, %v", done, err)
		}
		return w.log.reads.Load() - before
	}
	for range streamPage * 2 / 3 {
		now = now.Add(24 * time.Hour)
		enter()
	}
	last := enter()
	if reads := signOut(last.ID); reads != 1 {
		t.Errorf("%d reads, want one", reads)
	}
	first := enter()
	for range streamPage / 3 {
		signOut(enter().ID)
	}
	if reads := signOut(first.ID); reads != 2 {
		t.Errorf("%d reads of a page more, want two", reads)
	}
}

func owner(accountID string) signin.Person {
	return signin.Person{AccountID: accountID, ID: signin.Owner}
}

func TestSetEmail_SeveralPeople_EachHasOne(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	p2, p3 := signin.Person{AccountID: id, ID: "p2"}, signin.Person{AccountID: id, ID: "p3"}
	for _, set := range []struct {
		of      signin.Person
		address string
	}{{p3, "ann@example.com"}, {p2, "bob@example.com"}, {owner(id), "ann@example.com"}, {p2, "bo@example.com"}} {
		testmust.Succeed(t, testmust.Err(s.SetEmail(t.Context(), w.request(), set.of, set.address)))
	}
	want := []Email{{signin.Owner, "ann@example.com"}, {"p2", "bo@example.com"}, {"p3", "ann@example.com"}}
	if all, err := s.Emails(t.Context(), id); err != nil || !slices.Equal(all, want) {
		t.Errorf("Emails = %v, %v; want %v", all, err, want)
	}
	if found, err := s.WithEmail(t.Context(), "ann@example.com"); err != nil || !slices.Equal(found, []signin.Person{owner(id), p3}) {
		t.Errorf("WithEmail = %v, %v; want the owner and p3", found, err)
	}
	if _, err := s.SetEmail(t.Context(), w.request(), signin.Person{AccountID: id, ID: "Bob Smith"}, "b@example.com"); !errors.Is(err, signin.ErrInvalid) {
		t.Errorf("a name for an id: %v, want %v", err, signin.ErrInvalid)
	}
	token, _, err := s.IssueMailedLink(t.Context(), w.request(), p3)
	testmust.Succeed(t, err)
	if _, begun, err := s.Enter(t.Context(), w.request(), id, token); err != nil || begun.Person != "p3" {
		t.Errorf("entered as %+v, %v; want p3", begun, err)
	}
	for n := 4; n <= signin.MaxEmails; n++ {
		testmust.Succeed(t, testmust.Err(s.SetEmail(t.Context(), w.request(), signin.Person{AccountID: id, ID: fmt.Sprint("p", n)}, "ann@example.com")))
	}
	if _, err := s.SetEmail(t.Context(), w.request(), signin.Person{AccountID: id, ID: "more"}, "ann@example.com"); !errors.Is(err, signin.ErrTooManyEmails) {
		t.Errorf("one more: %v, want %v", err, signin.ErrTooManyEmails)
	}
	if _, err := s.SetEmail(t.Context(), w.request(), p2, "new@example.com"); err != nil {
		t.Errorf("another address of a person who has one: %v", err)
	}
	testmust.Succeed(t, s.EraseEmails(t.Context(), id))
	if all, err := s.Emails(t.Context(), id); err != nil || len(all) > 0 {
		t.Errorf("after they were erased Emails = %v, %v", all, err)
	}
}

func TestSetEmail_AddressIsFoundUntilRemovedAndInNoEvent(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	other := w.opened(s.accounts, 0)
	for _, account := range []string{id, other, id} {
		testmust.Succeed(t, testmust.Err(s.SetEmail(t.Context(), w.request(), owner(account), "Ann@Example.com")))
	}
	want := []signin.Person{owner(id), owner(other)}
	slices.SortFunc(want, func(a, b signin.Person) int { return strings.Compare(a.AccountID, b.AccountID) })
	if found, err := s.WithEmail(t.Context(), "ann@example.COM"); err != nil || !slices.Equal(found, want) {
		t.Errorf("WithEmail = %v, %v; want %v", found, err, want)
	}
	if all, err := s.Emails(t.Context(), id); err != nil || !slices.Equal(all, []Email{{signin.Owner, "ann@example.com"}}) {
		t.Errorf("Emails = %v, %v", all, err)
	}
	for range 2 {
		testmust.Succeed(t, testmust.Err(s.SetEmail(t.Context(), w.request(), owner(id), "")))
	}
	if found, err := s.WithEmail(t.Context(), "ann@example.com"); err != nil || !slices.Equal(found, []signin.Person{owner(other)}) {
		t.Errorf("after its removal WithEmail = %v, %v; want %s only", found, err, other)
	}
	wantEvents := []eventschemas.Event{eventschemas.SignInEmailSet{Email: true}, eventschemas.SignInEmailSet{}}
	if events := signInEvents(w, id, "xample"); !slices.Equal(events, wantEvents) {
		t.Errorf("events %+v, want %+v", events, wantEvents)
	}
}

func TestSetEmail_Rejected_StoresNothing(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	for _, address := range []string{"ann", "Ann <ann@example.com>", "ann@example.com, bob@example.com", "änn@example.com", "ann@example.com\nBcc: bob@example.com", strings.Repeat("a", 250) + "@example.com"} {
		if _, err := s.SetEmail(t.Context(), w.request(), owner(id), address); !errors.Is(err, signin.ErrInvalid) {
			t.Errorf("%.40q: %v, want %v", address, err, signin.ErrInvalid)
		}
	}
	if _, err := s.SetEmail(t.Context(), w.request(), owner(uuid.NewString()), "ann@example.com"); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("an unknown account: %v", err)
	}
	testmust.Succeed(t, testmust.Err(s.accounts.Close(t.Context(), CloseAccount{Request: w.request(), AccountID: id, Reason: "operator"})))
	if _, err := s.SetEmail(t.Context(), w.request(), owner(id), "ann@example.com"); !errors.Is(err, account.ErrClosed) {
		t.Errorf("a closed account: %v", err)
	}
	if found, err := s.WithEmail(t.Context(), "ann@example.com"); err != nil || len(found) > 0 {
		t.Errorf("WithEmail = %v, %v; want none", found, err)
	}
	if events := signInEvents(w, id); len(events) > 0 {
		t.Errorf("events %+v", events)
	}
}

func TestIssueMailedLink_TooManyInADay_IsRejected(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	w, s, id := signInsOf(t, func() time.Time { return now })
	for range signin.MaxMailedLinks {
		now = now.Add(time.Minute)
		if _, _, err := s.IssueMailedLink(t.Context(), w.request(), owner(id)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(signin.LinkLifetime)
	}
	if _, _, err := s.IssueMailedLink(t.Context(), w.request(), owner(id)); !errors.Is(err, signin.ErrTooManyLinks) {
		t.Errorf("one more: %v, want %v", err, signin.ErrTooManyLinks)
	}
	link(w, s, id) // an operator's
	now = now.Add(signin.MailedWithin)
	if _, _, err := s.IssueMailedLink(t.Context(), w.request(), owner(id)); err != nil {
		t.Errorf("a day later: %v", err)
	}
}

func TestSetEmail_EraseFails_RepeatCompletesIt(t *testing.T) {
	w := newWorld(t)
	cfg := sqlstoretest.SQLite(t)
	cfg.BusyTimeout = 10 * time.Millisecond
	names, store := namesIn(t, cfg)
	s := NewSignIns(w.log, eventschemas.Encoder{}, time.Now, w.writer(AccountWriterConfig{}), names)
	id := w.opened(s.accounts, 0)
	const address = "unmistakable@example.com"
	w.ok(s.SetEmail(t.Context(), w.request(), owner(id), address))
	reading, err := store.Read().BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}) // SQLite cannot truncate its log
	testmust.Succeed(t, err)
	var rows int
	if err := reading.QueryRow("SELECT count(*) FROM holders").Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	if _, err := s.SetEmail(t.Context(), w.request(), owner(id), ""); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Fatalf("SetEmail while the table is read: %v, want %v", err, sqlstore.ErrUnavailable)
	}
	w.must(reading.Rollback())
	w.ok(s.SetEmail(t.Context(), w.request(), owner(id), ""))
	files, err := filepath.Glob(filepath.Join(filepath.Dir(cfg.Path), "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, file := range files {
		if body, err := os.ReadFile(file); err != nil || bytes.Contains(body, []byte(address)) {
			t.Errorf("%s has the address, or %v", filepath.Base(file), err)
		}
	}
}

func TestSetEmail_AppendOfUnknownOutcome_IsOneEvent(t *testing.T) {
	w, s, id := signInsOf(t, time.Now)
	lost := 0
	w.log.set(func(f *faults) {
		f.after = func(a sentAppend, err error) error {
			if lost++; lost == 1 {
				return ambiguous()
			}
			return err
		}
	})
	testmust.Succeed(t, testmust.Err(s.SetEmail(t.Context(), w.request(), owner(id), "ann@example.com")))
	if events := signInEvents(w, id); lost < 2 || len(events) != 1 {
		t.Errorf("%d appends led to events %+v, want one", lost, events)
	}
}
