package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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
	"letterhead/internal/testwait"
	"letterhead/workers/crawl"
	"letterhead/workers/relay"
)

// patience limits the wait for expected events.
const patience = 30 * time.Second

// place is the state that outlives a worker's process: the log and the
// database.
type place struct {
	log       eventlog.Log
	attempts  crawl.Noted
	reading   func(crawl.Brands) crawl.Brands // nil: the brands unchanged
	positions *sqlstore.Positions
}

func newPlace(t *testing.T) *place {
	t.Helper()
	log, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := &place{log: log}
	if p.attempts, err = crawl.NewAttempts(t.Context(), store, time.Now); err != nil {
		t.Fatal(err)
	}
	if p.positions, err = sqlstore.NewPositions(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return p
}

// office is a worker with the real broker and brand commands, and a crawler
// controlled by the test.
type office struct {
	*place
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

func newOffice(t *testing.T, cfg crawl.WorkerConfig) *office {
	t.Helper()
	return newPlace(t).office(t, cfg)
}

// office starts a worker at a place that other workers may share.
func (p *place) office(t *testing.T, cfg crawl.WorkerConfig) *office {
	t.Helper()
	o := &office{place: p, t: t, began: make(chan string, 1000), count: map[string]int{}, ended: make(chan error, 1)}
	var err error
	if o.brands, err = commands.NewBrands(commands.BrandsConfig{}, p.log); err != nil {
		t.Fatal(err)
	}
	transport, err := inprocess.New(inprocess.Config{RedeliverAfter: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
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
func (o *office) Crawl(ctx context.Context, t crawl.Target) (*crawl.Result, crawl.Stats, error) {
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

// request appends a crawl request and returns the message that the relay would
// send.
func (o *office) request(domain, lane string, allowed time.Duration) (commands.Crawl, broker.Message) {
	o.t.Helper()
	c, err := o.brands.RequestCrawl(o.t.Context(), commands.RequestCrawl{
		Request: commands.Request{ID: "request-" + domain, Actor: "account:a"}, Domain: domain, Cause: brand.CauseSchedule, Lane: lane, Allowed: allowed,
	})
	if err != nil {
		o.t.Fatal(err)
	}
	events, err := o.log.ReadStream(o.t.Context(), brand.Stream(domain), eventlog.End, eventlog.Backward, 1)
	if err != nil || len(events) != 1 {
		o.t.Fatal(len(events), err)
	}
	return c, broker.Event(events[0], domain)
}

func (o *office) publish(topic string, m ...broker.Message) {
	o.t.Helper()
	if err := o.bus.Publish(o.t.Context(), topic, m...); err != nil {
		o.t.Fatal(err)
	}
}

// outcome waits for the end of a crawl in the log.
func (o *office) outcome(domain, crawlID string) brand.Ended {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), patience)
	defer cancel()
	events, err := o.log.Subscribe(ctx, 0, eventlog.Filter{StreamPrefixes: []string{brand.Stream(domain)}})
	if err != nil {
		o.t.Fatal(err)
	}
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
			if err != nil {
				o.t.Fatal(err)
			}
			state.Apply(ev, r.Revision, r.OccurredAt)
		}
		if end, ok := state.LastOutcome(crawlID); ok {
			return end
		}
	}
}

func (o *office) begun() string {
	o.t.Helper()
	return testwait.Receive(o.t, o.began, "a crawl to begin")
}

func TestWorker_AppendsOutcomes(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
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
		"store":   {nil, errors.New("assets are away"), brand.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			o.mu.Lock()
			o.do = func(context.Context, crawl.Target) (*crawl.Result, error) { return c.result, c.err }
			o.mu.Unlock()
			asked, m := o.request(name+".com", brand.LaneLive, time.Minute)
			o.publish(broker.CrawlLive, m)
			if end := o.outcome(name+".com", asked.ID); end.Outcome != c.want {
				t.Errorf("outcome is %s, want %s", end.Outcome, c.want)
			}
		})
	}
	t.Run("a panic", func(t *testing.T) {
		o.mu.Lock()
		o.do = func(context.Context, crawl.Target) (*crawl.Result, error) { panic("a page found a fault") }
		o.mu.Unlock()
		asked, m := o.request("panic.com", brand.LaneLive, time.Minute)
		o.publish(broker.CrawlLive, m)
		if end := o.outcome("panic.com", asked.ID); end.Outcome != brand.FetchFailed {
			t.Errorf("outcome is %s, want %s", end.Outcome, brand.FetchFailed)
		}
	})
}

