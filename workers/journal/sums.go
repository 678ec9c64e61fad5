package journal

import (
	"context"
	"maps"
	"time"

	"letterhead/domain/books"
	"letterhead/internal/eventlog"
)

// Sum is what moved in a month, on a plan and in a currency.
type Sum struct {
	Month    time.Time // its beginning
	Plan     string    // at the time of the movements
	Currency string    // empty for promotional credits
}

// Sums are the movements of the books up to a position of the log. Continue adds what follows, so that a report need
// not read the whole log again. The zero value is at the beginning of the log; one goroutine at a time uses it.
//
// Memory grows with accounts, grants and the charges of books.ReversalMemory, as that of Fold.
type Sums struct {
	at     eventlog.Position
	ledger *books.Ledger
	sums   map[Sum]books.Movement
}

// Continue adds the events up to the head of the log. After an error it can be called again.
func (s *Sums) Continue(ctx context.Context, log eventlog.Log) error {
	if s.ledger == nil {
		s.ledger, s.sums = books.NewLedger(), map[Sum]books.Movement{}
	}
	r, err := newReader(ctx, log, "", nil)
	if err != nil {
		return err
	}
	err = r.each(ctx, s.at, func(_ eventlog.Position, e bookedEvent) error {
		body, err := e.decode()
		if err != nil {
			return err
		}
		s.ledger.Apply(e.customer(), body, e.Revision, e.OccurredAt,
			func(h *books.Holder, currency string, m books.Movement) {
				key := Sum{books.MonthOf(e.booked), h.Plan, currency}
				sum := s.sums[key]
				sum.Add(m)
				s.sums[key] = sum
			})
		if err := s.ledger.Err(); err != nil {
			return err
		}
		s.at = e.Position
		return nil
	})
	if err == nil {
		s.at = max(s.at, r.head)
	}
	return err
}

// Totals returns a copy of the sums, which later events do not change.
func (s *Sums) Totals() Totals { return Totals{s.at, maps.Clone(s.sums)} }

// Totals are sums up to a position of the log.
type Totals struct {
	At   eventlog.Position
	sums map[Sum]books.Movement
}

// Flows returns the report by month or by plan of whole months; a zero time is open.
func (t *Totals) Flows(by string, from, until time.Time) *books.Flows {
	flows := books.NewFlows(by, from, until)
	for key, m := range t.sums {
		if until.IsZero() || key.Month.Before(until) {
			flows.Add(key.Month, &books.Holder{Plan: key.Plan}, key.Currency, m)
		}
	}
	return flows
}
