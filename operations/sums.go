package operations

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/workers/journal"
)

const (
	// sumsKept is how long the sums of the books stay in memory after they were last continued.
	sumsKept = time.Hour
	// overviewWithin limits how long an overview waits for the sums.
	overviewWithin = 100 * time.Millisecond
)

// Sums are the movements of the books by month, plan and currency. The requests of a process share them: they are made
// when they are first read, and afterwards only continued.
type Sums struct {
	Log eventlog.Log
	// Background starts work that continues until the context ends.
	Background func(work func(context.Context))

	flight singleflight.Group // guards the rest
	idle   *time.Timer        // forgets the sums
	ledger *books.Ledger      // nil if there are none
	summed
}

// summed are sums up to a position of the log.
type summed struct {
	at   eventlog.Position
	sums map[sumKey]books.Movement
}

type sumKey struct {
	month          time.Time // its beginning
	plan, currency string    // the plan at the time of the movements
}

// current returns the sums up to the head of the log, or later. If the context ends before, the work goes on for the
// next call.
func (o *Sums) current(ctx context.Context) (map[sumKey]books.Movement, error) {
	head, err := o.Log.Head(ctx)
	if err != nil {
		return nil, err
	}
	for { // again if work that had begun before ends before the head
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case done := <-o.flight.DoChan("", o.proceed):
			if s, ok := done.Val.(summed); done.Err != nil || ok && s.at >= head {
				return s.sums, done.Err
			} // else the sums were forgotten, or ended earlier
		}
	}
}

// proceed adds the events up to the head of the log, and returns a copy of the sums.
func (o *Sums) proceed() (any, error) {
	if o.ledger == nil {
		o.ledger, o.summed = books.NewLedger(), summed{sums: map[sumKey]books.Movement{}}
	}
	if o.idle != nil {
		o.idle.Stop()
	}
	o.idle = time.AfterFunc(sumsKept, o.forget)
	done := make(chan error, 1)
	o.Background(func(ctx context.Context) {
		var err error
		o.at, err = journal.Fold(ctx, o.Log, o.ledger, o.at, time.Time{},
			func(at time.Time, h *books.Holder, currency string, m books.Movement) {
				key := sumKey{books.MonthOf(at), h.Plan, currency}
				sum := o.sums[key]
				sum.Add(m)
				o.sums[key] = sum
			})
		done <- err
	})
	err := <-done
	if o.ledger.Err() != nil {
		o.ledger = nil // it stays so
	}
	if err != nil {
		return nil, err
	}
	return summed{o.at, maps.Clone(o.sums)}, nil
}

// forget frees the memory of the sums, after the work on them that runs.
func (o *Sums) forget() {
	for forgotten := false; !forgotten; {
		_, _, _ = o.flight.Do("", func() (any, error) {
			o.ledger, o.summed, forgotten = nil, summed{}, true
			return nil, nil
		})
	}
}

// Flows returns the report of a time by month, plan or account. Those of whole months by month or plan come from the
// kept sums, others from the whole log.
func (o *Books) Flows(ctx context.Context, by string, from, until time.Time) (*books.Flows, error) {
	flows := books.NewFlows(by, from, until)
	if by == books.ByAccount || !books.IsWhole(from) || !books.IsWhole(until) {
		_, err := o.Fold(ctx, until, flows.Add)
		return flows, err
	}
	sums, err := o.Sums.current(ctx)
	for key, m := range sums {
		if until.IsZero() || key.month.Before(until) {
			flows.Add(key.month, &books.Holder{Plan: key.plan}, key.currency, m)
		}
	}
	return flows, err
}

// MonthTotals is what happened in a month in one currency, and what was left at its end. Money is in minor units,
// without tax.
type MonthTotals struct {
	Month    string `json:"month"`
	State    string `json:"state"`              // open, closed, running
	Currency string `json:"currency,omitempty"` // empty for promotional credits
	Revenue  int64  `json:"revenue"`            // with breakage
	Deferred int64  `json:"deferred"`           // at the end
	*Summed
}

// Summed is the part of MonthTotals that no closing has.
type Summed struct {
	Received int64 `json:"received"`
	Refunded int64 `json:"refunded"`
	Credits  int64 `json:"credits"` // that were not used at the end
}

// Overview returns the totals of each month in each currency. Those of closed months are as they were closed. If the
// sums are not complete in a moment, there are only closed months, without Summed, and complete is false.
func (o *Books) Overview(ctx context.Context) (rows []MonthTotals, complete bool, err error) {
	months, err := o.Months(ctx)
	if err != nil {
		return nil, false, err
	}
	states, closed := map[string]string{}, map[books.FlowKey]MonthTotals{}
	for i := range months {
		m := &months[i]
		states[m.Month] = m.State
		for _, t := range m.Totals {
			if key := (books.FlowKey{Group: m.Month, Currency: t.Commodity}); t.Commodity != books.CreditUnit {
				closed[key] = closed[key].with(t)
			}
		}
	}
	within, cancel := context.WithTimeout(ctx, overviewWithin)
	defer cancel()
	flows, err := o.Flows(within, books.ByMonth, time.Time{}, time.Time{})
	if complete = err == nil; err != nil && (ctx.Err() != nil || within.Err() == nil) {
		return nil, false, err
	}
	report := flows.Totals(o.Now())
	if !complete {
		for _, key := range slices.SortedFunc(maps.Keys(closed), books.FlowKey.Compare) {
			report = append(report, books.RevenueRow{FlowKey: key})
		}
	}
	for i := range report {
		r := &report[i]
		row, ok := closed[r.FlowKey]
		if !ok {
			row.Revenue, row.Deferred = r.Recognized+r.Breakage, r.Closing
		}
		row.Month, row.State, row.Currency = r.Group, states[r.Group], r.Currency
		if complete {
			row.Summed = &Summed{Received: r.Received, Refunded: r.Refunded, Credits: r.Credits}
		}
		rows = append(rows, row)
	}
	return rows, complete, nil
}

// with adds what the closing of the month has of a ledger account. Income and liabilities are below zero there.
func (r MonthTotals) with(t eventschemas.PeriodTotal) MonthTotals {
	switch t.LedgerAccount {
	case books.Chart[books.Revenue].Name, books.Chart[books.Breakage].Name:
		r.Revenue -= t.Change
	case books.Chart[books.DeferredRevenue].Name:
		r.Deferred = -t.Balance
	}
	return r
}
