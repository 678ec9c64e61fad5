package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/projections/engine"
	"letterhead/workers/loss"
)

// errForget stops a node that has in memory events that are gone from the store and the database, because an operator
// accepted their loss or replaced the log. The node starts again with nothing in memory.
var errForget = errors.New("events that this node has read are no longer in the log (their loss was accepted, or a restore or migration replaced the log): restarting with empty memory")

// lossGuard rejects an event store that lost events.
type lossGuard struct {
	database *sqlstore.Store
	serves   bool // the process has roles
	logger   *slog.Logger
	kill     context.CancelCauseFunc // ends the node
	lost     *atomic.Pointer[error]  // why the event store is rejected
	logID    string                  // of the database when the log was opened
}

// admit compares a shared event store with the events that the database and this node remember, before the node uses a
// new connection to the store. A running node that rejects the store is not ready and appends nothing. If the store
// holds the last event that the node has seen, everything in its memory is right, and the node continues.
func (g *lossGuard) admit(ctx context.Context, store eventlog.Prober, seen esdb.Seen) error {
	err := g.compare(ctx, store, eventlog.Mark(seen))
	switch before := g.lost.Load(); {
	case errors.Is(err, eventlog.ErrLoss) && before != nil && eventlog.SameLoss(*before, err):
		err = *before // one sentence, although the log or the records may have grown
	case errors.Is(err, eventlog.ErrLoss):
		g.lost.Store(&err)
		g.logger.Error("rejecting the event store", "error", err)
	case err == nil && before != nil:
		g.lost.Store(nil)
		g.logger.Info("the event store has all recorded events again; using it")
	case errors.Is(err, errForget):
		g.kill(err)
	}
	return err
}

// checkLogID fails with errForget, and ends the node, if the log was replaced after the node had opened the database.
func (g *lossGuard) checkLogID(ctx context.Context) error {
	id, err := g.database.CurrentLogID(ctx)
	if err == nil && id != g.logID {
		err = errForget
		g.kill(err)
	}
	return err
}

func (g *lossGuard) compare(ctx context.Context, store eventlog.Prober, seen eventlog.Mark) error {
	// This must come first: a node of an earlier log must not write its last event into the database.
	if err := g.checkLogID(ctx); err != nil {
		return err
	}
	if err := loss.Verify(ctx, g.database, store); err != nil {
		return err
	}
	if seen != (eventlog.Mark{}) {
		return g.compareSeen(ctx, store, seen)
	}
	return g.rememberFirst(ctx, store)
}

// compareSeen compares a store with the last event that this node has seen. If the store does not hold the event,
// compareSeen writes the event's position into the database, so that all nodes reject the store and an operator can
// accept the loss.
func (g *lossGuard) compareSeen(ctx context.Context, store eventlog.Prober, seen eventlog.Mark) error {
	held, err := seen.Held(ctx, store)
	if err != nil || held {
		return err
	}
	if err := engine.Remember(ctx, g.database, seen); err != nil {
		return err
	}
	if err := loss.Verify(ctx, g.database, store); err != nil {
		return err
	}
	// the database remembers a later event, which the store has
	if held, err = seen.Held(ctx, store); err == nil && !held {
		return errForget
	}
	return err // the store was a replica, and has caught up
}

// rememberFirst writes the first event of the log into the database, so that the log is known before any read model is
// folded.
func (g *lossGuard) rememberFirst(ctx context.Context, store eventlog.Prober) error {
	memory, err := engine.ReadFoldedLog(ctx, g.database)
	if err != nil || memory.First != (eventlog.Mark{}) || !g.serves {
		return err
	}
	first, found, err := store.First(ctx)
	if err != nil || !found {
		return err
	}
	return engine.RememberFirst(ctx, g.database, eventlog.MarkOf(&first))
}

// watch registers the metric of lost events, which an alert uses.
func (g *lossGuard) watch(metrics telemetry.Metrics) error {
	err := metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "letterhead_log_lost",
		Help: "1 while this node refuses its event store because acknowledged events are missing from it.",
	}, func() float64 {
		if g.lost.Load() != nil {
			return 1
		}
		return 0
	}))
	if err != nil {
		return fmt.Errorf("register the metric of lost events: %w", err)
	}
	return nil
}

// expectLogFile fails if the log file is missing but the database remembers events: opening the log would create an
// empty file.
func (s *Stores) expectLogFile(ctx context.Context) error {
	_, err := os.Stat(s.config.EventsPath())
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if replacing, err := sqlite.Replacing(s.config.EventsPath()); replacing || err != nil {
		return err // opening puts the new file in its place
	}
	losses, err := loss.Survey(ctx, s.Database, noLog{})
	if err != nil || len(losses) == 0 {
		return err
	}
	worst := loss.Worst(losses)
	worst.Detail += "; " + s.config.EventsPath() + " does not exist"
	return worst
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
