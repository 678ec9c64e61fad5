package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/broker/inprocess"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/crawl"
)

// waitLimit limits the wait for expected events.
const waitLimit = 30 * time.Second

// stores is the state that outlives a worker's process: the log and the database.
type stores struct {
	log       eventlog.Log
	attempts  crawl.Noted
	reading   func(crawl.Brands) crawl.Brands // nil: the brands unchanged
	positions *sqlstore.Positions
}

func newStores(t *testing.T) *stores {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	testmust.Succeed(t, err)
	t.Cleanup(func() { store.Close() })
	p := &stores{log: log}
	if p.attempts, err = crawl.NewAttempts(t.Context(), store, time.Now); err != nil {
		t.Fatal(err)
	}
	if p.positions, err = sqlstore.NewPositions(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return p
}

// testWorker is a worker with the real broker and brand commands, and a crawler controlled by the test.
type testWorker struct {
	*stores
	t      *testing.T
	brands *commands.Brands
	bus    *broker.Bus
	worker *crawl.Worker
	ended  chan error
	stop   context.CancelFunc

	mu    sync.Mutex
	do    func(ctx context.Context, t crawl.Target) (*crawl.Result, error)
	began chan string
	count map[string]int
}

func newTestWorker(t *testing.T, cfg crawl.WorkerConfig) *testWorker {
	t.Helper()
	return newStores(t).start(t, cfg)
}

// start starts a worker with stores that other workers may share.
func (p *stores) start(t *testing.T, cfg crawl.WorkerConfig) *testWorker {
	t.Helper()
	o := &testWorker{stores: p, t: t, began: make(chan string, 1000), count: map[string]int{}, ended: make(chan error, 1)}
	var err error
	if o.brands, err = commands.NewBrands(commands.BrandsConfig{}, p.log); err != nil {
		t.Fatal(err)
	}
	transport := inprocess.New(inprocess.Config{RedeliverAfter: time.Millisecond})
	if o.bus, err = broker.New(broker.Config{Retries: 1, RetryAfter: time.Millisecond}, transport); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.bus.Close() })
	var brands crawl.Brands = o.brands
	if p.reading != nil {
		brands = p.reading(brands)
	}
	if o.worker, err = crawl.NewWorker(cfg, o.bus, brands, p.attempts, o); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, o.stop = context.WithCancel(context.Background())
	go func() { o.ended <- o.worker.Run(ctx) }()
	t.Cleanup(func() { o.stop() })
	return o
}

// Crawl implements crawl.Crawls.
func (o *testWorker) Crawl(ctx context.Context, t crawl.Target) (*crawl.Result, crawl.Stats, error) {
	o.mu.Lock()
	o.count[t.Domain]++
	do := o.do
	o.mu.Unlock()
	o.began <- t.Domain
	if do != nil {
		r, err := do(ctx, t)
		return r, crawl.Stats{Requests: 1, Bytes: 1}, err
	}
	return named(t.Domain), crawl.Stats{Requests: 1, Bytes: 1}, nil
}

func named(name string) *crawl.Result {
	return &crawl.Result{Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}, FinalURL: "https://" + name + "/"}
}

// request appends a crawl request and returns the message that the relay would send.
func (o *testWorker) request(domain, priority string, allowed time.Duration) (commands.Crawl, broker.Message) {
	o.t.Helper()
	c, err := o.brands.RequestCrawl(o.t.Context(), commands.RequestCrawl{
		Request: commands.Request{ID: "request-" + domain, Actor: "account:a"}, Domain: domain, Cause: brand.CauseSchedule, Priority: priority, Allowed: allowed,
	})
	testmust.Succeed(o.t, err)
	events, err := o.log.ReadStream(o.t.Context(), brand.Stream(domain), eventlog.End, eventlog.Backward, 1)
	if err != nil || len(events) != 1 {
		o.t.Fatal(len(events), err)
	}
	return c, broker.Event(events[0], domain)
}

func (o *testWorker) publish(topic string, m ...broker.Message) {
	o.t.Helper()
	testmust.Succeed(o.t, o.bus.Publish(o.t.Context(), topic, m...))
}

