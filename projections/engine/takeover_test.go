package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// startAt starts a node with its own link to the database.
func (n *nodes) startAt(cfg engine.Config, at string) *node {
	n.t.Helper()
	e := n.root.NodeAt(at)
	p := newToy("toy", e.Store, 1)
	x := &node{Env: e, toy: p, r: e.New(cfg, p)}
	x.stop = e.Run(x.r)
	return x
}

func (n *nodes) agrees(x *node, want int64) {
	n.t.Helper()
	x.CatchUp(x.r)
	wantCount(n.t, x.toy, "a", want)
	found, err := x.r.Verify(x.Context(), nil, nil)
	if err != nil || len(found) != 1 || !found[0].OK() {
		n.t.Errorf("verify: %+v, %v, want one equal model", found, err)
	}
}

// The server ends the sessions of the leader, including that of its lock, while events are appended.
func TestLeader_SessionsKilled_AnotherNodeTakesOver(t *testing.T) {
	e := projectionstest.OpenPostgres(t)
	n := &nodes{t: t, root: e}
	names := []string{fmt.Sprintf("one_%d", time.Now().UnixNano()), fmt.Sprintf("two_%d", time.Now().UnixNano())}
	var pair []*node
	for _, name := range names {
		pair = append(pair, n.startAt(folding, e.URL()+"&application_name="+name))
		pair[0].leading(t)
	}
	reader := n.start(following, 1)
	n.charges(0, 20)
	reader.CatchUp(reader.r)
	stop := make(chan struct{})
	count := 20
	var more sync.WaitGroup
	more.Go(func() {
		for ; count < 3000; count++ {
			select {
			case <-stop:
				return
			default:
				n.charges(count, count+1)
			}
		}
	})
	sqlstoretest.Exec(t, e.URL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+names[0]+"'")
	killed := time.Now()
	pair[1].leading(t)
	last := n.root.Events("account-b", start, charge(0))
	testmust.Succeed(t, reader.r.WaitFor(reader.Context(), "toy", last))
	t.Logf("%s after the leader's sessions were killed a reader sees what came since", time.Since(killed).Round(time.Millisecond))
	close(stop)
	more.Wait()
	for _, x := range append(pair, reader) {
		n.agrees(x, int64(count))
	}
}

// The leader's link to the database hangs, and recovers later. The leader is not notified that it lost the leadership.
// The others wait for it no longer than the database does.
func TestLeader_DatabaseHangs_AnotherNodeTakesOver(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as the database waits for a silent leader: ten seconds")
	}
	e := projectionstest.OpenPostgres(t)
	n := &nodes{t: t, root: e}
	way, at := testlink.ThroughURL(t, e.URL())
	a := n.startAt(folding, at)
	a.leading(t)
	b := n.start(folding, 1)
	n.charges(0, 20)
	b.CatchUp(b.r)
	way.Hang()
	hung := time.Now()
	last := n.charges(20, 40)
	b.leading(t)
	testmust.Succeed(t, b.r.WaitFor(b.Context(), "toy", last))
	t.Logf("%s after the leader's database hung another node has taken over", time.Since(hung).Round(time.Millisecond))
	if err := b.r.Rebuild(b.Context(), nil, nil); err != nil { // the tables that it knows are no longer live
		t.Error(err)
	}
	n.charges(40, 50)
	n.agrees(b, 50)
	way.Cut()
	way.Resume()
	eventually(t, a.Env, func() bool { return a.Logged("folded by another node") })
	n.agrees(a, 50)
	b.stop()
	n.charges(50, 60)
	n.agrees(a, 60) // it leads again, and continues from the position of the other
}

// frozenTimeout limits how long a frozen leader may block the others: ten seconds until it has lost the leadership
// and its transaction, five for the lock timeout of a statement, one for a pause, and some for a busy machine. It is
// less than the minute that a read-only transaction may be idle.
const frozenTimeout = 40 * time.Second

// The leader freezes, and its link to the database with it, while its transaction holds the rows of
// projections_registry.
func TestLeader_FrozenInTransaction_AnotherNodeTakesOver(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as the database waits for a silent leader: ten seconds")
	}
	e := projectionstest.OpenPostgres(t)
	n := &nodes{t: t, root: e}
	way, at := testlink.ThroughURL(t, e.URL())
	a := n.startAt(folding, at)
	a.leading(t)
	b := n.start(engine.Config{}, 1) // with real pauses
	n.charges(0, 20)
	b.CatchUp(b.r)
	frozen, thaw := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a.toy.breakWrite(func(uint64) error { // after the checkpoint was moved
		once.Do(func() {
			close(frozen)
			<-thaw
		})
		return nil
	})
	last := n.charges(20, 21)
	<-frozen
	way.Hang()
	bound, cancel := context.WithTimeout(b.Context(), frozenTimeout)
	defer cancel()
	if err := b.r.WaitFor(bound, "toy", last); err != nil {
		t.Errorf("the others are blocked: %v", err)
	}
	way.Cut()
	way.Resume()
	close(thaw)
	n.charges(21, 30)
	n.agrees(b, 30)
	n.agrees(a, 30)
}

