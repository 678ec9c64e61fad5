package crawl

import (
	"context"
	"sync"
	"time"

	"letterhead/eventschemas"
)

// job is one accepted crawl request.
type job struct {
	request     eventschemas.CrawlRequested
	received    time.Time // the time allowed counts from here: clocks of nodes differ
	causation   string    // id of the event
	correlation string
}

// pool runs the crawls of one lane, a bounded number at a time.
type pool struct {
	lane    string
	workers int
	queue   chan job
	metrics *metrics

	mu    sync.Mutex
	under map[string]bool // ids of crawls accepted and not done
}

func newPool(lane string, workers int, m *metrics) *pool {
	return &pool{lane: lane, workers: workers, queue: make(chan job, workers*queueFactor), metrics: m, under: map[string]bool{}}
}

// accept takes a job, waiting for a place. A job that is under way already is accepted as done.
func (p *pool) accept(ctx context.Context, j job) error {
	p.mu.Lock()
	if p.under[j.request.CrawlID] {
		p.mu.Unlock()
		return nil
	}
	p.under[j.request.CrawlID] = true
	p.mu.Unlock()
	select {
	case p.queue <- j:
		p.metrics.queued.WithLabelValues(p.lane).Inc()
		return nil
	case <-ctx.Done():
		p.done(j)
		return ctx.Err()
	}
}

func (p *pool) done(j job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.under, j.request.CrawlID)
}

// start runs the pool's workers until it is closed and empty.
func (p *pool) start(wg *sync.WaitGroup, do func(job)) {
	for range p.workers {
		wg.Go(func() {
			for j := range p.queue {
				p.metrics.queued.WithLabelValues(p.lane).Dec()
				p.metrics.busy.WithLabelValues(p.lane).Inc()
				do(j)
				p.metrics.busy.WithLabelValues(p.lane).Dec()
				p.done(j)
			}
		})
	}
}

// close lets the workers end once the queue is empty. Nothing may be accepted any more.
func (p *pool) close() { close(p.queue) }
