package ratelimit

import "context"

// GiveBlocks returns the units that this process has taken in advance, as happens automatically without
// requests.
func (s *Shared) GiveBlocks(ctx context.Context) { s.giveBlocks(ctx) }

// Blocks returns the number of counters with a block in this process.
func (s *Shared) Blocks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks)
}

// Idle bounds the units that one node may have taken in advance below a limit.
func Idle(limit int64) int64 {
	if limit < blockFrom {
		return 0
	}
	return limit / blockPart
}
