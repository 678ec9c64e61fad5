// Package generate makes believable histories of accounts, for tests, demonstrations and measurements.
//
// Every event is the result of a decision of package account on the account's state at that time, and has the id, the
// time and the hash that the account writer would give it. The same Options always give the same events, with the same
// release on the same kind of processor.
package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

// Limits of Options.
const (
	MaxAccounts = 1 << 20 // each takes about 3 KiB of memory
	MaxEvents   = 1 << 30
	MaxMonths   = 120
	// MinPerAccount is the smallest number of events per account: opening one takes two events, and all are open after
	// half of the events.
	MinPerAccount = 4
)

// Options describe a history.
type Options struct {
	Accounts int
	Events   int
	Seed     uint64
	Months   int       // length of the history
	Until    time.Time // its end
	Hot      float64   // the share of the first account in the use of the service, from 0 to 1
	Brands   []string  // domains that are looked up, the most popular first; none = invented ones
}

// Defaults returns the Options of a small history.
func Defaults() Options {
	return Options{Accounts: 100, Events: 100_000, Seed: 1, Months: 18,
		Until: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), Hot: 0.1}
}

// ErrOptions means that the Options are invalid.
var ErrOptions = errors.New("invalid history")

// Validate returns all errors of the Options, each an ErrOptions.
func (o Options) Validate() error {
	var errs []error
	reject := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrOptions}, args...)...))
		}
	}
	reject(o.Accounts < 1 || o.Accounts > MaxAccounts, "%d accounts, must be from 1 to %d", o.Accounts, MaxAccounts)
	reject(o.Events > MaxEvents || o.Events < MinPerAccount*o.Accounts,
		"%d events, must be from %d for each account to %d", o.Events, MinPerAccount, MaxEvents)
	reject(o.Months < 1 || o.Months > MaxMonths, "%d months, must be from 1 to %d", o.Months, MaxMonths)
	reject(!(o.Hot >= 0 && o.Hot <= 1), "hot is %g, must be from 0 to 1", o.Hot)
	reject(o.Until.Year() < 1971+MaxMonths/12 || o.Until.Year() > 9999,
		"until is in the year %d, must be from %d to 9999", o.Until.Year(), 1971+MaxMonths/12)
	return errors.Join(errs...)
}

// Events returns the events of a history in the order of the log, as an empty SQLite log would number them. An error
// ends the sequence. Errors: ErrOptions, the errors of encoding.
func Events(o Options) iter.Seq2[eventlog.Recorded, error] {
	return func(yield func(eventlog.Recorded, error) bool) {
		if err := o.Validate(); err != nil {
			yield(eventlog.Recorded{}, err)
			return
		}
		g := newGenerator(o)
		for g.made < o.Events {
			events, err := g.next()
			if err != nil {
				yield(eventlog.Recorded{}, err)
				return
			}
			for i := range events {
				if !yield(events[i], nil) {
					return
				}
			}
		}
	}
}

// Summary describes a history that was written.
type Summary struct {
	Accounts int            `json:"accounts"`
	Events   int            `json:"events"`
	First    time.Time      `json:"first"`
	Last     time.Time      `json:"last"`
	Types    map[string]int `json:"types"` // events of each type
}

func (s *Summary) add(e *eventlog.Recorded) {
	if s.Events == 0 {
		s.First = e.OccurredAt
	}
	if e.Revision == 0 {
		s.Accounts++
	}
	s.Events++
	s.Last = e.OccurredAt
	s.Types[e.Type]++
}

// ErrNotEmpty means that the log already holds events.
var ErrNotEmpty = errors.New("the event log is not empty")

// batchEvents is the number of events that are passed from the generator to the import at a time.
const batchEvents = eventlog.MaxImportEvents

// History writes a history to an empty log. progress is called with the number of events
// written so far. An interrupted history remains in the log. Errors: ErrNotEmpty, the errors of Events and of the log.
func History(ctx context.Context, log eventlog.Importer, o Options, progress func(events int)) (Summary, error) {
	sum := Summary{Types: map[string]int{}}
	if err := o.Validate(); err != nil {
		return sum, err
	}
	if err := CheckEmpty(ctx, log); err != nil {
		return sum, err
	}
	batches := make(chan []eventlog.Recorded, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(batches)
		return eachBatch(o, func(batch []eventlog.Recorded) error { return delay.Send(ctx, batches, batch) })
	})
	group.Go(func() error {
		for batch := range batches {
			if err := write(ctx, log, batch); err != nil {
				return err
			}
			for i := range batch {
				sum.add(&batch[i])
			}
			progress(sum.Events)
		}
		return nil
	})
	err := group.Wait()
	return sum, err
}

func eachBatch(o Options, do func([]eventlog.Recorded) error) error {
	var batch []eventlog.Recorded
	for e, err := range Events(o) {
		if err != nil {
			return err
		}
		if batch = append(batch, e); len(batch) == batchEvents {
			if err := do(batch); err != nil {
				return err
			}
			batch = make([]eventlog.Recorded, 0, batchEvents)
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return do(batch)
}

func write(ctx context.Context, log eventlog.Importer, events []eventlog.Recorded) error {
	for len(events) > 0 {
		runs, n := eventlog.Runs(events)
		if err := log.Import(ctx, runs); err != nil {
			return fmt.Errorf("write a generated history: %w", err)
		}
		events = events[n:]
	}
	return nil
}

// CheckEmpty returns ErrNotEmpty, or an error of the log, unless the log is empty.
func CheckEmpty(ctx context.Context, log eventlog.Log) error {
	head, err := log.Head(ctx)
	if err == nil && head > 0 {
		err = ErrNotEmpty
	}
	if err != nil {
		return fmt.Errorf("generate a history: %w", err)
	}
	return nil
}
