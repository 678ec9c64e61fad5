package timeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/timeline"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
	"letterhead/workers/generate"
)

// The states are those of the folds that decide, and of the books, after every event.
func TestTimeline_GeneratedHistory_HasTheStateOfTheFoldsAtEveryRevision(t *testing.T) {
	o := generate.Defaults()
	o.Accounts, o.Events, o.Hot = 12, 9000, 0.5
	type fold struct {
		account  *account.Account
		books    *books.Account
		timeline *timeline.Timeline
		want     []string
	}
	folds := map[string]*fold{}
	for e := range generate.Events(o) {
		id, ok := strings.CutPrefix(e.Stream, account.StreamPrefix)
		if !ok {
			continue
		}
		f := folds[id]
		if f == nil {
			f = &fold{account: account.New(id), books: books.New(), timeline: timeline.New(id)}
			folds[id] = f
		}
		ev := testmust.Get(eventschemas.Decode(e.Type, e.SchemaVersion, e.Data))(t)
		f.timeline.Apply(ev, e.OccurredAt, eventschemas.Hash{byte(e.Revision)})
		f.account.Apply(ev, e.OccurredAt)
		f.books.Apply(ev, e.Revision, e.OccurredAt)
		var left []int64
		for _, l := range f.books.Lots() {
			left = append(left, l.Unspent())
		}
		f.want = append(f.want, fmt.Sprint(f.account.Balance(), f.account.Held(), f.account.OpenHolds(), f.account.Plan(), f.account.Status(), f.books.Deficit(), left))
	}
	moments := 0
	for id, f := range folds {
		if f.timeline.Next() != uint64(len(f.want)) || f.timeline.LastAt() != f.account.LastAt() {
			t.Errorf("account %s: next revision %d, last event at %s", id, f.timeline.Next(), f.timeline.LastAt())
		}
		for revision, want := range f.want {
			m := f.timeline.At(uint64(revision))
			var left []int64
			held := int64(0)
			for _, l := range m.Lots {
				left = append(left, l.Left)
			}
			for _, h := range m.Holds {
				held += h.Left
				if h.Domain == "" || h.RequestID == "" || h.Revision > m.Revision || h.Deadline.Before(o.Until.AddDate(-3, 0, 0)) {
					t.Fatalf("account %s at revision %d: hold %+v", id, revision, h)
				}
			}
			got := fmt.Sprint(m.Balance, m.Held, len(m.Holds), m.Plan, m.Status, m.Deficit, left)
			if got != want || held != m.Held {
				t.Fatalf("account %s at revision %d: %s with holds of %d, want %s", id, revision, got, held, want)
			}
			if from, head := f.timeline.Before(m.Revision); from > m.Revision || m.Revision-from >= 256 || from > 0 && head != (eventschemas.Hash{byte(from - 1)}) {
				t.Fatalf("account %s: before revision %d is %d with %x", id, revision, from, head[:1])
			}
			if held > 0 {
				moments++
			}
		}
	}
	if len(folds) != o.Accounts || moments == 0 {
		t.Errorf("%d accounts, %d moments with holds", len(folds), moments)
	}
}

