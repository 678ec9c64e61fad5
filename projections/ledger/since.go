package ledger

import (
	"context"
	"fmt"
	"iter"
	"time"

	"letterhead/internal/eventlog"
)

// disorder bounds how much earlier an event may have occurred than one before it in the log, in another stream.
const disorder = time.Minute

// Since returns the entries of all accounts from a moment on, in the order of the log, and none or a few from before
// it. Errors: as Entries.
func (m *Model) Since(ctx context.Context, at time.Time) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		after, err := m.before(ctx, at.Add(-disorder))
		if err != nil {
			yield(Entry{}, fmt.Errorf("ledger since %s: %w", at.UTC().Format(time.RFC3339), err))
			return
		}
		m.All(ctx, after)(yield)
	}
}

// before returns a position before all entries from a moment on. It searches by halves: the log is nearly in the order
// of time.
func (m *Model) before(ctx context.Context, at time.Time) (eventlog.Position, error) {
	last, err := m.read(ctx, `ORDER BY e.position DESC LIMIT 1`)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	low, high := int64(0), int64(last[0].Position)
	for low < high { // what is at or before low is too early, and nothing needed is before high
		middle := low + (high-low)/2
		next, err := m.read(ctx, `WHERE e.position > $1 ORDER BY e.position LIMIT 1`, middle)
		if err != nil {
			return 0, err
		}
		if len(next) == 0 || !next[0].At.Before(at) {
			high = middle
		} else {
			low = int64(next[0].Position)
		}
	}
	return eventlog.Position(low), nil
}
