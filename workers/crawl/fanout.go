package crawl

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
)

const (
	// maxParallel bounds the fetches of one crawl at a time.
	maxParallel = 8
	// maxPerHost bounds those of them that go to one host: a crawl is one visitor, as polite as a browser.
	maxPerHost = 4
)

// errand is one thing to fetch and read.
type errand struct {
	host string // "" needs no network
	// run does it. It calls fetched as soon as the host is done with; what follows is work in here.
	run func(fetched func())
}

// fanOut runs errands, the first ones first, a few at a time and never more than maxPerHost with one host.
// When ctx ends, those that have not begun are left out; it returns when those under way are done. One that
// panics is lost alone: a file that finds a fault in a parser must not stop everybody else's crawls.
func fanOut(ctx context.Context, logger *slog.Logger, errands []errand) {
	q := &errandQueue{waiting: errands, busy: map[string]int{}}
	q.freed = sync.NewCond(&q.mu)
	defer context.AfterFunc(ctx, q.drop)()
	var wg sync.WaitGroup
	for range min(maxParallel, len(errands)) {
		wg.Go(func() {
			for e, ok := q.next(); ok; e, ok = q.next() {
				q.do(logger, e)
			}
		})
	}
	wg.Wait()
}

// do runs one errand.
func (q *errandQueue) do(logger *slog.Logger, e errand) {
	fetched := sync.OnceFunc(func() { q.free(e.host) })
	defer fetched()
	defer func() {
		if p := recover(); p != nil {
			logger.Error("reading a file panicked", "host", e.host, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	e.run(fetched)
}

// errandQueue hands out errands whose host has a place.
type errandQueue struct {
	mu      sync.Mutex
	freed   *sync.Cond
	waiting []errand
	busy    map[string]int // fetches under way by host
}

// next waits for an errand that may begin; false when none is left.
func (q *errandQueue) next() (errand, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		for i, e := range q.waiting {
			if e.host != "" && q.busy[e.host] >= maxPerHost {
				continue
			}
			q.busy[e.host]++
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return e, true
		}
		q.freed.Wait()
	}
	return errand{}, false
}

func (q *errandQueue) free(host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy[host]--
	q.freed.Broadcast()
}

// drop leaves out what has not begun.
func (q *errandQueue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
	q.freed.Broadcast()
}
