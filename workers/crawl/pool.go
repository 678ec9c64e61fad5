package crawl

import (
	"context"
	"sync"
	"time"

	"letterhead/eventschemas"
)

// job is one crawl request.
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
	free    chan job // to the workers that are free
	metrics *metrics

	mu    sync.Mutex
	under map[string]bool // ids of crawls that wait or are under way
}

func newPool(lane string, workers int, m *metrics) *pool {
	return &pool{lane: lane, workers: workers, free: make(chan job), metrics: m, under: map[string]bool{}}
}

// accept returns nil when a worker has taken the job. A job that is under way already is accepted as done.
func (p *pool) accept(ctx context.Context, j job) error {
	p.mu.Lock()
	if p.under[j.request.CrawlID] {
		p.mu.Unlock()
		return nil
	}
	p.under[j.request.CrawlID] = true
	p.mu.Unlock()
	waiting := p.metrics.queued.WithLabelValues(p.lane)
	waiting.Inc()
	defer waiting.Dec()
	select {
	case p.free <- j:
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

// start runs the pool's workers until it is closed and they are done.
func (p *pool) start(wg *sync.WaitGroup, do func(job)) {
	for range p.workers {
		wg.Go(func() {
			for j := range p.free {
				p.metrics.busy.WithLabelValues(p.lane).Inc()
				do(j)
				p.metrics.busy.WithLabelValues(p.lane).Dec()
				p.done(j)
			}
		})
	}
}

// close lets the workers end with what they do. Nothing may be accepted any more.
func (p *pool) close() { close(p.free) }
