package crawl

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
)

const (
	maxParallel = 8 // limits the concurrent fetches of one crawl
	maxPerHost  = 4 // limits the concurrent fetches from one host, to be as polite as a browser
)

// task is one unit of fetching and reading.
type task struct {
	host string // "" if no network is needed
	// run runs the task. It calls fetched when it no longer uses the host; the rest is local work.
	run func(fetched func())
}

// fanOut runs tasks in order, a few at a time and at most maxPerHost for one host. When ctx ends, pending tasks are
// dropped; it returns when the running ones are done. A panic loses only its own task: a file that triggers a bug in a
// parser must not stop other crawls.
func fanOut(ctx context.Context, logger *slog.Logger, tasks []task) {
	q := &taskQueue{waiting: tasks, busy: map[string]int{}}
	q.freed = sync.NewCond(&q.mu)
	defer context.AfterFunc(ctx, q.drop)()
	var wg sync.WaitGroup
	for range min(maxParallel, len(tasks)) {
		wg.Go(func() {
			for e, ok := q.next(); ok; e, ok = q.next() {
				q.do(logger, e)
			}
		})
	}
	wg.Wait()
}

// do runs one task.
func (q *taskQueue) do(logger *slog.Logger, e task) {
	fetched := sync.OnceFunc(func() { q.free(e.host) })
	defer fetched()
	defer func() {
		if p := recover(); p != nil {
			logger.Error("reading a file panicked", "host", e.host, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	e.run(fetched)
}

// taskQueue gives out tasks whose host is below its limit.
type taskQueue struct {
	mu      sync.Mutex
	freed   *sync.Cond
	waiting []task
	busy    map[string]int // running fetches by host
}

// next waits for a task that may start; it returns false when none is left.
func (q *taskQueue) next() (task, bool) {
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
	return task{}, false
}

func (q *taskQueue) free(host string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy[host]--
	q.freed.Broadcast()
}

// drop drops the pending tasks.
func (q *taskQueue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
	q.freed.Broadcast()
}
