package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// nodes creates Runners on one database. On PostgreSQL the database chooses the leader, on SQLite a lock of the test.
type nodes struct {
	t    *testing.T
	root *projectionstest.Env
	lock chan struct{}
	// strict makes the toys of later nodes Strict.
	strict bool
}

func eachNodes(t *testing.T, test func(t *testing.T, n *nodes)) {
	t.Helper()
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		test(t, &nodes{t: t, root: e, lock: make(chan struct{}, 1)})
	})
}

// node is one process.
type node struct {
	*projectionstest.Env
	r    *engine.Runner
	toy  *toy
	stop func()
}

// lead replaces Store.Lead on SQLite.
func (n *nodes) lead(ctx context.Context, _ string, do func(context.Context) error) error {
	select {
	case n.lock <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-n.lock }()
	return do(ctx)
}

func (n *nodes) prepare(cfg engine.Config, versions ...int) *node {
	n.t.Helper()
	e := n.root.Node()
	p := newToy("toy", e.Store, versions...)
	p.strict = n.strict
	x := &node{Env: e, toy: p, r: e.New(cfg, p)}
	if !e.Shared() {
		x.r.Share(n.lead)
	}
	return x
}

func (n *nodes) start(cfg engine.Config, versions ...int) *node {
	n.t.Helper()
	x := n.prepare(cfg, versions...)
	x.stop = x.Run(x.r)
	return x
}

const (
	leads = "this node folds the read models"
	drops = "dropped tables"
)

// leading waits until a node leads.
func (x *node) leading(t *testing.T) {
	t.Helper()
	eventually(t, x.Env, func() bool { return x.Logged(leads) })
}

var (
	folding   = quick
	following = engine.Config{FollowOnly: true, RetryFirst: time.Millisecond, RetryLast: 5 * time.Millisecond}
)

func (n *nodes) charges(from, to int) (last eventlog.Position) {
	for i := from; i < to; i++ {
		last = n.root.Events("account-a", start, charge(i))
	}
	return last
}

func TestFollower_LeaderFolds_SeesRows(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		b := n.start(following, 1)
		if err := b.r.Ready(); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("Ready before any fold: %v, want %v", err, projections.ErrNotReady)
		}
		if _, _, err := b.toy.count("a"); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("read before any fold: %v, want %v", err, projections.ErrNotReady)
		}
		a := n.start(folding, 1)
		for i := range 20 {
			last := n.charges(i, i+1)
			testmust.Succeed(t, b.r.WaitFor(b.Context(), "toy", last))
			wantCount(t, b.toy, "a", int64(i+1))
		}
		a.CatchUp(a.r) // it knows its position only after the commit that others see
		b.CatchUp(b.r)
		if err := b.r.Ready(); err != nil {
			t.Error(err)
		}
		for _, x := range []*node{a, b} {
			all := testmust.Get(x.r.List(t.Context()))(t)
			if s := all[0]; s.State != "live" || s.Position != 20 || s.Lag != 0 || s.Generation != 1 {
				t.Errorf("list: %+v, want generation 1, live at 20", s)
			}
		}
		b.toy.mu.Lock()
		defer b.toy.mu.Unlock()
		if b.toy.folds > 0 {
			t.Error("the follower folded")
		}
	})
}

func TestFollower_ModelIsQuarantined_ReportsIt(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a, b := n.start(folding, 1), n.start(following, 1)
		n.charges(0, 5)
		b.CatchUp(b.r)
		a.toy.breakAt(func(e *projections.Event) error {
			if e.Revision == 7 {
				return errors.New("not this one")
			}
			return nil
		})
		last := n.charges(5, 10)
		var aside *engine.QuarantinedError
		if err := b.r.WaitFor(b.Context(), "toy", last); !errors.As(err, &aside) || !strings.Contains(err.Error(), "not this one") {
			t.Errorf("WaitFor on another node: %v", err)
		}
		status(t, b.Env, b.r, "toy", func(s engine.Status) bool {
			return s.State == "set_aside" && strings.Contains(s.Error, "not this one")
		})
		a.toy.breakAt(nil)
		status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.State == "live" })
		if err := b.r.WaitFor(b.Context(), "toy", last); err != nil {
			t.Error(err)
		}
		wantCount(t, b.toy, "a", 10)

		// It is stopped when its node dies, and the next node continues.
		a.toy.breakAt(func(e *projections.Event) error { return errors.New("nothing any more") })
		last = n.charges(10, 11)
		if err := b.r.WaitFor(b.Context(), "toy", last); !errors.As(err, &aside) {
			t.Errorf("WaitFor on another node: %v", err)
		}
		a.stop()
		n.start(folding, 1)
		status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.State == "live" })
		if err := b.r.WaitFor(b.Context(), "toy", last); err != nil {
			t.Error(err)
		}
		wantCount(t, b.toy, "a", 11)
	})
}

