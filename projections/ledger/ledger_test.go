package ledger_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/ledger"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 123_456_000, time.UTC)

func open(t *testing.T, e *projectionstest.Env) (*ledger.Model, *engine.Runner) {
	t.Helper()
	m := ledger.New(e.Store)
	r, _ := e.Start(engine.Config{}, m)
	return m, r
}

func collect(t *testing.T, entries iter.Seq2[ledger.Entry, error]) []ledger.Entry {
	t.Helper()
	var all []ledger.Entry
	for e, err := range entries {
		testmust.Succeed(t, err)
		all = append(all, e)
	}
	return all
}

func TestEntries_OnePerEvent_WithBalance(t *testing.T) {
	projectionstest.Each(t, testEntries_OnePerEvent_WithBalance)
}

func testEntries_OnePerEvent_WithBalance(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	for i, s := range []struct {
		event eventschemas.Event
		want  ledger.Entry
	}{
		{eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"}, ledger.Entry{Details: ledger.Details{Plan: "free"}}},
		{eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: 50, PaymentID: "p", Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}, Tax: 782, Reason: "x"},
			ledger.Entry{Amount: 50, Balance: 50, PaymentID: "p", Details: ledger.Details{Kind: "topup", Money: 4900, Currency: "EUR", Tax: 782, Reason: "x"}}},
		{eventschemas.CreditsHeld{HoldID: "h1", Credits: 3, Deadline: at, RequestID: "r1", Domain: "d.com"},
			ledger.Entry{Held: 3, Balance: 50, HoldID: "h1", RequestID: "r1", Domain: "d.com"}},
		{eventschemas.CreditsCharged{ChargeID: "c1", Credits: 2, RequestID: "r1", HoldID: "h1", Domain: "d.com", KeyID: "k1"},
			ledger.Entry{Amount: -2, Held: -2, Balance: 48, ChargeID: "c1", HoldID: "h1", RequestID: "r1", Domain: "d.com", KeyID: "k1"}},
		{eventschemas.HoldReleased{HoldID: "h1", Credits: 1, Cause: "handed_back"}, ledger.Entry{Held: -1, Balance: 48, HoldID: "h1"}},
		{eventschemas.ChargeKept{ChargeID: "c1", RequestID: "r2"}, ledger.Entry{Balance: 48, ChargeID: "c1", RequestID: "r2"}},
		{eventschemas.ChargeReversed{ChargeID: "c1", Credits: 2, RequestID: "r1", Reason: "operator", Note: "client_gone"},
			ledger.Entry{Amount: 2, Balance: 50, ChargeID: "c1", RequestID: "r1", Details: ledger.Details{Reason: "operator", Note: "client_gone"}}},
		{eventschemas.PaymentRefunded{RefundID: "f", PaymentID: "p", Credits: 60, Money: &eventschemas.Money{Minor: 490, Currency: "EUR"}},
			ledger.Entry{Amount: -60, Balance: -10, PaymentID: "p", Details: ledger.Details{Money: -490, Currency: "EUR", RefundID: "f"}}},
		{eventschemas.PaymentFeeRecorded{FeeID: "e", PaymentID: "p", Money: eventschemas.Money{Minor: 145, Currency: "USD"}},
			ledger.Entry{Balance: -10, PaymentID: "p", Details: ledger.Details{Money: -145, Currency: "USD", FeeID: "e"}}},
		{eventschemas.KeyIssued{KeyID: "k", Hash: strings.Repeat("ab", 32), Last4: "1234", Kind: "secret"}, ledger.Entry{Balance: -10, KeyID: "k", Details: ledger.Details{Kind: "secret"}}},
		{eventschemas.KeyLimitSet{KeyID: "k", Limit: 9, Period: "day"}, ledger.Entry{Balance: -10, KeyID: "k", Details: ledger.Details{Kind: "day", KeyLimit: 9}}},
		{eventschemas.KeyRevoked{KeyID: "k"}, ledger.Entry{Balance: -10, KeyID: "k"}},
		{eventschemas.AccountSuspended{Reason: "late"}, ledger.Entry{Balance: -10, Details: ledger.Details{Reason: "late"}}},
		{eventschemas.AccountClosed{Reason: "r"}, ledger.Entry{Balance: -10, Details: ledger.Details{Reason: "r"}}},
		{eventschemas.AccountNoted{Text: "n"}, ledger.Entry{Balance: -10, Details: ledger.Details{Note: "n"}}},
		{eventschemas.CreditsGranted{GrantID: "g2", Kind: "adjustment", Credits: 20}, ledger.Entry{Amount: 20, Balance: 10, Details: ledger.Details{Kind: "adjustment"}}},
		{eventschemas.BreakageRecognized{Credits: 10, Policy: "terms"}, ledger.Entry{Amount: -10, Details: ledger.Details{Reason: "terms"}}},
	} {
		when := at.Add(time.Duration(i) * time.Second)
		g := projectionstest.Group{Stream: "account-a", At: when, RequestID: fmt.Sprint("m", i), Actor: "operator:eve", Events: []eventschemas.Event{s.event}}
		position := e.Append(g)
		e.CatchUp(r)
		s.want.Position, s.want.AccountID, s.want.Revision = position, "a", uint64(i)
		s.want.Type, s.want.At, s.want.Actor = s.event.EventType(), when, "operator:eve"
		if s.want.RequestID == "" {
			s.want.RequestID = g.RequestID
		}
		recorded := testmust.Get(e.Log.ReadStream(t.Context(), "account-a", uint64(i), eventlog.Forward, 1))(t)
		s.want.EventID, s.want.Hash = recorded[0].ID, recorded[0].Metadata.Hash
		got := collect(t, m.Entries(t.Context(), "a", ledger.Filter{FromRevision: uint64(i)}))
		if len(got) != 1 || got[0] != s.want {
			t.Errorf("%s:\n%+v\nwant\n%+v", s.want.Type, got, s.want)
		}
	}
	if all := collect(t, m.Entries(t.Context(), "a", ledger.Filter{})); len(all) != 17 {
		t.Errorf("%d entries, want 17", len(all))
	}
	for _, entry := range collect(t, m.Entries(t.Context(), "a", ledger.Filter{ForCustomer: true})) {
		if !slices.Contains(ledger.CustomerTypes(), entry.Type) || entry.Note != "" {
			t.Errorf("a customer gets %+v", entry)
		}
	}
}

