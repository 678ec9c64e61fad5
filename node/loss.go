package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/searchindex"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/node/datafolder"
	"letterhead/projections/engine"
	"letterhead/projections/search"
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
func (g *lossGuard) admit(ctx context.Context, store eventlog.Prober, seen eventlog.Mark) error {
	err := g.compare(ctx, store, seen)
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
	err := metrics.Register(telemetry.GaugeFunc("letterhead_log_lost",
		"1 while this node refuses its event store because acknowledged events are missing from it.", func() float64 {
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

// OpenDatabase opens the database only, for a log that may be damaged.
func OpenDatabase(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options) (*Node, error) {
	return openPart(ctx, cfg, lock, o, (*Stores).openDatabase)
}

// Acceptance is a loss of events that can be accepted.
type Acceptance struct {
	*loss.Acceptance
	stores *Stores
	by     loss.Accepting
}

// PrepareAcceptance looks for lost events on a node of OpenDatabase. It returns nil if nothing is missing.
func (s *Stores) PrepareAcceptance(ctx context.Context, reason string) (*Acceptance, error) {
	losses, err := s.survey(ctx)
	if err != nil {
		return nil, err
	}
	by := loss.Accepting{Actor: commandLine().Actor, Reason: reason, Now: s.clock.Now(), Done: CrawlCheckpoints(),
		ForgetSearch: s.forgetSearch}
	a, err := loss.Prepare(ctx, s.Database, by, losses)
	if err != nil || a == nil {
		return nil, err
	}
	if len(losses) == 0 {
		if moot, err := a.Moot(ctx, s.Log); moot || err != nil {
			return nil, err
		}
	}
	return &Acceptance{a, s, by}, nil
}

// Accept records the loss and keeps what can be read.
func (a *Acceptance) Accept(ctx context.Context) (loss.Accepted, error) {
	if err := a.Begin(ctx); err != nil {
		return loss.Accepted{}, err
	}
	if a.stores.Log == nil { // it is truncated where it cannot be read
		if err := a.stores.openLog(ctx, nil, true); err != nil {
			return loss.Accepted{}, errors.Join(err, a.stores.withdraw(ctx, a.Acceptance))
		}
	}
	return a.Finish(ctx, a.stores.Log, a.by)
}

// survey returns the witnesses that remember more than the log holds. It leaves a log file that cannot be opened
// untouched.
func (s *Stores) survey(ctx context.Context) ([]*eventlog.LossError, error) {
	if !s.config.Shared() {
		if err := s.expectLogFile(ctx); err != nil {
			return asLoss(err)
		}
	}
	if err := s.openLog(ctx, nil, false); err != nil {
		return asLoss(err)
	}
	losses, err := loss.Survey(ctx, s.Database, eventlog.Probe(s.Log))
	if err != nil {
		return nil, err
	}
	inSearch, err := s.surveySearch(ctx)
	if inSearch != nil {
		losses = append(losses, inSearch)
	}
	return losses, err
}

// withdraw withdraws an acceptance that failed before it changed the log. The log then still shows its loss, and the
// folder is in order again once the missing file is back.
func (s *Stores) withdraw(ctx context.Context, a *loss.Acceptance) error {
	// it may have failed because ctx ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if replacing, err := sqlite.Replacing(s.config.EventsPath()); replacing || err != nil {
		return err
	}
	left, err := sqlite.Inspect(ctx, s.config.EventsPath())
	if err != nil || left.Loss == nil {
		return err
	}
	return a.Withdraw(ctx)
}

func asLoss(err error) ([]*eventlog.LossError, error) {
	if lost, ok := errors.AsType[*eventlog.LossError](err); ok {
		return []*eventlog.LossError{lost}, nil
	}
	return nil, err
}

func (s *Stores) surveySearch(ctx context.Context) (lost *eventlog.LossError, err error) {
	if s.config.Search == config.Embedded {
		if s.config.Shared() { // openIndex checks the index of each node
			return nil, nil
		}
		if _, err := os.Stat(s.config.SearchPath()); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	err = s.eachIndex(ctx, func(index searchindex.Index) error {
		if lost != nil {
			return nil
		}
		err := s.compareIndex(ctx, index)
		if errors.As(err, &lost) || errors.Is(err, searchindex.ErrOtherLog) { // the latter is no witness
			return nil
		}
		return err
	})
	return lost, err
}

// eachIndex opens the search index of each version of the analysis, one after the other.
func (s *Stores) eachIndex(ctx context.Context, do func(searchindex.Index) error) error {
	for _, a := range searchindex.Analyzers() {
		index, err := s.openIndex(ctx, a, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(do(index), index.Close()); err != nil {
			return err
		}
		if s.config.Search == config.Embedded {
			return nil // it has the current version only
		}
	}
	return nil
}

func (s *Stores) compareIndex(ctx context.Context, index searchindex.Index) error {
	accepted, err := s.Database.CurrentLogID(ctx)
	if err != nil {
		return err
	}
	return search.Compare(ctx, index, search.Config{Log: eventlog.Probe(s.Log), Accepted: accepted})
}

// forgetSearch empties the search index. One that may belong to another log is left as it is: a node that starts refuses
// it, or fills it again if the log turns out to be a copy of that one.
func (s *Stores) forgetSearch(ctx context.Context) error {
	if s.config.Search == config.Embedded {
		if s.config.Shared() { // openIndex checks the index of each node
			return nil
		}
		return os.RemoveAll(s.config.SearchPath())
	}
	return s.eachIndex(ctx, func(index searchindex.Index) error {
		err := s.compareIndex(ctx, index)
		if err == nil || errors.Is(err, eventlog.ErrLoss) {
			return search.Empty(ctx, index)
		} else if errors.Is(err, searchindex.ErrOtherLog) {
			return nil
		}
		return err
	})
}