func TestFollower_BuildFails_ReportsIt(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		n.charges(0, 5)
		b := n.start(following, 1)
		a := n.prepare(folding, 1)
		a.toy.breakAt(func(e *projections.Event) error {
			if e.Revision == 3 {
				return errors.New("not this one")
			}
			return nil
		})
		a.stop = a.Run(a.r)
		var aside *engine.QuarantinedError
		if err := b.r.WaitFor(b.Context(), "toy", 5); !errors.As(err, &aside) || !strings.Contains(err.Error(), "not this one") {
			t.Errorf("WaitFor on another node: %v", err)
		}
		if err := b.r.Ready(); !errors.As(err, &aside) || !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("Ready on another node: %v, want ErrNotReady and why", err)
		}
		a.toy.breakAt(nil)
		s := status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.State == "live" })
		if s.Error != "" {
			t.Errorf("after it was built: %+v, want no error", s)
		}
		wantCount(t, b.toy, "a", 5)
	})
}

// lagging is a log whose head comes from an outdated replica the first few times.
type lagging struct {
	eventlog.Log
	times atomic.Int32
}

func (l *lagging) Head(ctx context.Context) (eventlog.Position, error) {
	head, err := l.Log.Head(ctx)
	if l.times.Add(-1) >= 0 {
		return head / 2, err
	}
	return head, err
}

// A single report of an earlier end of the log does not drop tables that are past it.
func TestTakeOver_HeadOfReplicaIsBehind_LosesNothing(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a := n.start(folding, 1)
		n.charges(0, 10)
		a.CatchUp(a.r)
		a.stop()
		e := n.root.Node()
		behind := &lagging{Log: e.Log}
		behind.times.Store(3)
		cfg := folding
		cfg.Logger = e.Logger()
		p := newToy("toy", e.Store, 1)
		r := testmust.Get(engine.New(projectionstest.Config(cfg), behind, e.Store, p))(t)
		if !e.Shared() {
			r.Share(n.lead)
		}
		e.Run(r)
		eventually(t, e, func() bool { return e.Logged(leads) })
		if e.Logged("ahead of the event log") {
			t.Error("the node reported a loss after one outdated end of the log")
		}
		all, err := r.List(t.Context())
		if err != nil || all[0].Generation != 1 || all[0].State != "live" {
			t.Errorf("list: %+v, %v, want generation 1, live", all, err)
		}
		wantCount(t, p, "a", 10)
	})
}

// Rule 8.
func TestLeader_Stops_AnotherNodeTakesOver(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a := n.start(folding, 1)
		a.leading(t)
		b, c := n.start(folding, 1), n.start(following, 1)
		for round := range 6 {
			last := n.charges(round*10, round*10+10)
			if round%2 == 0 {
				testmust.Succeed(t, c.r.WaitFor(c.Context(), "toy", last))
			}
			a.stop() // in the middle of catching up in the odd rounds
			b.leading(t)
			a, b = b, n.start(folding, 1)
		}
		c.CatchUp(c.r)
		wantCount(t, c.toy, "a", 60)
		found, err := c.r.Verify(c.Context(), nil, nil)
		if err != nil || len(found) != 1 || !found[0].OK() {
			t.Errorf("verify: %+v, %v, want one equal model", found, err)
		}
	})
}

// An earlier release made the tables.
func TestLeader_IndexIsNewInARelease_CreatesIt(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a := n.start(folding, 1)
		n.charges(0, 10)
		a.CatchUp(a.r)
		a.stop()
		statement := "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = $1"
		if a.Shared() {
			statement = "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema() AND indexname = $1"
		}
		var index string
		testmust.Succeed(t, a.toy.handle.Read(func(_ projections.Queryer, tables *projections.Tables) error {
			index = tables.Name("counts1") + "_by_count"
			return nil
		}))
		n.root.Exec("DROP INDEX " + index)
		b := n.start(folding, 1)
		_, ok := testwait.Until(testwait.Timeout, func() bool {
			var found int
			err := b.Store.Read().QueryRowContext(b.Context(), statement, index).Scan(&found)
			return err == nil && found == 1
		})
		if !ok {
			t.Error("the leader has not created the index")
		}
		n.charges(10, 20)
		n.agrees(b, 20)
	})
}

