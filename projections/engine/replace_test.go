package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// silently reports no progress.
func silently(string) func(engine.Progress) { return nil }

// during calls do once, before a step makes progress.
func during(step string, do func()) func(string) func(engine.Progress) {
	return func(s string) func(engine.Progress) {
		if s != step {
			return nil
		}
		do()
		return nil
	}
}

// cancelled ends ctx when a step makes progress.
func cancelled(step string, cancel func()) func(string) func(engine.Progress) {
	return func(s string) func(engine.Progress) {
		return func(engine.Progress) {
			if s == step {
				cancel()
			}
		}
	}
}

// found describes comparisons that differ, and new tables that are not live.
func found(all []engine.Replaced) string {
	var lines []string
	for _, c := range all {
		if c.Err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", c.Name, c.Err))
		}
		for _, table := range c.Tables {
			if table.OnlyLive+table.OnlyRebuilt+table.Changed > 0 {
				lines = append(lines, fmt.Sprintf("%s.%s: %d only live, %d only rebuilt, %d changed, %d shown",
					c.Name, table.Table, table.OnlyLive, table.OnlyRebuilt, table.Changed, len(table.First)))
			}
		}
		if !c.Live {
			lines = append(lines, c.Name+" is not live")
		}
	}
	return strings.Join(lines, "\n")
}

func statusOf(t *testing.T, r *engine.Runner, name string) engine.Status {
	t.Helper()
	list := testmust.Get(r.List(t.Context()))(t)
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("%s is not listed", name)
	return engine.Status{}
}

// wantLive checks the live generation of a read model, and that no other is filled.
func wantLive(t *testing.T, r *engine.Runner, name string, generation int) {
	t.Helper()
	s := statusOf(t, r, name)
	if s.State != engine.Live || s.Generation != generation || s.Kept != nil || s.Building != nil {
		t.Errorf("%+v, want generation %d to be live, and no other", s, generation)
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

func TestReplace_LiveTablesChanged_EveryDifferenceIsCounted(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(t, e).all()...)
		w := projectionstest.NewWorld(3, 20, 30, time.Hour)
		e.Fill(w, 2500)
		e.CatchUp(r)
		e.Exec(`DELETE FROM ledger_v8_g1_entries WHERE position <= 9 OR position = (SELECT max(position) FROM ledger_v8_g1_entries)`)
		e.Exec(`UPDATE ledger_v8_g1_entries SET amount = amount + 1 WHERE position > 500 AND position <= 507`)
		e.Exec(`INSERT INTO payments_v3_g1_refunds (account, id, payment, credits, money, currency, refunded_at, reversed_at, revision) VALUES ('nobody', 'r', 'p', 1, 0, '', 0, 0, 0)`)
		all, err := r.Replace(t.Context(), nil, during("compare", func() { // the new tables are behind now
			e.Fill(w, 300)
			e.CatchUp(r)
		}))
		testmust.Succeed(t, err)
		var deleted, changed int
		for _, c := range []struct {
			into  *int
			where string
		}{{&deleted, "revision >= 0 AND (position <= 9)"}, {&changed, "position > 500 AND position <= 507"}} {
			testmust.Succeed(t, e.Store.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM ledger_v8_g2_entries WHERE "+c.where).Scan(c.into))
		}
		deleted++ // the last one
		want := fmt.Sprintf("ledger.entries: 0 only live, %d only rebuilt, %d changed, 5 shown\npayments.refunds: 1 only live, 0 only rebuilt, 0 changed, 1 shown", deleted, changed)
		if got := found(all); got != want || len(all) != len(names) {
			t.Errorf("differences of %d read models\n%s\nwant\n%s", len(all), got, want)
		}
		e.Fill(w, 100)
		e.CatchUp(r)
		verified := testmust.Get(r.Verify(t.Context(), nil, nil))(t)
		for _, v := range verified {
			if !v.OK() {
				t.Errorf("%s: %v, %v", v.Name, v.Difference, v.Err)
			}
		}
		if all, err := r.Replace(t.Context(), []string{"ledger", "payments"}, silently); err != nil || len(all) != 2 || found(all) != "" {
			t.Errorf("the next Replace = %s, %v", found(all), err)
		}
		if _, err := r.Replace(t.Context(), []string{"ledgers"}, silently); !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("Replace of an unknown read model = %v", err)
		}
	})
}

