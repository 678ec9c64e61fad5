package readapi_test

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testservices"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
	"letterhead/projections/search"
	"letterhead/projections/usage"
	"letterhead/readapi"
)

// siteLogoTimeout is how long logos of a site wait for a crawl: less than by default, because these
// tests run in real time.
const siteLogoTimeout = 2 * time.Second

// site is a service of several nodes in one process: they share only the event store and the database,
// and each node has its own connections to both.
type site struct {
	now     func() time.Time
	t       testing.TB
	nodes   []*service
	logs    []*remoteLog
	proxies []*testlink.Link // between a node and the database
	windows []*remoteCounters
	crawler *scriptedCrawler
	assets  string                // folder of the files, shared by the nodes like a bucket
	change  []func(*readapi.Deps) // applied to each node's
}

// remoteLog counts a node's calls of the event store, and can hang.
type remoteLog struct {
	eventlog.Log
	reads atomic.Int64
	hung  hang
}

// hang blocks calls until it is over, like a network that delivers nothing for a while.
type hang struct {
	mu   sync.Mutex
	over chan struct{} // nil while nothing hangs
}

func (h *hang) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = make(chan struct{})
}

func (h *hang) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.over)
	h.over = nil
}

func (h *hang) wait(ctx context.Context) error {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *remoteLog) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if err := l.hung.wait(ctx); err != nil {
		return eventlog.Appended{}, eventlog.ErrAmbiguous
	}
	return l.Log.Append(ctx, stream, expected, events)
}

func (l *remoteLog) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if !strings.HasPrefix(stream, "usage-node-") { // excludes the recorder's background reads
		l.reads.Add(1)
	}
	if err := l.hung.wait(ctx); err != nil {
		return nil, err
	}
	return l.Log.ReadStream(ctx, stream, from, direction, limit)
}

// remoteCounters can hang.
type remoteCounters struct {
	ratelimit.Counters
	hung  hang
	takes atomic.Int64
}

func (c *remoteCounters) Take(ctx context.Context, key ratelimit.Key, units, limit int64) (ratelimit.Decision, error) {
	c.takes.Add(1)
	if err := c.hung.wait(ctx); err != nil {
		return ratelimit.Decision{}, err
	}
	return c.Counters.Take(ctx, key, units, limit)
}

// noSearch is the search index in tests that do not search.
type noSearch struct{}

func (noSearch) Search(context.Context, string, int) ([]search.Hit, error) { return nil, nil }

// startSite starts API nodes, a projector and a crawler. The test is skipped if no database server is
// configured.
func startSite(t testing.TB, nodes int, change ...func(*readapi.Deps)) *site {
	t.Helper()
	return startSiteAt(t, time.Now, nodes, change...)
}

// startSiteAt also sets the clock that the leases of keys are timed with.
func startSiteAt(t testing.TB, now func() time.Time, nodes int, change ...func(*readapi.Deps)) *site {
	t.Helper()
	s := &site{t: t, now: now, change: change, assets: t.TempDir()}
	url := sqlstoretest.Schema(t, testservices.Postgres(t))
	server := esdbtest.Start(t)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	run := func(name string, f func(context.Context) error) {
		running.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s ended: %v", name, err)
			}
		})
	}
	ended := sync.OnceFunc(func() { stop(); running.Wait() })
	connect := func() eventlog.Log {
		log, err := esdb.Open(ctx, esdb.Config{ConnectionString: server.ConnectionString()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { log.Close() })
		t.Cleanup(ended) // its users end first
		return log
	}
	s.project(ctx, run, connect(), sqlstoretest.Open(t, sqlstore.Config{URL: url}))
	crawls := connect()
	b, err := commands.NewBrands(commands.BrandsConfig{}, crawls)
	if err != nil {
		t.Fatal(err)
	}
	s.crawler = newScriptedCrawler(t, ctx, crawls, b)
	run("crawler", s.crawler.run)
	for range nodes {
		proxy, through := testlink.ThroughURL(t, url)
		s.proxies = append(s.proxies, proxy)
		log := &remoteLog{Log: connect()}
		s.logs = append(s.logs, log)
		s.nodes = append(s.nodes, s.node(ctx, run, log, sqlstoretest.Open(t, sqlstore.Config{URL: through}), ended))
	}
	return s
}

