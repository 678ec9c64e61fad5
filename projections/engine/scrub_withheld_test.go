package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// Rule 9.
func TestScrub_RepairFails_StrictReadModelIsNotRead(t *testing.T) {
	e := projectionstest.Open(t)
	e.Fill(projectionstest.NewWorld(5, 8, 12, time.Minute), 1500)
	m := newModels(t, e)
	r, _ := e.Start(engine.Config{ScratchFolder: t.TempDir()}, m.all()...)
	e.CatchUp(r)
	for _, model := range []projections.Projection{m.sessions, m.accounts} {
		l := readTable(t, e, model, model.Versions()[0].Tables[0])
		if _, ok := l.flip(t, e, l.columns[2], []int{0}); !ok {
			t.Fatal("no row")
		}
		e.Exec(fmt.Sprintf("CREATE TRIGGER full_disk BEFORE DELETE ON %s BEGIN SELECT RAISE(ABORT, 'no space'); END", l.name))
		if err := r.ScrubOnce(e.Context(), model.Name()); err == nil {
			t.Errorf("%s: the repair did not fail", model.Name())
		}
		err := model.Handle().Read(func(projections.Queryer, *projections.Tables) error { return nil })
		if strict := model.Versions()[0].Strict; errors.Is(err, projections.ErrNotReady) != strict {
			t.Errorf("reading %s with a wrong row: %v, strict %t", model.Name(), err, strict)
		}
		e.Exec("DROP TRIGGER full_disk")
		if err := r.ScrubOnce(e.Context(), model.Name()); err != nil {
			t.Error(err)
		}
		if err := model.Handle().Read(func(projections.Queryer, *projections.Tables) error { return nil }); err != nil {
			t.Errorf("reading %s after the repair: %v", model.Name(), err)
		}
	}
}

// wrong makes all rows of a toy's live table differ from the log.
func wrong(t *testing.T, x *projectionstest.Env, p *toy) {
	t.Helper()
	x.Exec("UPDATE " + readTable(t, x, p, p.Versions()[0].Tables[0]).name + " SET v1 = v1 + 1")
}

var errFull = errors.New("the disk is full")

// withhold makes all rows of a toy wrong and lets their repair fail, also later.
func withhold(t *testing.T, x *projectionstest.Env, r *engine.Runner, p *toy) {
	t.Helper()
	wrong(t, x, p)
	p.breakSwap(func() error { return errFull })
	if err := r.ScrubOnce(x.Context(), p.Name()); !errors.Is(err, errFull) {
		t.Fatalf("scrub: %v, want %v", err, errFull)
	}
}

// Rule 9.
func TestScrub_RepairFails_NoNodeReadsTheRows(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		n.strict = true
		a := n.start(folding, 1)
		a.leading(t)
		n.charges(0, 3)
		a.CatchUp(a.r)
		b := n.start(following, 1)
		b.CatchUp(b.r)
		wrong(t, a.Env, a.toy)
		wantCount(t, b.toy, "a", 4) // the damage has an effect
		a.toy.breakSwap(func() error { return errFull })
		if err := a.r.ScrubOnce(a.Context(), "toy"); !errors.Is(err, errFull) {
			t.Fatalf("scrub: %v, want %v", err, errFull)
		}
		unread := func(x *node) bool {
			_, _, err := x.toy.count("a")
			return errors.Is(err, projections.ErrNotReady)
		}
		if !unread(a) {
			t.Error("the leader reads rows that it could not repair")
		}
		eventually(t, b.Env, func() bool { return unread(b) })
		last := n.charges(3, 4)
		for _, x := range []*node{a, b} {
			if err := x.r.WaitFor(x.Context(), "toy", last); err != nil || !unread(x) {
				t.Errorf("after another event: %v, unread %t", err, unread(x))
			}
		}
		a.stop()
		c := n.start(folding, 1)
		if !unread(c) {
			t.Error("a node that starts reads the rows")
		}
		c.leading(t)
		if !unread(c) {
			t.Error("the next leader reads the rows")
		}
		testmust.Succeed(t, c.r.ScrubOnce(c.Context(), "toy"))
		wantCount(t, c.toy, "a", 4)
		eventually(t, b.Env, func() bool { return !unread(b) })
		wantCount(t, b.toy, "a", 4)
	})
}

// Rule 9.
func TestScrub_RepairFailsBeforeRestart_RowsAreNotReadUntilRepairOrRebuild(t *testing.T) {
	for name, cure := range map[string]func(*engine.Runner, *projectionstest.Env) error{
		"repair":  func(r *engine.Runner, e *projectionstest.Env) error { return r.ScrubOnce(e.Context()) },
		"rebuild": func(r *engine.Runner, e *projectionstest.Env) error { return r.Rebuild(e.Context(), nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			e := projectionstest.Open(t)
			begin := func() (p *toy, r *engine.Runner, stop func()) {
				p = newToy("toy", e.Store, 1)
				p.strict = true
				r, stop = e.Start(quick, p)
				e.CatchUp(r)
				return p, r, stop
			}
			e.Events("account-a", start, charge(0))
			p, r, stop := begin()
			withhold(t, e, r, p)
			for range 2 {
				stop()
				p, r, stop = begin()
				if n, _, err := p.count("a"); !errors.Is(err, projections.ErrNotReady) {
					t.Errorf("after a restart: %d, %v, want %v", n, err, projections.ErrNotReady)
				}
				found, err := r.Verify(e.Context(), nil, nil)
				if err != nil || len(found) != 1 || found[0].Difference == nil {
					t.Errorf("verify: %v, %v, want a difference", found, err)
				}
				all, err := r.List(e.Context())
				if err != nil || len(all) != 1 || !strings.Contains(all[0].Error, "could not be repaired") {
					t.Errorf("list: %v, %v, want the reason why rows are not read", all, err)
				}
			}
			testmust.Succeed(t, cure(r, e))
			wantCount(t, p, "a", 1)
			stop()
			p, _, _ = begin()
			wantCount(t, p, "a", 1)
		})
	}
}

