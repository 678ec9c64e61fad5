package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// keep keeps rebuilt tables of read models.
func keep(t *testing.T, r *engine.Runner, names ...string) {
	t.Helper()
	if complete, err := r.Keep(t.Context(), names, nil); err != nil || !slices.Equal(complete, names) {
		t.Fatalf("Keep = %v, %v", complete, err)
	}
}

// wantLive checks the live generation of a read model, and that no other is kept or built.
func wantLive(t *testing.T, r *engine.Runner, name string, generation int) {
	t.Helper()
	list, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name && (s.State != engine.Live || s.Generation != generation || s.Kept != nil || s.Building != nil) {
			t.Errorf("%+v, want generation %d to be live, and no other", s, generation)
		}
	}
}

// failAt fails to fold an event of each account.
func failAt(revision uint64) func(*projections.Event) error {
	return func(e *projections.Event) error {
		if e.Revision == revision {
			return errors.New("broken fold")
		}
		return nil
	}
}

func TestSwitch_OneOfThemIsNotKept_ChangesNone(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		kept, other := newToy("kept", e.Store, 1), newToy("other", e.Store, 1)
		r, _ := e.Start(engine.Config{}, kept, other)
		e.Fill(projectionstest.NewWorld(9, 5, 5, time.Hour), 100)
		e.CatchUp(r)
		keep(t, r, "kept")
		before := *keptOf(t, r, "kept")
		_, compared := r.Compare(t.Context(), nil, nil)
		for command, err := range map[string]error{"Switch": r.Switch(t.Context(), nil, nil), "Discard": r.Discard(t.Context(), nil), "Compare": compared} {
			if !errors.Is(err, engine.ErrNotKept) || !strings.Contains(err.Error(), "other") {
				t.Errorf("%s = %v, want ErrNotKept that names it", command, err)
			}
		}
		if after := keptOf(t, r, "kept"); after == nil || *after != before {
			t.Errorf("%+v is kept, want %+v", after, before)
		}
		wantLive(t, r, "other", 1)
		if err := r.Switch(t.Context(), []string{"kept"}, nil); err != nil {
			t.Error(err)
		}
		wantLive(t, r, "kept", 2)
	})
}

func TestSwitch_KeptTablesAreBehind_FoldsTheRest(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		r, _ := e.Start(engine.Config{BatchEvents: 10}, p)
		for i := range 20 {
			e.Events("account-a", start, charge(i))
		}
		e.CatchUp(r)
		keep(t, r, "toy")
		for i := 20; i < 100; i++ {
			e.Events("account-a", start, charge(i))
		}
		if err := r.Switch(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		e.CatchUp(r)
		wantLive(t, r, "toy", 2)
		wantCount(t, p, "a", 100)
		if err := r.Switch(t.Context(), nil, nil); !errors.Is(err, engine.ErrNotKept) {
			t.Errorf("the second Switch = %v, want ErrNotKept", err)
		}
		wantLive(t, r, "toy", 2)
	})
}

func TestSwitch_FoldFails_LiveTablesStay(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p, good := newToy("toy", e.Store, 1), newToy("good", e.Store, 1)
		r, _ := e.Start(quick, p, good)
		for i := range 20 {
			e.Events("account-a", start, charge(i))
		}
		e.CatchUp(r)
		keep(t, r, "good", "toy")
		for i := 20; i < 40; i++ {
			e.Events("account-a", start, charge(i))
		}
		e.CatchUp(r)
		p.breakAt(failAt(30)) // which only the kept tables have not folded
		all, err := r.Compare(t.Context(), nil, nil)
		if err != nil || len(all) != 2 || !all[0].Same() || all[1].Err == nil || !strings.Contains(all[1].Err.Error(), "broken fold") {
			t.Fatalf("Compare = %+v, %v, want the error of the fold for toy only", all, err)
		}
		if at := keptOf(t, r, "toy"); at == nil || at.Position != 30 {
			t.Errorf("%+v is kept, want what precedes event 30", at)
		}
		err = r.Switch(t.Context(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "broken fold") || strings.Contains(err.Error(), "good") {
			t.Errorf("Switch = %v, want the error of the fold for toy only", err)
		}
		wantLive(t, r, "good", 2)
		wantLive(t, r, "toy", 1)
		if left := e.Tables("toy_v1_g2_"); len(left) > 0 {
			t.Errorf("the tables that failed are left: %v", left)
		}
		e.CatchUp(r)
		wantCount(t, p, "a", 40)
		p.breakAt(nil)
		keep(t, r, "toy")
		if err := r.Switch(t.Context(), []string{"toy"}, nil); err != nil {
			t.Error(err)
		}
		wantCount(t, p, "a", 40)
	})
}

