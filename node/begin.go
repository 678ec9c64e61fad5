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
	full, err := n.fillOrFull(ctx)
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
	if full != nil && (len(first) == 0 || n.firstStartUnfinished()) {
		return fmt.Errorf("the first start cannot finish: %w; make room and start again", full)
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

// fillOrFull waits until everything that was stored is served, and loads the starter index. If the disk is full, it returns
// why: then the rest follows in the background when there is room.
func (n *Node) fillOrFull(ctx context.Context) (full, err error) {
	filling, stop := n.whileRoom(ctx)
	defer stop()
	err = n.fill(filling)
	full = context.Cause(filling)
	if err == nil || !errors.Is(full, errNoRoom) || ctx.Err() != nil || n.alive.Err() != nil {
		return nil, err
	}
	n.logger.Error("serving only what needs no room on the disk", "error", full)
	n.start([]part{{"rest of the start", func(ctx context.Context) error {
		for ctx.Err() == nil && n.awaitRoom(ctx) == nil {
			filling, stop := n.whileRoom(ctx)
			err := n.fill(filling)
			full := context.Cause(filling)
			stop()
			if err == nil {
				break
			}
			if !errors.Is(full, errNoRoom) && ctx.Err() == nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}}})
	return full, nil
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