// outcome waits for the end of a crawl in the log.
func (o *testWorker) outcome(domain, crawlID string) brand.Ended {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), waitLimit)
	defer cancel()
	events, err := o.log.Subscribe(ctx, 0, eventlog.Filter{StreamPrefixes: []string{brand.Stream(domain)}})
	testmust.Succeed(o.t, err)
	defer events.Close()
	state := brand.New(domain)
	for {
		b, err := events.Next(ctx)
		if err != nil {
			o.t.Fatalf("no outcome of the crawl of %s: %v", domain, err)
		}
		for _, r := range b.Events {
			if r.Stream != brand.Stream(domain) {
				continue
			}
			ev, err := eventschemas.Decode(r.Type, r.SchemaVersion, r.Data)
			testmust.Succeed(o.t, err)
			state.Apply(ev, r.Revision, r.OccurredAt)
		}
		if end, ok := state.LastOutcome(crawlID); ok {
			return end
		}
	}
}

func (o *testWorker) begun() string {
	o.t.Helper()
	return testwait.Receive(o.t, o.began, "a crawl to begin")
}

func TestWorker_Crawls_AppendOutcomes(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	for name, c := range map[string]struct {
		result *crawl.Result
		err    error
		want   string
	}{
		"found":   {named("found"), nil, brand.Succeeded},
		"timeout": {nil, &crawl.Failure{Outcome: brand.Timeout}, brand.Timeout},
		"blocked": {nil, &crawl.Failure{Outcome: brand.Blocked}, brand.Blocked},
		"failed":  {nil, fmt.Errorf("wrapped: %w", &crawl.Failure{Outcome: brand.FetchFailed}), brand.FetchFailed},
		"dns":     {nil, &crawl.Failure{Outcome: brand.DNS}, brand.DNS},
		"nothing": {nil, &crawl.Failure{Outcome: brand.NoData}, brand.NoData},
		"store":   {nil, errors.New("assets are unavailable"), brand.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			o.mu.Lock()
			o.do = func(context.Context, crawl.Target) (*crawl.Result, error) { return c.result, c.err }
			o.mu.Unlock()
			requested, m := o.request(name+".com", brand.PriorityLive, time.Minute)
			o.publish(broker.CrawlLive, m)
			end := o.outcome(name+".com", requested.ID)
			if end.Outcome != c.want || end.NotBegun != (name == "store") {
				t.Errorf("%+v, want outcome %s", end, c.want)
			}
		})
	}
	t.Run("a panic", func(t *testing.T) {
		o.mu.Lock()
		o.do = func(context.Context, crawl.Target) (*crawl.Result, error) { panic("a page triggered a defect") }
		o.mu.Unlock()
		requested, m := o.request("panic.com", brand.PriorityLive, time.Minute)
		o.publish(broker.CrawlLive, m)
		if end := o.outcome("panic.com", requested.ID); end.Outcome != brand.FetchFailed {
			t.Errorf("outcome %s, want %s", end.Outcome, brand.FetchFailed)
		}
	})
}

// Rule 6.
func TestWorker_LiveCrawl_DoesNotWaitBehindBulk(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{LiveWorkers: 1, RefreshWorkers: 1})
	release := make(chan struct{})
	o.do = func(_ context.Context, target crawl.Target) (*crawl.Result, error) {
		if strings.HasPrefix(target.Domain, "bulk") {
			<-release
		}
		return named(target.Domain), nil
	}
	// More bulk than its pool accepts: the topic is blocked.
	var bulk []broker.Message
	for i := range 20 {
		_, m := o.request(fmt.Sprintf("bulk%d.com", i), brand.PriorityBulk, time.Minute)
		bulk = append(bulk, m)
	}
	published := make(chan error, 1)
	go func() { published <- o.bus.Publish(t.Context(), broker.CrawlRefresh, bulk...) }()
	o.begun()
	requested, m := o.request("live.com", brand.PriorityLive, time.Minute)
	o.publish(broker.CrawlLive, m)
	if end := o.outcome("live.com", requested.ID); end.Outcome != brand.Succeeded {
		t.Errorf("live crawl ended with %s", end.Outcome)
	}
	select {
	case err := <-published:
		t.Errorf("all bulk crawls were accepted (%v) although the pool is full", err)
	default:
	}
	close(release)
	if err := <-published; err != nil {
		t.Error(err)
	}
}

