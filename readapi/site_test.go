package readapi_test

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/node"
	"letterhead/readapi"
)

// siteLogoTimeout is how long logos of a site wait for a crawl: less than by default, because these
// tests run in real time.
const siteLogoTimeout = 2 * time.Second

// site is a cluster of nodes in one process: they share only the event store, the database and the
// folder of assets, and each node has its own connections to both.
type site struct {
	t       testing.TB
	nodes   []*service
	logs    []*remoteLog
	proxies []*testlink.Link // between a node and the database
	windows []*remoteCounters
	crawler *scriptedCrawler
}

// remoteLog counts a node's calls of the event store, and can hang.
type remoteLog struct {
	eventlog.Log
	eventlog.Prober
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

// startSite starts API nodes, a projector and a crawler. The test is skipped if no database server is configured.
func startSite(t testing.TB, nodes int, changes ...func(*readapi.Deps)) *site {
	t.Helper()
	return startSiteWith(t, time.Now, 0, nodes, changes...)
}

// startSiteWith also sets the clock of the nodes, and the time of a request; 0 = patient.
func startSiteWith(t testing.TB, now func() time.Time, requestTimeout time.Duration, nodes int, changes ...func(*readapi.Deps)) *site {
	t.Helper()
	database := sqlstoretest.Schema(t, testservices.Postgres(t))
	shared := settings(t)
	shared.EventStore, shared.Database = esdbtest.Start(t).ConnectionString(), database
	shared.Assets, shared.LogoTimeout = shared.AssetsURL(), siteLogoTimeout
	shared.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := &site{t: t}
	open := func(role config.Role, name string, parts node.Parts) (*service, *setup) {
		set := &setup{config: shared, parts: parts, requestTimeout: requestTimeout}
		set.config.Roles, set.config.Node, set.config.Data = []config.Role{role}, name, t.TempDir()
		set.parts.Index, set.parts.Vectors = &noIndex{}, vectors{}
		n := &service{t: t}
		n.openNode(set)
		return n, set
	}
	projector, _ := open(config.RoleProjector, "projector", node.Parts{})
	s.must(projector.runner.CatchUp(t.Context()))
	s.crawler = startCrawler(t, projector.node, now)
	for i := range nodes {
		proxy, through := testlink.ThroughURL(t, database)
		log, window := &remoteLog{}, &remoteCounters{}
		shared.Database = through
		n, set := open(config.RoleAPI, "node"+string(rune('a'+i)), node.Parts{
			Now: now,
			Log: func(l eventlog.Log) eventlog.Log { log.Log, log.Prober = l, eventlog.Probe(l); return log },
		})
		n.crawler = s.crawler
		s.must(n.runner.CatchUp(t.Context()))
		set.deps = func(d *readapi.Deps) {
			window.Counters, d.Counters = d.Counters, window
			for _, change := range changes {
				change(d)
			}
		}
		n.openAPI(set)
		n.serve(t, readapi.NewPlainListener)
		s.proxies, s.logs, s.windows = append(s.proxies, proxy), append(s.logs, log), append(s.windows, window)
		s.nodes = append(s.nodes, n)
	}
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	testmust.Succeed(s.t, err)
}

// at returns the customer as served by another node.
func (c *customer) at(n *service) *customer {
	return &customer{s: n, id: c.id, secret: c.secret, secretID: c.secretID, publishable: c.publishable}
}
