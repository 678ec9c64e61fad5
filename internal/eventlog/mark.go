package eventlog

import (
	"context"
	"errors"

	"github.com/google/uuid"
)

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
