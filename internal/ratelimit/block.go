package ratelimit

import (
	"context"
	"time"
)

// A node can take units of a busy counter in advance, as a block, and use them without further statements.
// The units count from the moment they are taken, so blocks never exceed the limit. Idle units in a block can
// make another node reject requests too early. Therefore a block has at most 1/blockPart of the remaining
// units, lasts at most blockLasts, and is taken only by a node that used as many units in that time and only
// if at least blockFrom units remain; unused units are returned.
const (
	// blockPart limits a block to 1/blockPart of the remaining units.
	blockPart = 32
	// blockFrom is the minimum number of remaining units for a block: below it, and with small limits, each
	// unit is taken singly.
	blockFrom = 128
	// blockLasts is how long a block lasts after its statement. After that long without a caller the rest is returned.
	blockLasts = 3 * time.Second
	// blockWorth is the minimum number of callers of a counter within blockLasts for a node to take a block.
	blockWorth = 4
	// blockMargin is how long before the end of the window a node stops using its block. Clocks drift apart
	// less than this within blockLasts.
	blockMargin = 100 * time.Millisecond
	// maxBlocks bounds the counters with a block in this process.
	maxBlocks = 10_000
)

// block is the block of one counter in this process, and its recent demand.
type block struct {
	minute  int64
	left    int64       // units taken but not handed out
	counted int64       // units used in the minute, including left
	until   time.Time   // from then on nothing is handed out
	since   time.Time   // start of the count of callers
	callers int64       // allowed callers
	last    time.Time   // time of the last caller
	end     *time.Timer // returns the rest
}

// lasts compares both clocks of the machine, because the monotonic clock does not advance while some
// machines are suspended.
func (b *block) lasts(now time.Time) bool {
	return now.Before(b.until) && now.Round(0).Before(b.until.Round(0))
}

// fromBlock answers a caller from the block. The caller must hold Shared.mu.
func (s *Shared) fromBlock(q question) (Decision, bool) {
	b := s.blocks[q]
	if b == nil || b.left < q.units || !b.lasts(s.now()) {
		return Decision{}, false
	}
	b.left -= q.units
	b.callers++
	b.last = time.Now()
	return Decision{Allowed: true, Limit: q.limit, Remaining: max(0, q.limit-(b.counted-b.left)),
		Reset: windowEnd(b.minute)}, true
}

// ahead returns how many extra units a statement should take.
func (s *Shared) ahead(q question, now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.blocks[q]
	if b == nil || s.closed {
		return 0
	}
	if age := now.Sub(b.since); age > blockLasts { // as many as in blockLasts
		b.callers = int64(float64(b.callers) * float64(blockLasts) / float64(age))
		b.since = now.Add(-blockLasts)
	}
	if b.callers < blockWorth {
		return 0
	}
	wanted := min(b.callers, q.limit/blockPart/q.units) * q.units
	return max(0, wanted-b.left)
}

// refill keeps the units that a statement sent at asked has taken beyond its callers' units, and returns
// those that it cannot keep. The caller must hold Shared.mu.
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
		b.left = 0 // that window has ended
	}
	b.minute, b.counted, b.left = t.minute, t.used, b.left+left
	b.until = asked.Add(min(blockLasts, t.rest-blockMargin))
	b.callers += callers
	b.last = time.Now()
	return 0
}

// giveBlock ends a block without callers for blockLasts, and returns the rest of it.
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

func (s *Shared) giveBlocks(ctx context.Context) {
	s.mu.Lock()
	blocks := s.blocks
	s.blocks = make(map[question]*block)
	s.mu.Unlock()
	for q, b := range blocks {
		b.end.Stop()
		if b.left > 0 && s.give(ctx, q.key, b.left, b.minute) != nil && ctx.Err() != nil {
			return // they count until the window ends
		}
	}
}
