package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"letterhead/domain/plan"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/starter"
)

// Begun describes a node that serves everything.
type Begun struct {
	AccountID string      // the first account
	New       *NewAccount // that account, if this start made it
	AdminURL  string      // where the admin API is served; "" if it is not
}

// begin waits until a started node can serve everything: the read models have caught up and the starter index is
// searchable. A node with a log of its own then has a first account, and begin calls begun.
func (n *Node) begin(ctx context.Context, begun func(*Node, Begun) error) error {
	if n.Config.Shared() {
		return n.beginShared(ctx)
	}
	fault, err := n.fillIfWritable(ctx)
	if err != nil {
		return err
	}
	first, err := n.Accounts.List(ctx, "", 1)
	if err != nil {
		return err
	}
	if err := n.awaitVectors(ctx); err != nil {
		return err
	}
	if fault != nil && (len(first) == 0 || n.firstStartUnfinished()) {
		return fmt.Errorf("the first start cannot finish: %w; start again when the disk can be written", fault)
	}
	if len(first) > 0 && !n.firstStartUnfinished() {
		n.ready.Store(true)
		return begun(n, Begun{AccountID: first[0].ID, AdminURL: n.adminURL})
	}
	created, err := n.firstAccount(ctx, first)
	if err != nil {
		return err
	}
	n.ready.Store(true)
	if err := begun(n, Begun{AccountID: created.Account.ID, New: &created, AdminURL: n.adminURL}); err != nil {
		return err
	}
	return os.Remove(n.firstStartMarker())
}

// fillIfWritable waits until everything that was stored is served, and loads the starter index. If the disk cannot be
// written, it returns why: then the rest follows in the background when it can.
func (n *Node) fillIfWritable(ctx context.Context) (fault, err error) {
	if fault, err = n.tryFill(ctx); fault == nil {
		return nil, err
	}
	n.logger.Error("serving only requests that write nothing", "error", fault)
	n.start([]part{{"rest of the start", func(ctx context.Context) error {
		for fault := fault; fault != nil && n.awaitWrites(ctx, true) == nil; {
			var err error
			if fault, err = n.tryFill(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}}})
	return fault, nil
}

// tryFill is fill until a file cannot be written. It then returns why, an errUnwritable.
func (n *Node) tryFill(ctx context.Context) (fault, err error) {
	filling, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if fault := n.awaitWrites(filling, false); fault != nil {
			stop(fmt.Errorf("%w: %w", errUnwritable, fault))
		}
	}()
	err = n.fill(filling)
	fault = context.Cause(filling)
	if err == nil || !errors.Is(fault, errUnwritable) || ctx.Err() != nil || n.alive.Err() != nil {
		return nil, err
	}
	return fault, nil
}

// fill waits for the read models and the first checkpoint, and loads the starter index.
func (n *Node) fill(ctx context.Context) error {
	if err := n.CatchUp(ctx); err != nil {
		// A quarantined read model must not keep the others from being served, nor itself from being rebuilt.
		if !errors.As(err, new(*engine.QuarantinedError)) {
			return err
		}
		n.logger.Error("serving without all read models", "error", err)
		if err := n.CatchUp(ctx, keys.Name, accounts.Name, brands.Name); err != nil {
			return err
		}
	}
	if n.Config.Starter {
		if err := n.importStarter(ctx, starter.FileMarker{Path: filepath.Join(n.Config.Data, "starter")}); err != nil {
			return err
		}
	}
	return n.awaitCheckpoint(ctx)
}

// beginShared is begin for a node in a cluster, where other nodes fold. It waits without a limit for the read models that
// answers depend on. `letterhead account create` makes accounts, a crawler loads the starter index, and look-ups work
// without the search index.
func (n *Node) beginShared(ctx context.Context) error {
	pause := firstStartPause
	for {
		waiting, cancel := n.bounded(ctx)
		err := n.FoldedTo(waiting, keys.Name, accounts.Name, brands.Name)
		cancel()
		if n.alive.Err() != nil {
			return context.Cause(n.alive)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		n.logger.Warn("the read models are not current yet", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastStartPause)
	}
	if err := n.awaitVectors(ctx); err != nil {
		return err
	}
	n.ready.Store(true)
	n.logger.Info("ready")
	return nil
}

// firstStartMarker returns the name of a file that exists until a first start has shown the keys of its account.
func (n *Node) firstStartMarker() string { return filepath.Join(n.Config.Data, "first-start") }

// firstStartUnfinished reports whether a first start was interrupted before it had shown the keys of its account.
func (n *Node) firstStartUnfinished() bool {
	_, err := os.Stat(n.firstStartMarker())
	return err == nil
}

// firstAccount makes the account of a first start. If an earlier first start was interrupted before it had shown that
// account's keys, the keys are lost, and the account gets new ones.
func (n *Node) firstAccount(ctx context.Context, existing []accounts.Account) (NewAccount, error) {
	if err := os.WriteFile(n.firstStartMarker(), nil, 0o600); err != nil {
		return NewAccount{}, err
	}
	if len(existing) == 0 {
		return n.CreateAccount(ctx, n.Operator(), "first account", plan.Free)
	}
	return n.keysFor(ctx, n.Operator(), existing[0].ID, "first account")
}
