package eventlog

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/google/uuid"
)

// ReadPages reads a stream from its beginning and calls f for each page of at most size events, the last of which may
// have none. Errors: as ReadStream and of f.
func ReadPages(ctx context.Context, log Log, stream string, size int, f func([]Recorded) error) error {
	for revision := uint64(0); ; {
		page, err := log.ReadStream(ctx, stream, revision, Forward, size)
		if err != nil {
			return err
		}
		if err := f(page); err != nil || len(page) < size {
			return err
		}
		revision += uint64(len(page))
	}
}

// Events yields the events of a stream from a revision on, which it reads in pages of size. It ends after an error.
func Events(ctx context.Context, log Log, stream string, from uint64, direction Direction,
	size int) iter.Seq2[*Recorded, error] {
	return func(yield func(*Recorded, error) bool) {
		for more := true; more; {
			page, err := log.ReadStream(ctx, stream, from, direction, size)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
				if from = page[i].Revision + 1; direction == Backward {
					from = page[i].Revision - 1
				}
			}
			more = len(page) == size && from != End // which follows revision 0
		}
	}
}

// NextWithin is Next of a subscription, which waits for at most the given time and then returns an empty batch.
// Errors: as Subscription.Next.
func NextWithin(ctx context.Context, s Subscription, most time.Duration) (Batch, error) {
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	batch, err := s.Next(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return Batch{}, nil
	}
	return batch, err
}

// Mark identifies an event of the log. The zero Mark identifies none; a Mark without a stream is the log's first event.
type Mark struct {
	ID       uuid.UUID `json:"event_id"`
	Stream   string    `json:"stream,omitempty"`
	Revision uint64    `json:"revision"`
	Position Position  `json:"position"`
}

// MarkOf returns the mark of an event.
func MarkOf(e *Recorded) Mark {
	return Mark{ID: e.ID, Stream: e.Stream, Revision: e.Revision, Position: e.Position}
}

// Held reports whether a log contains the event of a mark at its position. Errors: as the log.
func (m Mark) Held(ctx context.Context, log Prober) (bool, error) {
	held, found, err := m.Find(ctx, log)
	return found && held.ID == m.ID && held.Position == m.Position, err
}

// Find returns the event at m's stream and revision, or the log's first event if m has no stream. Another program may
// have written it. Errors: as the log.
func (m Mark) Find(ctx context.Context, log Prober) (held Recorded, found bool, err error) {
	if m.Stream == "" {
		held, found, err = log.First(ctx)
	} else {
		held, found, err = log.At(ctx, m.Stream, m.Revision)
	}
	if errors.Is(err, ErrCorrupt) && held.ID != uuid.Nil && held.ID != m.ID {
		return held, true, nil
	}
	return held, found, err
}

// Runs returns runs with as many of the first events as fit into one import, in their order, and the number of these
// events.
func Runs(events []Recorded) (runs []Run, n int) {
	size := 0
	for n < len(events) && n < MaxImportEvents {
		part := events[n:min(len(events), MaxImportEvents)]
		part = part[:Together(part)]
		for i := range part {
			size += Size(&part[i].Proposed)
		}
		if n > 0 && size > MaxImportBytes {
			break
		}
		runs = append(runs, Run{Stream: part[0].Stream, Expected: After(part[0].Revision), Events: Proposals(part)})
		n += len(part)
	}
	return runs, n
}

// Together returns the number of events, from the first one on, that may share an append.
func Together(events []Recorded) int {
	n, size := 1, Size(&events[0].Proposed)
	for n < len(events) && n < MaxAppendEvents && events[n].Stream == events[0].Stream {
		if size += Size(&events[n].Proposed); size > MaxAppendBytes {
			break
		}
		n++
	}
	return n
}

// Proposals returns the events as they are appended to another log.
func Proposals(events []Recorded) []Proposed {
	proposed := make([]Proposed, len(events))
	for i := range events {
		proposed[i] = events[i].Proposed
	}
	return proposed
}
