package crawl

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
)

const (
	// maxParallel limits the concurrent fetches of one crawl.
	maxParallel = 8
	// maxPerHost limits the concurrent fetches from one host, to be as polite
	// as a browser.
	maxPerHost = 4
)

// errand is one unit of fetching and reading.
type errand struct {
	host string // "" if no network is needed
	// run runs the errand. It calls fetched when it no longer uses the host;
	// the rest is local work.
	run func(fetched func())
}

// fanOut runs errands in order, a few at a time and at most maxPerHost for one
// host. When ctx ends, pending errands are dropped; it returns when the running
// ones are done. A panic loses only its own errand: a file that triggers a bug
// in a parser must not stop other crawls.
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

// errandQueue gives out errands whose host is below its limit.
type errandQueue struct {
	mu      sync.Mutex
	freed   *sync.Cond
	waiting []errand
	busy    map[string]int // running fetches by host
}

// next waits for an errand that may start; it returns false when none is left.
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

// drop drops the pending errands.
func (q *errandQueue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
	q.freed.Broadcast()
}