func TestWorker_LiveDoesNotWaitBehindBulk(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{LiveWorkers: 1, RefreshWorkers: 1})
	release := make(chan struct{})
	o.do = func(_ context.Context, target crawl.Target) (*crawl.Result, error) {
		if strings.HasPrefix(target.Domain, "bulk") {
			<-release
		}
		return named(target.Domain), nil
	}
	// More bulk than its pool accepts: the lane is blocked.
	var bulk []broker.Message
	for i := range 20 {
		_, m := o.request(fmt.Sprintf("bulk%d.com", i), brand.LaneRefresh, time.Minute)
		bulk = append(bulk, m)
	}
	published := make(chan error, 1)
	go func() { published <- o.bus.Publish(t.Context(), broker.CrawlRefresh, bulk...) }()
	o.begun()
	asked, m := o.request("live.com", brand.LaneLive, time.Minute)
	o.publish(broker.CrawlLive, m)
	if end := o.outcome("live.com", asked.ID); end.Outcome != brand.Succeeded {
		t.Errorf("live crawl ended with %s", end.Outcome)
	}
	select {
	case err := <-published:
		t.Errorf("all bulk was accepted (%v) though its pool is full", err)
	default:
	}
	close(release)
	if err := <-published; err != nil {
		t.Error(err)
	}
}

func TestWorker_AcknowledgesOnAcceptance(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
	release := make(chan struct{})
	o.do = func(_ context.Context, target crawl.Target) (*crawl.Result, error) {
		<-release
		return named(target.Domain), nil
	}
	asked, m := o.request("acme.com", brand.LaneLive, time.Minute)
	o.publish(broker.CrawlLive, m) // returns when acknowledged, while the crawl is running
	o.begun()
	o.publish(broker.CrawlLive, m, m) // repeats
	close(release)
	o.outcome("acme.com", asked.ID)
	o.publish(broker.CrawlLive, m) // and one more after the end
	other, n := o.request("other.com", brand.LaneLive, time.Minute)
	o.publish(broker.CrawlLive, n)
	o.outcome("other.com", other.ID)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count["acme.com"] != 1 {
		t.Errorf("one crawl was done %d times", o.count["acme.com"])
	}
}

func TestWorker_SkipsOverdueAndEndedCrawls(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := newOffice(t, crawl.WorkerConfig{Registerer: registry})
	present := o.brands
	var err error
	if o.brands, err = commands.NewBrands(commands.BrandsConfig{Now: func() time.Time { return time.Now().Add(-time.Hour) }}, o.log); err != nil {
		t.Fatal(err)
	}
	_, late := o.request("late.com", brand.LaneLive, time.Minute) // an hour ago
	o.brands = present
	ended, m := o.request("ended.com", brand.LaneLive, time.Minute)
	if err := o.brands.FailCrawl(t.Context(), commands.FailCrawl{Request: commands.Request{ID: "r", Actor: "operator:test"}, Domain: "ended.com", CrawlID: ended.ID, Outcome: brand.NoData}); err != nil {
		t.Fatal(err)
	}
	o.publish(broker.CrawlLive, late, m)
	asked, n := o.request("next.com", brand.LaneLive, time.Minute)
	o.publish(broker.CrawlLive, n)
	o.outcome("next.com", asked.ID)
	o.stop()
	if err := <-o.ended; err != nil {
		t.Error(err)
	}
	if o.count["late.com"]+o.count["ended.com"] > 0 {
		t.Errorf("crawled %v", o.count)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
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

func TestWorker_TimeCountsFromReceipt(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
	left := make(chan time.Duration, 1)
	o.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		return named(target.Domain), nil
	}
	_, m := o.request("acme.com", brand.LaneLive, time.Minute)
	o.publish(broker.CrawlLive, m)
	if d := <-left; d > time.Minute || d < 30*time.Second {
		t.Errorf("the crawl had %s left of a minute", d)
	}
}

func TestShutdown_FinishesAcceptedCrawls(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
	release := make(chan struct{})
	o.do = func(_ context.Context, target crawl.Target) (*crawl.Result, error) {
		<-release
		return named(target.Domain), nil
	}
	asked, m := o.request("acme.com", brand.LaneLive, time.Minute)
	o.publish(broker.CrawlLive, m)
	o.begun()
	o.stop()
	close(release)
	if err := <-o.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if end := o.outcome("acme.com", asked.ID); end.Outcome != brand.Succeeded {
		t.Errorf("the crawl under way ended with %s", end.Outcome)
	}
}

func TestShutdown_HasTimeLimit(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{Drain: time.Millisecond})
	o.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, m := o.request("acme.com", brand.LaneLive, time.Hour)
	o.publish(broker.CrawlLive, m)
	o.begun()
	o.stop()
	if err := testwait.Receive(t, o.ended, "the end of Run"); err != nil {
		t.Errorf("Run: %v", err)
	}
	state, err := o.brands.State(t.Context(), "acme.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, running := state.Running(); !running {
		t.Error("an interrupted crawl has an outcome: only its deadline may end it")
	}
}

