package crawl

import (
	"container/heap"
	"context"
	"sync"
)

// Ranks of the work on images: what has the lowest goes first. What ends a crawl goes before what others
// have just begun, or a crawl whose time is nearly over waits behind every icon of all others; and the best
// candidate of one crawl before the second best of another.
const (
	rankPrimary = -2  // storing the logo without which a record is partial
	rankStore   = -1  // storing the other logos
	rankRead    = 0   // reading the best candidate; the next one has 1
	rankBanner  = 100 // converting the share image
	rankPicture = 101 // converting an image of the page
)

// gate bounds the images that are decoded and encoded at a time, of all crawls together.
type gate struct {
	mu      sync.Mutex
	free    int
	asked   int // so far; what has the same rank goes in this order
	waiting visitors
}

func newGate(places int) *gate { return &gate{free: places} }

// visitor waits for a place.
type visitor struct {
	rank, asked int
	at          int // its place in the heap; -1 when it has left it
	in          chan struct{}
}

// enter waits for a place; false when ctx ends before there is one. A place that is free is given even
// when ctx has ended. Whoever entered leaves.
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

// queue wants the lock.
func (g *gate) queue(rank int) *visitor {
	g.asked++
	v := &visitor{rank: rank, asked: g.asked, in: make(chan struct{})}
	heap.Push(&g.waiting, v)
	return v
}

func (g *gate) await(ctx context.Context, v *visitor) bool {
	select {
	case <-v.in:
		return true
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if v.at < 0 {
		return true // it was let in at the same moment
	}
	heap.Remove(&g.waiting, v.at)
	return false
}

// yield lets those go first who wait with a lower rank. False when ctx ends before it is back in: the place
// is left then.
func (g *gate) yield(ctx context.Context, rank int) bool {
	g.mu.Lock()
	if len(g.waiting) == 0 || g.waiting[0].rank >= rank {
		g.mu.Unlock()
		return true
	}
	v := g.queue(rank) // before the place is given up: those behind must not come between
	g.next()
	g.mu.Unlock()
	return g.await(ctx, v)
}

// leave gives the place to who waits with the lowest rank.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	g.next()
}

// next lets the first of those who wait in. It wants the lock.
func (g *gate) next() { close(heap.Pop(&g.waiting).(*visitor).in) }

// visitors is a heap.
type visitors []*visitor

func (v visitors) Len() int { return len(v) }

func (v visitors) Less(i, j int) bool {
	if v[i].rank != v[j].rank {
		return v[i].rank < v[j].rank
	}
	return v[i].asked < v[j].asked
}

func (v visitors) Swap(i, j int) {
	v[i], v[j] = v[j], v[i]
	v[i].at, v[j].at = i, j
}

// Push implements heap.Interface.
func (v *visitors) Push(x any) {
	one := x.(*visitor)
	one.at = len(*v)
	*v = append(*v, one)
}

// Pop implements heap.Interface.
func (v *visitors) Pop() any {
	last := len(*v) - 1
	one := (*v)[last]
	(*v)[last] = nil
	*v = (*v)[:last]
	one.at = -1
	return one
}
