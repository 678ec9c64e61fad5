package node

import (
	"context"
	"time"

	"letterhead/console"
	"letterhead/internal/figures"
)

// openProcesses opens the table of the figures of all processes, if others can share it.
func (n *Node) openProcesses(ctx context.Context) (err error) {
	if n.Config.Shared() {
		n.processes, err = figures.New(ctx, n.Stores.Database, n.Stores.clock.Now)
	}
	return err
}

// noteFigures returns the part that notes the figures of this process, which the console of any node adds up.
func noteFigures(_ context.Context, n *Node) ([]part, error) {
	return []part{{"figures of the process", func(ctx context.Context) error {
		tick := time.NewTicker(figures.Every)
		defer tick.Stop()
		for {
			own, err := console.Count(n.metrics)
			if err == nil {
				err = n.processes.Note(ctx, n.run.id, own)
			}
			if err != nil && ctx.Err() == nil {
				n.logger.Debug("the figures of this process are noted later", "error", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}}}, nil
}

// figures returns the figures of all processes, and the number of these.
func (n *Node) figures(ctx context.Context) (figures.Figures, int, error) {
	if n.processes != nil {
		return n.processes.Sum(ctx)
	}
	own, err := console.Count(n.metrics)
	return own, 1, err
}