// interruptedSwitch begins to make kept tables live, and is cancelled while it folds what they lack.
func interruptedSwitch(t *testing.T, e *projectionstest.Env, r *engine.Runner) {
	t.Helper()
	for i := range 20 {
		e.Events("account-a", start, charge(i))
	}
	e.CatchUp(r)
	keep(t, r, "toy")
	for i := 20; i < 100; i++ {
		e.Events("account-a", start, charge(i))
	}
	e.CatchUp(r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := r.Switch(ctx, nil, func(engine.Progress) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted Switch = %v", err)
	}
}

func TestSwitch_Interrupted_LiveTablesStayUntilTheNext(t *testing.T) {
	e := projectionstest.Open(t)
	p := newToy("toy", e.Store, 1)
	r, _ := e.Start(engine.Config{BatchEvents: 10}, p)
	interruptedSwitch(t, e, r)
	list, err := r.List(t.Context())
	if err != nil || list[0].State != engine.Live || list[0].Generation != 1 || list[0].Building == nil || list[0].Building.Generation != 2 {
		t.Errorf("after the interruption: %+v, %v, want generation 1 to be live and 2 to be built", list, err)
	}
	wantCount(t, p, "a", 100)
	e.Events("account-a", start, charge(100))
	if err := r.Switch(t.Context(), nil, nil); err != nil {
		t.Errorf("the next Switch = %v", err)
	}
	e.CatchUp(r)
	wantLive(t, r, "toy", 2)
	wantCount(t, p, "a", 101)
}

func TestSwitch_Interrupted_NextStartContinues(t *testing.T) {
	e := projectionstest.Open(t)
	r, stop := e.Start(engine.Config{BatchEvents: 10}, newToy("toy", e.Store, 1))
	interruptedSwitch(t, e, r)
	stop()
	p := newToy("toy", e.Store, 1)
	r, _ = e.Start(engine.Config{}, p)
	status(t, e, r, "toy", func(s engine.Status) bool { return s.Generation == 2 })
	wantLive(t, r, "toy", 2)
	wantCount(t, p, "a", 100)
	eventually(t, e, func() bool { return len(e.Tables("toy_v1_g1_")) == 0 })
}

func TestSwitch_NewVersionIsNotBuiltYet_IsErrBuilding(t *testing.T) {
	e := projectionstest.Open(t)
	r, stop := e.Start(engine.Config{}, newToy("toy", e.Store, 1))
	e.Events("account-a", start, charge(0))
	e.CatchUp(r)
	stop()
	r = e.New(engine.Config{}, newToy("toy", e.Store, 2, 1))
	if err := r.Start(t.Context()); err != nil { // Run, which has not begun, builds version 2
		t.Fatal(err)
	}
	if err := r.Switch(t.Context(), nil, nil); !errors.Is(err, engine.ErrBuilding) {
		t.Errorf("Switch = %v, want ErrBuilding", err)
	}
}

func TestSwitch_OnFollower_IsInterrupted_LeaderContinues(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a, b := n.start(folding, 1), n.start(following, 1)
		n.charges(0, 20)
		b.CatchUp(b.r)
		keep(t, b.r, "toy")
		n.charges(20, 100)
		b.CatchUp(b.r)
		a.toy.breakAt(func(e *projections.Event) error {
			if e.Revision == 50 {
				return errors.Join(errors.New("away"), sqlstore.ErrUnavailable) // retried forever
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := b.r.Switch(ctx, nil, func(engine.Progress) { cancel() }); !errors.Is(err, context.Canceled) {
			t.Fatalf("an interrupted Switch = %v", err)
		}
		wantCount(t, b.toy, "a", 100)
		if err := b.r.Switch(t.Context(), nil, nil); !errors.Is(err, engine.ErrBuilding) {
			t.Errorf("Switch while the leader continues = %v, want ErrBuilding", err)
		}
		a.toy.breakAt(nil)
		status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.Generation == 2 && s.Building == nil })
		wantCount(t, b.toy, "a", 100)
	})
}

