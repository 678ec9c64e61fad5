package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// release is a node of a release, not started: data format 1 has version 1 of the toy, format 2 has version 2.
func (n *nodes) release(cfg engine.Config, format int) *node {
	n.t.Helper()
	cfg.Format = format
	versions := []int{2, 1}[2-format:]
	e := n.root.Node()
	p := newToy("toy", e.Store, versions...)
	p.raised = true
	x := &node{Env: e, toy: p, r: e.New(cfg, p)}
	if !e.Shared() {
		x.r.Share(n.lead)
	}
	return x
}

func (n *nodes) startRelease(cfg engine.Config, format int) *node {
	n.t.Helper()
	x := n.release(cfg, format)
	x.stop = x.Run(x.r)
	return x
}

// serves checks that a node's readers get a complete version of the toy.
func (n *nodes) serves(x *node, version int, last eventlog.Position) {
	n.t.Helper()
	if err := x.r.WaitFor(x.Context(), "toy", last); err != nil {
		n.t.Fatal(err)
	}
	count, got, err := x.toy.count("a")
	if err != nil || got != version || count != int64(last) {
		n.t.Errorf("version %d counts %d (%v), want version %d and %d", got, count, err, version, last)
	}
}

// level waits until the next version has caught up with the live one.
func (n *nodes) level(x *node) {
	n.t.Helper()
	eventually(n.t, x.Env, func() bool {
		u, err := x.r.Upgrade(n.t.Context())
		if err != nil {
			n.t.Fatal(err)
		}
		return !u.Finished() && len(u.Models) == 1 && u.Level()
	})
}

// Rule 8.
func TestRollingUpgrade_UntilFinished_BothReleasesServe(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		old := n.startRelease(folding, 1)
		bystander := n.release(following, 1)
		testmust.Succeed(t, bystander.r.Start(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- bystander.r.Run(bystander.Context()) }()
		last := n.charges(0, 20)
		old.CatchUp(old.r)

		// The new release starts while an old node leads. It is ready immediately, with the rows that the old node folds.
		follower := n.release(following, 2)
		if err := errors.Join(follower.r.Start(t.Context()), follower.r.Ready()); err != nil {
			t.Fatalf("a new node with an old leader: %v", err)
		}
		go func() { _ = follower.r.Run(follower.Context()) }() // its effects are checked below
		n.serves(follower, 1, last)
		young := n.startRelease(folding, 2)
		n.serves(young, 1, last)
		if err := follower.r.FinishUpgrade(expired(t), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("finish without tables of the new version: %v, want %v", err, context.Canceled)
		}

		// It takes over: it serves the old tables, and builds those of the new version next to them.
		old.stop()
		young.leading(t)
		n.level(young)
		last = n.charges(20, 40)
		for _, x := range []*node{young, follower, bystander} {
			n.serves(x, 1, last)
		}

		// A rollback while the new version is built: an old node leads and reads its own tables.
		young.stop()
		back := n.startRelease(folding, 1)
		back.leading(t)
		last = n.charges(40, 60)
		for _, x := range []*node{back, follower, bystander} {
			n.serves(x, 1, last)
		}

		// Upgrade again. A rebuild in between affects the live version.
		back.stop()
		young = n.startRelease(folding, 2)
		young.leading(t)
		if err := follower.r.Rebuild(follower.Context(), nil, nil); err != nil {
			t.Error(err)
		}
		n.level(young)
		last = n.charges(60, 70)
		n.serves(bystander, 1, last)
		if u, err := follower.r.Upgrade(t.Context()); err != nil || u.Format != 1 || u.Release != 2 || u.Models[0].Live != 1 || u.Models[0].Next != 2 {
			t.Errorf("before the end: %+v, %v, want format 1, release 2, live version 1 and next version 2", u, err)
		}
		testmust.Succeed(t, follower.r.FinishUpgrade(follower.Context(), nil))
		last = n.charges(70, 80)
		n.serves(young, 2, last)
		n.serves(follower, 2, last)
		if u, err := follower.r.Upgrade(t.Context()); err != nil || !u.Finished() || len(u.Models) != 0 {
			t.Errorf("after the end: %+v, %v, want a finished upgrade", u, err)
		}
		if found, err := young.r.Verify(young.Context(), nil, nil); err != nil || !found[0].OK() || found[0].Version != 2 {
			t.Errorf("verify: %+v, %v, want an equal model of version 2", found, err)
		}
		if err := follower.r.FinishUpgrade(follower.Context(), nil); err != nil {
			t.Errorf("finishing twice: %v", err)
		}

		// The old release stops, and cannot start again.
		if err := <-ended; !errors.Is(err, projections.ErrNewerRelease) {
			t.Errorf("an old node after the end of the upgrade: %v, want %v", err, projections.ErrNewerRelease)
		}
		err := n.release(folding, 1).r.Start(t.Context())
		if !errors.Is(err, projections.ErrNewerRelease) || !strings.Contains(err.Error(), "Run the newer release") {
			t.Errorf("an old node starts after the end of the upgrade: %v", err)
		}
	})
}

