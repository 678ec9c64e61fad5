package ledger_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/ledger"
	"letterhead/projections/projectionstest"
	"letterhead/workers/generate"
)

// past is an account that a test folds from its events.
type past struct {
	opened  time.Time
	account *account.Account
	books   *books.Account
	charges map[string]time.Time
	lookups map[string]int64 // by month of the charge
}

// foldUntil folds the events of an account that occurred at or before a time.
func foldUntil(t tester, events []eventlog.Recorded, accountID string, at time.Time) *past {
	t.Helper()
	p := &past{account: account.New(accountID), books: books.New(), charges: map[string]time.Time{}, lookups: map[string]int64{}}
	for i := range events {
		e := &events[i]
		if e.Stream != account.Stream(accountID) || e.OccurredAt.After(at) {
			continue
		}
		body, err := eventschemas.Decode(e.Type, e.SchemaVersion, e.Data)
		if err != nil {
			t.Fatalf("event at position %d: %v", e.Position, err)
		}
		p.account.Apply(body, e.OccurredAt)
		p.books.Apply(body, e.Revision, e.OccurredAt)
		switch ev := body.(type) {
		case eventschemas.AccountOpened:
			p.opened = e.OccurredAt
		case eventschemas.CreditsCharged:
			p.charges[ev.ChargeID] = e.OccurredAt
			p.lookups[e.OccurredAt.Format(books.MonthLayout)]++
		case eventschemas.ChargeReversed:
			p.lookups[p.charges[ev.ChargeID].Format(books.MonthLayout)]--
		}
	}
	return p
}

// lotsOf describes lots without the fields that the ledger does not have.
func lotsOf(a *books.Account) string {
	var b strings.Builder
	for _, l := range a.Lots() {
		fmt.Fprintf(&b, "%d %s %q %s: %d-%d-%d-%d credits, %+v, %d tax, %d returned, %d and %d recognized\n", l.Revision, l.At.UTC().Format(time.RFC3339Nano), l.PaymentID, l.Kind, l.Granted, l.Refunded, l.Used, l.Broken, l.Paid, l.Tax, l.Returned, l.Recognized, l.Breakage)
	}
	return b.String() + fmt.Sprint(a.Deficit(), " deficit")
}

// appendBusy appends the history of an account with small grants, so that nearly every charge, reversal and refund moves
// credits between several of them, around the end of a month.
func appendBusy(e *projectionstest.Env, id string, random *rand.Rand) {
	type charge struct {
		eventschemas.CreditsCharged
		at time.Time
	}
	var charges []charge
	left := map[string]int64{} // credits of each payment
	var payments []string
	balance, when := int64(0), time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	add := func(ev eventschemas.Event) {
		balance += account.Delta(ev)
		e.Events(account.Stream(id), when, ev)
	}
	add(eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "free"})
	for n := range 80 {
		when = when.Add(time.Duration(random.Int64N(int64(3 * time.Hour)))).Truncate(time.Microsecond)
		name := fmt.Sprint(id, "-", n)
		switch p := random.IntN(100); {
		case p < 20 || balance <= 0:
			grant := eventschemas.CreditsGranted{GrantID: name, Kind: "adjustment", Credits: 1 + random.Int64N(4)}
			if p%2 == 0 {
				grant.Kind, grant.PaymentID, grant.Money, grant.Tax = "topup", name, &eventschemas.Money{Minor: 100 + random.Int64N(1000), Currency: "EUR"}, 19
				payments, left[name] = append(payments, name), grant.Credits
			}
			add(grant)
		case p < 70:
			c := charge{eventschemas.CreditsCharged{ChargeID: name, Credits: 1 + random.Int64N(min(balance, 3)), RequestID: fmt.Sprint(id, "-", n/3), Domain: "d.com"}, when}
			charges = append(charges, c)
			add(c.CreditsCharged)
		case p < 85 && len(charges) > 0:
			i := random.IntN(len(charges))
			if c := charges[i]; when.Sub(c.at) < account.ReversalWindow {
				charges = slices.Delete(charges, i, i+1)
				add(eventschemas.ChargeReversed{ChargeID: c.ChargeID, Credits: c.Credits, RequestID: c.RequestID, Reason: account.ReasonOperator})
			}
		case p < 92 && len(payments) > 0:
			payment := payments[random.IntN(len(payments))]
			if left[payment] > 0 {
				credits := 1 + random.Int64N(left[payment])
				left[payment] -= credits
				add(eventschemas.PaymentRefunded{RefundID: name, PaymentID: payment, Credits: credits})
			}
		case p < 93 && balance > 0:
			add(eventschemas.BreakageRecognized{Credits: balance, Policy: "terms"})
		case p < 95:
			add(eventschemas.PlanChanged{From: "free", To: []string{"starter", "growth"}[n%2]})
		case p < 98:
			add(eventschemas.AccountSuspended{Reason: "overdue"})
		default:
			add(eventschemas.AccountReinstated{})
		}
	}
}

