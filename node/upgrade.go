package node

import (
	"context"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections/engine"
)

// UpgradeState says how far an upgrade is.
type UpgradeState struct {
	engine.Upgrade
	Search   eventlog.Position  `json:"search"` // how far the search index of this release is fed
	Finished bool               `json:"finished"`
	Level    bool               `json:"level"` // what this release reads after the end is built
	Ready    bool               `json:"ready"` // it can be finished now: level, and no node of the release before runs
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

// Older are the nodes of releases before this one, as they call themselves.
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
