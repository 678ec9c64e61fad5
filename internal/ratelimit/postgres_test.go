package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testwait"
)

// openNode opens another node on the same schema.
func openNode(t *testing.T, cfg sqlstore.Config, c *clock) *ratelimit.Shared {
	t.Helper()
	return newShared(t, sqlstoretest.Open(t, cfg), c)
}

func TestShared_SixtyOneRequestsOverThreeNodes_RefusesOne(t *testing.T) {
	cfg, _, c := newDatabase(t)
	nodes := []*ratelimit.Shared{openNode(t, cfg, c), openNode(t, cfg, c), openNode(t, cfg, c)}
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
		t.Errorf("%d requests refused, %d failed; want 1 and 0", refused.Load(), failed.Load())
	}
}

// However the demand is spread over nodes and time, exactly as many requests are allowed as the limit permits, except for
// units that nodes have taken in advance and not yet returned.
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
		for range total - got.Load()/units { // refused callers retry
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

// counting opens a node, and returns a function that returns the number of its statements.
func counting(t *testing.T, store *sqlstore.Store, c *clock) (m *ratelimit.Shared, statements func() int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	m, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Now: c.now, Registerer: registry}, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m, func() (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "letterhead_ratelimit_statements_total" {
				n = int(f.Metric[0].Counter.GetValue())
			}
		}
		return n
	}
}

func TestBlocks_BusyCounterFarFromLimit_NeedsFewStatements(t *testing.T) {
	cfg, store, c := newDatabase(t)
	m, statements := counting(t, store, c)
	const requests, limit = 50, 3000
	for i := int64(1); i <= requests; i++ {
		if d := take(t, m, acme, 1, limit); !d.Allowed || d.Remaining != limit-i || !d.Reset.Equal(noon.Add(time.Minute)) {
			t.Fatalf("request %d: %+v", i, d)
		}
	}
	if n := statements(); n > 9 {
		t.Errorf("%d requests took %d statements, want at most 9", requests, n)
	}
	m.GiveBlocks(t.Context())
	if d := take(t, openNode(t, cfg, c), acme, 1, limit); d.Remaining != limit-requests-1 {
		t.Errorf("after the block was returned: %+v, want %d remaining", d, limit-requests-1)
	}
}

func TestBlocks_SmallLimitOrFewUnitsLeft_AreNotUsed(t *testing.T) {
	_, store, c := newDatabase(t)
	m, statements := counting(t, store, c)
	for range 60 {
		take(t, m, acme, 1, 60)
	}
	if n := statements(); n != 60 {
		t.Errorf("60 requests with limit 60 took %d statements, want 60", n)
	}
	if n := m.Blocks(); n != 0 {
		t.Errorf("%d blocks in use with limit 60, want 0", n)
	}
	near := ratelimit.Key{Scope: "requests", ID: "near"}
	take(t, m, near, 2870, 3000)
	before := statements()
	for range 130 {
		take(t, m, near, 1, 3000)
	}
	if n := statements() - before; n < 126 { // a few units may still come from a block
		t.Errorf("the last 130 units took %d statements, want at least 126", n)
	}
}

func TestBlocks_WindowEnds_UnitsExpire(t *testing.T) {
	_, store, c := newDatabase(t)
	m, statements := counting(t, store, c)
	const limit = 3000
	c.add(58 * time.Second)
	for range 20 {
		take(t, m, acme, 1, limit)
	}
	for _, step := range []struct {
		by                time.Duration
		remaining, atMost int64
	}{
		{1850 * time.Millisecond, limit - 21, 0}, // from the block
		{60 * time.Millisecond, limit - 22, 1},   // too close to the end
		{90 * time.Millisecond, limit - 1, 1},    // the next window
	} {
		c.add(step.by)
		before := statements()
		d := take(t, m, acme, 1, limit)
		if n := int64(statements() - before); !d.Allowed || d.Remaining != step.remaining || n > step.atMost {
			t.Errorf("at %s: %+v with %d statements, want %d remaining with at most %d", c.now().UTC(), d, n, step.remaining, step.atMost)
		}
	}
}

