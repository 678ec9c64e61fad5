package ledger

import (
	"context"
	"fmt"
	"iter"
	"time"

	"letterhead/internal/eventlog"
)

const (
	// disorder limits how much earlier an event may have occurred than a preceding one of another
	// stream, in the log that the service wrote.
	disorder = time.Minute
	// moved limits how many entries a copy of that log may have between two that were swapped, however
	// much time is between them: both may have moved by almost eventlog.MaxDisorder.
	moved = 2 * eventlog.MaxDisorder
)

// Since returns the entries of all accounts from the given time on, in the order of the log. Errors: as Entries.
func (m *Model) Since(ctx context.Context, at time.Time) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		after, err := m.before(ctx, at.Add(-disorder))
		if err != nil {
			yield(Entry{}, fmt.Errorf("ledger since %s: %w", at.UTC().Format(time.RFC3339), err))
			return
		}
		for e, err := range m.All(ctx, after) {
			if (err != nil || !e.At.Before(at)) && !yield(e, err) {
				return
			}
		}
	}
}

// before returns a position before all entries from the given time on. It uses a binary search,
// because the log is nearly ordered by time, and goes back from its result.
func (m *Model) before(ctx context.Context, at time.Time) (eventlog.Position, error) {
	last, err := m.read(ctx, `ORDER BY e.position DESC LIMIT 1`)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	low, high := int64(0), int64(last[0].Position)
	for low < high { // entries up to low are too early, and no needed entry is before high
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
	// In a copied log, an entry from that time on may precede one that is too early.
	back, err := m.read(ctx,
		fmt.Sprintf(`WHERE e.position <= $1 ORDER BY e.position DESC LIMIT 1 OFFSET %d`, m.moved), low)
	if err != nil || len(back) == 0 {
		return 0, err
	}
	return back[0].Position, nil
}
