package operations

import (
	"context"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections/engine"
	"letterhead/projections/search"
)

// UpgradeState is the progress of an upgrade.
type UpgradeState struct {
	engine.Upgrade
	Search   eventlog.Position `json:"search"` // position of the search index of this release
	Finished bool              `json:"finished"`
	Level    bool              `json:"level"` // everything that this release reads after the upgrade is built
	// the upgrade can be finished: it is level, and no node of the previous release runs
	Ready bool               `json:"ready"`
	Nodes []sqlstore.Session `json:"nodes"`
}

// Upgrades are the use cases of the upgrade to this release.
type Upgrades struct {
	Reads    *Reads
	Log      eventlog.Log
	Runner   *engine.Runner
	Database *sqlstore.Store
	// Next returns the search index of this release.
	Next func() *search.Projection
}

// State returns how far the upgrade to this release is.
func (o *Upgrades) State(ctx context.Context) (UpgradeState, error) {
	u, err := o.Runner.Upgrade(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	nodes, err := o.Database.Sessions(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	at, err := o.Next().Current(ctx)
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
func (o *Upgrades) searchLevel(ctx context.Context) error {
	head, err := o.Log.Head(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := o.Reads.Bounded(ctx)
	defer cancel()
	err = o.Next().WaitFor(waiting, head)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return errors.New("the search index of this release has not caught up with the log yet; try again later")
	}
	return err
}

// Finish ends the upgrade when the read models and the search index of this release are built.
func (o *Upgrades) Finish(ctx context.Context, progress func(engine.Progress)) error {
	if err := o.searchLevel(ctx); err != nil {
		return err
	}
	err := o.Runner.FinishUpgrade(ctx, progress)
	if errors.Is(err, engine.ErrNotFolded) {
		err = fmt.Errorf(
			"%w; does a node with role projector run this release? \"letterhead upgrade status\" lists the nodes", err)
	}
	return err
}
