package crawl_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/broker"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/crawl"
	"letterhead/workers/relay"
)

func TestShutdown_AcceptedCrawls_AreFinished(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	release := make(chan struct{})
	o.do = func(_ context.Context, target crawl.Target) (*crawl.Result, error) {
		<-release
		return named(target.Domain), nil
	}
	requested, m := o.request("acme.com", brand.PriorityLive, time.Minute)
	o.publish(broker.CrawlLive, m)
	o.begun()
	o.stop()
	close(release)
	if err := <-o.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if end := o.outcome("acme.com", requested.ID); end.Outcome != brand.Succeeded {
		t.Errorf("the accepted crawl ended with %s", end.Outcome)
	}
}

func TestShutdown_LongCrawl_HasTimeLimit(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{Drain: time.Millisecond})
	o.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, m := o.request("acme.com", brand.PriorityLive, time.Hour)
	o.publish(broker.CrawlLive, m)
	o.begun()
	o.stop()
	if err := testwait.Receive(t, o.ended, "the end of Run"); err != nil {
		t.Errorf("Run: %v", err)
	}
	state := testmust.Get(o.brands.State(t.Context(), "acme.com"))(t)
	if _, _, _, running := state.Running(); !running {
		t.Error("an interrupted crawl has an outcome, want none before its deadline")
	}
}

// Crawls that wait for a worker at a clean shutdown run after the next start, because the relay has not passed them.
// Rule 6.
func TestShutdown_WaitingCrawls_ContinueAfterRestart(t *testing.T) {
	p := newStores(t)
	first := p.start(t, crawl.WorkerConfig{LiveWorkers: 1, Drain: time.Millisecond})
	first.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	relaying := func(o *testWorker) (stop func()) {
		r := testmust.Get(relay.New(relay.Config{SaveEvery: time.Millisecond}, p.log, o.bus, p.positions))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		return sync.OnceFunc(func() {
			cancel()
			if err := testwait.Receive(t, ended, "the end of the relay"); err != nil {
				t.Error(err)
			}
		})
	}
	stop := relaying(first)
	defer stop()
	first.request("begun.com", brand.PriorityLive, time.Hour)
	first.begun()
	ids := map[string]string{}
	for i := range 5 {
		domain := fmt.Sprintf("waits%d.com", i)
		c, _ := first.request(domain, brand.PriorityLive, time.Hour)
		ids[domain] = c.ID
	}
	first.stop()
	stop()
	if err := testwait.Receive(t, first.ended, "the end of Run"); err != nil {
		t.Error(err)
	}

	next := p.start(t, crawl.WorkerConfig{})
	defer relaying(next)()
	for domain, id := range ids {
		if end := next.outcome(domain, id); end.Outcome != brand.Succeeded {
			t.Errorf("the crawl of %s ended with %s", domain, end.Outcome)
		}
	}
	if n := first.crawled("begun.com") + next.crawled("begun.com"); n != 1 {
		t.Errorf("the crawl that ran at the stop began %d times, want 1", n)
	}
}
