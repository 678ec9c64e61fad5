package node

import (
	"context"
	"time"

	"letterhead/internal/delay"
)

const (
	// strandedAge is much longer than writing a file takes, so that no file is deleted while it is written.
	strandedAge = 24 * time.Hour
	// strandedEvery is the pause between two searches. Each kill leaves a few small files at most.
	strandedEvery = 24 * time.Hour
)

// removeStranded deletes unfinished asset files that killed processes left, at the start and once a day. It logs a
// failure and tries again the next day.
func (s *Stores) removeStranded(ctx context.Context) error {
	for {
		removed, err := s.Assets.RemoveStranded(ctx, s.clock.Now().Add(-strandedAge))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.logger.Warn("unfinished asset files could not be removed", "error", err)
		case removed > 0:
			s.logger.Info("removed unfinished asset files", "files", removed)
		}
		if delay.For(ctx, strandedEvery) != nil {
			return nil
		}
	}
}