func TestTimeline_Keys_AreThoseThatWereNotRevoked(t *testing.T) {
	day := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	expires := day.Add(time.Hour)
	line := timeline.New("a")
	for _, ev := range []eventschemas.Event{
		eventschemas.AccountOpened{AccountID: "a", Plan: "free"},
		eventschemas.KeyIssued{KeyID: "k1", Kind: "secret", Last4: "1111"},
		eventschemas.KeyIssued{KeyID: "k2", Kind: "publishable", Last4: "2222", ExpiresAt: &expires},
		eventschemas.KeyRevoked{KeyID: "k1"},
		eventschemas.KeyRevoked{KeyID: "k1"},
		eventschemas.KeyRevoked{KeyID: "unknown"},
	} {
		line.Apply(ev, day, eventschemas.Hash{})
	}
	for revision, want := range [][]string{nil, {"k1"}, {"k1", "k2"}, {"k2"}, {"k2"}, {"k2"}} {
		var got []string
		for _, k := range line.At(uint64(revision)).Keys {
			got = append(got, k.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at revision %d the keys are %v, want %v", revision, got, want)
		}
		if revoked := line.At(uint64(revision)).Revoked; revoked != map[bool]int{true: 1}[revision > 2] {
			t.Errorf("at revision %d, %d keys are revoked", revision, revoked)
		}
	}
	if k := line.At(2).Keys[1]; k.Expired(day) || !k.Expired(expires) || k.Kind != "publishable" || k.Last4 != "2222" || k.IssuedAt != day {
		t.Errorf("the key is %+v", k)
	}
}

// A state per event takes a few bytes, so that a history of millions fits into memory.
func TestTimeline_Size_IsAFewBytesPerEvent(t *testing.T) {
	const events = 100_000
	line := timeline.New("a")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	line.Apply(eventschemas.CreditsGranted{GrantID: "g", Kind: account.KindFree, Credits: 2 * events}, at, eventschemas.Hash{})
	for i := range events {
		at = at.Add(2 * time.Minute)
		line.Apply(eventschemas.CreditsCharged{ChargeID: fmt.Sprint(i), Credits: 1, Domain: "acme.com"}, at, eventschemas.Hash{})
	}
	if size := line.Size(); size < 4*events || size > 16*events {
		t.Errorf("%d bytes for %d events", size, events)
	}
	if line.Balance(events/2) != 2*events-events/2 {
		t.Errorf("the balance is %d", line.Balance(events/2))
	}
}

// The parts have the balances of every revision between their bounds.
func TestTimeline_Parts_CoverAllBalances(t *testing.T) {
	for _, events := range []int{1, 2, 3, 7, 8, 500} {
		line := timeline.New("a")
		balances, balance := []int64{}, int64(0)
		for i := range events {
			credits := int64(i*7919%100 + 1)
			line.Apply(eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), Kind: account.KindAdjustment, Credits: credits}, time.Unix(int64(i), 0), eventschemas.Hash{})
			balance += credits
			balances = append(balances, balance)
		}
		parts := line.Parts(7)
		if want := min(7, events-1) + 1; len(parts) != want || parts[0].Revision != 0 || parts[want-1].Revision != uint64(events-1) {
			t.Fatalf("%d events have the parts %+v", events, parts)
		}
		for i, p := range parts {
			end := events
			if i+1 < len(parts) {
				end = int(parts[i+1].Revision)
			}
			of := balances[p.Revision:end]
			if p.Balance != of[0] || p.Low != slices.Min(of) || p.High != slices.Max(of) {
				t.Errorf("%d events: part %+v has the balances %d", events, p, of)
			}
		}
	}
}

func TestTimeline_Months_HaveTheirRevisionsAndBalance(t *testing.T) {
	line := timeline.New("a")
	for i, at := range []time.Time{time.Date(2024, 2, 29, 23, 59, 59, 999_999_000, time.UTC), time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 31, 23, 0, 0, 0, time.UTC), time.Date(2025, 3, 1, 0, 30, 0, 0, time.FixedZone("", 3600))} {
		line.Apply(eventschemas.CreditsGranted{GrantID: fmt.Sprint(i), Kind: account.KindAdjustment, Credits: 10}, at, eventschemas.Hash{})
	}
	month := func(year int, m time.Month) time.Time { return time.Date(year, m, 1, 0, 0, 0, 0, time.UTC) }
	want := []timeline.Month{{Start: month(2024, 2), Balance: 10}, {Start: month(2024, 3), First: 1, Last: 2, Balance: 30}, {Start: month(2025, 2), First: 3, Last: 3, Balance: 40}}
	if months := line.Months(); !slices.Equal(months, want) {
		t.Errorf("the months are %+v, want %+v", months, want)
	}
}