// Both nodes always believe that they lead. Each notices the other's writes before it writes a row.
// Rule 8.
func TestTwoLeaders_AreFenced(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		always := func(ctx context.Context, _ string, do func(context.Context) error) error { return do(ctx) }
		var pair [2]*projectionstest.Env
		var runners [2]*engine.Runner
		var stops [2]func()
		cfg := engine.Config{BatchEvents: 20, RetryFirst: time.Millisecond, RetryLast: 5 * time.Millisecond}
		for i := range pair {
			pair[i] = e.Node()
			runners[i] = pair[i].New(cfg, newModels(t, pair[i]).all()...)
			runners[i].Share(always)
		}
		w := projectionstest.NewWorld(7, 10, 10, time.Minute)
		e.Fill(w, 200)
		for i := range pair {
			stops[i] = pair[i].Run(runners[i])
		}
		for i := range 30 {
			e.Fill(w, 20)
			if i%10 == 9 {
				e.CatchUp(runners[i%2])
			}
		}
		e.CatchUp(runners[0])
		e.CatchUp(runners[1])
		if !pair[0].Logged("no longer folds") && !pair[1].Logged("no longer folds") {
			t.Error("neither node noticed the other, so nothing was tested")
		}
		stops[0]()
		found := testmust.Get(runners[1].Verify(e.Context(), nil, nil))(t)
		for _, v := range found {
			if !v.OK() {
				t.Errorf("%s at %d: %v %v", v.Name, v.Position, v.Difference, v.Err)
			}
		}
		live := dumps(e)
		testmust.Succeed(t, runners[1].Rebuild(e.Context(), nil, nil))
		compareDumps(t, live, dumps(e))
	})
}

// A reader finds the live tables itself even if its Runner has not polled since the swap.
func TestRead_TablesRetired_UsesLiveOnes(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		cfg := folding
		cfg.DropAfter = time.Nanosecond
		a := n.start(cfg, 1)
		n.charges(0, 10)
		a.CatchUp(a.r)
		b := n.prepare(following, 1) // never run
		testmust.Succeed(t, b.r.Start(t.Context()))
		wantCount(t, b.toy, "a", 10)
		testmust.Succeed(t, a.r.Rebuild(a.Context(), nil, nil))
		n.charges(10, 12)
		a.CatchUp(a.r)
		eventually(t, a.Env, func() bool { return a.Logged(drops) })
		if left := a.Tables("toy_v1_g1_"); len(left) > 0 {
			t.Fatalf("the old tables still exist: %v", left)
		}
		wantCount(t, b.toy, "a", 12)

		testmust.Succeed(t, a.r.Rebuild(a.Context(), nil, nil))
		n.charges(12, 13)
		a.CatchUp(a.r)
		err := b.toy.handle.Snapshot(t.Context(), func(q projections.Queryer, tables *projections.Tables, at eventlog.Position) error {
			if tables.Generation != 3 || at != 13 {
				t.Errorf("snapshot of generation %d at %d", tables.Generation, at)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// proven reads a count with the proof that the tables are live.
func (p *toy) proven(account string) (n, at int64, err error) {
	err = p.handle.Read(func(q projections.Queryer, t *projections.Tables) error {
		var position, count sql.NullInt64
		err := q.QueryRowContext(context.Background(), t.SQL(`
SELECT {position}, c.v1 FROM (SELECT 1) AS one LEFT JOIN {counts1} AS c ON c.account = $1`), account).Scan(&position, &count)
		if err == nil && !position.Valid {
			return projections.ErrRetired
		}
		n, at = count.Int64, position.Int64
		return err
	})
	return n, at, err
}

// Readers on another node get no error during swaps and drops. With the proof, they see all rows that any node has
// acknowledged.
// Rule 8.
func TestRead_SwapsOnAnotherNode_NeverFails(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		cfg := folding
		cfg.DropAfter = time.Nanosecond
		a, b := n.start(cfg, 1), n.start(following, 1)
		n.charges(0, 50)
		a.CatchUp(a.r)
		b.CatchUp(b.r)
		var acknowledged atomic.Int64 // charges that were waited for on the leader
		acknowledged.Store(50)
		ctx, done := context.WithCancel(b.Context())
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for ctx.Err() == nil {
					least := acknowledged.Load()
					if n, at, err := b.toy.proven("a"); err != nil || n < least || at < least {
						t.Errorf("read %d charges at %d, at least %d were acknowledged; %v", n, at, least, err)
						return
					}
					if _, _, err := b.toy.count("a"); err != nil {
						t.Errorf("plain read: %v", err)
						return
					}
				}
			})
		}
		for round := range 5 {
			if err := a.r.Rebuild(a.Context(), nil, nil); err != nil {
				t.Error(err)
				break
			}
			last := n.charges(50+round, 51+round)
			if err := a.r.WaitFor(a.Context(), "toy", last); err != nil {
				t.Error(err)
				break
			}
			acknowledged.Store(int64(51 + round))
		}
		done()
		readers.Wait()
	})
}

