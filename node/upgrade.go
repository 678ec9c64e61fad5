package node

import (
	"context"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections/engine"
)

// UpgradeState is the progress of an upgrade.
type UpgradeState struct {
	engine.Upgrade
	Search   eventlog.Position  `json:"search"` // position of the search index of this release
	Finished bool               `json:"finished"`
	Level    bool               `json:"level"` // everything that this release reads after the upgrade is built
	Ready    bool               `json:"ready"` // the upgrade can be finished: it is level, and no node of the previous release runs
	Nodes    []sqlstore.Session `json:"nodes"`
}

// UpgradeState returns how far the upgrade to this release is.
func (n *Node) UpgradeState(ctx context.Context) (UpgradeState, error) {
	u, err := n.Runner.Upgrade(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	nodes, err := n.Store.Sessions(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	at, err := n.search.next().Current(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	state := UpgradeState{Upgrade: u, Search: at, Finished: u.Finished(), Level: u.Level(), Nodes: nodes}
	state.Ready = !state.Finished && state.Level && len(state.Older()) == 0
	return state, nil
}

// Older returns the names of the nodes of earlier releases.
func (u UpgradeState) Older() []string {
	var names []string
	for _, n := range u.Nodes {
		switch {
		case n.Format >= u.Release:
		case n.Node == "":
			names = append(names, "a node that does not give its name")
		default:
			names = append(names, n.Node)
		}
	}
	return names
}

// searchLevel waits until the search index of this release holds what the log holds now.
func (n *Node) searchLevel(ctx context.Context) error {
	head, err := n.Log.Head(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := n.bounded(ctx)
	defer cancel()
	err = n.search.next().WaitFor(waiting, head)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return fmt.Errorf("the search index of this release is not fed up to position %d yet (%d); try again later", head, n.search.next().Position())
	}
	return err
}

// FinishUpgrade ends the upgrade when the read models and the search index of this release are built.
func (n *Node) FinishUpgrade(ctx context.Context, progress func(engine.Progress)) error {
	if err := n.searchLevel(ctx); err != nil {
		return err
	}
	err := n.Runner.FinishUpgrade(ctx, progress)
	if errors.Is(err, engine.ErrNotFolded) {
		err = fmt.Errorf("%w; does a node with role projector run this release? \"letterhead upgrade status\" lists the nodes", err)
	}
	return err
}
