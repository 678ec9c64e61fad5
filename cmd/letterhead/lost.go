package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/workers/loss"
)

// errRegained ends a node whose event store holds again what is remembered of it: the node may keep states in memory
// of events that are gone.
var errRegained = errors.New("the event store can be used again; this process ends so that it starts with nothing of the time before in memory")

// admit compares a shared event store with the database before this node uses a new connection to it. A node that
// runs already is not ready from then on, and appends nothing.
func (s *service) admit(ctx context.Context, store eventlog.Prober) error {
	err := loss.Verify(ctx, s.store, store)
	switch before := s.lost.Load(); {
	case errors.Is(err, eventlog.ErrLoss):
		s.lost.Store(&err)
		if before == nil || (*before).Error() != err.Error() {
			s.logger.Error("the event store is not used", "error", err)
		}
	case err == nil && before != nil && s.kill != nil:
		s.kill(errRegained)
		return errRegained
	}
	return err
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
