package crawl_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/brand"
	"letterhead/internal/broker"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/crawl"
)

// A crawl that was begun is not begun again on redelivery, in the same process or in another one, because it may have
// crashed the first one. A crawl that was only requested before a process started is begun.
// Rule 5.
func TestRedelivery_BegunCrawl_IsLeftToItsDeadline(t *testing.T) {
	p := newStores(t)
	registry := prometheus.NewRegistry()
	killed := p.start(t, crawl.WorkerConfig{LiveWorkers: 1})
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	killed.do = func(context.Context, crawl.Target) (*crawl.Result, error) {
		<-never
		return nil, context.Canceled
	}
	_, deadly := killed.request("deadly.com", brand.PriorityLive, time.Hour)
	killed.publish(broker.CrawlLive, deadly)
	killed.begun()
	waited, waiting := killed.request("waiting.com", brand.PriorityLive, time.Hour)

	next := p.start(t, crawl.WorkerConfig{Registerer: registry})
	next.publish(broker.CrawlLive, deadly, waiting)
	if end := next.outcome("waiting.com", waited.ID); end.Outcome != brand.Succeeded {
		t.Errorf("a crawl that was requested before the start and had not begun ended with %s", end.Outcome)
	}
	next.stop()
	if err := testwait.Receive(t, next.ended, "the end of Run"); err != nil {
		t.Error(err)
	}
	if n := next.crawled("deadly.com"); n != 0 {
		t.Errorf("the crawl began another %d times", n)
	}
	state := testmust.Get(next.brands.State(t.Context(), "deadly.com"))(t)
	if _, _, _, running := state.Running(); !running {
		t.Error("the crawl has an outcome, want none before its deadline")
	}
	families := testmust.Get(registry.Gather())(t)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "letterhead_crawls_skipped_total" && (m.GetCounter().GetValue() != 1 || m.GetLabel()[1].GetValue() != "begun") {
				t.Errorf("skipped: %v", m)
			}
		}
	}
}

// An attempt is recorded once, even if the response is lost, and forgotten when no message can arrive any more.
func TestAttempts_Crawl_CountOnce(t *testing.T) {
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}))(t)
	t.Cleanup(func() { store.Close() })
	now := time.Now()
	a := testmust.Get(crawl.NewAttempts(t.Context(), store, func() time.Time { return now }))(t)
	begin := func(crawlID, attempt string, want bool) {
		t.Helper()
		if got, err := a.Begin(t.Context(), crawlID, attempt); err != nil || got != want {
			t.Errorf("attempt %s of %s: %t, %v", attempt, crawlID, got, err)
		}
	}
	begin("c1", "first", true)
	begin("c1", "first", true) // whose response was lost
	begin("c1", "second", false)
	begin("c2", "first", true)
	now = now.Add(time.Hour)
	begin("c1", "second", false)
	now = now.Add(2 * time.Hour)
	begin("c3", "first", true)
	var rows int
	if err := store.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM crawl_attempts").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d attempts are remembered (%v), want the last one", rows, err)
	}
}

// unavailable is the database or the event store of a worker while it is unavailable.
type unavailable struct {
	crawl.Noted
	crawl.Brands
	noted bool // before the response is lost
	gone  atomic.Bool
	tried chan struct{}
}

func (a *unavailable) Begin(ctx context.Context, crawlID, attempt string) (bool, error) {
	if !a.gone.Load() {
		return a.Noted.Begin(ctx, crawlID, attempt)
	}
	if a.noted {
		if _, err := a.Noted.Begin(ctx, crawlID, attempt); err != nil {
			return false, err
		}
	}
	a.tried <- struct{}{}
	return false, sqlstore.ErrUnavailable
}

func (a *unavailable) State(ctx context.Context, domain string) (*brand.Brand, error) {
	if a.gone.Load() {
		a.tried <- struct{}{}
		return nil, eventlog.ErrUnavailable
	}
	return a.Brands.State(ctx, domain)
}