func TestWorker_InvalidMessage_IsDeadLettered(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
	_, good := o.request("acme.com", brand.LaneLive, time.Minute)
	for i, m := range []broker.Message{
		{ID: "no event", Key: "k"},
		{ID: "broken", Key: "k", Payload: []byte("{"), Metadata: good.Metadata},
		{ID: "other event", Key: "k", Payload: []byte(`{}`), Metadata: map[string]string{broker.MetaType: "BrandClaimed", broker.MetaVersion: "1"}},
		{ID: "newer", Key: "k", Payload: good.Payload, Metadata: map[string]string{broker.MetaType: "CrawlRequested", broker.MetaVersion: "99"}},
	} {
		o.publish(broker.CrawlLive, m) // acknowledged: it does not block the lane
		aside := make(chan broker.Message, 10)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			gone <- o.bus.Subscribe(ctx, broker.DeadLetterTopic(broker.CrawlLive), "inspection", func(_ context.Context, m broker.Message) error {
				aside <- m
				return nil
			})
		}()
		if got := testwait.Receive(t, aside, m.ID+" to be set aside"); got.ID != m.ID {
			t.Errorf("case %d: %s was set aside, want %s", i, got.ID, m.ID)
		}
		cancel()
		<-gone
	}
}

func TestWorkerConfig_Validate(t *testing.T) {
	_, err := crawl.NewWorker(crawl.WorkerConfig{LiveWorkers: -1, RefreshWorkers: -1, Drain: -1}, nil, nil, nil, nil)
	for _, field := range []string{"LiveWorkers", "RefreshWorkers", "Drain"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

func TestScheduledCrawl_SendsValidators(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
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
		c, m := o.request("acme.com", brand.LaneRefresh, time.Minute)
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
			t.Errorf("crawl %d was asked for %+v", i, target)
		}
	}
	state, err := o.brands.State(t.Context(), "acme.com")
	if err != nil || state.View().Status != brand.StatusReady || *state.View().Record.Name != "Acme" {
		t.Errorf("the record is lost: %+v, %v", state.View(), err)
	}
}

func TestScheduledCrawl_Withheld_KeepsLogo(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
	logos := []eventschemas.Logo{{Type: "icon", Formats: []eventschemas.Asset{{ID: "ab", Format: "png", Size: 3}}, Tags: []string{}}}
	withheld := false
	o.do = func(context.Context, crawl.Target) (*crawl.Result, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		r := named("Acme")
		if r.Withheld = withheld; !withheld {
			r.Record.Logos = logos
		}
		return r, nil
	}
	for i, want := range []string{brand.Succeeded, brand.Confirmed} {
		c, m := o.request("acme.com", brand.LaneRefresh, time.Minute)
		o.publish(broker.CrawlRefresh, m)
		if got := o.outcome("acme.com", c.ID); got.Outcome != want {
			t.Fatalf("crawl %d ended %s, want %s", i, got.Outcome, want)
		}
		o.mu.Lock()
		withheld = true
		o.mu.Unlock()
	}
	state, err := o.brands.State(t.Context(), "acme.com")
	if err != nil || !state.Held().HasLogo() {
		t.Errorf("the logo is gone: %v", err)
	}
}