// project starts the node that runs the projections.
func (s *site) project(ctx context.Context, run func(string, func(context.Context) error), log eventlog.Log, store *sqlstore.Store) {
	index, err := brands.New(brands.Config{}, store)
	s.must(err)
	s.t.Cleanup(index.Close)
	directory := keys.New(keys.Config{}, store)
	s.must(directory.Setup(ctx))
	runner, err := engine.New(engine.Config{}, log, store, accounts.New(store), directory, usage.New(store, log), index)
	s.must(err)
	s.must(runner.Start(ctx))
	run("projector", runner.Run)
	s.must(runner.CatchUp(ctx))
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// node starts one API node.
func (s *site) node(ctx context.Context, run func(string, func(context.Context) error), log *remoteLog, store *sqlstore.Store, ended func()) *service {
	t := s.t
	n := &service{t: t, log: log, metrics: prometheus.NewRegistry(), logs: &logs{}, crawler: s.crawler}
	snapshots, err := sqlstore.NewSnapshots(ctx, store)
	s.must(err)
	n.writer, err = commands.NewAccountWriter(commands.AccountWriterConfig{Config: streamwriter.Config{Shared: true}}, log, snapshots)
	s.must(err)
	quotas, err := commands.NewQuotaWriter(streamwriter.Config{Shared: true}, log, snapshots)
	s.must(err)
	t.Cleanup(func() {
		ended()
		drained, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.writer.Drain(drained); err != nil {
			t.Errorf("drain the account writer: %v", err)
		}
	})
	n.recorder, err = commands.NewUsageRecorder(commands.RecorderConfig{}, log, "node"+string(rune('a'+len(s.nodes))))
	s.must(err)
	n.brands, err = commands.NewBrands(commands.BrandsConfig{}, log)
	s.must(err)
	index, err := brands.New(brands.Config{Registerer: n.metrics}, store)
	s.must(err)
	t.Cleanup(index.Close)
	directory, used := keys.New(keys.Config{Now: s.now}, store), usage.New(store, log)
	n.runner, err = engine.New(engine.Config{FollowOnly: true}, log, store, directory, used, index)
	s.must(err)
	s.must(n.runner.Start(ctx))
	directory.Open(0, n.runner)
	n.tail, err = brandwatch.New(ctx, brandwatch.Config{Follower: index}, log)
	s.must(err)
	counters, err := ratelimit.NewShared(ctx, ratelimit.SharedConfig{Registerer: n.metrics}, store)
	s.must(err)
	t.Cleanup(counters.Close)
	window := &remoteCounters{Counters: counters}
	s.windows = append(s.windows, window)
	n.keys = directory
	s.must(directory.Register(n.metrics))
	run("follower", n.runner.Run)
	run("key leases", func(ctx context.Context) error { return directory.Hold(ctx, n.runner.Format) })
	run("changes", n.tail.Run)
	run("recorder", n.recorder.Run)
	s.must(n.runner.CatchUp(ctx))
	n.assets = openAssets(t, ctx, s.assets)
	deps := readapi.Deps{
		Credits: n.writer, Quotas: quotas, Recorder: n.recorder, Brands: n.brands, Index: index, Keys: directory,
		Usage: used, Search: noSearch{}, Assets: n.assets, Logos: newStudio(t, n.assets), Changes: n.tail, Counters: window,
		CaughtUp: func(ctx context.Context) error {
			head, err := log.Head(ctx)
			if err != nil {
				return err
			}
			return n.runner.WaitFor(ctx, brands.Name, head)
		},
	}
	for _, change := range s.change {
		change(&deps)
	}
	n.api, err = readapi.New(readapi.Config{
		BaseURL: baseURL, BillingURL: baseURL + "/billing", UserAgent: testUserAgent, CrawlTimeout: 8 * time.Second,
		LogoTimeout: siteLogoTimeout, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}, deps)
	s.must(err)
	n.serve(t, readapi.NewPlainListener)
	return n
}

// at returns the customer as served by another node.
func (c *customer) at(n *service) *customer {
	return &customer{s: n, id: c.id, secret: c.secret, secretID: c.secretID, publishable: c.publishable}
}
