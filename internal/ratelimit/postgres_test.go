package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// openNode opens another node on the same schema.
func openNode(t *testing.T, cfg sqlstore.Config, c *clock) *ratelimit.Shared {
	t.Helper()
	return newShared(t, sqlstoretest.Open(t, cfg), c)
}

func TestShared_SixtyOneRequestsOverThreeNodes_RejectsOne(t *testing.T) {
	cfg, _, c := newDatabase(t)
	nodes := []*ratelimit.Shared{openNode(t, cfg, c), openNode(t, cfg, c), openNode(t, cfg, c)}
	var rejected, failed atomic.Int64
	var wg sync.WaitGroup
	for i := range 61 {
		wg.Go(func() {
			switch d, err := nodes[i%3].Take(t.Context(), acme, 1, 60); {
			case err != nil:
				failed.Add(1)
			case !d.Allowed:
				rejected.Add(1)
			}
		})
	}
	wg.Wait()
	if rejected.Load() != 1 || failed.Load() != 0 {
		t.Errorf("%d requests rejected, %d failed; want 1 and 0", rejected.Load(), failed.Load())
	}
}

// However the demand is spread over nodes and time, exactly as many requests are allowed as the limit permits, except
// for units that nodes have taken in advance and not yet returned.
// Rule 10.
func TestShared_SeveralNodes_TogetherAllowExactlyTheLimit(t *testing.T) {
	cfg, _, c := newDatabase(t)
	nodes := []*ratelimit.Shared{openNode(t, cfg, c), openNode(t, cfg, c), openNode(t, cfg, c)}
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		key := ratelimit.Key{Scope: "requests", ID: fmt.Sprint(round)}
		units := rapid.Int64Range(1, 3).Draw(t, "units")
		limit := rapid.Int64Range(0, 400).Draw(t, "limit")
		demand := rapid.SliceOfN(rapid.Int64Range(0, 150), len(nodes), len(nodes)).Draw(t, "demand")
		parallel := rapid.IntRange(1, 8).Draw(t, "parallel")
		var allowed, total int64
		var got atomic.Int64
		var wg sync.WaitGroup
		for i, node := range nodes {
			total += demand[i]
			var left atomic.Int64
			left.Store(demand[i])
			for range parallel {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						d, err := node.Take(context.Background(), key, units, limit)
						if err != nil {
							t.Errorf("take: %v", err)
							return
						}
						if d.Allowed {
							got.Add(units)
						}
					}
				})
			}
		}
		wg.Wait()
		allowed = min(total, limit/units) * units
		if got.Load() > allowed || got.Load() < allowed-int64(len(nodes))*ratelimit.Idle(limit) {
			t.Fatalf("%d units allowed with limit %d, %d requested %d at a time; want %d", got.Load(), limit, total*units, units, allowed)
		}
		for _, node := range nodes {
			node.GiveBlocks(context.Background())
		}
		for range total - got.Load()/units { // rejected callers retry
			if d, err := nodes[0].Take(context.Background(), key, units, limit); err != nil || !d.Allowed {
				break
			}
			got.Add(units)
		}
		if got.Load() != allowed {
			t.Fatalf("%d units allowed with limit %d, %d requested %d at a time; want %d", got.Load(), limit, total*units, units, allowed)
		}
	})
}

func TestTake_ContextCanceled_TakesNothing(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	direct := openNode(t, cfg, nil)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	m := openNode(t, cfg, nil)
	take(t, m, acme, 1, 10)
	proxy.Hang()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := m.Take(ctx, acme, 1, 10)
		failed <- err
	}()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("Take with a canceled context: %v, want context.Canceled", err)
	}
	proxy.Resume()
	m.Close()                                               // waits for the statement
	if d := take(t, direct, acme, 1, 10); d.Remaining < 8 { // 9 if a new minute began meanwhile
		t.Errorf("after one unit and one canceled Take: %+v, want 8 remaining", d)
	}
}

func TestTake_DatabaseDown_FailsAsUnavailable(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	m := openNode(t, cfg, nil)
	d := take(t, m, acme, 1, 10)
	for name, fault := range map[string]func(){"hangs": proxy.Hang, "refuses": proxy.Refuse} {
		fault()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if _, err := m.Take(ctx, acme, 1, 10); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("Take while the database %s: %v, want ErrUnavailable", name, err)
		}
		if err := m.Give(ctx, acme, 1, d); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("Give while the database %s: %v, want ErrUnavailable", name, err)
		}
		cancel()
		proxy.Resume()
		var err error
		if _, ok := testwait.Until(testwait.Timeout, func() bool { // the connection pool recovers by itself
			_, err = m.Take(t.Context(), acme, 1, 10)
			return err == nil
		}); !ok {
			t.Fatalf("Take after the database %s: %v", name, err)
		}
	}
}

