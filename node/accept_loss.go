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
	return openPart(ctx, cfg, lock, o, (*Node).openDatabase)
}

// Acceptance is a loss of events that can be accepted.
type Acceptance struct {
	*loss.Acceptance
	node *Node
	by   loss.Accepting
}

// PrepareAcceptance looks for lost events on a node of OpenDatabase. It returns nil if nothing is missing.
func (n *Node) PrepareAcceptance(ctx context.Context, reason string) (*Acceptance, error) {
	losses, err := n.survey(ctx)
	if err != nil {
		return nil, err
	}
	by := loss.Accepting{Actor: n.Operator().Actor, Reason: reason, Now: n.clock.Now(), Done: CrawlCheckpoints(), ForgetSearch: n.forgetSearch}
	a, err := loss.Prepare(ctx, n.Store, by, losses)
	if err != nil || a == nil {
		return nil, err
	}
	if len(losses) == 0 {
		if moot, err := a.Moot(ctx, n.Log); moot || err != nil {
			return nil, err
		}
	}
	return &Acceptance{a, n, by}, nil
}

// Accept records the loss and keeps what can be read.
func (a *Acceptance) Accept(ctx context.Context) (loss.Accepted, error) {
	if err := a.Begin(ctx); err != nil {
		return loss.Accepted{}, err
	}
	if err := a.node.openWhatIsLeft(ctx); err != nil {
		return loss.Accepted{}, errors.Join(err, a.node.withdraw(ctx, a.Acceptance))
	}
	return a.Finish(ctx, a.node.Log, a.by)
}

// survey returns the witnesses that remember more than the log holds. It leaves a log file that cannot be opened
// untouched.
func (n *Node) survey(ctx context.Context) ([]*eventlog.LossError, error) {
	if !n.Config.Shared() {
		if err := n.expectLogFile(ctx); err != nil {
			return asLoss(err)
		}
	}
	if err := n.openLog(ctx, nil); err != nil {
		return asLoss(err)
	}
	losses, err := loss.Survey(ctx, n.Store, eventlog.Probe(n.Log))
	if err != nil {
		return nil, err
	}
	inSearch, err := n.surveySearch(ctx)
	if inSearch != nil {
		losses = append(losses, inSearch)
	}
	return losses, err
}

// openWhatIsLeft opens the log if it is not open, and truncates it where it cannot be read.
func (n *Node) openWhatIsLeft(ctx context.Context) error {
	if n.Log != nil {
		return nil
	}
	return n.openLogFile(ctx, true)
}

// withdraw withdraws an acceptance that failed before it changed the log. The log then still shows its loss, and the
// folder is in order again once the missing file is back.
func (n *Node) withdraw(ctx context.Context, a *loss.Acceptance) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout) // it may have failed because ctx ended
	defer cancel()
	if replacing, err := sqlite.Replacing(n.Config.EventsPath()); replacing || err != nil {
		return err
	}
	left, err := sqlite.Inspect(ctx, n.Config.EventsPath())
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

func (n *Node) surveySearch(ctx context.Context) (lost *eventlog.LossError, err error) {
	if n.Config.Search == config.Embedded {
		if n.Config.Shared() { // openIndex checks the index of each node
			return nil, nil
		}
		if _, err := os.Stat(n.Config.SearchPath()); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	err = n.eachIndex(ctx, func(index searchindex.Index) error {
		if lost != nil {
			return nil
		}
		lost, err = searchLoss(ctx, index, eventlog.Probe(n.Log))
		return err
	})
	return lost, err
}

// eachIndex opens the search index of each version of the analysis, one after the other.
func (n *Node) eachIndex(ctx context.Context, do func(searchindex.Index) error) error {
	for _, a := range searchindex.Analyzers() {
		index, err := n.openIndex(ctx, a, nil)
		if err != nil {
			return err
		}
		if err := errors.Join(do(index), index.Close()); err != nil {
			return err
		}
		if n.Config.Search == config.Embedded {
			return nil // it has the current version only
		}
	}
	return nil
}

// forgetSearch empties the search index.
func (n *Node) forgetSearch(ctx context.Context) error {
	if n.Config.Search == config.Embedded {
		if n.Config.Shared() { // openIndex checks the index of each node
			return nil
		}
		return os.RemoveAll(n.Config.SearchPath())
	}
	return n.eachIndex(ctx, func(index searchindex.Index) error { return search.Empty(ctx, index) })
}
