package node

import (
	"context"

	"letterhead/console"
	"letterhead/internal/delay"
	"letterhead/internal/figures"
)

// noteFigures returns the part that notes the figures of this process, which the console of any node adds up.
func noteFigures(_ context.Context, n *Node) ([]part, error) {
	return []part{{"figures of the process", func(ctx context.Context) error {
		for {
			if err := n.processes.Note(ctx, n.Config.Node, console.Count(n.metrics)); err != nil {
				n.logger.Debug("the figures of this process are noted later", "error", err)
			}
			if delay.For(ctx, figures.Every) != nil {
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
	return console.Count(n.metrics), 1, nil
}