func TestEntries_CapturesOfHolds_AddUp(t *testing.T) {
	projectionstest.Each(t, testCapturesOfHoldsAddUp)
}

func testCapturesOfHoldsAddUp(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	hold := func(id string, n int64) eventschemas.Event {
		return eventschemas.CreditsHeld{HoldID: id, Credits: n, Deadline: at, RequestID: "r" + id, Domain: "d.com"}
	}
	capture := func(id, charge string, n int64) eventschemas.Event {
		return eventschemas.CreditsCharged{ChargeID: charge, Credits: n, RequestID: "r" + id, HoldID: id, Domain: "d.com", KeyID: "k"}
	}
	e.Events("account-b", at, hold("1", 9)) // of another account
	for _, event := range []eventschemas.Event{
		eventschemas.CreditsGranted{GrantID: "g", Kind: "topup", Credits: 50, PaymentID: "p"},
		hold("1", 1), capture("1", "c1", 1), // like look-ups
		hold("2", 3), capture("2", "c2", 2), capture("2", "c3", 2), // the hold covers half of the last
		hold("3", 5), hold("4", 2),
		eventschemas.CreditsCharged{ChargeID: "c4", Credits: 1, RequestID: "r5", Domain: "d.com"},
		capture("3", "c5", 1), capture("3", "c6", 1), // and 3 stay held
		eventschemas.ChargeReversed{ChargeID: "c1", Credits: 1, RequestID: "r1", Reason: "operator"},
	} {
		e.Events("account-a", at, event)
	}
	e.Append(projectionstest.Group{Stream: "account-a", At: at, RequestID: "r4", Events: []eventschemas.Event{
		eventschemas.HoldReleased{HoldID: "4", Credits: 2, Cause: "expired"}, capture("4", "c7", 1), // after its end: an ordinary charge
	}})
	e.CatchUp(r)
	all := collect(t, m.Entries(t.Context(), "a", ledger.Filter{}))
	var amount, held int64
	for _, entry := range all {
		amount, held = amount+entry.Amount, held+entry.Held
	}
	if last := all[len(all)-1]; amount != last.Balance || amount != 42 || held != 3 {
		t.Errorf("amounts add up to %d and the balance is %d, want 42; %d are held, want 3", amount, last.Balance, held)
	}
	for from := range all { // also if the hold precedes the first entry
		if got := collect(t, m.Entries(t.Context(), "a", ledger.Filter{FromRevision: uint64(from)})); got[0] != all[from] {
			t.Errorf("from revision %d:\n%+v\nwant\n%+v", from, got[0], all[from])
		}
	}
	for _, f := range []ledger.Filter{{Type: "CreditsCharged"}, {KeyID: "k"}} {
		for _, entry := range collect(t, m.Entries(t.Context(), "a", f)) {
			if entry != all[entry.Revision] {
				t.Errorf("with %+v:\n%+v\nwant\n%+v", f, entry, all[entry.Revision])
			}
		}
	}
	var ofRequest int64
	for _, entry := range collect(t, m.Entries(t.Context(), "a", ledger.Filter{RequestID: "r3"})) {
		ofRequest += entry.Held
	}
	if ofRequest != 3 {
		t.Errorf("%d are held for the request, want 3", ofRequest)
	}
}