// afterSuspension returns a clock reading after the machine was suspended for d: only the wall clock has advanced. The
// time package cannot produce such a Time.
func afterSuspension(t *testing.T, before time.Time, d time.Duration) time.Time {
	t.Helper()
	after := before.Add(d)
	monotonic := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&after))
	monotonic.ext -= int64(d)
	if after.Sub(before) != 0 || after.Round(0).Sub(before.Round(0)) != d {
		t.Fatalf("the layout of time.Time has changed: got %s after %s", after, before)
	}
	return after
}

func TestBlocks_MachineWasSuspended_UnitsExpire(t *testing.T) {
	_, store, c := newDatabase(t)
	now := time.Now()
	m, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{Now: func() time.Time { return now }}, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	const limit = 3000
	for range 20 {
		take(t, m, acme, 1, limit)
	}
	now = afterSuspension(t, now, time.Minute)
	c.add(time.Minute)
	if d := take(t, m, acme, 1, limit); !d.Reset.Equal(noon.Add(2*time.Minute)) || d.Remaining < limit-limit/20 {
		t.Errorf("after a suspension of one minute: %+v, want a unit of the next minute", d)
	}
}

// A node without requests returns its units, so that other nodes are not refused.
func TestBlocks_IdleNode_AreReturned(t *testing.T) {
	_, store, c := newDatabase(t)
	m, _ := counting(t, store, c)
	const limit = 3000
	for range 20 {
		take(t, m, acme, 1, limit)
	}
	var used int64
	if _, ok := testwait.Until(testwait.Patience, func() bool {
		if err := store.One(t.Context(), `SELECT used FROM ratelimit_counters WHERE id = $1`, []any{acme.ID}, &used); err != nil {
			t.Fatal(err)
		}
		return used == 20
	}); !ok {
		t.Errorf("%d units are used, want 20", used)
	}
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
		if _, ok := testwait.Until(testwait.Patience, func() bool { // the connection pool recovers by itself
			_, err = m.Take(t.Context(), acme, 1, 10)
			return err == nil
		}); !ok {
			t.Fatalf("Take after the database %s: %v", name, err)
		}
	}
}

// crash has the effect of a crash of the database server or a failover to its standby: UNLOGGED tables become empty.
func crash(t rapid.TB, store *sqlstore.Store) {
	t.Helper()
	var n int64
	if err := store.One(context.Background(), `WITH a AS (DELETE FROM ratelimit_counters), b AS (DELETE FROM ratelimit_epoch) SELECT 1`, nil, &n); err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseCrash_RequestsOfSameMinute_StayWithinLimit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	a, b := openNode(t, cfg, c), openNode(t, cfg, c)
	const limit = 60
	for range 20 {
		take(t, a, acme, 1, limit)
	}
	b.Close() // this node crashed as well
	crash(t, store)
	served := int64(20)
	for i := 0; ; i++ {
		m := []*ratelimit.Shared{a, openNode(t, cfg, c)}[i%2] // including a node that starts after the crash
		d := take(t, m, acme, 1, limit)
		if !d.Allowed {
			break
		}
		served++
	}
	// At most an eighth of the remaining units may be lost.
	if served > limit || served < limit-(limit-20)/8 {
		t.Errorf("%d units were allowed in the minute of the crash, want %d to %d", served, limit-(limit-20)/8, limit)
	}
	quiet := ratelimit.Key{Scope: "requests", ID: "quiet"}
	if d := take(t, a, quiet, 1, limit); !d.Allowed || d.Remaining != limit-4-1 {
		t.Errorf("a counter without a recorded ceiling: %+v, want %d remaining", d, limit-4-1)
	}
	c.add(2 * time.Minute)
	for _, key := range []ratelimit.Key{acme, quiet} {
		if d := take(t, a, key, 1, limit); !d.Allowed || d.Remaining != limit-1 {
			t.Errorf("two minutes after the crash: %+v, want %d remaining", d, limit-1)
		}
	}
}

