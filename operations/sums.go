package operations

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/workers/journal"
)

const (
	// sumsKept is how long the sums of the books stay in memory after they were last read.
	sumsKept = time.Hour
	// overviewWithin limits how long an overview waits for the sums.
	overviewWithin = 150 * time.Millisecond
)

// Sums are the movements of the books, which the requests of a process share. They are made when they are first read,
// and only continued afterwards.
type Sums struct {
	Log eventlog.Log
	// Background starts work that continues until the context ends.
	Background func(work func(context.Context))

	mu     sync.Mutex
	kept   *journal.Sums // nil if there are none; of the goroutine of run while there is one
	totals journal.Totals
	run    *summing // nil if none runs
	drop   *time.Timer
}

// summing is work that continues the sums.
type summing struct {
	done chan struct{}
	err  error // once it is done
}

// Totals returns the sums up to the head of the log, or later. If the context ends before, the work goes on for the
// next call.
func (o *Sums) Totals(ctx context.Context) (journal.Totals, error) {
	head, err := o.Log.Head(ctx)
	if err != nil {
		return journal.Totals{}, err
	}
	for { // at most twice: what ran before may end before the head
		totals, run := o.upTo(head)
		if run == nil {
			return totals, nil
		}
		select {
		case <-ctx.Done():
			return journal.Totals{}, ctx.Err()
		case <-run.done:
			if run.err != nil {
				return journal.Totals{}, run.err
			}
		}
	}
}

// upTo returns the sums if they reach a position, and otherwise the work that continues them.
func (o *Sums) upTo(head eventlog.Position) (journal.Totals, *summing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.drop == nil {
		o.drop = time.AfterFunc(sumsKept, o.forget)
	}
	o.drop.Reset(sumsKept)
	if o.totals.At >= head {
		return o.totals, nil
	}
	if o.run == nil {
		if o.kept == nil {
			o.kept = &journal.Sums{}
		}
		run, sums := &summing{done: make(chan struct{})}, o.kept
		o.run = run
		o.Background(func(ctx context.Context) {
			run.err = sums.Continue(ctx, o.Log)
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.run = nil; run.err == nil {
				o.totals = sums.Totals()
			}
			close(run.done)
		})
	}
	return journal.Totals{}, o.run
}

// forget drops the sums, unless they are being continued.
func (o *Sums) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.run == nil {
		o.kept, o.totals = nil, journal.Totals{}
	}
}

// MonthTotals is what happened in a month in one currency, and what was left at its end. Money is in minor units,
// without tax.
type MonthTotals struct {
	Month      string `json:"month"`
	State      string `json:"state"`              // open, closed, running
	Currency   string `json:"currency,omitempty"` // empty for promotional credits
	Recognized int64  `json:"recognized"`
	Breakage   int64  `json:"breakage"`
	Fees       int64  `json:"fees"`
	Deferred   int64  `json:"deferred"` // at the end
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
	within, cancel := context.WithTimeout(ctx, overviewWithin)
	defer cancel()
	totals, err := o.Sums.Totals(within)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, false, err
	}
	complete = err == nil
	states, closed := map[string]string{}, map[books.FlowKey]*MonthTotals{}
	for i := range months {
		m := &months[i]
		states[m.Month] = m.State
		for _, t := range m.Totals {
			key := books.FlowKey{Group: m.Month, Currency: t.Commodity}
			if t.Commodity == books.CreditUnit {
				continue
			}
			if closed[key] == nil {
				closed[key] = &MonthTotals{Month: m.Month, State: m.State, Currency: t.Commodity}
			}
			closed[key].add(t)
		}
	}
	if !complete {
		for _, key := range slices.SortedFunc(maps.Keys(closed), books.FlowKey.Compare) {
			rows = append(rows, *closed[key])
		}
		return rows, false, nil
	}
	for _, r := range totals.Flows(books.ByMonth, time.Time{}, time.Time{}).Totals(o.Now()) {
		row := MonthTotals{Month: r.Group, State: states[r.Group], Currency: r.Currency, Recognized: r.Recognized,
			Breakage: r.Breakage, Fees: r.Fees, Deferred: r.Closing}
		if c := closed[r.FlowKey]; c != nil {
			row = *c
		}
		row.Summed = &Summed{Received: r.Received, Refunded: r.Refunded, Credits: r.Credits}
		rows = append(rows, row)
	}
	return rows, true, nil
}

// add adds what the closing of the month has of a ledger account. Income and liabilities are below zero there.
func (r *MonthTotals) add(t eventschemas.PeriodTotal) {
	switch t.LedgerAccount {
	case books.Chart[books.Revenue].Name:
		r.Recognized = -t.Change
	case books.Chart[books.Breakage].Name:
		r.Breakage = -t.Change
	case books.Chart[books.ProcessorFees].Name:
		r.Fees = t.Change
	case books.Chart[books.DeferredRevenue].Name:
		r.Deferred = -t.Balance
	}
}
