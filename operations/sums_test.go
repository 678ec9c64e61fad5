package operations_test

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/node"
	"letterhead/operations"
	"letterhead/workers/generate"
)

// openGenerated opens a node on 10 February 2026 with a history from October 2025 to January 2026.
func openGenerated(t *testing.T) *node.Node {
	t.Helper()
	n := openNodeOf(t, node.Parts{Now: func() time.Time { return time.Date(2026, 2, 10, 0, 0, 0, 0, time.UTC) }})
	o := generate.Defaults()
	o.Accounts, o.Events, o.Months, o.Until = 8, 3000, 4, time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	testmust.Get(generate.History(t.Context(), n.Stores.Log.(eventlog.Importer), o, func(int) {}))(t)
	testmust.Succeed(t, n.Runner.CatchUp(t.Context()))
	return n
}

// record appends events of a new account, which are dated at a time.
func record(t *testing.T, n *node.Node, id string, at time.Time, events ...eventschemas.Event) {
	t.Helper()
	encoder := eventschemas.NewEncoder(n.Runner.Format)
	var all []eventlog.Proposed
	for _, ev := range events {
		e := testmust.Get(encoder.Encode(ev))(t)
		all = append(all, eventlog.Proposed{ID: uuid.New(), Type: e.Type, SchemaVersion: e.SchemaVersion, OccurredAt: at, Data: e.Data})
	}
	testmust.Get(n.Stores.Log.Append(t.Context(), account.Stream(id), eventlog.NoStream(), all))(t)
}

func paid(id string) []eventschemas.Event {
	return []eventschemas.Event{
		eventschemas.AccountOpened{AccountID: id, Holder: "h", Plan: "growth"},
		eventschemas.CreditsGranted{GrantID: id, Kind: "topup", Credits: 100, PaymentID: id, Money: &eventschemas.Money{Minor: 1190, Currency: "EUR"}, Tax: 190},
		eventschemas.CreditsCharged{ChargeID: id, Credits: 30, RequestID: id, Domain: "acme.com"},
	}
}

// A report from the kept sums equals one that folds the whole log, also after events that are booked late.
func TestFlows_KeptSums_EqualTheFoldOfTheWholeLog(t *testing.T) {
	n := openGenerated(t)
	all := n.Operations.Books
	month := func(m int) time.Time { return time.Date(2025, time.Month(m), 1, 0, 0, 0, 0, time.UTC) }
	check := func() {
		t.Helper()
		for _, by := range []string{books.ByMonth, books.ByPlan} {
			for _, of := range [][2]time.Time{{}, {month(11)}, {month(11), month(13)}, {{}, month(12)}} {
				got, err := all.Flows(t.Context(), by, of[0], of[1])
				testmust.Succeed(t, err)
				want := books.NewFlows(by, of[0], of[1])
				testmust.Get(all.Fold(t.Context(), of[1], want.Add))(t)
				now := n.Now()
				if !reflect.DeepEqual(got.Totals(now), want.Totals(now)) || !reflect.DeepEqual(got.Usage(now), want.Usage(now)) || len(got.Totals(now)) == 0 {
					t.Errorf("by %s from %v: the sums are %+v, want %+v", by, of, got.Totals(now), want.Totals(now))
				}
			}
		}
	}
	check()
	for m := 10; m <= 11; m++ {
		_, _, err := all.CloseMonth(t.Context(), n.Operator(), month(m))
		testmust.Succeed(t, err)
	}
	record(t, n, "late", month(10).AddDate(0, 0, 4), paid("late")...)
	record(t, n, "new", n.Now(), paid("new")...)
	check()
}

// slowLog waits in ReadAll until the context ends.
type slowLog struct {
	eventlog.Log
	reads chan struct{}
}

func (l slowLog) ReadAll(ctx context.Context, _ eventlog.Position, _ eventlog.Filter, _ int) (eventlog.Page, error) {
	l.reads <- struct{}{}
	<-ctx.Done()
	return eventlog.Page{}, ctx.Err()
}

// A node that does not serve, as that of a command, closes while the log is being summed up.
func TestSums_NodeCloses_EndsTheWork(t *testing.T) {
	n := openUnclosed(t, node.Parts{})
	record(t, n, "a", n.Now(), paid("a")...)
	log := slowLog{n.Stores.Log, make(chan struct{}, 1)}
	n.Operations.Books.Sums.Log = log
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := n.Operations.Books.Flows(ctx, books.ByMonth, time.Time{}, time.Time{})
		ended <- err
	}()
	testwait.Receive(t, log.reads, "a read of the log")
	leave()
	if err := testwait.Receive(t, ended, "the end of the report"); !errors.Is(err, context.Canceled) {
		t.Errorf("the report ended with %v, want that its caller has left", err)
	}
	go func() { ended <- n.Close() }()
	testmust.Succeed(t, testwait.Receive(t, ended, "the end of the node"))
}

// The first page shows closed months as they were closed, whatever the sums are.
// Rule 14.
func TestOverview_ClosedMonths_AreThoseOfTheirClosings(t *testing.T) {
	n := openGenerated(t)
	month := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	closed, _, err := n.Operations.Books.CloseMonth(t.Context(), n.Operator(), month)
	testmust.Succeed(t, err)
	revenue, deferred := map[string]int64{}, map[string]int64{}
	for _, total := range closed.Totals {
		switch total.LedgerAccount {
		case "revenue", "breakage":
			revenue[total.Commodity] -= total.Change
		case "deferred-revenue":
			deferred[total.Commodity] = -total.Balance
		}
	}

	// While the log is being summed up, there is only what was closed.
	all, summed := *n.Operations.Books, make(chan struct{})
	all.Sums = &operations.Sums{Log: n.Stores.Log, Background: func(work func(context.Context)) {
		go func() { <-summed; work(context.WithoutCancel(t.Context())) }()
	}}
	finish := sync.OnceFunc(func() { close(summed) })
	t.Cleanup(finish)
	early, complete, err := all.Overview(t.Context())
	testmust.Succeed(t, err)
	if complete || len(early) != len(deferred) {
		t.Errorf("before the sums there are %d rows, complete %v, want those of %d currencies", len(early), complete, len(deferred))
	}
	for _, row := range early {
		if row.Summed != nil || row.State != "closed" || row.Month != "2025-10" || row.Revenue != revenue[row.Currency] || row.Deferred != deferred[row.Currency] {
			t.Errorf("before the sums, %+v is not the closing: revenue %d, deferred %d", row, revenue[row.Currency], deferred[row.Currency])
		}
	}

	finish()
	var rows []operations.MonthTotals
	if _, ok := testwait.Until(testwait.Timeout, func() bool {
		rows, complete, err = all.Overview(t.Context())
		testmust.Succeed(t, err)
		return complete
	}); !ok {
		t.Fatal("the sums are not complete")
	}
	flows, err := all.Flows(t.Context(), books.ByMonth, time.Time{}, time.Time{})
	testmust.Succeed(t, err)
	for i, want := range flows.Totals(n.Now()) {
		got := rows[i]
		if got.Month != want.Group || got.Currency != want.Currency || got.Revenue != want.Recognized+want.Breakage || got.Deferred != want.Closing || *got.Summed != (operations.Summed{Received: want.Received, Refunded: want.Refunded, Credits: want.Credits}) {
			t.Errorf("the row %+v differs from the report: %+v", got, want)
		}
		state := map[string]string{"2025-10": "closed", "2026-02": "running"}[got.Month]
		if got.State != cmp.Or(state, "open") {
			t.Errorf("%s is %s", got.Month, got.State)
		}
	}
}