func charge(n int) eventschemas.Event {
	return eventschemas.CreditsCharged{ChargeID: fmt.Sprint("c", n), Credits: 1, RequestID: fmt.Sprint("r", n), Domain: "d.com"}
}

func TestEntries_FilterAndPages(t *testing.T) { projectionstest.Each(t, testEntries_FilterAndPages) }

func testEntries_FilterAndPages(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	const n = 2500 // more than two pages
	var group []eventschemas.Event
	for i := range n {
		group = append(group, charge(i))
		if len(group) == 500 {
			e.Events("account-a", at.Add(time.Duration(i)*time.Second), group...)
			e.Events("account-b", at, charge(i))
			group = nil
		}
	}
	e.Events("account-a", at.Add(time.Hour), eventschemas.ChargeReversed{ChargeID: "c7", Credits: 1, RequestID: "r7", Reason: "client_gone"})
	e.CatchUp(r)

	all := collect(t, m.Entries(t.Context(), "a", ledger.Filter{}))
	if len(all) != n+1 {
		t.Fatalf("%d entries", len(all))
	}
	for i, entry := range all[:n] {
		if entry.Revision != uint64(i) || entry.ChargeID != fmt.Sprint("c", i) || entry.Balance != -int64(i+1) {
			t.Fatalf("entry %d: %+v", i, entry)
		}
	}
	if some := collect(t, m.Entries(t.Context(), "a", ledger.Filter{FromRevision: 1200, Limit: 1100})); len(some) != 1100 || some[0].Revision != 1200 {
		t.Errorf("%d entries from %d", len(some), some[0].Revision)
	}
	if one := collect(t, m.Entries(t.Context(), "a", ledger.Filter{RequestID: "r7"})); len(one) != 2 || one[0].Amount != -1 || one[1].Amount != 1 {
		t.Errorf("request r7: %+v, want a charge and its reversal", one)
	}
	if both := collect(t, m.ByRequest(t.Context(), "r499")); len(both) != 2 || both[0].AccountID != "a" || both[1].AccountID != "b" {
		t.Errorf("request r499 of all accounts: %+v, want an entry of a and one of b", both)
	}
	if none := collect(t, m.Entries(t.Context(), "b", ledger.Filter{RequestID: "r7"})); len(none) != 0 {
		t.Errorf("another account's request: %+v, want none", none)
	}
	if every := collect(t, m.All(t.Context(), 0)); len(every) != n+6 {
		t.Errorf("%d entries of all accounts", len(every))
	}
	for range m.Entries(t.Context(), "a", ledger.Filter{}) {
		break // stopping early is allowed
	}
	if none := collect(t, m.Entries(t.Context(), "nobody", ledger.Filter{})); len(none) != 0 {
		t.Errorf("entries of an unknown account: %+v, want none", none)
	}
}

