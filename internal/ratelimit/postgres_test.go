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

// crash does to the tables what a crash of the server, or a fail-over to its standby, does: UNLOGGED ones are empty.
func crash(t rapid.TB, store *sqlstore.Store) {
	t.Helper()
	var n int64
	if err := store.One(context.Background(), `WITH a AS (DELETE FROM ratelimit_counters), b AS (DELETE FROM ratelimit_epoch) SELECT 1`, nil, &n); err != nil {
		t.Fatal(err)
	}
}

func TestCrashOfTheServer_RequestsOfTheSameMinute_AreServedBelowTheLimit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	a, b := openNode(t, cfg), openNode(t, cfg)
	const limit = 60
	for range 20 {
		take(t, a, acme, 1, limit)
	}
	b.Close() // this node died with the server
	crash(t, store)
	served := int64(20)
	for i := 0; ; i++ {
		m := []*ratelimit.Shared{a, openNode(t, cfg)}[i%2] // also a node that starts after the crash
		d := take(t, m, acme, 1, limit)
		if !d.Allowed {
			break
		}
		served++
	}
	// At most an eighth of what was left is lost.
	if served > limit || served < limit-(limit-20)/8 {
		t.Errorf("%d of %d units were let through in the minute of the crash", served, limit)
	}
	quiet := ratelimit.Key{Scope: "requests", ID: "quiet"}
	if d := take(t, a, quiet, 1, limit); !d.Allowed || d.Remaining != limit-4-1 {
		t.Errorf("counter of which nothing was recorded: %+v", d)
	}
	c.add(2 * time.Minute)
	for _, key := range []ratelimit.Key{acme, quiet} {
		if d := take(t, a, key, 1, limit); !d.Allowed || d.Remaining != limit-1 {
			t.Errorf("two minutes after the crash: %+v", d)
		}
	}
}

func TestCrashOfTheServer_NearTheLimit_EachUnitWasRecorded(t *testing.T) {
	cfg, store, _ := newDatabase(t)
	m := openNode(t, cfg)
	const limit = 10
	for range 9 {
		take(t, m, acme, 1, limit)
		crash(t, store)
		take(t, m, ratelimit.Key{Scope: "requests", ID: "other"}, 1, 1) // notices the crash
	}
	allowed := 0
	for range 3 {
		if take(t, m, acme, 1, limit).Allowed {
			allowed++
		}
	}
	// The first crash counted four units for one that was let through. Nothing else was lost by nine crashes.
	if allowed != 0 {
		t.Errorf("%d more units after nine below %d", allowed, limit)
	}
}

// A standby whose clock is behind takes over: the minute after the one of the crash has begun before.
func TestCrashOfTheServer_ClockOfTheNextOneBehind_CountsTheMinuteOnce(t *testing.T) {
	cfg, store, c := newDatabase(t)
	m := openNode(t, cfg)
	const limit = 5
	c.add(time.Minute)
	for range 3 { // nothing is recorded
		take(t, m, acme, 1, limit)
	}
	crash(t, store)
	c.add(-10 * time.Second)
	take(t, m, ratelimit.Key{Scope: "requests", ID: "other"}, 1, limit) // notices the crash
	c.add(10 * time.Second)
	allowed := 3
	for range limit {
		if take(t, m, acme, 1, limit).Allowed {
			allowed++
		}
	}
	if allowed > limit {
		t.Errorf("%d units in one minute below %d", allowed, limit)
	}
}

