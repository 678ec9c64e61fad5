package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/projections/engine"
	"letterhead/workers/loss"
)

// errForget ends what a node does with a log: events that it keeps in memory are gone from the store and the database,
// because an operator accepted their loss or filled the log. The node begins again with nothing in memory.
var errForget = errors.New("events that this node has seen are gone, and their loss was accepted, or the log was filled by a restore or a migration: the node begins again")

// admit compares a shared event store with what is remembered, in the database and in this node, before this node uses
// a new connection to it. A node that runs already is not ready while the store is refused, and appends nothing. What
// it keeps in memory is right when the store holds the last event that the node has seen; so it goes on.
func (s *service) admit(ctx context.Context, store eventlog.Prober, seen esdb.Seen) error {
	err := s.compare(ctx, store, engine.Mark(seen))
	switch before := s.lost.Load(); {
	case errors.Is(err, eventlog.ErrLoss):
		s.lost.Store(&err)
		if before == nil || (*before).Error() != err.Error() {
			s.logger.Error("the event store is not used", "error", err)
		}
	case err == nil && before != nil:
		s.lost.Store(nil)
		s.logger.Info("the event store holds again what is remembered of it, and is used")
	case errors.Is(err, errForget) && s.kill != nil: // nil in a command, which fails
		s.kill(err)
	}
	return err
}

func (s *service) compare(ctx context.Context, store eventlog.Prober, seen engine.Mark) error {
	// First of all: a node of an earlier log must not write what it has seen into the database.
	accepted, err := loss.LastAccepted(ctx, s.store)
	if err != nil {
		return err
	}
	switch first := s.accepted.Load(); {
	case first == nil:
		s.accepted.Store(&accepted)
	case *first != accepted:
		return errForget
	}
	if err := loss.Verify(ctx, s.store, store); err != nil {
		return err
	}
	if seen != (engine.Mark{}) {
		return s.compareSeen(ctx, store, seen)
	}
	return s.rememberFirst(ctx, store)
}

// compareSeen compares a store with the last event that this node has seen. When the store does not hold it, the
// database learns of it, so that all nodes refuse the store and its loss can be accepted.
func (s *service) compareSeen(ctx context.Context, store eventlog.Prober, seen engine.Mark) error {
	held, err := seen.Held(ctx, store)
	if err != nil || held {
		return err
	}
	if err := engine.Remember(ctx, s.store, seen); err != nil {
		return err
	}
	if err := loss.Verify(ctx, s.store, store); err != nil {
		return err
	}
	if held, err = seen.Held(ctx, store); err == nil && !held { // the database remembers a later event, which the store has
		return errForget
	}
	return err // a replica that has caught up
}

// rememberFirst has the database remember which log is used also where no read model was folded yet.
func (s *service) rememberFirst(ctx context.Context, store eventlog.Prober) error {
	memory, err := engine.ReadFoldedLog(ctx, s.store)
	if err != nil || memory.First != (engine.Mark{}) || len(s.config.Roles) == 0 {
		return err
	}
	first, found, err := store.First(ctx)
	if err != nil || !found {
		return err
	}
	return engine.RememberFirst(ctx, s.store, engine.MarkOf(&first))
}

// watchLoss registers the metric that an alert looks at.
func (s *service) watchLoss() error {
	err := s.metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "letterhead_log_lost", Help: "1 while this node refuses its event store because acknowledged events are missing from it.",
	}, func() float64 {
		if s.lost.Load() != nil {
			return 1
		}
		return 0
	}))
	if err != nil {
		return fmt.Errorf("register the metric of lost events: %w", err)
	}
	return nil
}

// expectLogFile fails when the file of the log is gone and the database remembers events: opening would make a new
// file in its place.
func (s *service) expectLogFile(ctx context.Context) error {
	_, err := os.Stat(s.config.EventsPath())
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if replacing, err := sqlite.Replacing(s.config.EventsPath()); replacing || err != nil {
		return err // opening puts the new file in its place
	}
	losses, err := loss.Survey(ctx, s.store, noLog{})
	if err != nil || len(losses) == 0 {
		return err
	}
	worst := loss.Worst(losses)
	worst.Detail += "; " + s.config.EventsPath() + " is not there"
	return worst
}

// searchLoss returns a loss when the search index was fed from events that the log does not hold.
func searchLoss(ctx context.Context, index interface {
	Checkpoint(context.Context) (uint64, error)
}, log eventlog.Prober) (*eventlog.LossError, error) {
	at, err := index.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	end, err := log.End(ctx)
	if err != nil || eventlog.Position(at) <= end {
		return nil, err
	}
	return &eventlog.LossError{Witness: "search index", Remembered: eventlog.Position(at), Head: end, Detail: "it was fed from events that the log does not hold"}, nil
}

// noLog is a log without events.
type noLog struct{}

func (noLog) First(context.Context) (eventlog.Recorded, bool, error) {
	return eventlog.Recorded{}, false, nil
}

func (noLog) Last(context.Context) (eventlog.Recorded, bool, error) {
	return eventlog.Recorded{}, false, nil
}

func (noLog) At(context.Context, string, uint64) (eventlog.Recorded, bool, error) {
	return eventlog.Recorded{}, false, nil
}

func (noLog) End(context.Context) (eventlog.Position, error) { return 0, nil }