func TestReplace_Interrupted_TheNextContinues(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, stop := e.Start(engine.Config{BatchEvents: 10}, newToy("toy", e.Store, 1))
		e.Fill(projectionstest.NewWorld(6, 5, 5, time.Hour), 200)
		e.CatchUp(r)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all, err := r.Replace(ctx, nil, cancelled("rebuild", cancel))
		before := statusOf(t, r, "toy").Kept
		if !errors.Is(err, context.Canceled) || len(all) > 0 || before == nil {
			t.Fatalf("an interrupted Replace = %+v, %v, and the list has %+v", all, err, before)
		}
		stop()
		r, _ = e.Start(engine.Config{}, newToy("toy", e.Store, 1))
		if after := statusOf(t, r, "toy").Kept; after == nil || *after != *before {
			t.Errorf("after a restart the list has %+v, want %+v", after, before)
		}
		if all, err := r.Replace(t.Context(), nil, silently); err != nil || found(all) != "" {
			t.Fatalf("the next Replace = %s, %v", found(all), err)
		}
		wantLive(t, r, "toy", before.Generation)
	})
}

func TestReplace_FoldFails_ItsNewTablesAreDropped(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p, good := newToy("toy", e.Store, 1), newToy("good", e.Store, 1)
		r, _ := e.Start(quick, p, good)
		for i := range 20 {
			e.Events("account-a", start, charge(i))
		}
		e.CatchUp(r)
		p.breakAt(failAt(1))
		all, err := r.Replace(t.Context(), nil, silently)
		if err == nil || !strings.Contains(err.Error(), "toy: ") || !strings.Contains(err.Error(), "broken fold") || len(all) != 1 || found(all) != "" {
			t.Errorf("Replace = %+v, %v, want the error of the fold, and the other read model", all, err)
		}
		wantLive(t, r, "good", 2)
		wantLive(t, r, "toy", 1)
		p.breakAt(nil)
		all, err = r.Replace(t.Context(), nil, during("compare", func() {
			for i := 20; i < 40; i++ {
				e.Events("account-a", start, charge(i))
			}
			e.CatchUp(r)
			p.breakAt(failAt(30)) // which only the new tables have not folded
		}))
		if err == nil || !strings.Contains(err.Error(), "broken fold") || len(all) != 2 || all[0].Err != nil || !all[0].Live || all[1].Err == nil || all[1].Live {
			t.Errorf("Replace = %+v, %v, want the error of the fold for toy only", all, err)
		}
		wantLive(t, r, "good", 3)
		wantLive(t, r, "toy", 1)
		if left := append(e.Tables("toy_v1_g2_"), e.Tables("toy_v1_g3_")...); len(left) > 0 {
			t.Errorf("the tables that failed are left: %v", left)
		}
		wantCount(t, p, "a", 40)
	})
}

func TestReplace_LiveTableIsMissing_IsReplaced(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(t, e).all()...)
		e.Fill(projectionstest.NewWorld(8, 5, 5, time.Hour), 100)
		e.CatchUp(r)
		e.Exec("DROP TABLE payments_v3_g1_refunds")
		all, err := r.Replace(t.Context(), []string{"payments"}, silently)
		if err != nil || len(all) != 1 || !all[0].Live || all[0].Err == nil || !strings.Contains(all[0].Err.Error(), "cannot be read") {
			t.Errorf("Replace = %+v, %v, want live tables, and why they were not compared", all, err)
		}
		wantLive(t, r, "payments", 2)
	})
}

