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

// lockTimeout limits how long dropping a table waits for its readers, because later readers queue behind it.
const lockTimeout = 200 * time.Millisecond

type recordKey struct {
	name       string
	generation int
}

// sighting records when a generation was first seen in a state and at a position.
type sighting struct {
	state string
	at    eventlog.Position
	since time.Time
}

// sweeper drops unused tables from a shared database. It uses its own clock and its own observations, so a new leader
// restarts its periods.
type sweeper struct {
	r    *Runner
	seen map[recordKey]sighting
}

// sweep sweeps if this node leads.
func (s *sweeper) sweep(ctx context.Context) {
	r := s.r
	r.step.Lock()
	leads := r.leading != nil
	r.step.Unlock()
	if !leads {
		clear(s.seen)
		return
	}
	records, err := readGenerations(ctx, r.store.Read())
	if err != nil {
		return // the next poll reports it
	}
	now := r.cfg.Now()
	still := make(map[recordKey]sighting)
	for _, e := range records {
		keepFor, ours := s.keep(e)
		if !ours {
			continue
		}
		key := recordKey{e.name, e.generation}
		before, known := s.seen[key]
		if !known || before.state != e.state || before.at != e.position {
			before = sighting{state: e.state, at: e.position, since: now}
		}
		if now.Sub(before.since) < keepFor || !s.drop(ctx, e) {
			still[key] = before
		}
	}
	s.seen = still
}

// keep returns how long a generation is kept that is not live and will not be, and false for others.
func (s *sweeper) keep(e record) (time.Duration, bool) {
	m := s.r.model(e.name)
	if m == nil {
		return 0, false
	}
	switch e.state {
	case stateRetired:
		return s.r.cfg.DropAfter, true
	case stateScratch, stateFailed: // its node may be using it, or about to read the reason
		if g := s.r.scrubbing.Load(); g != nil && g.model == m && g.number == e.generation {
			return 0, false
		}
		return orphanFactor * s.r.cfg.DropAfter, true
	case stateFilling: // of a version that cannot become live any more
		return orphanFactor * s.r.cfg.DropAfter, e.version < s.r.target(m).Number
	}
	return 0, false
}

func (s *sweeper) drop(ctx context.Context, e record) bool {
	err := s.r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		if s.r.store.Shared() {
			_, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", lockTimeout.Milliseconds()))
			if err != nil {
				return err
			}
		}
		return drop(ctx, tx, e)
	})
	switch {
	case err == nil:
		s.r.cfg.Logger.InfoContext(ctx, "dropped tables", slog.String("projection", e.name),
			slog.Int("generation", e.generation), slog.String("state", e.state))
	case errors.Is(err, errDeposed): // another node has dropped it
	default:
		s.r.cfg.Logger.DebugContext(ctx, "dropping tables failed; will retry", slog.String("projection", e.name),
			slog.Int("generation", e.generation), slog.Any("error", err))
		return false
	}
	return true
}
