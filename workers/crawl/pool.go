package crawl

import (
	"context"
	"maps"
	"sync"
	"time"

	"letterhead/eventschemas"
)

// job is one crawl request.
type job struct {
	request     eventschemas.CrawlRequested
	received    time.Time // the allowed time counts from here, because clocks of nodes differ
	causation   string    // id of the event
	correlation string
	attempt     string // its id in Attempts
	late        bool   // the crawl began in the second half of its time

	decided chan struct{} // closed when err is set
	err     error         // nil: the crawl was begun, or is not needed
}

// decision waits until the crawl is begun, skipped or returned.
func (j *job) decision(ctx context.Context) error {
	select {
	case <-j.decided:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pool runs the crawls of one priority, with limited concurrency.
type pool struct {
	priority string
	workers  int
	free     chan *job // to idle workers
	metrics  *metrics

	mu    sync.Mutex
	under map[string]*job // waiting and running crawls, by id
	// crawls returned to the broker, by id: the next delivery continues with their time and attempt
	returned map[string]*job
}

func newPool(priority string, workers int, m *metrics) *pool {
	return &pool{priority: priority, workers: workers, free: make(chan *job), metrics: m, under: map[string]*job{},
		returned: map[string]*job{}}
}

// accept returns nil when the crawl is recorded as begun, or is found to be
// unnecessary. A crawl that is already waiting or running shares its decision.
func (p *pool) accept(ctx context.Context, j *job) error {
	id := j.request.CrawlID
	p.mu.Lock()
	if same := p.under[id]; same != nil {
		p.mu.Unlock()
		return same.decision(ctx)
	}
	if before := p.returned[id]; before != nil {
		j.received, j.attempt = before.received, before.attempt
	}
	p.under[id] = j
	p.mu.Unlock()
	if !p.handOver(ctx, j) {
		p.decide(j, ctx.Err())
		p.done(j)
	}
	return j.decision(ctx)
}

// handOver waits until a worker takes the job.
func (p *pool) handOver(ctx context.Context, j *job) bool {
	waiting := p.metrics.queued.WithLabelValues(p.priority)
	waiting.Inc()
	defer waiting.Dec()
	select {
	case p.free <- j:
		return true
	case <-ctx.Done():
		return false
	}
}

// decide records whether the crawl was begun or skipped, or why it is returned
// to the broker, and wakes the waiting callers.
func (p *pool) decide(j *job, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.returned, j.request.CrawlID)
	if err != nil {
		// Another crawler may take a returned crawl, so it is forgotten after attemptKept.
		maps.DeleteFunc(p.returned, func(_ string, old *job) bool { return j.received.Sub(old.received) > attemptKept })
		p.returned[j.request.CrawlID] = j
	}
	j.err = err
	close(j.decided)
}

func (p *pool) done(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.under, j.request.CrawlID)
}

// start runs the pool's workers until it is closed and they are done.
func (p *pool) start(wg *sync.WaitGroup, do func(*job)) {
	for range p.workers {
		wg.Go(func() {
			for j := range p.free {
				p.metrics.busy.WithLabelValues(p.priority).Inc()
				do(j)
				p.metrics.busy.WithLabelValues(p.priority).Dec()
				p.done(j)
			}
		})
	}
}

// close lets the workers finish their current jobs. accept must not be called afterwards.
func (p *pool) close() { close(p.free) }