// interruptedSwitch is cancelled while the new tables fold what they lack and become live.
func interruptedSwitch(t *testing.T, e *projectionstest.Env, r *engine.Runner) {
	t.Helper()
	for i := range 20 {
		e.Events("account-a", start, charge(i))
	}
	e.CatchUp(r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all, err := r.Replace(ctx, nil, func(step string) func(engine.Progress) {
		if step != "switch" {
			return nil
		}
		for i := 20; i < 100; i++ {
			e.Events("account-a", start, charge(i))
		}
		e.CatchUp(r)
		return func(engine.Progress) { cancel() }
	})
	if !errors.Is(err, context.Canceled) || len(all) != 1 || all[0].Live {
		t.Fatalf("an interrupted Replace = %+v, %v", all, err)
	}
}

func TestReplace_SwitchIsInterrupted_NextStartContinues(t *testing.T) {
	e := projectionstest.Open(t)
	p := newToy("toy", e.Store, 1)
	r, stop := e.Start(engine.Config{BatchEvents: 10}, p)
	interruptedSwitch(t, e, r)
	if s := statusOf(t, r, "toy"); s.State != engine.Live || s.Generation != 1 || s.Building == nil || s.Building.Generation != 2 {
		t.Errorf("after the interruption: %+v, want generation 1 to be live and 2 to be built", s)
	}
	if _, err := r.Replace(t.Context(), nil, silently); !errors.Is(err, engine.ErrBuilding) {
		t.Errorf("the next Replace = %v, want ErrBuilding", err)
	}
	wantCount(t, p, "a", 100)
	stop()
	p = newToy("toy", e.Store, 1)
	r, _ = e.Start(engine.Config{}, p)
	status(t, e, r, "toy", func(s engine.Status) bool { return s.Generation == 2 })
	wantLive(t, r, "toy", 2)
	wantCount(t, p, "a", 100)
	eventually(t, e, func() bool { return len(e.Tables("toy_v1_g1_")) == 0 })
}

func TestReplace_OnFollower_LeaderMakesTheTablesLive(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		a, b := n.start(folding, 1), n.start(following, 1)
		n.charges(0, 20)
		b.CatchUp(b.r)
		all, err := b.r.Replace(t.Context(), nil, during("switch", func() {
			n.charges(20, 40)
			b.CatchUp(b.r)
			a.toy.breakAt(failAt(30))
		}))
		if err == nil || !strings.Contains(err.Error(), "broken fold") || len(all) != 1 || all[0].Live {
			t.Errorf("Replace = %+v, %v, want the error of the leader's fold", all, err)
		}
		wantLive(t, b.r, "toy", 1)
		wantCount(t, b.toy, "a", 40)

		a.toy.breakAt(nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err = b.r.Replace(ctx, nil, func(step string) func(engine.Progress) {
			if step != "switch" {
				return nil
			}
			n.charges(40, 100)
			b.CatchUp(b.r)
			a.toy.breakAt(func(e *projections.Event) error {
				if e.Revision == 50 {
					return errors.Join(errors.New("away"), sqlstore.ErrUnavailable) // retried forever
				}
				return nil
			})
			return func(engine.Progress) { cancel() }
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("an interrupted Replace = %v", err)
		}
		if _, err := b.r.Replace(t.Context(), nil, silently); !errors.Is(err, engine.ErrBuilding) {
			t.Errorf("Replace while the leader continues = %v, want ErrBuilding", err)
		}
		a.toy.breakAt(nil)
		status(t, b.Env, b.r, "toy", func(s engine.Status) bool { return s.Generation > 1 && s.Building == nil })
		wantCount(t, b.toy, "a", 100)
	})
}

func TestReplace_WhileAnotherRuns_IsErrBuilding(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		_, b := n.start(folding, 1), n.start(following, 1)
		n.charges(0, 100)
		b.CatchUp(b.r)
		all, err := b.r.Replace(t.Context(), nil, during("compare", func() {
			if _, err := b.r.Replace(t.Context(), nil, silently); !errors.Is(err, engine.ErrBuilding) {
				t.Errorf("the second Replace = %v, want ErrBuilding", err)
			}
		}))
		if err != nil || found(all) != "" {
			t.Errorf("the first Replace = %s, %v", found(all), err)
		}
		wantLive(t, b.r, "toy", 2)
	})
}

// TestReplace_VersionBeforeWasInterrupted_TablesAreDropped restarts with another version, as an upgrade in one process does.
func TestReplace_VersionBeforeWasInterrupted_TablesAreDropped(t *testing.T) {
	e := projectionstest.Open(t)
	r, stop := e.Start(engine.Config{BatchEvents: 10}, newToy("toy", e.Store, 1))
	for i := range 20 {
		e.Events("account-a", start, charge(i))
	}
	e.CatchUp(r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := r.Replace(ctx, nil, cancelled("rebuild", cancel)); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupted Replace = %v", err)
	}
	stop()
	p := newToy("toy", e.Store, 2, 1)
	r, _ = e.Start(engine.Config{}, p)
	status(t, e, r, "toy", func(s engine.Status) bool { return s.Version == 2 })
	if left := e.Tables("toy_v1_g2_"); len(left) > 0 {
		t.Errorf("tables of the version before are left: %v", left)
	}
	if count, version, err := p.count("a"); err != nil || version != 2 || count != 20 {
		t.Errorf("version %d counts %d, %v, want version 2 and 20", version, count, err)
	}
}