func TestEntries_Filters_SelectTogetherAndFindLast(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		keyed := func(n int, key string) eventschemas.Event {
			c := charge(n).(eventschemas.CreditsCharged)
			c.KeyID = key
			return c
		}
		for i, event := range []eventschemas.Event{
			eventschemas.AccountOpened{AccountID: "a", Holder: "h", Plan: "free"},
			eventschemas.CreditsGranted{GrantID: "p1", Kind: "topup", Credits: 50, PaymentID: "p1"},
			keyed(2, "k1"), keyed(3, "k2"), keyed(4, "k1"),
			eventschemas.ChargeKept{ChargeID: "c4", RequestID: "r4"},
			eventschemas.PaymentRefunded{RefundID: "f", PaymentID: "p1", Credits: 1},
			keyed(7, "k1"),
		} {
			e.Events("account-a", at.Add(time.Duration(i)*time.Hour), event)
			e.Events("account-b", at.Add(time.Duration(i)*time.Hour), keyed(100+i, "k1"))
		}
		e.CatchUp(r)
		for _, c := range []struct {
			f    ledger.Filter
			want []uint64 // revisions
		}{
			{ledger.Filter{}, []uint64{0, 1, 2, 3, 4, 5, 6, 7}},
			{ledger.Filter{Credits: true}, []uint64{1, 2, 3, 4, 6, 7}},
			{ledger.Filter{Type: "CreditsCharged"}, []uint64{2, 3, 4, 7}},
			{ledger.Filter{PaymentID: "p1"}, []uint64{1, 6}},
			{ledger.Filter{KeyID: "k1"}, []uint64{2, 4, 7}},
			{ledger.Filter{KeyID: "k1", From: at.Add(3 * time.Hour), Until: at.Add(7 * time.Hour)}, []uint64{4}},
			{ledger.Filter{From: at.Add(4 * time.Hour)}, []uint64{4, 5, 6, 7}},
			{ledger.Filter{Until: at.Add(2 * time.Hour)}, []uint64{0, 1}},
			{ledger.Filter{RequestID: "r4"}, []uint64{4, 5}},
			{ledger.Filter{RequestID: "r4", Type: "CreditsCharged"}, []uint64{4}},
			{ledger.Filter{KeyID: "k3"}, nil},
			{ledger.Filter{BeforeRevision: 3}, []uint64{0, 1, 2}},
			{ledger.Filter{BeforeRevision: 7, KeyID: "k1", From: at.Add(3 * time.Hour)}, []uint64{4}},
			{ledger.Filter{Domain: "d.com"}, []uint64{2, 3, 4, 7}},
			{ledger.Filter{Domain: "e.com"}, nil},
		} {
			var got []uint64
			for _, entry := range collect(t, m.Entries(t.Context(), "a", c.f)) {
				got = append(got, entry.Revision)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v selects revisions %v, want %v", c.f, got, c.want)
			}
			for n := 1; n <= len(c.want)+1; n++ {
				for _, scanned := range []int64{1, 3, 1000} {
					m.SetScanned(scanned)
					if got := latest(t, m, c.f, n); !slices.Equal(got, c.want) {
						t.Errorf("%+v: pages of %d that look at %d entries have the revisions %v, want %v", c.f, n, scanned, got, c.want)
					}
				}
			}
			for n := 1; n <= len(c.want); n++ {
				if first, err := m.Last(t.Context(), "a", c.f, n); err != nil || first != c.want[len(c.want)-n] {
					t.Errorf("%+v: the last %d begin at revision %d, %v, want %d", c.f, n, first, err, c.want[len(c.want)-n])
				}
			}
			if len(c.want) == 0 {
				if _, err := m.Last(t.Context(), "a", c.f, 1); !errors.Is(err, ledger.ErrNotFound) {
					t.Errorf("%+v: Last = %v, want ErrNotFound", c.f, err)
				}
			} else if first, err := m.Last(t.Context(), "a", c.f, 100); err != nil || first != c.want[0] {
				t.Errorf("%+v: the last 100 begin at revision %d, %v, want %d", c.f, first, err, c.want[0])
			}
		}
	})
}

