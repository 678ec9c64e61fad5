package node

import (
	"context"
	"time"

	"letterhead/internal/delay"
)

const (
	// strandedAge is far past what writing one file takes: nothing is deleted that somebody is still writing.
	strandedAge = 24 * time.Hour
	// strandedEvery is the pause between two looks through the folder. Each kill leaves a few small files at most.
	strandedEvery = 24 * time.Hour
)

// removeStranded deletes what killed processes left of assets that they were writing: at the start, which may come
// after such a kill, and once a day. What fails is told and tried again the next day.
func (n *Node) removeStranded(ctx context.Context) error {
	for {
		removed, err := n.Assets.RemoveStranded(ctx, n.clock.Now().Add(-strandedAge))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			n.logger.Warn("files of assets that were never finished stay", "error", err)
		case removed > 0:
			n.logger.Info("removed files of assets that were never finished", "files", removed)
		}
		if delay.For(ctx, strandedEvery) != nil {
			return nil
		}
	}
}
