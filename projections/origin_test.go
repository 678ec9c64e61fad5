package projections_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"letterhead/internal/eventlog"
	"letterhead/projections"
	"letterhead/projections/projectionstest"
)

// Another log takes the place of the one that was folded. It is longer, so the positions of the old one exist in it.
func TestTablesOfAnotherLogAreBuiltAnew(t *testing.T) {
	for name, before := range map[string]int{"noted with the first events": 0, "noted at the start": 3} {
		t.Run(name, func(t *testing.T) {
			projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
				n := &nodes{t: t, root: e}
				n.charges(0, before)
				r, stop := e.Start(folding, newToy("toy", e.Store, 1))
				e.CatchUp(r)
				n.charges(before, 5)
				e.CatchUp(r)
				stop()

				again, stop := e.Start(folding, newToy("toy", e.Store, 1)) // the same log: nothing happens
				e.CatchUp(again)
				status(t, e, again, "toy", func(s projections.Status) bool { return s.State == "live" && s.Generation == 1 })
				stop()

				other := e.NodeOnLog(nil)
				for i := range 8 {
					other.Events("account-b", start, charge(i))
				}
				p := newToy("toy", other.Store, 1)
				r, stop = other.Start(folding, p)
				status(t, other, r, "toy", func(s projections.Status) bool { return s.State == "live" })
				if !other.Heard("is not the one that was folded") {
					t.Error("nobody was warned")
				}
				other.CatchUp(r)
				wantCount(t, p, "a", 0)
				wantCount(t, p, "b", 8)
				found, err := r.Verify(other.Context(), nil, nil)
				if err != nil || len(found) != 1 || !found[0].OK() {
					t.Errorf("verify: %+v, %v", found, err)
				}
				if err := r.Ready(); err != nil {
					t.Error(err)
				}
				stop()

				// And now that one is noted.
				back := e.NodeOnLog(e.Log)
				p = newToy("toy", back.Store, 1)
				r, _ = back.Start(folding, p)
				status(t, back, r, "toy", func(s projections.Status) bool { return s.State == "live" })
				back.CatchUp(r)
				wantCount(t, p, "a", 5)
				wantCount(t, p, "b", 0)
			})
		})
	}
}

// A node with the address of another event store does no harm to those that share the database.
func TestNodeOnAnotherLogIsRefused(t *testing.T) {
	for name, events := range map[string]int{"log with events": 8, "empty log": 0} {
		t.Run(name, func(t *testing.T) {
			eachNodes(t, func(t *testing.T, n *nodes) {
				a := n.start(folding, 1)
				n.charges(0, 5)
				a.CatchUp(a.r)
				e := n.root.NodeOnLog(nil)
				var last eventlog.Position
				for i := range events {
					last = e.Events("account-b", start, charge(i))
				}
				lost := &node{Env: e, toy: newToy("toy", e.Store, 1)}
				lost.r = e.New(folding, lost.toy)
				if !e.Shared() {
					lost.r.Share(n.lead)
				}
				lost.stop = e.Run(lost.r)
				lost.refuses(t, max(last, 1))

				a.stop()
				eventually(t, e, func() bool { return e.Heard("could not fold") }) // it had the lead, and gave it back
				b := n.start(folding, 1)
				b.leading(t)
				n.charges(5, 9)
				b.CatchUp(b.r)
				s := status(t, b.Env, b.r, "toy", func(s projections.Status) bool { return s.State == "live" })
				if s.Generation != 1 {
					t.Errorf("generation %d is live: the tables were built anew", s.Generation)
				}
				wantCount(t, b.toy, "a", 9)
				lost.refuses(t, max(last, 1))
			})
		})
	}
}

func (x *node) refuses(t *testing.T, at eventlog.Position) {
	t.Helper()
	ready := x.r.Ready()
	if !errors.Is(ready, projections.ErrOtherLog) || !errors.Is(ready, projections.ErrNotReady) || !strings.Contains(ready.Error(), "event store") {
		t.Errorf("ready: %v", ready)
	}
	_, _, read := x.toy.count("a")
	_, verify := x.r.Verify(x.Context(), nil, nil)
	for what, err := range map[string]error{
		"wait": x.r.WaitFor(x.Context(), "toy", at), "read": read, "verify": verify, "rebuild": x.r.Rebuild(x.Context(), nil, nil),
	} {
		if !errors.Is(err, projections.ErrOtherLog) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := x.r.List(context.Background())
	if err != nil || all[0].State != "building" || !strings.Contains(all[0].Error, "another event log") {
		t.Errorf("list: %+v, %v", all, err)
	}
}