// crawled returns how often a crawl of a domain was begun here.
func (o *office) crawled(domain string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[domain]
}

// A crawl that was begun is not begun again on redelivery, in the same process
// or in another one: it may have crashed the first one. A crawl that was only
// requested before a process started is begun.
func TestDeliveredAgain_CrawlThatWasBegun_IsLeftToItsDeadline(t *testing.T) {
	p := newPlace(t)
	registry := prometheus.NewRegistry()
	killed := p.office(t, crawl.WorkerConfig{LiveWorkers: 1})
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	killed.do = func(context.Context, crawl.Target) (*crawl.Result, error) {
		<-never
		return nil, context.Canceled
	}
	_, deadly := killed.request("deadly.com", brand.LaneLive, time.Hour)
	killed.publish(broker.CrawlLive, deadly)
	killed.begun()
	waited, waiting := killed.request("waiting.com", brand.LaneLive, time.Hour)

	next := p.office(t, crawl.WorkerConfig{Registerer: registry})
	next.publish(broker.CrawlLive, deadly, waiting)
	if end := next.outcome("waiting.com", waited.ID); end.Outcome != brand.Succeeded {
		t.Errorf("what was requested before the start and not begun ended with %s", end.Outcome)
	}
	next.stop()
	if err := testwait.Receive(t, next.ended, "the end of Run"); err != nil {
		t.Error(err)
	}
	if n := next.crawled("deadly.com"); n != 0 {
		t.Errorf("what was begun before was begun %d times again", n)
	}
	state, err := next.brands.State(t.Context(), "deadly.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, running := state.Running(); !running {
		t.Error("only its deadline may end it")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "letterhead_crawls_skipped_total" && (m.GetCounter().GetValue() != 1 || m.GetLabel()[1].GetValue() != "begun") {
				t.Errorf("skipped: %v", m)
			}
		}
	}
}