func TestSwitch_OnFollower_FoldFails_LiveTablesStay(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a, b := n.start(folding, 1), n.start(following, 1)
		n.charges(0, 20)
		b.CatchUp(b.r)
		keep(t, b.r, "toy")
		n.charges(20, 40)
		b.CatchUp(b.r)
		a.toy.breakAt(failAt(30))
		if err := b.r.Switch(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "broken fold") {
			t.Errorf("Switch = %v, want the error of the fold", err)
		}
		wantLive(t, b.r, "toy", 1)
		wantCount(t, b.toy, "a", 40)
		if err := b.r.Switch(t.Context(), nil, nil); !errors.Is(err, engine.ErrNotKept) {
			t.Errorf("the second Switch = %v, want ErrNotKept", err)
		}
	})
}

func TestKeep_DiscardedByAnotherNode_IsErrKeeping(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		cfg := following
		cfg.BatchEvents = 10
		a, b := n.start(folding, 1), n.start(cfg, 1)
		n.charges(0, 100)
		b.CatchUp(b.r)
		discarded := false
		complete, err := b.r.Keep(t.Context(), nil, func(engine.Progress) {
			if !discarded {
				discarded = true
				if err := a.r.Discard(t.Context(), nil); err != nil {
					t.Error(err)
				}
			}
		})
		if !errors.Is(err, engine.ErrKeeping) || len(complete) > 0 {
			t.Errorf("Keep = %v, %v, want ErrKeeping", complete, err)
		}
		wantLive(t, b.r, "toy", 1)
		if left := a.Tables("toy_v1_g2_"); len(left) > 0 {
			t.Errorf("the discarded tables are left: %v", left)
		}
	})
}

// TestSwitch_KeptByTheVersionBefore_IsRejected restarts with another version, as an upgrade in one process does.
func TestSwitch_KeptByTheVersionBefore_IsRejected(t *testing.T) {
	e := projectionstest.Open(t)
	r, stop := e.Start(engine.Config{}, newToy("toy", e.Store, 1))
	for i := range 20 {
		e.Events("account-a", start, charge(i))
	}
	e.CatchUp(r)
	keep(t, r, "toy")
	stop()
	p := newToy("toy", e.Store, 2, 1)
	r, _ = e.Start(engine.Config{}, p)
	status(t, e, r, "toy", func(s engine.Status) bool { return s.Version == 2 })
	_, compared := r.Compare(t.Context(), nil, nil)
	for command, err := range map[string]error{"Switch": r.Switch(t.Context(), nil, nil), "Discard": r.Discard(t.Context(), nil), "Compare": compared} {
		if !errors.Is(err, engine.ErrNotKept) {
			t.Errorf("%s = %v, want ErrNotKept", command, err)
		}
	}
	if left := e.Tables("toy_v1_g2_"); len(left) > 0 {
		t.Errorf("tables of the version before are left: %v", left)
	}
	if count, version, err := p.count("a"); err != nil || version != 2 || count != 20 {
		t.Errorf("version %d counts %d, %v, want version 2 and 20", version, count, err)
	}
}

func TestSwitch_KeptBeforeTheUpgrade_IsRejected(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		x := n.startRelease(folding, 1)
		last := n.charges(0, 20)
		n.serves(x, 1, last)
		x.stop()
		x = n.startRelease(folding, 2)
		n.level(x)
		keep(t, x.r, "toy")
		if got := found(t, x.r, "toy"); got != "" {
			t.Errorf("differences\n%s", got)
		}
		if err := x.r.FinishUpgrade(x.Context(), nil); err != nil {
			t.Fatal(err)
		}
		_, compared := x.r.Compare(t.Context(), nil, nil)
		for command, err := range map[string]error{"Switch": x.r.Switch(t.Context(), nil, nil), "Compare": compared} {
			if !errors.Is(err, engine.ErrNotKept) || !strings.Contains(err.Error(), "version 1") {
				t.Errorf("%s = %v, want ErrNotKept that names version 1", command, err)
			}
		}
		n.serves(x, 2, last)
		keep(t, x.r, "toy") // replaces them
		if kept := keptOf(t, x.r, "toy"); kept == nil || kept.Version != 2 {
			t.Errorf("%+v is kept, want version 2", kept)
		}
		if err := x.r.Switch(t.Context(), nil, nil); err != nil {
			t.Error(err)
		}
		n.serves(x, 2, last)
	})
}
