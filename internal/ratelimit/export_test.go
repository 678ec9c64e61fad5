package ratelimit

import "context"

// GiveBlocks gives back what this process has taken ahead, as it does automatically when no request takes it.
func (s *Shared) GiveBlocks(ctx context.Context) { s.giveBlocks(ctx) }

// Blocks is the number of counters of which this process has a block.
func (s *Shared) Blocks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks)
}

// Idle bounds the units that one node may have taken ahead below a limit.
func Idle(limit int64) int64 {
	if limit < blockFrom {
		return 0
	}
	return limit / blockPart
}
