package crawl

import (
	"container/heap"
	"context"
	"sync"
)

// Ranks of the work on images: the lowest goes first. Work that ends a crawl
// goes before work that others have just begun, so that a crawl near its
// deadline does not wait behind every icon of all others; and the best
// candidate of one crawl goes before the second best of another.
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
	asked   int // so far; work of equal rank goes in this order
	waiting waiters
}

func newGate(slots int) *gate { return &gate{free: slots} }

// waiter waits for a slot.
type waiter struct {
	rank, asked int
	at          int // its index in the heap; -1 after it has left
	in          chan struct{}
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
	g.asked++
	v := &waiter{rank: rank, asked: g.asked, in: make(chan struct{})}
	heap.Push(&g.waiting, v)
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
	if v.at < 0 {
		return true // it was admitted at the same moment
	}
	heap.Remove(&g.waiting, v.at)
	return false
}

// yield lets waiters of lower rank go first. It returns false if ctx ends
// before it is back in; the slot is released then.
func (g *gate) yield(ctx context.Context, rank int) bool {
	g.mu.Lock()
	if len(g.waiting) == 0 || g.waiting[0].rank >= rank {
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

// next admits the first waiting waiter. It requires the lock.
func (g *gate) next() { close(heap.Pop(&g.waiting).(*waiter).in) }

// waiters is a heap.
type waiters []*waiter

func (v waiters) Len() int { return len(v) }

func (v waiters) Less(i, j int) bool {
	if v[i].rank != v[j].rank {
		return v[i].rank < v[j].rank
	}
	return v[i].asked < v[j].asked
}

func (v waiters) Swap(i, j int) {
	v[i], v[j] = v[j], v[i]
	v[i].at, v[j].at = i, j
}

// Push implements heap.Interface.
func (v *waiters) Push(x any) {
	one := x.(*waiter)
	one.at = len(*v)
	*v = append(*v, one)
}

// Pop implements heap.Interface.
func (v *waiters) Pop() any {
	last := len(*v) - 1
	one := (*v)[last]
	(*v)[last] = nil
	*v = (*v)[:last]
	one.at = -1
	return one
}