// expired returns a context that has ended.
func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// A database of a release that recorded no data format has the first format; one without read models gets the format of
// the first release that uses it.
func TestDataFormat_FirstNodeRecordsIt(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		noted := func(want int) {
			t.Helper()
			if got, err := engine.ReadFormat(t.Context(), n.root.Store, eventschemas.Format); got != want || err != nil {
				t.Errorf("recorded data format %d (%v), want %d", got, err, want)
			}
		}
		noted(eventschemas.Format) // nothing was folded
		first := n.startRelease(folding, 2)
		n.charges(0, 3)
		first.CatchUp(first.r)
		noted(2)
		if first.r.Format() != 2 {
			t.Errorf("a new database has data format %d", first.r.Format())
		}
		first.stop()
		n.root.Exec("DELETE FROM projections_format")
		noted(1)
		second := n.startRelease(folding, 2)
		second.leading(t)
		if second.r.Format() != 1 {
			t.Errorf("a database without a recorded format has %d", second.r.Format())
		}
		noted(1)
		if err := second.r.FinishUpgrade(second.Context(), nil); err != nil || second.r.Format() != 2 {
			t.Errorf("data format %d, %v", second.r.Format(), err)
		}
		second.stop()
		n.root.Exec("DELETE FROM projections_format")
		single := following
		single.InForce = 2
		alone := n.startRelease(single, 2)
		if alone.r.Format() != 2 {
			t.Errorf("a single process has data format %d", alone.r.Format())
		}
	})
}

// A failing fold of the new version delays only the end of the upgrade.
// Rule 8.
func TestRollingUpgrade_NewFoldFails_OldTablesStayLive(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		old := n.startRelease(folding, 1)
		n.charges(0, 5)
		old.CatchUp(old.r)
		old.stop()
		young := n.release(folding, 2)
		young.toy.breakNew(errors.New("not in the new version"))
		young.stop = young.Run(young.r)
		last := n.charges(5, 10)
		n.serves(young, 1, last)
		eventually(t, young.Env, func() bool {
			u, err := young.r.Upgrade(t.Context())
			return err == nil && len(u.Models) == 1 && strings.Contains(u.Models[0].Error, "not in the new version")
		})
		n.serves(young, 1, n.charges(10, 20))
		young.toy.breakNew(nil)
		testmust.Succeed(t, young.r.FinishUpgrade(young.Context(), nil))
		n.serves(young, 2, n.charges(20, 30))
	})
}

