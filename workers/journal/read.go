package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/eventschemas"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
)

const (
	// pageEvents is the number of events that are read at a time.
	pageEvents = 1024
	// pagesAhead is the number of pages that are read before they are needed.
	pagesAhead = 2
)

// Progress is called after each page with the number of events read and the position in the log.
type Progress func(events uint64, at, head eventlog.Position)

// ReadPeriods returns the months that have ended up to a position of the log.
func ReadPeriods(ctx context.Context, log eventlog.Log, until eventlog.Position) (*books.Periods, error) {
	periods := &books.Periods{}
	err := eventlog.ReadPages(ctx, log, eventschemas.BooksStream, pageEvents, func(page []eventlog.Recorded) error {
		for i := range page {
			if page[i].Position > until {
				break
			}
			body, err := eventschemas.Decode(page[i].Type, page[i].SchemaVersion, page[i].Data)
			if err == nil {
				err = periods.Apply(body, uint64(page[i].Position), page[i].OccurredAt)
			}
			if err != nil {
				return fmt.Errorf("event at position %d: %w", page[i].Position, err)
			}
		}
		return nil
	})
	return periods, err
}

// reader reads the events of the books and books them.
type reader struct {
	log      eventlog.Log
	head     eventlog.Position
	account  string   // id; empty for all
	types    []string // of the events
	periods  *books.Periods
	progress Progress
}

// newReader returns a reader of the events up to the head of the log.
func newReader(ctx context.Context, log eventlog.Log, accountID string, progress Progress) (*reader, error) {
	head, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	periods, err := ReadPeriods(ctx, log, head)
	if err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(uint64, eventlog.Position, eventlog.Position) {}
	}
	return &reader{log: log, head: head, account: accountID, types: books.Types(), periods: periods,
		progress: progress}, nil
}

// stopAt makes the reader stop where no later event can be booked before a time, which is zero for no limit. It reports
// whether there is such a position: a month that ends at that time or later has ended in the books. Until then, an
// event that is dated earlier may follow.
func (r *reader) stopAt(until time.Time) bool {
	if until.IsZero() {
		return false
	}
	for _, p := range r.periods.All() {
		if !p.Month.AddDate(0, 1, 0).Before(until) {
			r.head = min(r.head, eventlog.Position(p.Position))
			return true
		}
	}
	return false
}

// bookedEvent is an event of the log with the time to which it belongs in the books.
type bookedEvent struct {
	*eventlog.Recorded
	booked time.Time
	body   eventschemas.Event
	err    error // of decoding the body
}

// customer returns the id of the event's account.
func (e bookedEvent) customer() string { return strings.TrimPrefix(e.Stream, account.StreamPrefix) }

func (e *bookedEvent) decode() (eventschemas.Event, error) {
	if e.err != nil {
		return nil, fmt.Errorf("event at position %d: %w", e.Position, e.err)
	}
	return e.body, nil
}

// page is a page of events and the position before it. booked has the events of the books.
type page struct {
	start  eventlog.Position
	events []eventlog.Recorded
	booked []bookedEvent
	next   eventlog.Position
}

// errAtHead ends the reading of a stream at the reader's head.
var errAtHead = errors.New("at the head")

// each calls f for each event after a position, up to the head, with the position before its page. It reads and
// decodes ahead.
func (r *reader) each(ctx context.Context, after eventlog.Position,
	f func(start eventlog.Position, e bookedEvent) error) error {
	group, ctx := errgroup.WithContext(ctx)
	pages, decoded := make(chan page, pagesAhead), make(chan page, pagesAhead)
	group.Go(func() error {
		defer close(pages)
		if r.account != "" {
			err := eventlog.ReadPages(ctx, r.log, account.Stream(r.account),
				pageEvents, func(events []eventlog.Recorded) error {
					if len(events) == 0 {
						return nil
					}
					last := events[len(events)-1].Position
					if err := delay.Send(ctx, pages, page{events: events, next: last}); err != nil || last < r.head {
						return err
					}
					return errAtHead
				})
			if errors.Is(err, errAtHead) {
				return nil
			}
			return err
		}
		filter := eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix}, EventTypes: r.types}
		for at := after; at < r.head; {
			read, err := r.log.ReadAll(ctx, at, filter, pageEvents)
			if err != nil {
				return err
			}
			if err := delay.Send(ctx, pages, page{start: at, events: read.Events, next: read.Next}); err != nil {
				return err
			}
			if at = read.Next; read.End {
				break
			}
		}
		return nil
	})
	group.Go(func() error {
		defer close(decoded)
		for p := range pages {
			p.booked = make([]bookedEvent, 0, len(p.events))
			for i := range p.events {
				ev := &p.events[i]
				if ev.Position > r.head || ev.Position <= after ||
					r.account != "" && !slices.Contains(r.types, ev.Type) {
					continue
				}
				body, err := eventschemas.Decode(ev.Type, ev.SchemaVersion, ev.Data)
				p.booked = append(p.booked,
					bookedEvent{ev, r.periods.Booked(ev.OccurredAt, uint64(ev.Position)), body, err})
			}
			if err := delay.Send(ctx, decoded, p); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		events := uint64(0)
		for p := range decoded {
			if err := ctx.Err(); err != nil {
				return err
			}
			for i := range p.booked {
				if err := f(p.start, p.booked[i]); err != nil {
					return err
				}
			}
			events += uint64(len(p.events))
			r.progress(events, min(p.next, r.head), r.head)
		}
		return nil
	})
	return group.Wait()
}