// latest returns the revisions of all pages of Latest, in the order of the stream.
func latest(t *testing.T, m *ledger.Model, f ledger.Filter, n int) (revisions []uint64) {
	t.Helper()
	for range 100 {
		page, next, err := m.Latest(t.Context(), "a", f, n)
		if err != nil || len(page) > n {
			t.Fatalf("%d entries, %v", len(page), err)
		}
		for _, e := range page {
			revisions = append(revisions, e.Revision)
		}
		if next == 0 {
			slices.Reverse(revisions)
			return revisions
		}
		f.BeforeRevision = next
	}
	t.Fatal("the pages do not end")
	return nil
}

func TestAsOf(t *testing.T) { projectionstest.Each(t, testAsOf) }

func testAsOf(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	for i := range 200 {
		e.Events("account-a", at.Add(time.Duration(i/2)*time.Minute), charge(i)) // two at each time
	}
	e.CatchUp(r)
	for _, c := range []struct {
		at   time.Time
		want int64 // balance
	}{
		{at, -2}, {at.Add(59 * time.Second), -2}, {at.Add(time.Minute), -4}, {at.Add(50 * time.Minute), -102},
		{at.Add(99 * time.Minute), -200}, {at.AddDate(1, 0, 0), -200},
	} {
		if got, err := m.AsOf(t.Context(), "a", c.at); err != nil || got.Balance != c.want {
			t.Errorf("as of %s: %d, %v, want %d", c.at, got.Balance, err, c.want)
		}
	}
	if _, err := m.AsOf(t.Context(), "a", at.Add(-time.Microsecond)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("as of a time before the account: %v, want %v", err, ledger.ErrNotFound)
	}
	if _, err := m.AsOf(t.Context(), "nobody", at); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("unknown account: %v, want %v", err, ledger.ErrNotFound)
	}
}

func TestSince_ReturnsEveryEntryFromThenOn(t *testing.T) {
	projectionstest.Each(t, testSinceReturnsEveryEntryFromThenOn)
}

func testSinceReturnsEveryEntryFromThenOn(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	e.CatchUp(r)
	if none := collect(t, m.Since(t.Context(), at)); len(none) != 0 {
		t.Errorf("%d entries of an empty ledger", len(none))
	}
	const n = 40
	for i := range n {
		when := at.Add(time.Duration(i) * 10 * time.Minute)
		if i%2 == 1 {
			when = when.Add(-10*time.Minute - 30*time.Second) // another node's clock is behind
		}
		e.Events(fmt.Sprint("account-", i%2), when, charge(i))
	}
	e.CatchUp(r)
	all := collect(t, m.All(t.Context(), 0))
	for i := -1; i <= n; i++ {
		since := at.Add(time.Duration(i) * 10 * time.Minute)
		got := map[string]bool{}
		for _, entry := range collect(t, m.Since(t.Context(), since)) {
			got[entry.ChargeID] = true
			if entry.At.Before(since) {
				t.Errorf("Since(%s) returned an entry of %s", since, entry.At)
			}
		}
		for _, entry := range all {
			if !entry.At.Before(since) && !got[entry.ChargeID] {
				t.Errorf("Since(%s) missed the entry of %s", since, entry.At)
			}
		}
	}
}