func TestRebuild_OnFollower_LeaderRebuilds(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		cfg := folding
		cfg.BatchEvents = 10
		a, b := n.start(cfg, 1), n.start(following, 1)
		n.charges(0, 100)
		b.CatchUp(b.r)
		var last engine.Progress
		testmust.Succeed(t, b.r.Rebuild(b.Context(), nil, func(p engine.Progress) { last = p }))
		if last.Position != 100 || last.Target != 100 {
			t.Errorf("last progress: %+v, want 100 of 100", last)
		}
		wantCount(t, b.toy, "a", 100)
		s := status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.Building == nil })
		if s.Generation != 2 || s.State != "live" {
			t.Errorf("after the rebuild: %+v, want generation 2, live", s)
		}

		a.toy.breakAt(func(e *projections.Event) error {
			if e.Revision == 44 {
				return errors.New("not this one")
			}
			return nil
		})
		err := b.r.Rebuild(b.Context(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "rebuild toy") || !strings.Contains(err.Error(), "account-a@44") {
			t.Errorf("failing rebuild: %v", err)
		}
		wantCount(t, b.toy, "a", 100)
		if left := a.Tables("toy_v1_g3_"); len(left) > 0 {
			t.Errorf("remaining tables of the failed rebuild: %v", left)
		}

		a.toy.breakAt(func(e *projections.Event) error {
			if e.Revision == 44 {
				return fmt.Errorf("away: %w", sqlstore.ErrUnavailable) // retried forever
			}
			return nil
		})
		ended := make(chan error, 1)
		go func() { ended <- b.r.Rebuild(b.Context(), nil, nil) }()
		status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.Building != nil })
		if err := b.r.Rebuild(b.Context(), nil, nil); !errors.Is(err, engine.ErrBuilding) {
			t.Errorf("second rebuild: %v, want %v", err, engine.ErrBuilding)
		}
		a.toy.breakAt(nil)
		if err := <-ended; err != nil {
			t.Errorf("first rebuild: %v", err)
		}
	})
}

// Rule 8.
func TestRebuild_LeaderDies_NextLeaderContinues(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		cfg := folding
		cfg.BatchEvents = 1
		a := n.start(cfg, 1)
		a.leading(t)
		b := n.start(cfg, 1)
		n.charges(0, 100)
		b.CatchUp(b.r)
		var reached atomic.Bool
		halfway := make(chan struct{})
		a.toy.breakAt(func(e *projections.Event) error {
			if e.Revision >= 50 {
				if reached.CompareAndSwap(false, true) {
					close(halfway)
				}
				return fmt.Errorf("away: %w", sqlstore.ErrUnavailable)
			}
			return nil
		})
		ended := make(chan error, 1)
		go func() { ended <- b.r.Rebuild(b.Context(), nil, nil) }()
		<-halfway
		a.stop()
		testmust.Succeed(t, <-ended)
		wantCount(t, b.toy, "a", 100)
		b.toy.mu.Lock()
		defer b.toy.mu.Unlock()
		if b.toy.folds == 0 || b.toy.folds > 80 { // 25 batches whose rows are written together were complete
			t.Errorf("the next leader folded %d batches, so it did not continue where the previous one stopped", b.toy.folds)
		}
	})
}