// Rule 6.
func TestWorker_Acceptance_Acknowledges(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	release := make(chan struct{})
	o.do = func(_ context.Context, target crawl.Target) (*crawl.Result, error) {
		<-release
		return named(target.Domain), nil
	}
	requested, m := o.request("acme.com", brand.PriorityLive, time.Minute)
	o.publish(broker.CrawlLive, m) // returns when acknowledged, while the crawl is running
	o.begun()
	o.publish(broker.CrawlLive, m, m) // repeats
	close(release)
	o.outcome("acme.com", requested.ID)
	o.publish(broker.CrawlLive, m) // and one more after the end
	other, n := o.request("other.com", brand.PriorityLive, time.Minute)
	o.publish(broker.CrawlLive, n)
	o.outcome("other.com", other.ID)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count["acme.com"] != 1 {
		t.Errorf("one crawl ran %d times", o.count["acme.com"])
	}
}

func TestWorker_OverdueOrEndedCrawl_IsSkipped(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := newTestWorker(t, crawl.WorkerConfig{Registerer: registry})
	present := o.brands
	var err error
	if o.brands, err = commands.NewBrands(commands.BrandsConfig{Now: func() time.Time { return time.Now().Add(-time.Hour) }}, o.log); err != nil {
		t.Fatal(err)
	}
	_, late := o.request("late.com", brand.PriorityLive, time.Minute) // an hour ago
	o.brands = present
	ended, m := o.request("ended.com", brand.PriorityLive, time.Minute)
	testmust.Succeed(t, o.brands.FailCrawl(t.Context(), commands.FailCrawl{Request: commands.Request{ID: "r", Actor: "operator:test"}, Domain: "ended.com", CrawlID: ended.ID, Outcome: brand.NoData}))
	o.publish(broker.CrawlLive, late, m)
	requested, n := o.request("next.com", brand.PriorityLive, time.Minute)
	o.publish(broker.CrawlLive, n)
	o.outcome("next.com", requested.ID)
	o.stop()
	if err := <-o.ended; err != nil {
		t.Error(err)
	}
	if o.count["late.com"]+o.count["ended.com"] > 0 {
		t.Errorf("crawls of skipped requests: %v", o.count)
	}
	families := testmust.Get(registry.Gather())(t)
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	if sums["letterhead_crawls_skipped_total"] != 2 || sums["letterhead_crawls_total"] != 1 || sums["letterhead_crawl_duration_seconds"] != 1 {
		t.Errorf("metrics: %v", sums)
	}
}

// A busy queue took half of the time or more: that the rest ran out says nothing about the site.
func TestWorker_LateCrawl_DoesNotBlameTheSite(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	present := o.brands
	ago := func(d time.Duration) {
		o.brands = testmust.Get(commands.NewBrands(commands.BrandsConfig{Now: func() time.Time { return time.Now().Add(-d) }}, o.log))(t)
	}
	for outcome, notBegun := range map[string]bool{brand.Timeout: true, brand.FetchFailed: false} {
		o.mu.Lock()
		o.do = func(context.Context, crawl.Target) (*crawl.Result, error) {
			return nil, &crawl.Failure{Outcome: outcome}
		}
		o.mu.Unlock()
		domain := strings.ReplaceAll(outcome, "_", "-") + ".com"
		ago(31 * time.Minute)
		requested, m := o.request(domain, brand.PriorityLive, time.Hour)
		o.brands = present
		o.publish(broker.CrawlLive, m)
		if end := o.outcome(domain, requested.ID); end.Outcome != outcome || end.NotBegun != notBegun {
			t.Errorf("a late crawl that ended with %s: %+v", outcome, end)
		}
	}
}

// Rule 5.
func TestWorker_Time_CountsFromReceipt(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	left := make(chan time.Duration, 1)
	o.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return named(target.Domain), nil
	}
	_, m := o.request("acme.com", brand.PriorityLive, time.Minute)
	o.publish(broker.CrawlLive, m)
	if d := <-left; d > time.Minute || d < 30*time.Second {
		t.Errorf("the crawl had %s of a minute", d)
	}
}