// A killed command cannot withdraw its request. The request expires, so no node finishes the upgrade after the operator
// has left.
// Rule 8.
func TestFinishUpgrade_Killed_IsNotFinishedLater(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		old := n.startRelease(folding, 1)
		n.charges(0, 5)
		old.CatchUp(old.r)
		old.stop()
		var ahead atomic.Int64 // of the leader's clock
		cfg := folding
		cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		young := n.release(cfg, 2)
		young.toy.breakNew(errors.New("not yet"))
		young.stop = young.Run(young.r)
		young.leading(t)
		operator := n.startRelease(following, 2)
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			err := operator.r.FinishUpgrade(operator.Context(), func(engine.Progress) { runtime.Goexit() })
			t.Errorf("FinishUpgrade of a killed command returned %v", err)
		}()
		testwait.Receive(t, killed, "the end of the command")
		if u, err := operator.r.Upgrade(t.Context()); err != nil || !u.Asked {
			t.Fatalf("no request: %+v, %v, want a requested upgrade", u, err)
		}

		ahead.Store(int64(time.Minute))
		young.toy.breakNew(nil)
		n.level(young)
		if err := young.r.Rebuild(young.Context(), nil, nil); err != nil { // ends with a poll of the leader
			t.Fatal(err)
		}
		n.level(young)
		n.serves(young, 1, n.charges(5, 10))
		if u, err := young.r.Upgrade(t.Context()); err != nil || u.Format != 1 || u.Asked {
			t.Errorf("after the command was killed: %+v, %v, want format 1 and no request", u, err)
		}
		ahead.Store(0)
		testmust.Succeed(t, operator.r.FinishUpgrade(operator.Context(), nil))
		n.serves(young, 2, n.charges(10, 15))
	})
}

// If the database fails while new versions join the live loop, none of them joins twice.
func TestRollingUpgrade_DatabaseFailsWhenNewTablesJoin_IsRetried(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		two := func(format int) (*projectionstest.Env, *engine.Runner, [2]*toy) {
			e := n.root.Node()
			var toys [2]*toy
			for i, name := range []string{"first", "second"} {
				toys[i] = newToy(name, e.Store, []int{2, 1}[2-format:]...)
				toys[i].raised = true
			}
			cfg := folding
			cfg.Format = format
			r := e.New(cfg, toys[0], toys[1])
			if !e.Shared() {
				r.Share(n.lead)
			}
			return e, r, toys
		}
		e, r, _ := two(1)
		stop := e.Run(r)
		n.charges(0, 20)
		e.CatchUp(r)
		stop()

		create, drop := []string{`
CREATE TRIGGER fault BEFORE UPDATE OF failure ON projections_registry WHEN NEW.name = 'second' AND NEW.state = 'next'
BEGIN SELECT RAISE(ABORT, 'fault of the test'); END`}, "DROP TRIGGER fault"
		if n.root.Shared() {
			create, drop = []string{`CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'fault of the test'; END $$`, `
CREATE TRIGGER fault BEFORE UPDATE OF failure ON projections_registry FOR EACH ROW WHEN (NEW.name = 'second' AND NEW.state = 'next')
EXECUTE FUNCTION fault()`}, "DROP TRIGGER fault ON projections_registry"
		}
		for _, statement := range create {
			n.root.Exec(statement)
		}
		e, r, toys := two(2)
		stop = e.Run(r)
		defer stop()
		eventually(t, e, func() bool { return e.Logged("will retry") })
		n.root.Exec(drop)
		eventually(t, e, func() bool {
			u, err := r.Upgrade(t.Context())
			return err == nil && len(u.Models) == 2 && u.Level()
		})
		n.charges(20, 40)
		e.CatchUp(r)
		testmust.Succeed(t, r.FinishUpgrade(e.Context(), nil))
		n.charges(40, 60)
		e.CatchUp(r)
		for _, p := range toys {
			if count, version, err := p.count("a"); err != nil || version != 2 || count != 60 {
				t.Errorf("version %d of %s counts %d (%v)", version, p.name, count, err)
			}
		}
		if e.Logged("no longer folds") {
			t.Error("the node lost the leadership because it folded tables twice")
		}
	})
}
