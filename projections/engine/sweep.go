package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// lockTimeout bounds how long the dropping of a table waits for those who read it: those who come after wait
// behind it.
const lockTimeout = 200 * time.Millisecond

type entryKey struct {
	name       string
	generation int
}

// sighting is when a generation was first seen in a state and at a position.
type sighting struct {
	state string
	at    eventlog.Position
	since time.Time
}

// sweeper drops what nobody needs any more from a shared database. It goes by its own clock and by what it has
// seen itself: a new leader begins to count anew.
type sweeper struct {
	r    *Runner
	seen map[entryKey]sighting
}

// sweep does nothing unless this node leads.
func (s *sweeper) sweep(ctx context.Context) {
	r := s.r
	r.step.Lock()
	leads := r.leading != nil
	r.step.Unlock()
	if !leads {
		clear(s.seen)
		return
	}
	entries, err := readRegistry(ctx, r.store.Read())
	if err != nil {
		return // the next look says so
	}
	now := r.cfg.Now()
	still := make(map[entryKey]sighting)
	for _, e := range entries {
		patience, ours := s.patience(e)
		if !ours {
			continue
		}
		key := entryKey{e.name, e.generation}
		before, known := s.seen[key]
		if !known || before.state != e.state || before.at != e.position {
			before = sighting{state: e.state, at: e.position, since: now}
		}
		if now.Sub(before.since) < patience || !s.drop(ctx, e) {
			still[key] = before
		}
	}
	s.seen = still
}

// patience is how long a generation is kept that is not live and will not be.
func (s *sweeper) patience(e entry) (time.Duration, bool) {
	if s.r.model(e.name) == nil {
		return 0, false
	}
	switch e.state {
	case stateRetired:
		return s.r.cfg.DropAfter, true
	case stateScratch, stateFailed: // its node may be at work, or about to ask for the reason
		return orphanFactor * s.r.cfg.DropAfter, true
	}
	return 0, false
}

func (s *sweeper) drop(ctx context.Context, e entry) bool {
	err := s.r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		if s.r.store.Shared() {
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", lockTimeout.Milliseconds())); err != nil {
				return err
			}
		}
		return drop(ctx, tx, e)
	})
	switch {
	case err == nil:
		s.r.cfg.Logger.InfoContext(ctx, "tables are dropped", slog.String("projection", e.name),
			slog.Int("generation", e.generation), slog.String("state", e.state))
	case errors.Is(err, errDeposed): // somebody else has dropped it
	default:
		s.r.cfg.Logger.DebugContext(ctx, "tables could not be dropped and will be later", slog.String("projection", e.name),
			slog.Int("generation", e.generation), slog.Any("error", err))
		return false
	}
	return true
}
