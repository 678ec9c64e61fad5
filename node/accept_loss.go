package node

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/searchindex"
	"letterhead/node/datafolder"
	"letterhead/projections/search"
	"letterhead/workers/loss"
)

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
	if err := a.stores.openWhatIsLeft(ctx); err != nil {
		return loss.Accepted{}, errors.Join(err, a.stores.withdraw(ctx, a.Acceptance))
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

// openWhatIsLeft opens the log if it is not open, and truncates it where it cannot be read.
func (s *Stores) openWhatIsLeft(ctx context.Context) error {
	if s.Log != nil {
		return nil
	}
	return s.openLog(ctx, nil, true)
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
	var lost *eventlog.LossError
	if errors.As(err, &lost) {
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

// compareIndex compares an index with the log.
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