func TestWorker_InvalidMessage_IsDeadLettered(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	_, good := o.request("acme.com", brand.PriorityLive, time.Minute)
	for i, m := range []broker.Message{
		{ID: "no event", Key: "k"},
		{ID: "broken", Key: "k", Payload: []byte("{"), Metadata: good.Metadata},
		{ID: "other event", Key: "k", Payload: []byte(`{}`), Metadata: map[string]string{broker.MetaType: "BrandClaimed", broker.MetaVersion: "1"}},
		{ID: "newer", Key: "k", Payload: good.Payload, Metadata: map[string]string{broker.MetaType: "CrawlRequested", broker.MetaVersion: "99"}},
	} {
		o.publish(broker.CrawlLive, m) // acknowledged: it does not block the topic
		deadLetters := make(chan broker.Message, 10)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			gone <- o.bus.Subscribe(ctx, broker.DeadLetterTopic(broker.CrawlLive), "inspection", func(_ context.Context, m broker.Message) error {
				deadLetters <- m
				return nil
			})
		}()
		if got := testwait.Receive(t, deadLetters, m.ID+" to be dead-lettered"); got.ID != m.ID {
			t.Errorf("case %d: %s was dead-lettered, want %s", i, got.ID, m.ID)
		}
		cancel()
		<-gone
	}
}

func TestScheduledCrawl_SendsValidators(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	var targets []crawl.Target
	o.do = func(_ context.Context, target crawl.Target) (*crawl.Result, error) {
		o.mu.Lock()
		targets = append(targets, target)
		o.mu.Unlock()
		if target.ETag != "" {
			return &crawl.Result{NotModified: true, FinalURL: "https://acme.com/"}, nil
		}
		r := named("Acme")
		r.Record.Complete, r.ETag, r.LastModified = true, `"v1"`, "then"
		return r, nil
	}
	for i, want := range []string{brand.Succeeded, brand.Confirmed, brand.Confirmed} {
		c, m := o.request("acme.com", brand.PriorityBulk, time.Minute)
		o.publish(broker.CrawlRefresh, m)
		if got := o.outcome("acme.com", c.ID); got.Outcome != want {
			t.Fatalf("crawl %d ended %s, want %s", i, got.Outcome, want)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, target := range targets {
		first := i == 0
		if !target.Scheduled || (target.ETag == "") != first || (target.LastModified == "") != first {
			t.Errorf("crawl %d has the target %+v", i, target)
		}
	}
	state, err := o.brands.State(t.Context(), "acme.com")
	if err != nil || state.View().Status != brand.StatusReady || *state.View().Record.Name != "Acme" {
		t.Errorf("the record changed: %+v, %v", state.View(), err)
	}
}

func TestScheduledCrawl_Withheld_KeepsLogo(t *testing.T) {
	o := newTestWorker(t, crawl.WorkerConfig{})
	logos := []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{{ID: "ab", Format: "png", Size: 3}}, Tags: []string{}}}
	leavesOut := func(icon string) *crawl.Result {
		r := named("Acme")
		r.Withheld, r.ByConvention = true, &eventschemas.IconsByConvention{Assets: []string{icon}}
		return r
	}
	first, withheld := named("Acme"), named("Acme")
	first.Record.Logos, withheld.Withheld = logos, true
	for i, c := range []struct {
		result *crawl.Result
		want   string
		keeps  bool
	}{
		{first, brand.Succeeded, true},
		{withheld, brand.Confirmed, true},
		{leavesOut("cd"), brand.Confirmed, true},
		{leavesOut("ab"), brand.Succeeded, false}, // a template's
	} {
		o.mu.Lock()
		o.do = func(context.Context, crawl.Target) (*crawl.Result, error) { return c.result, nil }
		o.mu.Unlock()
		requested, m := o.request("acme.com", brand.PriorityBulk, time.Minute)
		o.publish(broker.CrawlRefresh, m)
		if got := o.outcome("acme.com", requested.ID); got.Outcome != c.want {
			t.Errorf("crawl %d ended %s, want %s", i, got.Outcome, c.want)
		}
		state, err := o.brands.State(t.Context(), "acme.com")
		if err != nil || state.Held().HasLogo() != c.keeps {
			t.Errorf("after crawl %d the record has a logo: %t, want %t: %v", i, !c.keeps, c.keeps, err)
		}
	}
}

// crawled returns how often a crawl of a domain was begun here.
func (o *testWorker) crawled(domain string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[domain]
}