// Rule 8.
func TestVerify_OnFollower_ReportsDifferences(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		n.start(folding, 1)
		b := n.start(following, 1)
		n.charges(0, 30)
		b.CatchUp(b.r)
		stop := make(chan struct{})
		var more sync.WaitGroup
		more.Go(func() { // the leader folds meanwhile
			for i := 30; i < 500; i++ {
				select {
				case <-stop:
					return
				default:
					n.charges(i, i+1)
				}
			}
		})
		found, err := b.r.Verify(b.Context(), nil, nil)
		close(stop)
		more.Wait()
		if err != nil || len(found) != 1 || !found[0].OK() || found[0].Rows != 1 || found[0].Position < 30 {
			t.Errorf("verify: %+v, %v, want one equal row at 30 or later", found, err)
		}
		b.CatchUp(b.r) // a later fold writes the row again
		b.Exec(`UPDATE toy_v1_g1_counts1 SET v1 = v1 + 1`)
		found, err = b.r.Verify(b.Context(), nil, nil)
		if err != nil || len(found) != 1 || found[0].Difference == nil || found[0].Difference.Column != "v1" {
			t.Errorf("verify of a changed row: %+v, %v, want a difference in column v1", found, err)
		}
		if left := b.Tables("toy_v1_g2"); len(left) > 0 {
			t.Errorf("remaining scratch tables: %v", left)
		}
	})
}

// clock is frozen until it is started, and then advances an hour with each reading.
type clock struct {
	runs  atomic.Bool
	hours atomic.Int64
}

func (c *clock) now() time.Time {
	if c.runs.Load() {
		c.hours.Add(1)
	}
	return start.Add(time.Duration(c.hours.Load()) * time.Hour)
}

// Scratch tables of a dead node are dropped when they have not moved for a long time.
func TestScratch_NodeIsGone_IsDropped(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		var clock clock
		cfg := folding
		cfg.Now = clock.now
		a := n.start(cfg, 1)
		n.charges(0, 3)
		a.CatchUp(a.r)
		a.Exec(`CREATE TABLE toy_v1_g7_counts1 (account TEXT NOT NULL PRIMARY KEY, v1 BIGINT NOT NULL)`)
		a.Exec(`INSERT INTO projections_registry (name, fold_version, generation, state, position, failure)
VALUES ('toy', 1, 7, 'scratch', 2, ''), ('other', 1, 8, 'scratch', 2, '')`)
		for range 3 { // the leader sees them at each poll, and must not drop them yet
			last := n.charges(3, 4)
			testmust.Succeed(t, a.r.WaitFor(a.Context(), "toy", last))
		}
		if a.Logged(drops) {
			t.Error("the scratch tables were dropped too early")
		}
		if _, err := a.r.Verify(a.Context(), nil, nil); err != nil { // creates and drops other scratch tables
			t.Error(err)
		}
		clock.runs.Store(true)
		eventually(t, a.Env, func() bool { return len(a.Tables("toy_v1_g7_")) == 0 })
		var others int
		if err := a.Store.Read().QueryRow(`SELECT count(*) FROM projections_registry WHERE name = 'other'`).Scan(&others); err != nil || others != 1 {
			t.Errorf("another model has %d, %v", others, err)
		}
	})
}

// During an upgrade a node of the old release reads until the new tables are live, and then reports the reason.
func TestNewRelease_NextToOldOne_BothServe(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		old := n.start(following, 1)
		leader := n.start(folding, 1)
		n.charges(0, 10)
		old.CatchUp(old.r)
		next := n.prepare(folding, 2, 1)
		gate := make(chan struct{})
		next.toy.gates = map[int]chan struct{}{2: gate}
		next.stop = next.Run(next.r)
		if count, v, err := next.toy.count("a"); count != 10 || v != 1 || err != nil {
			t.Errorf("new release next to the old tables: %d of version %d, %v", count, v, err)
		}
		leader.stop()
		next.leading(t)
		last := n.charges(10, 12)
		testmust.Succeed(t, old.r.WaitFor(old.Context(), "toy", last))
		wantCount(t, old.toy, "a", 12)
		close(gate)
		status(t, next.Env, next.r, "toy", func(s engine.Status) bool { return s.Version == 2 })
		last = n.charges(12, 13)
		testmust.Succeed(t, next.r.WaitFor(next.Context(), "toy", last))
		wantCount(t, next.toy, "a", 13)
		if err := old.r.WaitFor(old.Context(), "toy", last); !errors.Is(err, projections.ErrNewerRelease) {
			t.Errorf("WaitFor of the old release: %v, want %v", err, projections.ErrNewerRelease)
		}
		if _, _, err := old.toy.count("a"); !errors.Is(err, projections.ErrNewerRelease) {
			t.Errorf("read by the old release: %v, want %v", err, projections.ErrNewerRelease)
		}
		late := n.prepare(folding, 1)
		if err := late.r.Start(t.Context()); !errors.Is(err, projections.ErrNewerRelease) {
			t.Errorf("start of an old release: %v, want %v", err, projections.ErrNewerRelease)
		}
	})
}