// A node whose polls fail reports when that began.
func TestStale_PollsFail_ReportsSinceWhen(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		cfg := following
		reg := prometheus.NewRegistry()
		cfg.Registerer = reg
		a, b := n.start(folding, 1), n.start(cfg, 1)
		n.charges(0, 5)
		b.CatchUp(b.r)
		if since, err := b.r.Stale(); !since.IsZero() || err != nil {
			t.Errorf("before: since %v, %v", since, err)
		}
		a.stop()
		before := time.Now()
		a.Exec(`ALTER TABLE projections_registry RENAME TO registry_is_away`)
		eventually(t, b.Env, func() bool { return b.Logged("reading the state of the read models failed") })
		since, err := b.r.Stale()
		if since.Before(before.Add(-time.Minute)) || !strings.Contains(fmt.Sprint(err), "registry") {
			t.Errorf("while polls fail: since %v, %v", since, err)
		}
		logged := b.LogCount()
		if err := b.WaitForLog(b.Context(), logged); err != nil { // the next failure
			t.Fatal(err)
		}
		if again, err := b.r.Stale(); again != since || err == nil {
			t.Errorf("later: since %v, was %v; %v", again, since, err)
		}
		if got := counted(t, reg, "letterhead_projection_look_failures_total"); got < 2 {
			t.Errorf("%v failures were counted", got)
		}
		a.Exec(`ALTER TABLE registry_is_away RENAME TO projections_registry`)
		n.start(folding, 1)
		last := n.charges(5, 6)
		testmust.Succeed(t, b.r.WaitFor(b.Context(), "toy", last))
		if err := b.r.WaitFor(b.Context(), "toy", n.charges(6, 7)); err != nil { // of a later poll
			t.Fatal(err)
		}
		if since, err := b.r.Stale(); !since.IsZero() || err != nil {
			t.Errorf("after: since %v, %v", since, err)
		}
	})
}

func counted(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all := testmust.Get(reg.Gather())(t)
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Errorf("no metric %s", name)
	return 0
}

// cacher is a toy that records the calls about its live tables.
type cacher struct {
	*toy
	mu        sync.Mutex
	forgotten int
	ranges    [][2]eventlog.Position
	broken    error
}

// Forget implements projections.Forgetter.
func (c *cacher) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	c.ranges = nil
}

// Invalidate implements projections.Invalidator.
func (c *cacher) Invalidate(ctx context.Context, q projections.Queryer, t *projections.Tables, after, upTo eventlog.Position) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rows int
	if err := q.QueryRowContext(ctx, t.SQL(`SELECT count(*) FROM {counts1}`)).Scan(&rows); err != nil {
		return err
	}
	if c.broken != nil {
		return c.broken
	}
	c.ranges = append(c.ranges, [2]eventlog.Position{after, upTo})
	return nil
}

func TestFollower_TablesChange_InvalidatesCaches(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a := n.start(folding, 1)
		n.charges(0, 5)
		a.CatchUp(a.r)
		e := n.root.Node()
		c := &cacher{toy: newToy("toy", e.Store, 1)}
		b := &node{Env: e, toy: c.toy, r: e.New(following, c)}
		if !e.Shared() {
			b.r.Share(n.lead)
		}
		b.stop = e.Run(b.r)
		for i := range 10 {
			last := n.charges(5+i, 6+i)
			testmust.Succeed(t, b.r.WaitFor(b.Context(), "toy", last))
			c.mu.Lock()
			at := eventlog.Position(5)
			for _, r := range c.ranges {
				if r[0] != at || r[1] <= at {
					t.Fatalf("invalidated %v, which are not consecutive", c.ranges)
				}
				at = r[1]
			}
			if at < last || c.forgotten != 1 {
				t.Fatalf("WaitFor %d returned after Invalidate up to %d and %d forgotten", last, at, c.forgotten)
			}
			c.mu.Unlock()
		}

		// WaitFor does not return for changes that could not be invalidated.
		c.mu.Lock()
		c.broken = errors.New("no memory")
		before := len(c.ranges)
		c.mu.Unlock()
		last := n.charges(15, 16)
		a.CatchUp(a.r)
		eventually(t, b.Env, func() bool { return b.Logged("reading the state of the read models failed") })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.r.Await(ended, "toy", last); !errors.Is(err, context.Canceled) {
			t.Errorf("Await before the invalidation: %v, want %v", err, context.Canceled)
		}
		c.mu.Lock()
		c.broken = nil
		c.mu.Unlock()
		testmust.Succeed(t, b.r.WaitFor(b.Context(), "toy", last))
		c.mu.Lock()
		if r := c.ranges[before]; r[0] != 15 {
			t.Errorf("after an error, invalidated %v", r)
		}
		c.mu.Unlock()

		if err := a.r.Rebuild(a.Context(), nil, nil); err != nil { // other tables: Reload
			t.Fatal(err)
		}
		status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.Generation == 2 })
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.forgotten != 2 || len(c.ranges) != 0 {
			t.Errorf("after a swap: %d forgotten, invalidated %v", c.forgotten, c.ranges)
		}
	})
}