func TestState_AnyMoment_EqualsFoldOfTheEventsUpToThen(t *testing.T) {
	projectionstest.Each(t, testState_AnyMoment)
}

func testState_AnyMoment(t *testing.T, e *projectionstest.Env) {
	o := generate.Defaults()
	o.Accounts, o.Events, o.Months, o.Hot = 8, 4000, 4, 0.3
	testmust.Succeed(t, testmust.Err(generate.History(t.Context(), e.Log, o, func(int) {})))
	for n := range 12 {
		appendBusy(e, fmt.Sprint("busy-", n), rand.New(rand.NewPCG(7, uint64(n))))
	}
	m, r := open(t, e)
	e.CatchUp(r)
	read, err := e.Log.ReadAll(t.Context(), 0, eventlog.Filter{}, 10_000)
	if err != nil || !read.End {
		t.Fatalf("not the whole log: %v", err)
	}
	events := read.Events
	check := func(t tester, ev *eventlog.Recorded, later time.Duration) {
		accountID, at := strings.TrimPrefix(ev.Stream, account.StreamPrefix), ev.OccurredAt.Add(later)
		checkState(t, m, foldUntil(t, events, accountID, at), accountID, at)
	}
	rapid.Check(t, func(rt *rapid.T) {
		ev := &events[rapid.IntRange(0, len(events)-1).Draw(rt, "event")]
		check(rt, ev, rapid.SampledFrom([]time.Duration{-time.Microsecond, 0, time.Microsecond, 20 * 24 * time.Hour}).Draw(rt, "later"))
	})
	for i := range events {
		if strings.HasPrefix(events[i].Stream, account.Stream("busy-")) {
			check(t, &events[i], 0)
		}
	}
}

// tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func TestSpent_AnyMoment_EqualsChargesLessReversalsSince(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		for n := range 6 {
			appendBusy(e, fmt.Sprint("busy-", n), rand.New(rand.NewPCG(11, uint64(n))))
		}
		m, r := open(t, e)
		e.CatchUp(r)
		for n := range 6 {
			id := fmt.Sprint("busy-", n)
			entries := collect(t, m.Entries(t.Context(), id, ledger.Filter{}))
			want := int64(0) // of the entries after one
			for _, entry := range slices.Backward(entries) {
				if got, err := m.Spent(t.Context(), id, entry.At); err != nil || got != want {
					t.Fatalf("%s: %d credits are spent after revision %d, %v; want %d", id, got, entry.Revision, err, want)
				}
				want += entry.Charged()
			}
			if got, err := m.Spent(t.Context(), id, entries[0].At.Add(-time.Microsecond)); err != nil || got != want {
				t.Errorf("%s: %d credits are spent altogether, %v; want %d", id, got, err, want)
			}
		}
		if got, err := m.Spent(t.Context(), "nobody", at); err != nil || got != 0 {
			t.Errorf("an unknown account has spent %d, %v", got, err)
		}
	})
}

