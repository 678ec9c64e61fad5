package engine_test

import (
	"errors"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// logOf returns a node on another log with the given number of events.
func logOf(e *projectionstest.Env, stream string, events int) *projectionstest.Env {
	n := e.NodeOnLog(nil)
	for i := range events {
		n.Events(stream, start, charge(i))
	}
	return n
}

// A Runner whose log has fewer events than its tables remember neither folds nor drops them.
// Rule 8.
func TestRunner_LogLostEvents_FailsAndKeepsTables(t *testing.T) {
	for name, other := range map[string]func(*projectionstest.Env) *projectionstest.Env{
		"another log, longer":  func(e *projectionstest.Env) *projectionstest.Env { return logOf(e, "account-b", 8) },
		"another log, shorter": func(e *projectionstest.Env) *projectionstest.Env { return logOf(e, "account-b", 2) },
		"a log without events": func(e *projectionstest.Env) *projectionstest.Env { return logOf(e, "account-b", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			eachNodes(t, func(t *testing.T, n *nodes) {
				a := n.start(folding, 1)
				n.charges(0, 5)
				a.CatchUp(a.r)
				a.stop()

				e := other(n.root)
				lost := &node{Env: e, toy: newToy("toy", e.Store, 1)}
				lost.r = e.New(folding, lost.toy)
				if !e.Shared() {
					lost.r.Share(n.lead)
				}
				lost.stop = e.Run(lost.r)
				eventually(t, e, func() bool { return e.Logged("failed to fold") }) // it was the leader, and resigned

				b := n.start(folding, 1)
				b.leading(t)
				n.charges(5, 9)
				b.CatchUp(b.r)
				if s := status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.State == "live" }); s.Generation != 1 {
					t.Errorf("generation %d is live: the tables were rebuilt", s.Generation)
				}
				wantCount(t, b.toy, "a", 9)
			})
		})
	}
	t.Run("alone on its database", func(t *testing.T) {
		e := projectionstest.Open(t)
		n := &nodes{t: t, root: e}
		r, stop := e.Start(folding, newToy("toy", e.Store, 1))
		n.charges(0, 5)
		e.CatchUp(r)
		stop()
		other := logOf(e, "account-a", 3)
		if err := other.New(folding, newToy("toy", e.Store, 1)).Start(t.Context()); !errors.Is(err, eventlog.ErrLoss) {
			t.Fatalf("start on another log: %v, want %v", err, eventlog.ErrLoss)
		}
		p := newToy("toy", e.Store, 1)
		r, _ = e.Start(folding, p)
		e.CatchUp(r)
		if s := status(t, e, r, "toy", func(s engine.Status) bool { return s.State == "live" }); s.Generation != 1 {
			t.Errorf("generation %d is live: the tables were rebuilt", s.Generation)
		}
		wantCount(t, p, "a", 5)
	})
}

// A FoldedLog distinguishes a shortened log from another one, and Forget deletes it.
// Rule 8.
func TestFoldedLog_Losses(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		if m, err := engine.ReadFoldedLog(t.Context(), e.Store); err != nil || m.First != (eventlog.Mark{}) || len(m.Positions) > 0 {
			t.Fatalf("empty database: %+v, %v, want no marks and positions", m, err)
		}
		n := &nodes{t: t, root: e}
		n.charges(0, 5)
		r, stop := e.Start(folding, newToy("toy", e.Store, 1))
		e.CatchUp(r)
		n.charges(5, 6) // a live batch
		e.CatchUp(r)
		stop()
		m, err := engine.ReadFoldedLog(t.Context(), e.Store)
		if err != nil || m.First.Position != 1 || m.Last.Stream != "account-a" || m.Positions["toy"] != 6 {
			t.Fatalf("got %+v, %v, want first position 1, last stream account-a, toy at 6", m, err)
		}
		for name, c := range map[string]struct {
			log          *projectionstest.Env
			losses       int
			other, empty bool
		}{
			"the same log": {log: e},
			"another log":  {log: logOf(e, "account-b", 9), losses: 2, other: true},
			"no events":    {log: logOf(e, "account-a", 0), losses: 3},
		} {
			losses, err := m.Losses(t.Context(), eventlog.Probe(c.log.Log))
			if err != nil || len(losses) != c.losses {
				t.Errorf("%s: losses %v, %v; want %d", name, losses, err, c.losses)
			}
			for _, l := range losses {
				if l.Other != c.other {
					t.Errorf("%s: Other = %v, want %v: %v", name, l.Other, c.other, l)
				}
			}
		}
		testmust.Succeed(t, e.Store.Write(t.Context(), func(tx *sqlstore.Tx) error { return engine.Forget(t.Context(), e.Store, tx) }))
		if m, err := engine.ReadFoldedLog(t.Context(), e.Store); err != nil || m.First != (eventlog.Mark{}) || len(m.Positions) > 0 {
			t.Errorf("after Forget: %+v, %v, want no marks and positions", m, err)
		}
		if left := e.Tables("toy_v"); len(left) > 0 {
			t.Errorf("remaining tables: %v", left)
		}
		p := newToy("toy", e.Store, 1)
		r, _ = e.Start(folding, p)
		e.CatchUp(r)
		wantCount(t, p, "a", 6)
	})
}