// first returns the month of the earliest event, zero if there is none. The clocks of nodes differ, and a copy of the
// log may have swapped events of different streams, so the first event of the log need not be the earliest.
func (r *reader) first(ctx context.Context) (first time.Time, err error) {
	filter := eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix}, EventTypes: books.Types()}
	for at, seen := eventlog.Position(0), 0; at < r.head && seen < eventlog.MaxDisorder; {
		read, err := r.log.ReadAll(ctx, at, filter, eventlog.MaxDisorder)
		if err != nil {
			return first, err
		}
		for i := range read.Events {
			if month := books.MonthOf(read.Events[i].OccurredAt); first.IsZero() || month.Before(first) {
				first = month
			}
		}
		seen += len(read.Events)
		if at = read.Next; read.End {
			break
		}
	}
	if all := r.periods.All(); len(all) > 0 {
		first = all[0].Month
	}
	return first, nil
}

// Events calls f for each event of the given types in the streams of accounts, in the order of the log, up to its head.
func Events(ctx context.Context, log eventlog.Log, types []string, progress Progress,
	f func(accountID string, ev eventschemas.Event, at time.Time)) error {
	r, err := newReader(ctx, log, "", progress)
	if err != nil {
		return err
	}
	r.types = types
	return r.each(ctx, 0, func(_ eventlog.Position, e bookedEvent) error {
		body, err := e.decode()
		if err == nil {
			f(e.customer(), body, e.OccurredAt)
		}
		return err
	})
}

// Balances returns the balances of all ledger accounts from the events that are booked before a time, as
// books.Journal.Balances does; the zero time is now.
func Balances(ctx context.Context, log eventlog.Log, until time.Time, progress Progress) ([]books.Posting, error) {
	r, err := newReader(ctx, log, "", progress)
	if err != nil {
		return nil, err
	}
	r.stopAt(until)
	e := &export{reader: r, journal: books.NewJournal()}
	err = r.each(ctx, 0, func(_ eventlog.Position, ev bookedEvent) error {
		if !until.IsZero() && !ev.booked.Before(until) {
			return nil
		}
		_, err := e.apply(ev)
		return err
	})
	return e.journal.Balances(), err
}

// Fold folds the books of all accounts into a ledger, which has the events up to a position, from the events after it
// that are booked before a time; the zero time is now. It calls moved for each change, in the order of the log, with
// the time to which it belongs, and returns the position from which on it can continue, also after an error. Memory
// grows with accounts, grants and the charges of books.ReversalMemory, not with older charges.
func Fold(ctx context.Context, log eventlog.Log, ledger *books.Ledger, after eventlog.Position, until time.Time,
	moved func(at time.Time, h *books.Holder, currency string, m books.Movement)) (eventlog.Position, error) {
	r, err := newReader(ctx, log, "", nil)
	if err != nil {
		return after, err
	}
	r.stopAt(until)
	err = r.each(ctx, after, func(_ eventlog.Position, e bookedEvent) error {
		if !until.IsZero() && !e.booked.Before(until) {
			return nil
		}
		body, err := e.decode()
		if err != nil {
			return err
		}
		ledger.Apply(e.customer(), body, e.Revision,
			e.OccurredAt, func(h *books.Holder, currency string, m books.Movement) {
				moved(e.booked, h, currency, m)
			})
		after = e.Position
		return ledger.Err()
	})
	if err == nil {
		after, err = max(after, r.head), ledger.Err()
	}
	return after, err
}
