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
)

// openNode opens another node on the same schema.
func openNode(t *testing.T, cfg sqlstore.Config) *ratelimit.Shared {
	t.Helper()
	return newShared(t, sqlstoretest.Open(t, cfg))
}

func TestSixtyOneRequestsOverThreeNodesGiveExactlyOneRefusal(t *testing.T) {
	cfg, _, _ := newDatabase(t)
	nodes := []*ratelimit.Shared{openNode(t, cfg), openNode(t, cfg), openNode(t, cfg)}
	var refused, failed atomic.Int64
	var wg sync.WaitGroup
	for i := range 61 {
		wg.Go(func() {
			switch d, err := nodes[i%3].Take(t.Context(), acme, 1, 60); {
			case err != nil:
				failed.Add(1)
			case !d.Allowed:
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if refused.Load() != 1 || failed.Load() != 0 {
		t.Errorf("%d refused, %d failed", refused.Load(), failed.Load())
	}
}

// However the demand is spread over nodes and time, exactly the limit is let through when as many ask, and
// everybody otherwise.
func TestNodesTogetherLetExactlyTheLimitThrough(t *testing.T) {
	cfg, _, _ := newDatabase(t)
	nodes := []*ratelimit.Shared{openNode(t, cfg), openNode(t, cfg), openNode(t, cfg)}
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		key := ratelimit.Key{Scope: "requests", ID: fmt.Sprint(round)}
		units := rapid.Int64Range(1, 3).Draw(t, "units")
		limit := rapid.Int64Range(0, 300).Draw(t, "limit")
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
		if got.Load() != allowed {
			t.Fatalf("%d units let through below %d, %d were asked for in units of %d: want %d", got.Load(), limit, total*units, units, allowed)
		}
	})
}

func TestACallerThatLeavesTakesNothing(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	direct := openNode(t, cfg)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	m := openNode(t, cfg)
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
		t.Errorf("take of a caller that left: %v", err)
	}
	proxy.Resume()
	m.Close()                                               // the question came to its end
	if d := take(t, direct, acme, 1, 10); d.Remaining < 8 { // 9 when a minute began meanwhile
		t.Errorf("after one unit and one that was left behind: %+v", d)
	}
}

func TestWithoutTheDatabaseNothingRuns(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	m := openNode(t, cfg)
	d := take(t, m, acme, 1, 10)
	for name, fault := range map[string]func(){"hangs": proxy.Hang, "refuses": proxy.Refuse} {
		fault()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if _, err := m.Take(ctx, acme, 1, 10); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("take while it %s: %v", name, err)
		}
		if err := m.Give(ctx, acme, 1, d); !errors.Is(err, ratelimit.ErrUnavailable) {
			t.Errorf("give while it %s: %v", name, err)
		}
		cancel()
		proxy.Resume()
		for { // the pool recovers by itself; the test's own deadline bounds the wait
			if _, err := m.Take(t.Context(), acme, 1, 10); err == nil {
				break
			} else if t.Context().Err() != nil {
				t.Fatalf("take after it %s: %v", name, err)
			}
		}
	}
}

// A crash of the server empties UNLOGGED tables, which is what TRUNCATE does to them here.
func TestAfterACrashOfTheServerTheMinuteIsClosed(t *testing.T) {
	cfg, store, c := newDatabase(t)
	a, b := openNode(t, cfg), openNode(t, cfg)
	take(t, a, acme, 10, 10)
	var n int64
	crash := `WITH a AS (DELETE FROM ratelimit_counters), b AS (DELETE FROM ratelimit_epoch) SELECT 1`
	if err := store.One(t.Context(), crash, nil, &n); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, m := range []*ratelimit.Shared{a, b, openNode(t, cfg)} { // also a node that starts then
			if d, err := m.Take(t.Context(), acme, 1, 10); !errors.Is(err, ratelimit.ErrUnavailable) {
				t.Errorf("take in a minute whose counts are lost: %+v, %v", d, err)
			}
		}
		c.add(29 * time.Second)
	}
	c.add(2 * time.Second)
	for _, m := range []*ratelimit.Shared{a, b} {
		if d := take(t, m, acme, 1, 10); !d.Allowed {
			t.Errorf("take in the minute after: %+v", d)
		}
	}
}

func TestANewInstallationCountsAtOnceAndARestartGoesOn(t *testing.T) {
	cfg, _, _ := newDatabase(t)
	take(t, openNode(t, cfg), acme, 1, 1)
	if d := take(t, openNode(t, cfg), acme, 1, 1); d.Allowed {
		t.Errorf("a node that started later counted anew: %+v", d)
	}
}

func TestOldCountersAreDeletedAndLivingOnesAreNot(t *testing.T) {
	_, store, c := newDatabase(t)
	m := newShared(t, store)
	const old = 2500 // more than one statement deletes
	var wg sync.WaitGroup
	for part := range 10 {
		wg.Go(func() {
			for i := range old / 10 {
				take(t, m, ratelimit.Key{Scope: "requests", ID: fmt.Sprint(part, "-", i)}, 1, 1)
			}
		})
	}
	wg.Wait()
	c.add(11 * time.Minute)
	take(t, m, acme, 1, 1)
	if n, err := m.Sweep(t.Context()); n != old || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	if d := take(t, m, acme, 1, 1); d.Allowed {
		t.Error("a living counter was deleted")
	}
}

func TestSharedNeedsASharedDatabase(t *testing.T) {
	store := sqlstoretest.Open(t, sqlstoretest.SQLite(t))
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{}, store); err == nil {
		t.Error("a file of one process was accepted")
	}
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{TakeTimeout: -1}, store); err == nil {
		t.Error("a negative time-out was accepted")
	}
}

// fullRegistry takes some metrics and refuses the others.
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

// A process that tries again after a failure has one registry.
func TestAFailedStartLeavesNoMetricsBehind(t *testing.T) {
	registry := prometheus.NewRegistry()
	cfg := sqlstoretest.Postgres(t)
	dead := sqlstoretest.Open(t, cfg)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Registerer: registry}, dead); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Fatalf("start on a closed database: %v", err)
	}
	store := sqlstoretest.Open(t, cfg)
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Registerer: &fullRegistry{registry, 1}}, store); err == nil {
		t.Fatal("metrics that were refused were not missed")
	}
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Registerer: registry}, store); err != nil {
		t.Error(err)
	}
}

// BenchmarkSharedTake is 64 callers: of one counter, and of a thousand.
func BenchmarkSharedTake(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			m := newShared(b, sqlstoretest.Open(b, sqlstoretest.Postgres(b)))
			var at atomic.Int64
			b.SetParallelism(32) // on two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := ratelimit.Key{Scope: "requests", ID: fmt.Sprint(at.Add(1) % int64(keys))}
					if _, err := m.Take(context.Background(), key, 1, 1<<40); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "takes/s")
		})
	}
}