// A log that was copied into another store may have its accounts in another order. In a quiet service their entries are
// days apart.
// Rule 8.
func TestSince_CopiedLog_ReturnsEveryEntryFromThenOn(t *testing.T) {
	projectionstest.Each(t, testSinceInACopiedLog)
}

func testSinceInACopiedLog(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	const accounts, days = 4, 12
	for a := range accounts { // a copy may contain one account after the other
		for day := range days {
			e.Events(fmt.Sprint("account-", a), at.Add(time.Duration(day)*24*time.Hour), charge(a*days+day))
		}
	}
	e.CatchUp(r)
	missed := func(moved int) (entries int) {
		m.SetMoved(moved)
		for day := range days {
			since := at.Add(time.Duration(day) * 24 * time.Hour)
			entries += accounts*(days-day) - len(collect(t, m.Since(t.Context(), since)))
		}
		return entries
	}
	// All entries of the other accounts precede those of the last one.
	const moved = (accounts - 1) * days
	if n := missed(moved); n != 0 {
		t.Errorf("Since missed %d entries, want 0", n)
	}
	if n := missed(moved / 2); n == 0 {
		t.Error("Since missed no entry with half the limit, so the log is too short for this test")
	}
}

func TestEntries_Error_EndsIteration(t *testing.T) {
	projectionstest.Each(t, testEntries_Error_EndsIteration)
}

func testEntries_Error_EndsIteration(t *testing.T, e *projectionstest.Env) {
	m, _ := open(t, e)
	testmust.Succeed(t, e.Store.Close())
	n := 0
	for _, err := range m.Entries(t.Context(), "a", ledger.Filter{}) {
		if n++; err == nil {
			t.Error("Entries returned an entry of a closed database")
		}
	}
	if n != 1 {
		t.Errorf("Entries returned %d results of a closed database, want one error", n)
	}
}

func TestEntries_ReportActor(t *testing.T) { projectionstest.Each(t, testEntries_ReportActor) }

func testEntries_ReportActor(t *testing.T, e *projectionstest.Env) {
	m, r := open(t, e)
	actors := []string{"account:a", "account:b", "account:", "operator:a", "", "system:sweeper"}
	for i, actor := range actors {
		e.Append(projectionstest.Group{Stream: "account-a", At: at, Actor: actor, RequestID: "r", Events: []eventschemas.Event{charge(i)}})
	}
	e.CatchUp(r)
	for i, entry := range collect(t, m.Entries(t.Context(), "a", ledger.Filter{})) {
		if entry.Actor != actors[i] {
			t.Errorf("actor %q is reported as %q", actors[i], entry.Actor)
		}
	}
}

// Finding one request among a million entries of an account must not scan all of them. SQLite chooses its plan without
// statistics; the plans of PostgreSQL for empty tables are meaningless.
func TestByRequest_UsesIndex(t *testing.T) {
	e := projectionstest.Open(t)
	m, r := open(t, e)
	e.CatchUp(r)
	plan := m.Explain(t.Context(), "a", ledger.Filter{RequestID: "r"})
	if !strings.Contains(plan, "_by_request") {
		t.Errorf("the plan is\n%s", plan)
	}
	plan = m.Explain(t.Context(), "a", ledger.Filter{Type: "CreditsGranted"})
	if !strings.Contains(plan, "_by_type") || strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("the plan is\n%s", plan)
	}
	plan = m.Explain(t.Context(), "a", ledger.Filter{FromRevision: 7})
	if !strings.Contains(plan, "_by_account") || strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("the plan is\n%s", plan)
	}
}