func TestDatabaseCrash_NearLimit_CountsEveryUnit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	m := openNode(t, cfg, c)
	const limit = 10
	for range 9 {
		take(t, m, acme, 1, limit)
		crash(t, store)
		take(t, m, ratelimit.Key{Scope: "requests", ID: "other"}, 1, 1) // detects the crash
	}
	allowed := 0
	for range 3 {
		if take(t, m, acme, 1, limit).Allowed {
			allowed++
		}
	}
	// The first crash added three units to the count. The other crashes changed nothing.
	if allowed != 0 {
		t.Errorf("%d more units were allowed after nine with limit %d, want 0", allowed, limit)
	}
}

// The clock of the standby that takes over is behind, so its first minute is the one before that of the crash.
func TestDatabaseCrash_StandbyClockBehind_CountsMinuteOnce(t *testing.T) {
	cfg, store, c := newDatabase(t)
	m := openNode(t, cfg, c)
	const limit = 5
	c.add(time.Minute)
	for range 3 { // too few to record a ceiling
		take(t, m, acme, 1, limit)
	}
	crash(t, store)
	c.add(-10 * time.Second)
	take(t, m, ratelimit.Key{Scope: "requests", ID: "other"}, 1, limit) // detects the crash
	c.add(10 * time.Second)
	allowed := 3
	for range limit {
		if take(t, m, acme, 1, limit).Allowed {
			allowed++
		}
	}
	if allowed > limit {
		t.Errorf("%d units allowed in one minute, want at most %d", allowed, limit)
	}
}

// Nodes take and return units, the clock moves forward and back, and the database server crashes at any time. No minute
// allows more than the limit of the call, and a unit is refused only if the crashes of that minute explain it.
func TestDatabaseCrash_AnySequence_NeverExceedsLimit(t *testing.T) {
	cfg, store, c := newDatabase(t)
	shared := []*ratelimit.Shared{openNode(t, cfg, c), openNode(t, cfg, c), openNode(t, cfg, c)}
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		type cell struct {
			key    ratelimit.Key
			window int64
		}
		round++
		c.set(noon.Add(time.Duration(round) * time.Hour))
		if _, err := shared[0].Take(context.Background(), ratelimit.Key{}, 1, 1); err != nil { // detects a crash of the previous round
			t.Fatal(err)
		}
		c.add(10 * time.Minute)
		var crashes []bool          // of this round; true if nodes may have had blocks
		used := map[cell]int64{}    // allowed units
		counted := map[cell]int64{} // maximum of the counter, without blocks; crashes add to it
		charged := map[cell]int{}   // number of crashes included in counted
		highest := map[cell]int64{} // highest limit of any call
		given := map[cell][]ratelimit.Decision{}
		key := rapid.Custom(func(t *rapid.T) ratelimit.Key {
			return ratelimit.Key{Scope: "requests", ID: fmt.Sprint(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), round)}
		})
		const questions = 4 * 7 // units and limits used below; a node may have a block for each
		giveBlocks := func() {
			for _, m := range shared {
				m.GiveBlocks(context.Background())
			}
		}
		window := c.now().Unix() / 60 // the latest minute that the clock has reached
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				k := key.Draw(t, "key")
				units, limit := rapid.Int64Range(1, 4).Draw(t, "units"), rapid.SampledFrom([]int64{0, 1, 3, 10, 60, 300, 1000}).Draw(t, "limit")
				many := rapid.IntRange(1, 20).Draw(t, "many")
				one := rapid.IntRange(0, len(shared)).Draw(t, "of one node") // the last value means any node
				for range many {
					node := one
					if one == len(shared) {
						node = rapid.IntRange(0, len(shared)-1).Draw(t, "node")
					}
					d, err := shared[node].Take(context.Background(), k, units, limit)
					if err != nil {
						t.Fatal(err)
					}
					at := cell{k, d.Reset.Unix()/60 - 1}
					if at.window < c.now().Unix()/60 || at.window > window {
						t.Fatalf("Take in minute %d took a unit of minute %d", c.now().Unix()/60, at.window)
					}
					for ; charged[at] < len(crashes); charged[at]++ {
						counted[at] += max(4, max(highest[at]-counted[at], 0)/8)
						if crashes[charged[at]] {
							counted[at] += questions * int64(len(shared)) * ratelimit.Idle(highest[at])
						}
					}
					highest[at] = max(highest[at], limit)
					if d.Allowed {
						used[at] += units
						counted[at] += units
						given[at] = append(given[at], d)
					}
					if d.Allowed && used[at] > limit {
						t.Fatalf("%d units allowed with limit %d", used[at], limit)
					}
					if !d.Allowed && counted[at]+units <= limit {
						giveBlocks()
						if d, err = shared[node].Take(context.Background(), k, units, limit); err != nil {
							t.Fatal(err)
						}
						if d.Allowed {
							used[at] += units
							counted[at] += units
							given[at] = append(given[at], d)
						}
					}
					if !d.Allowed && counted[at]+units <= limit {
						t.Fatalf("refused %d units with limit %d, although at most %d are counted", units, limit, counted[at])
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
			"blocks are returned": func(t *rapid.T) {
				shared[rapid.IntRange(0, len(shared)-1).Draw(t, "node")].GiveBlocks(context.Background())
			},
			"time passes": func(t *rapid.T) {
				c.add(time.Duration(rapid.Int64Range(-int64(20*time.Second), int64(50*time.Second)).Draw(t, "by")))
				window = max(window, c.now().Unix()/60)
			},
			"the server crashes": func(t *rapid.T) {
				blocks := rapid.Bool().Draw(t, "with blocks")
				if !blocks {
					giveBlocks()
				}
				crash(t, store)
				crashes = append(crashes, blocks)
			},
		})
	})
}