func TestShared_NewInstallation_CountsImmediately(t *testing.T) {
	cfg, _, c := newDatabase(t)
	take(t, openNode(t, cfg, c), acme, 1, 1)
	if d := take(t, openNode(t, cfg, c), acme, 1, 1); d.Allowed {
		t.Errorf("a node that started later did not see the count: %+v", d)
	}
}

func TestCleanup_DeletesOnlyOldCounters(t *testing.T) {
	_, store, c := newDatabase(t)
	m := newShared(t, store, c)
	const old = 2500 // more than one statement can delete
	var wg sync.WaitGroup
	for part := range 10 {
		wg.Go(func() {
			for i := range old / 10 {
				take(t, m, ratelimit.Key{Scope: "requests", ID: fmt.Sprint(part, "-", i)}, 1, 1)
			}
		})
	}
	wg.Wait()
	take(t, m, ratelimit.Key{Scope: "requests", ID: "0-0"}, 20, 60) // records a ceiling
	c.add(11 * time.Minute)
	take(t, m, acme, 1, 1)
	if n, err := m.Sweep(t.Context()); n != old || err != nil {
		t.Errorf("Sweep deleted %d counters, %v; want %d", n, err, old)
	}
	var ceilings int64
	if err := store.One(t.Context(), `SELECT count(*) FROM ratelimit_ceilings`, nil, &ceilings); err != nil || ceilings != 0 {
		t.Errorf("%d ceilings remain, %v; want 0", ceilings, err)
	}
	if d := take(t, m, acme, 1, 1); d.Allowed {
		t.Error("a current counter was deleted")
	}
}

func TestNewShared_EmbeddedDatabase_Fails(t *testing.T) {
	store := sqlstoretest.Open(t, sqlstoretest.SQLite(t))
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{}, store); err == nil {
		t.Error("NewShared accepted an embedded database")
	}
}

// fullRegistry accepts a number of metrics and rejects the rest.
type fullRegistry struct {
	*prometheus.Registry
	takes int
}

func (r *fullRegistry) Register(c prometheus.Collector) error {
	if r.takes--; r.takes < 0 {
		return errors.New("the registry is full")
	}
	return r.Registry.Register(c)
}

// A process that retries after a failure uses the same registry.
func TestNewShared_Failure_UnregistersMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	cfg := sqlstoretest.Postgres(t)
	dead := sqlstoretest.Open(t, cfg)
	testmust.Succeed(t, dead.Close())
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Registerer: registry}, dead); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Fatalf("NewShared on a closed database: %v, want ErrUnavailable", err)
	}
	store := sqlstoretest.Open(t, cfg)
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Registerer: &fullRegistry{registry, 1}}, store); err == nil {
		t.Fatal("NewShared ignored an error of the registry")
	}
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Registerer: registry}, store); err != nil {
		t.Error(err)
	}
}

// BenchmarkSharedTake runs 64 callers on one counter, on 300 counters with three requests per second each, and on 1,000
// counters without pauses. It reports the statements and the CPU time of the database server per request.
func BenchmarkSharedTake(b *testing.B) {
	for _, load := range []struct {
		keys  int
		pause time.Duration
	}{{1, 0}, {300, 70 * time.Millisecond}, {1000, 0}} {
		b.Run(fmt.Sprintf("keys=%d/pause=%s", load.keys, load.pause), func(b *testing.B) {
			store, registry := sqlstoretest.Open(b, sqlstoretest.Postgres(b)), prometheus.NewRegistry()
			m := testmust.Get(ratelimit.NewShared(b.Context(), ratelimit.SharedConfig{Registerer: registry}, store))(b)
			b.Cleanup(m.Close)
			var at atomic.Int64
			b.SetParallelism(32) // on two processors
			before, local := sqlstoretest.ServerCPU(b, store)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := ratelimit.Key{Scope: "requests", ID: fmt.Sprint(at.Add(1) % int64(load.keys))}
					if _, err := m.Take(context.Background(), key, 1, 1<<40); err != nil {
						b.Error(err)
						return
					}
					time.Sleep(load.pause)
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "takes/s")
			families := testmust.Get(registry.Gather())(b)
			for _, f := range families {
				if f.GetName() == "letterhead_ratelimit_statements_total" {
					b.ReportMetric(f.Metric[0].Counter.GetValue()/float64(b.N), "statements/op")
				}
			}
			if after, _ := sqlstoretest.ServerCPU(b, store); local {
				b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "server-µs/op")
			}
		})
	}
}