// Nodes take and give units, die and start, the clock goes on and back, and the server crashes at any time. In no
// minute more is let through than the limit of the call that asked, and a unit is refused only if the crashes of that
// minute explain it.
func TestCrashOfTheServer_AnySequence_NeverMoreThanTheLimit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	shared := []*ratelimit.Shared{openNode(t, cfg), openNode(t, cfg), openNode(t, cfg)}
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		type cell struct {
			key    ratelimit.Key
			window int64
		}
		round++
		c.set(noon.Add(time.Duration(round) * time.Hour))
		if _, err := shared[0].Take(context.Background(), ratelimit.Key{}, 1, 1); err != nil { // notices a crash of the round before
			t.Fatal(err)
		}
		c.add(10 * time.Minute)
		crashes := 0                // of this round
		used := map[cell]int64{}    // let through
		counted := map[cell]int64{} // the most that the counter may hold: what crashes added comes on top
		charged := map[cell]int{}   // crashes that are in counted
		highest := map[cell]int64{} // limit that was asked with
		given := map[cell][]ratelimit.Decision{}
		key := rapid.Custom(func(t *rapid.T) ratelimit.Key {
			return ratelimit.Key{Scope: "requests", ID: fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), round)}
		})
		window := c.now().Unix() / 60 // in force: the newest that the clock has reached
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				k := key.Draw(t, "key")
				units, limit := rapid.Int64Range(1, 4).Draw(t, "units"), rapid.SampledFrom([]int64{0, 1, 3, 10, 60, 300}).Draw(t, "limit")
				many := rapid.IntRange(1, 20).Draw(t, "many")
				for range many {
					d, err := shared[rapid.IntRange(0, len(shared)-1).Draw(t, "node")].Take(context.Background(), k, units, limit)
					if err != nil {
						t.Fatal(err)
					}
					at := cell{k, d.Reset.Unix()/60 - 1}
					if at.window < c.now().Unix()/60 || at.window > window {
						t.Fatalf("a unit of minute %d in minute %d", at.window, c.now().Unix()/60)
					}
					for ; charged[at] < crashes; charged[at]++ {
						counted[at] += max(4, max(highest[at]-counted[at], 0)/8)
					}
					highest[at] = max(highest[at], limit)
					if d.Allowed {
						used[at] += units
						counted[at] += units
						given[at] = append(given[at], d)
					}
					if d.Allowed && used[at] > limit {
						t.Fatalf("%d units let through below %d", used[at], limit)
					}
					if !d.Allowed && counted[at]+units <= limit {
						t.Fatalf("refused %d of %d units, of which at most %d are counted", units, limit, counted[at])
					}
				}
			},
			"give": func(t *rapid.T) {
				at := cell{key.Draw(t, "key"), window}
				if len(given[at]) == 0 {
					return
				}
				if err := shared[0].Give(context.Background(), at.key, 1, given[at][0]); err != nil {
					t.Fatal(err)
				}
				given[at] = given[at][1:]
				used[at]--
			},
			"time passes": func(t *rapid.T) {
				c.add(time.Duration(rapid.Int64Range(-int64(20*time.Second), int64(50*time.Second)).Draw(t, "by")))
				window = max(window, c.now().Unix()/60)
			},
			"the server crashes": func(t *rapid.T) {
				crash(t, store)
				crashes++
			},
		})
	})
}

// What crash loses is what a crash loses: the tables with the counts are UNLOGGED, the one with the ceilings is not.
func TestOnlyCeilingsOutliveACrash(t *testing.T) {
	_, store, _ := newDatabase(t)
	newShared(t, store)
	for table, want := range map[string]string{"ratelimit_counters": "u", "ratelimit_epoch": "u", "ratelimit_ceilings": "p"} {
		var kind string
		if err := store.One(t.Context(), `SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass`, []any{table}, &kind); err != nil || kind != want {
			t.Errorf("%s is %q, %v; want %q", table, kind, err, want)
		}
	}
}

func TestTablesOfTheReleaseBefore_AreTakenOver_AndItsNodesGoOn(t *testing.T) {
	cfg, store, _ := newDatabase(t)
	// The tables, and a statement that counts, of the release before.
	if err := store.Setup(t.Context(), func(tx *sqlstore.Tx) error {
		for _, statement := range []string{
			`CREATE UNLOGGED TABLE ratelimit_counters (scope TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, minute BIGINT NOT NULL,
				used BIGINT NOT NULL, granted BIGINT NOT NULL, PRIMARY KEY (scope, id))`,
			`CREATE UNLOGGED TABLE ratelimit_epoch (one BIGINT NOT NULL PRIMARY KEY, incomplete BIGINT NOT NULL)`,
			`INSERT INTO ratelimit_epoch VALUES (1, 0)`,
		} {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	before := func(units int64) {
		t.Helper()
		var used int64
		if err := store.One(t.Context(), `INSERT INTO ratelimit_counters AS c (scope, id, minute, used, granted)
			VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $4::bigint)
			ON CONFLICT (scope, id) DO UPDATE SET used = c.used + excluded.used, granted = excluded.granted RETURNING used`,
			[]any{acme.Scope, acme.ID, noon.Unix() / 60, units}, &used); err != nil {
			t.Fatal(err)
		}
	}
	before(5)
	m := openNode(t, cfg)
	if d := take(t, m, acme, 1, 60); d.Remaining != 60-6 {
		t.Errorf("the first unit after the upgrade: %+v", d)
	}
	before(14)
	if d := take(t, m, acme, 1, 60); d.Remaining != 60-21 {
		t.Errorf("a unit after a node of the release before: %+v", d)
	}
	crash(t, store)
	if d := take(t, m, acme, 1, 60); d.Remaining > 60-22 || d.Remaining < 60-22-39/8 {
		t.Errorf("a unit after a crash: %+v", d)
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
	take(t, m, ratelimit.Key{Scope: "requests", ID: "0-0"}, 20, 60) // is recorded
	c.add(11 * time.Minute)
	take(t, m, acme, 1, 1)
	if n, err := m.Sweep(t.Context()); n != old || err != nil {
		t.Errorf("%d deleted, %v", n, err)
	}
	var ceilings int64
	if err := store.One(t.Context(), `SELECT count(*) FROM ratelimit_ceilings`, nil, &ceilings); err != nil || ceilings != 0 {
		t.Errorf("%d ceilings are left, %v", ceilings, err)
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
