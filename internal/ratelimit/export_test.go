package ratelimit

import "context"

// GiveBlocks returns the units that this process has taken in advance. Without requests this happens automatically.
func (s *Shared) GiveBlocks(ctx context.Context) { s.giveBlocks(ctx) }

// Blocks returns the number of counters with a block in this process.
func (s *Shared) Blocks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.blocks)
}

// Idle returns the maximum number of units that one node may take in advance for a limit.
func Idle(limit int64) int64 {
	if limit < blockFrom {
		return 0
	}
	return limit / blockPart
}

// Keys returns the number of stored keys, in any window.
func (m *Memory) Keys() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.used)
		s.mu.Unlock()
	}
	return n
}
