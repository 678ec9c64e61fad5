package ratelimit

import (
	"context"
	"time"
)

// A node takes units of a busy counter ahead, in a block, and hands them out without a statement. The units are counted
// when they are taken, so blocks let nothing more through than the limit. What another node may be refused too early
// for is what lies idle in blocks, so blocks are small, short, and given back: at most blockPart of what is left, for at
// most blockLasts, to a node that used as much in that time, and none when fewer than blockFrom are left.
const (
	// blockPart is the part of the units left that a block may have.
	blockPart = 32
	// blockFrom is how many units must be left for a block: below, and with small limits, each is taken singly.
	blockFrom = 128
	// blockLasts is how long after its statement a block is handed out. What is left is given back when no caller came
	// for as long.
	blockLasts = 3 * time.Second
	// blockWorth is how many callers of a counter a node must have had in blockLasts to take a block.
	blockWorth = 4
	// blockMargin is the time before the end of the window in which a node hands nothing out of its block: more than
	// what clocks differ in rate over blockLasts.
	blockMargin = 100 * time.Millisecond
	// maxBlocks bounds the counters of which a process has blocks.
	maxBlocks = 10_000
)

// block is what this process has of one counter, and how much it needed lately.
type block struct {
	minute  int64
	left    int64       // units that were taken and not handed out
	counted int64       // units used in the minute, those left included
	until   time.Time   // from then on nothing is handed out
	since   time.Time   // begin of what callers counts
	callers int64       // that were let through
	last    time.Time   // when the last of them came
	end     *time.Timer // gives back what is left
}

// lasts compares both clocks of the machine: the monotonic one does not advance while some machines are suspended.
func (b *block) lasts(now time.Time) bool {
	return now.Before(b.until) && now.Round(0).Before(b.until.Round(0))
}

// fromBlock answers a caller out of the block. The caller holds Shared.mu.
func (s *Shared) fromBlock(q question) (Decision, bool) {
	b := s.blocks[q]
	if b == nil || b.left < q.units || !b.lasts(s.now()) {
		return Decision{}, false
	}
	b.left -= q.units
	b.callers++
	b.last = time.Now()
	return Decision{Allowed: true, Limit: q.limit, Remaining: max(0, q.limit-(b.counted-b.left)), Reset: windowEnd(b.minute)}, true
}

// ahead returns how many units more than those of its callers a statement should take.
func (s *Shared) ahead(q question, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blocks[q]
	if b == nil || s.closed {
		return 0
	}
	if age := now.Sub(b.since); age > blockLasts { // as many as there were in blockLasts
		b.callers = int64(float64(b.callers) * float64(blockLasts) / float64(age))
		b.since = now.Add(-blockLasts)
	}
	if b.callers < blockWorth {
		return 0
	}
	wanted := min(b.callers, q.limit/blockPart/q.units) * q.units
	return max(0, wanted-b.left)
}

// refill keeps what a statement that was sent at asked has taken beyond the units of its callers, and returns what it
// cannot keep. The caller holds Shared.mu.
func (s *Shared) refill(q question, asked time.Time, t taken, left, callers int64) (unused int64) {
	b := s.blocks[q]
	if s.closed || q.limit < blockFrom || b == nil && len(s.blocks) >= maxBlocks {
		return left
	}
	if b == nil {
		b = &block{since: asked}
		s.blocks[q] = b
		b.end = time.AfterFunc(blockLasts, func() { s.giveBlock(q, b) })
	}
	if b.minute != t.minute {
		b.left = 0 // that window is over
	}
	b.minute, b.counted, b.left = t.minute, t.used, b.left+left
	b.until = asked.Add(min(blockLasts, t.rest-blockMargin))
	b.callers += callers
	b.last = time.Now()
	return 0
}

// giveBlock ends a block for which no caller came in blockLasts, and gives back what is left of it.
func (s *Shared) giveBlock(q question, b *block) {
	s.mu.Lock()
	idle := time.Since(b.last)
	if s.blocks[q] != b || s.closed {
		s.mu.Unlock()
		return
	}
	if idle < blockLasts {
		b.end.Reset(blockLasts - idle)
		s.mu.Unlock()
		return
	}
	delete(s.blocks, q)
	left := b.left
	b.left = 0
	s.ended.Add(1)
	s.mu.Unlock()
	defer s.ended.Done()
	if left > 0 {
		s.giveUnused(q.key, left, b.minute)
	}
}

// giveBlocks ends all blocks.
func (s *Shared) giveBlocks(ctx context.Context) {
	s.mu.Lock()
	blocks := s.blocks
	s.blocks = make(map[question]*block)
	s.mu.Unlock()
	for q, b := range blocks {
		b.end.Stop()
		if b.left > 0 && s.give(ctx, q.key, b.left, b.minute) != nil && ctx.Err() != nil {
			return // they stay counted until the window ends
		}
	}
}