func TestScrub_RowsWithheld_AreReadWhenAllAreRepaired(t *testing.T) {
	e := projectionstest.Open(t)
	p := newToy("toy", e.Store, 1)
	p.strict = true
	r, _ := e.Start(quick, p)
	const rows = 600 // more than one slice
	for i := range rows {
		e.Events(fmt.Sprintf("account-%d", i), start, charge(i))
	}
	e.CatchUp(r)
	withhold(t, e, r, p)
	repaired := 0
	p.breakSwap(func() error {
		repaired++
		if n, _, err := p.count("7"); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("before slice %d was repaired: %d, %v, want %v", repaired, n, err, projections.ErrNotReady)
		}
		return nil
	})
	if err := r.ScrubOnce(e.Context()); err != nil || repaired < 2 {
		t.Fatalf("%d slices were repaired, %v", repaired, err)
	}
	wantCount(t, p, "7", 1)
}

func TestScrub_RowsWithheld_AreComparedFirst(t *testing.T) {
	e := projectionstest.Open(t)
	e.Events("account-a", start, charge(0))
	p := newToy("strict", e.Store, 1)
	p.strict = true
	lines := testwait.NewLines()
	r, _ := e.Start(debugging(lines, nil), newToy("plain", e.Store, 1), p)
	e.CatchUp(r)
	withhold(t, e, r, p)
	p.breakSwap(nil)
	scrubbing(t, r)
	wantFirst(t, lines, "strict")
	wantCount(t, p, "a", 1)
}

func TestScrub_DatabaseIsAwayForAMoment_RowsStayReadable(t *testing.T) {
	away := fmt.Errorf("away: %w", sqlstore.ErrUnavailable)
	for name, c := range map[string]struct {
		failures int // of the repair
		err      error
		withheld bool
		tries    int
	}{
		"for a moment":      {3, away, false, 4},
		"longer":            {1000, away, true, engine.RepairTries},
		"on a full disk":    {1000, sqlstore.ErrFull, true, 1},
		"for another cause": {1, errFull, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := projectionstest.Open(t)
			e.Events("account-a", start, charge(0))
			p := newToy("toy", e.Store, 1)
			p.strict = true
			r, _ := e.Start(quick, p)
			e.CatchUp(r)
			wrong(t, e, p)
			tries := 0
			p.breakSwap(func() error {
				if tries++; tries <= c.failures {
					return c.err
				}
				return nil
			})
			if err := r.ScrubOnce(e.Context()); errors.Is(err, c.err) != c.withheld {
				t.Errorf("scrub: %v, want %v: %t", err, c.err, c.withheld)
			}
			if tries != c.tries {
				t.Errorf("%d attempts to repair the rows, want %d", tries, c.tries)
			}
			if _, _, err := p.count("a"); errors.Is(err, projections.ErrNotReady) != c.withheld {
				t.Errorf("reading the rows: %v, want withheld %t", err, c.withheld)
			}
			if !c.withheld {
				wantCount(t, p, "a", 1)
			}
		})
	}
}

func TestScrub_RowsWithheld_WorksHalfTheTime(t *testing.T) {
	e := projectionstest.Open(t)
	e.Events("account-a", start, charge(0))
	p := newToy("strict", e.Store, 1)
	p.strict = true
	r, _ := e.Start(quick, newToy("plain", e.Store, 1), p)
	e.CatchUp(r)
	want := func(pause time.Duration) {
		t.Helper()
		if got := r.ScrubPause(time.Second, 1); got != pause {
			t.Errorf("pause after a second of work at 1 percent: %s, want %s", got, pause)
		}
	}
	want(99 * time.Second)
	withhold(t, e, r, p)
	want(time.Second)
	p.breakSwap(nil)
	testmust.Succeed(t, r.ScrubOnce(e.Context(), "strict"))
	want(99 * time.Second)
}

// Rule 8.
func TestScrub_RowsStayWithheld_OtherReadModelsAreComparedToo(t *testing.T) {
	e := projectionstest.Open(t)
	e.Events("account-a", start, charge(0))
	lines := testwait.NewLines()
	models := []projections.Projection{newToy("plain", e.Store, 1)}
	var strict []*toy
	for _, name := range []string{"keys", "sessions"} {
		p := newToy(name, e.Store, 1)
		p.strict = true
		models, strict = append(models, p), append(strict, p)
	}
	r, _ := e.Start(debugging(lines, nil), models...)
	e.CatchUp(r)
	for _, p := range strict {
		wrong(t, e, p)
		p.breakSwap(func() error { return errFull })
	}
	scrubbing(t, r)
	wantFirst(t, lines, "plain")
	wantFirst(t, lines, "plain")
}