// A crawl that is delivered while a store is unavailable returns to the broker
// until the store is back or its time is over.
func TestDelivery_StoreUnavailable_IsRetried(t *testing.T) {
	for name, c := range map[string]struct {
		attempts, noted bool
		allowed         time.Duration
		done            bool
	}{
		"attempts":                         {true, false, time.Hour, true},
		"attempts, and a response is lost": {true, true, time.Hour, true},
		"brands":                           {false, false, time.Hour, true},
		"brands, for longer than its time": {false, false, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newStores(t)
			a := &unavailable{Noted: p.attempts, noted: c.noted, tried: make(chan struct{}, 1000)}
			a.gone.Store(true)
			if c.attempts {
				p.attempts = a
			} else {
				p.reading = func(b crawl.Brands) crawl.Brands {
					a.Brands = b
					return a
				}
			}
			o := p.start(t, crawl.WorkerConfig{})
			requested, m := o.request("acme.com", brand.PriorityLive, c.allowed)
			published := make(chan error, 1)
			go func() { published <- o.bus.Publish(t.Context(), broker.CrawlLive, m) }()
			if !c.done {
				if err := testwait.Receive(t, published, "the acknowledgement"); err != nil || o.crawled("acme.com") != 0 {
					t.Errorf("Publish = %v after %d crawls, want nil after none", err, o.crawled("acme.com"))
				}
				return
			}
			for range 7 { // again, for more than one delivery
				testwait.Receive(t, a.tried, "a try")
			}
			select {
			case err := <-published:
				t.Fatalf("the crawl was acknowledged (%v) before it began", err)
			default:
			}
			a.gone.Store(false)
			if err := testwait.Receive(t, published, "the acknowledgement"); err != nil {
				t.Error(err)
			}
			if end := o.outcome("acme.com", requested.ID); end.Outcome != brand.Succeeded || o.crawled("acme.com") != 1 {
				t.Errorf("ended with %s, crawled %d times", end.Outcome, o.crawled("acme.com"))
			}
		})
	}
}

// manualBroker is a broker whose messages the test delivers.
type manualBroker struct {
	broker.Port
	live chan broker.Handler
}

func (h manualBroker) Subscribe(ctx context.Context, topic, _ string, handle broker.Handler) error {
	if topic == broker.CrawlLive {
		h.live <- handle
	}
	<-ctx.Done()
	return nil
}

// A redelivery does not acknowledge a waiting crawl, because the first delivery may fail.
func TestRedelivery_WaitingCrawl_IsNotAcknowledged(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	never := make(chan struct{})
	o.do = func(context.Context, crawl.Target) (*crawl.Result, error) {
		<-never
		return nil, context.Canceled
	}
	h := manualBroker{live: make(chan broker.Handler, 1)}
	w := testmust.Get(crawl.NewWorker(crawl.WorkerConfig{LiveWorkers: 1}, h, o.brands, o.attempts, o))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	handle := testwait.Receive(t, h.live, "the subscription")
	_, first := o.request("first.com", brand.PriorityLive, time.Hour)
	testmust.Succeed(t, handle(t.Context(), first))
	_, waiting := o.request("waits.com", brand.PriorityLive, time.Hour)
	lost, lose := context.WithCancel(t.Context())
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- handle(lost, waiting) }()
	}
	select {
	case err := <-results:
		t.Errorf("the message of a waiting crawl was handled with %v, want it to wait", err)
	case <-time.After(50 * time.Millisecond):
	}
	lose() // as a rebalance does
	for range 2 {
		if err := testwait.Receive(t, results, "a result"); err == nil {
			t.Error("a crawl that waited was acknowledged")
		}
	}
	close(never)
	if err := handle(t.Context(), waiting); err != nil {
		t.Error(err)
	}
	stop()
	if err := testwait.Receive(t, ended, "the end of Run"); err != nil {
		t.Error(err)
	}
	if n := o.crawled("waits.com"); n != 1 {
		t.Errorf("crawled %d times", n)
	}
}