// Checks that crash does the same as a real crash: the tables with counts are UNLOGGED, and the one with ceilings is not.
func TestDatabaseCrash_OnlyCeilingsSurvive(t *testing.T) {
	_, store, c := newDatabase(t)
	newShared(t, store, c)
	for table, want := range map[string]string{"ratelimit_counters": "u", "ratelimit_epoch": "u", "ratelimit_ceilings": "p"} {
		var kind string
		if err := store.One(t.Context(), `SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass`, []any{table}, &kind); err != nil || kind != want {
			t.Errorf("relpersistence of %s = %q, %v, want %q", table, kind, err, want)
		}
	}
}

func TestShared_TablesOfPreviousRelease_BothReleasesCountTogether(t *testing.T) {
	cfg, store, c := newDatabase(t)
	// The tables of the previous release, and below its statement.
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
	m := openNode(t, cfg, c)
	if d := take(t, m, acme, 1, 60); d.Remaining != 60-6 {
		t.Errorf("the first unit after the upgrade: %+v, want 54 remaining", d)
	}
	before(14)
	if d := take(t, m, acme, 1, 60); d.Remaining != 60-21 {
		t.Errorf("after a node of the previous release counted: %+v, want 39 remaining", d)
	}
	crash(t, store)
	if d := take(t, m, acme, 1, 60); d.Remaining > 60-22 || d.Remaining < 60-22-39/8 {
		t.Errorf("after a crash: %+v, want 34 to 38 remaining", d)
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

func TestNewShared_InvalidConfig_Fails(t *testing.T) {
	store := sqlstoretest.Open(t, sqlstoretest.SQLite(t))
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{}, store); err == nil {
		t.Error("NewShared accepted an embedded database")
	}
	if _, err := ratelimit.NewShared(t.Context(), ratelimit.SharedConfig{TakeTimeout: -1}, store); err == nil {
		t.Error("NewShared accepted a negative timeout")
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
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
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
			m, err := ratelimit.NewShared(b.Context(), ratelimit.SharedConfig{Registerer: registry}, store)
			if err != nil {
				b.Fatal(err)
			}
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
			families, err := registry.Gather()
			if err != nil {
				b.Fatal(err)
			}
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