// Crawls that wait for a worker at a clean stop are run after the next start:
// the relay has not passed them.
func TestCleanStop_CrawlsThatWait_AreTakenUpAfterTheNextStart(t *testing.T) {
	p := newPlace(t)
	first := p.office(t, crawl.WorkerConfig{LiveWorkers: 1, Drain: time.Millisecond})
	first.do = func(ctx context.Context, target crawl.Target) (*crawl.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	relaying := func(o *office) (stop func()) {
		r, err := relay.New(relay.Config{SaveEvery: time.Millisecond}, p.log, o.bus, p.positions)
		if err != nil {
			t.Fatal(err)
		}
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
	first.request("begun.com", brand.LaneLive, time.Hour)
	first.begun()
	ids := map[string]string{}
	for i := range 5 {
		domain := fmt.Sprintf("waits%d.com", i)
		c, _ := first.request(domain, brand.LaneLive, time.Hour)
		ids[domain] = c.ID
	}
	first.stop()
	stop()
	if err := testwait.Receive(t, first.ended, "the end of Run"); err != nil {
		t.Error(err)
	}

	next := p.office(t, crawl.WorkerConfig{})
	defer relaying(next)()
	for domain, id := range ids {
		if end := next.outcome(domain, id); end.Outcome != brand.Succeeded {
			t.Errorf("the crawl of %s ended with %s", domain, end.Outcome)
		}
	}
	if n := first.crawled("begun.com") + next.crawled("begun.com"); n != 1 {
		t.Errorf("the crawl that was under way at the stop was begun %d times", n)
	}
}

// An attempt is recorded once, even if the response is lost, and forgotten when
// no message can arrive any more.
func TestAttempts(t *testing.T) {
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	now := time.Now()
	a, err := crawl.NewAttempts(t.Context(), store, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
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

// away is the database or the event store of a worker while it is unavailable.
type away struct {
	crawl.Noted
	crawl.Brands
	noted bool // before the response is lost
	gone  atomic.Bool
	tried chan struct{}
}

func (a *away) Begin(ctx context.Context, crawlID, attempt string) (bool, error) {
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

func (a *away) State(ctx context.Context, domain string) (*brand.Brand, error) {
	if a.gone.Load() {
		a.tried <- struct{}{}
		return nil, eventlog.ErrUnavailable
	}
	return a.Brands.State(ctx, domain)
}

// A crawl that is delivered while a store is unavailable returns to the broker
// until the store is back or its time is over.
func TestStoreUnavailableAtDelivery_CrawlIsRetried(t *testing.T) {
	for name, c := range map[string]struct {
		attempts, noted bool
		allowed         time.Duration
		done            bool
	}{
		"attempts":                        {true, false, time.Hour, true},
		"attempts, and an answer is lost": {true, true, time.Hour, true},
		"brands":                          {false, false, time.Hour, true},
		"brands, for longer than it has":  {false, false, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			a := &away{Noted: p.attempts, noted: c.noted, tried: make(chan struct{}, 1000)}
			a.gone.Store(true)
			if c.attempts {
				p.attempts = a
			} else {
				p.reading = func(b crawl.Brands) crawl.Brands {
					a.Brands = b
					return a
				}
			}
			o := p.office(t, crawl.WorkerConfig{})
			asked, m := o.request("acme.com", brand.LaneLive, c.allowed)
			published := make(chan error, 1)
			go func() { published <- o.bus.Publish(t.Context(), broker.CrawlLive, m) }()
			if !c.done {
				if err := testwait.Receive(t, published, "the acknowledgement"); err != nil || o.crawled("acme.com") != 0 {
					t.Errorf("%v, crawled %d times", err, o.crawled("acme.com"))
				}
				return
			}
			for range 7 { // again, for more than one delivery
				testwait.Receive(t, a.tried, "a try")
			}
			select {
			case err := <-published:
				t.Fatalf("the crawl was acknowledged (%v) before it was begun", err)
			default:
			}
			a.gone.Store(false)
			if err := testwait.Receive(t, published, "the acknowledgement"); err != nil {
				t.Error(err)
			}
			if end := o.outcome("acme.com", asked.ID); end.Outcome != brand.Succeeded || o.crawled("acme.com") != 1 {
				t.Errorf("ended with %s, crawled %d times", end.Outcome, o.crawled("acme.com"))
			}
		})
	}
}

// hand is a broker whose messages the test delivers.
type hand struct {
	broker.Port
	live chan broker.Handler
}

func (h hand) Subscribe(ctx context.Context, lane, _ string, handle broker.Handler) error {
	if lane == broker.CrawlLive {
		h.live <- handle
	}
	<-ctx.Done()
	return nil
}

// A redelivery does not acknowledge a waiting crawl, because the first delivery
// may fail.
func TestDeliveredAgain_CrawlThatWaits_IsNotAcknowledged(t *testing.T) {
	o := newOffice(t, crawl.WorkerConfig{})
	never := make(chan struct{})
	o.do = func(context.Context, crawl.Target) (*crawl.Result, error) {
		<-never
		return nil, context.Canceled
	}
	h := hand{live: make(chan broker.Handler, 1)}
	w, err := crawl.NewWorker(crawl.WorkerConfig{LiveWorkers: 1}, h, o.brands, o.attempts, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	handle := testwait.Receive(t, h.live, "the subscription")
	_, first := o.request("first.com", brand.LaneLive, time.Hour)
	if err := handle(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	_, waits := o.request("waits.com", brand.LaneLive, time.Hour)
	lost, lose := context.WithCancel(t.Context())
	verdicts := make(chan error, 2)
	for range 2 {
		go func() { verdicts <- handle(lost, waits) }()
	}
	select {
	case err := <-verdicts:
		t.Errorf("the verdict on a crawl that waits is %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	lose() // as a rebalance does
	for range 2 {
		if err := testwait.Receive(t, verdicts, "a verdict"); err == nil {
			t.Error("a crawl that waited was acknowledged")
		}
	}
	close(never)
	if err := handle(t.Context(), waits); err != nil {
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