func checkState(t tester, m *ledger.Model, want *past, accountID string, at time.Time) {
	t.Helper()
	s, err := m.State(t.Context(), accountID, at)
	if want.account.Revisions() == 0 {
		if !errors.Is(err, ledger.ErrNotFound) {
			t.Fatalf("before the account: %v, want %v", err, ledger.ErrNotFound)
		}
		return
	}
	if err != nil {
		t.Fatalf("state of account %s at %s: %v", accountID, at, err)
	}
	if s.Last.Revision != want.account.Revisions()-1 || s.Last.Balance != want.account.Balance() || s.Plan != want.account.Plan() ||
		s.Status != want.account.Status() || !s.OpenedAt.Equal(want.opened) {
		t.Errorf("state %+v, want revision %d, balance %d, %s, %s, opened %s", s, want.account.Revisions()-1, want.account.Balance(), want.account.Plan(), want.account.Status(), want.opened)
	}
	lots, err := m.Books(t.Context(), s.Last)
	if err != nil {
		t.Fatalf("lots of account %s at %s: %v", accountID, at, err)
	}
	if got, want := lotsOf(lots), lotsOf(want.books); got != want {
		t.Errorf("lots of account %s at %s:\n%s\nwant\n%s", accountID, at, got, want)
	}
	lookups, err := m.Lookups(t.Context(), s.Last, books.MonthOf(at))
	if month := at.Format(books.MonthLayout); err != nil || lookups != want.lookups[month] {
		t.Errorf("%d look-ups of account %s at %s, %v; want %d", lookups, accountID, at, err, want.lookups[month])
	}
}

// A past state of an account with a million events must not scan all of them; see TestByRequest_UsesIndex.
// Earlier releases did not limit the money of a payment. The lots of these must not be summed up.
func TestBooks_SumBeyondInt64_IsAnErrorThatNamesTheEvent(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m, r := open(t, e)
		at := time.Date(2026, 11, 3, 9, 0, 0, 0, time.UTC)
		e.Events("account-a", at, eventschemas.AccountOpened{AccountID: "a", Plan: "free"})
		for i := range 3 {
			e.Events("account-a", at, eventschemas.CreditsGranted{
				GrantID: fmt.Sprint("p", i), Kind: "topup", Credits: 1, PaymentID: fmt.Sprint("p", i), Money: &eventschemas.Money{Minor: math.MaxInt64 / 2, Currency: "EUR"},
			})
		}
		e.CatchUp(r)
		s := testmust.Get(m.State(t.Context(), "a", at))(t)
		if lots, err := m.Books(t.Context(), s.Last); !errors.Is(err, books.ErrSum) || !strings.Contains(err.Error(), "EUR, at revision 2 of account a") {
			t.Errorf("lots %+v, %v, want an error that names the currency and the event", lots, err)
		}
	})
}

func TestState_UsesIndex(t *testing.T) {
	e := projectionstest.Open(t)
	m, r := open(t, e)
	e.CatchUp(r)
	for _, typ := range []string{"CreditsGranted", "AccountClosed"} {
		if plan := m.ExplainRare(t.Context(), typ); !strings.Contains(plan, "_by_type") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("the plan is\n%s", plan)
		}
	}
}

// BenchmarkState reads the state, the lots and the look-ups of one account with all events
// (LETTERHEAD_BENCH_EVENTS) as of the end of each month.
func BenchmarkState(b *testing.B) {
	events := testmust.Get(strconv.Atoi(cmp.Or(os.Getenv("LETTERHEAD_BENCH_EVENTS"), "100000")))(b)
	e := projectionstest.Open(b)
	o := generate.Defaults()
	o.Accounts, o.Events = 1, events
	testmust.Succeed(b, testmust.Err(generate.History(b.Context(), e.Log, o, func(int) {})))
	m := ledger.New(e.Store)
	r, _ := e.Start(engine.Config{}, m)
	e.CatchUp(r)
	accountID := ""
	for entry, err := range m.All(b.Context(), 0) {
		testmust.Succeed(b, err)
		accountID = entry.AccountID
		break
	}
	var took []time.Duration
	for b.Loop() {
		for month := range o.Months {
			at := o.Until.AddDate(0, -month, 0).Add(-time.Microsecond)
			began := time.Now()
			s := testmust.Get(m.State(b.Context(), accountID, at))(b)
			testmust.Succeed(b, testmust.Err(m.Books(b.Context(), s.Last)))
			testmust.Succeed(b, testmust.Err(m.Lookups(b.Context(), s.Last, books.MonthOf(at))))
			took = append(took, time.Since(began))
		}
	}
	b.ReportMetric(slices.Max(took).Seconds(), "s/slowest")
	b.ReportMetric(b.Elapsed().Seconds()/float64(len(took)), "s/state")
}
