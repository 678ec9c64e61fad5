package crawl

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Ranks of the work on images: the lowest goes first. Work that ends a crawl goes before work that others have just
// begun, so that a crawl near its deadline does not wait behind every icon of all others; and the best candidate of one
// crawl goes before the second best of another.
const (
	rankPrimary = -2  // storing the logo without which a record is partial
	rankStore   = -1  // storing the other logos
	rankRead    = 0   // reading the best candidate; the next one has 1
	rankBanner  = 100 // converting the share image
	rankImage   = 101 // converting an image of the page
)

// gate limits the images that all crawls decode and encode at the same time.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // in the order of their arrival
}

func newGate(slots int) *gate { return &gate{free: slots} }

// waiter waits for a slot.
type waiter struct {
	rank int
	in   chan struct{}
}

// enter waits for a slot; it returns false if ctx ends first. A free slot is
// given even if ctx has ended. A caller that entered must call leave.
func (g *gate) enter(ctx context.Context, rank int) bool {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return true
	}
	v := g.queue(rank)
	g.mu.Unlock()
	return g.await(ctx, v)
}

// queue requires the lock.
func (g *gate) queue(rank int) *waiter {
	v := &waiter{rank: rank, in: make(chan struct{})}
	g.waiting = append(g.waiting, v)
	return v
}

func (g *gate) await(ctx context.Context, v *waiter) bool {
	select {
	case <-v.in:
		return true
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, v)
	if i < 0 {
		return true // it was admitted at the same moment
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return false
}

// yield lets waiters of lower rank go first. It returns false if ctx ends
// before it is back in; the slot is released then.
func (g *gate) yield(ctx context.Context, rank int) bool {
	g.mu.Lock()
	if !slices.ContainsFunc(g.waiting, func(v *waiter) bool { return v.rank < rank }) {
		g.mu.Unlock()
		return true
	}
	v := g.queue(rank) // before the slot is released, so that later ones do not overtake
	g.next()
	g.mu.Unlock()
	return g.await(ctx, v)
}

// leave gives the slot to the waiting waiter with the lowest rank.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	g.next()
}

// next admits the waiter with the lowest rank, the first of equals. It requires the lock and a waiter.
func (g *gate) next() {
	first := slices.MinFunc(g.waiting, func(a, b *waiter) int { return cmp.Compare(a.rank, b.rank) })
	g.waiting = slices.DeleteFunc(g.waiting, func(v *waiter) bool { return v == first })
	close(first.in)
}
