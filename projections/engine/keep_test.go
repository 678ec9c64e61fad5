package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// found describes comparisons that differ.
func found(t *testing.T, r *engine.Runner, names ...string) string {
	t.Helper()
	all, err := r.Compare(t.Context(), names, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range all {
		if c.Err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", c.Name, c.Err))
		}
		for _, table := range c.Tables {
			if table.OnlyLive+table.OnlyRebuilt+table.Changed > 0 {
				lines = append(lines, fmt.Sprintf("%s.%s: %d only live, %d only rebuilt, %d changed, %d shown", c.Name, table.Table, table.OnlyLive, table.OnlyRebuilt, table.Changed, len(table.First)))
			}
		}
		if c.Same() != (c.Err == nil && len(lines) == 0) && len(all) == 1 {
			t.Errorf("Same of %s is %t: %v", c.Name, c.Same(), lines)
		}
	}
	return strings.Join(lines, "\n")
}

func keptOf(t *testing.T, r *engine.Runner, name string) *engine.Building {
	t.Helper()
	list, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s.Kept
		}
	}
	t.Fatalf("%s is not listed", name)
	return nil
}

func exec(t *testing.T, e *projectionstest.Env, statement string) {
	t.Helper()
	err := e.Store.Write(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestKeep_LiveTablesChanged_EveryDifferenceIsCounted(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(t, e).all()...)
		w := projectionstest.NewWorld(3, 20, 30, time.Hour)
		e.Fill(w, 2500)
		e.CatchUp(r)
		exec(t, e, `DELETE FROM ledger_v7_g1_entries WHERE position <= 9 OR position = (SELECT max(position) FROM ledger_v7_g1_entries)`)
		exec(t, e, `UPDATE ledger_v7_g1_entries SET amount = amount + 1 WHERE position > 500 AND position <= 507`)
		exec(t, e, `INSERT INTO payments_v3_g1_refunds (account, id, payment, credits, money, currency, refunded_at, reversed_at, revision) VALUES ('nobody', 'r', 'p', 1, 0, '', 0, 0, 0)`)
		if _, err := r.Keep(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		if complete, err := r.Keep(t.Context(), []string{"ledger"}, nil); !errors.Is(err, engine.ErrKept) || len(complete) > 0 ||
			!strings.Contains(err.Error(), "projections switch ledger") || !strings.Contains(err.Error(), "projections discard ledger") {
			t.Errorf("Keep of what is kept = %v, %v", complete, err)
		}
		e.Fill(w, 300) // the kept tables are behind now
		e.CatchUp(r)
		var deleted, changed int
		for _, c := range []struct {
			into  *int
			where string
		}{{&deleted, "revision >= 0 AND (position <= 9)"}, {&changed, "position > 500 AND position <= 507"}} {
			if err := e.Store.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM ledger_v7_g2_entries WHERE "+c.where).Scan(c.into); err != nil {
				t.Fatal(err)
			}
		}
		deleted++ // the last one
		want := fmt.Sprintf("ledger.entries: 0 only live, %d only rebuilt, %d changed, 5 shown\npayments.refunds: 1 only live, 0 only rebuilt, 0 changed, 1 shown", deleted, changed)
		if got := found(t, r); got != want {
			t.Errorf("differences\n%s\nwant\n%s", got, want)
		}
		if err := r.Switch(t.Context(), []string{"ledger", "payments"}, nil); err != nil {
			t.Fatal(err)
		}
		if err := r.Discard(t.Context(), []string{"accounts"}); err != nil {
			t.Fatal(err)
		}
		if keptOf(t, r, "ledger") != nil || keptOf(t, r, "accounts") != nil || keptOf(t, r, "usage") == nil {
			t.Error("the list does not show which rebuilt tables are kept")
		}
		for _, name := range []string{"ledger", "accounts"} {
			for _, err := range []error{r.Switch(t.Context(), []string{name}, nil), r.Discard(t.Context(), []string{name})} {
				if !errors.Is(err, engine.ErrNotKept) {
					t.Errorf("%s is not kept: %v", name, err)
				}
			}
		}
		e.Fill(w, 100)
		e.CatchUp(r)
		verified, err := r.Verify(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verified {
			if !v.OK() {
				t.Errorf("%s: %v, %v", v.Name, v.Difference, v.Err)
			}
		}
	})
}

func TestKeep_Restart_TablesAreKeptAndSwitched(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		r, stop := e.Start(engine.Config{}, p)
		if _, err := r.Compare(t.Context(), nil, nil); !errors.Is(err, engine.ErrNotKept) {
			t.Errorf("comparing nothing: %v, want ErrNotKept", err)
		}
		w := projectionstest.NewWorld(4, 5, 5, time.Hour)
		e.Fill(w, 200)
		e.CatchUp(r)
		if _, err := r.Keep(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		before := keptOf(t, r, "toy")
		stop()
		p = newToy("toy", e.Store, 1)
		r, stop = e.Start(engine.Config{}, p)
		if after := keptOf(t, r, "toy"); after == nil || *after != *before {
			t.Errorf("after a restart %+v is kept, want %+v", after, before)
		}
		e.Fill(w, 50)
		e.CatchUp(r)
		if got := found(t, r, "toy"); got != "" {
			t.Errorf("differences\n%s", got)
		}
		if err := r.Switch(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		list, err := r.List(t.Context())
		if err != nil || list[0].Generation != before.Generation || list[0].Kept != nil {
			t.Errorf("after the switch: %+v, %v", list, err)
		}
		if _, err := r.Keep(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		stop()
		// Tables of an older version are dropped by the sweeper or at the start.
		r, _ = e.Start(engine.Config{}, newToy("toy", e.Store, 2, 1))
		e.CatchUp(r)
		if err := r.Switch(t.Context(), nil, nil); !errors.Is(err, engine.ErrNotKept) && !errors.Is(err, engine.ErrBuilding) {
			t.Errorf("switching to an older version: %v", err)
		}
	})
}

func TestKeep_FoldFails_TablesAreDropped(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		r, _ := e.Start(engine.Config{}, p)
		e.Fill(projectionstest.NewWorld(5, 5, 5, time.Hour), 100)
		e.CatchUp(r)
		p.breakAt(func(ev *projections.Event) error {
			if ev.Revision == 1 {
				return errors.New("broken fold")
			}
			return nil
		})
		if _, err := r.Keep(t.Context(), nil, nil); err == nil || !strings.Contains(err.Error(), "broken fold") {
			t.Errorf("Keep = %v, want the error of the fold", err)
		}
		if kept := keptOf(t, r, "toy"); kept != nil {
			t.Errorf("%+v is kept", kept)
		}
		if _, err := r.Keep(t.Context(), []string{"toys"}, nil); !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("Keep of an unknown read model = %v", err)
		}
	})
}

func TestKeep_Interrupted_IsContinued(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{BatchEvents: 10}, newToy("toy", e.Store, 1))
		e.Fill(projectionstest.NewWorld(6, 5, 5, time.Hour), 200)
		e.CatchUp(r)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		complete, err := r.Keep(ctx, nil, func(p engine.Progress) {
			if p.Events >= 50 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || len(complete) > 0 {
			t.Fatalf("an interrupted Keep = %v, %v", complete, err)
		}
		before := keptOf(t, r, "toy")
		if before == nil {
			t.Fatal("the interrupted tables are not listed")
		}
		if _, err := r.Compare(t.Context(), nil, nil); !errors.Is(err, engine.ErrNotKept) {
			t.Errorf("comparing interrupted tables: %v, want ErrNotKept", err)
		}
		if err := r.Switch(t.Context(), nil, nil); !errors.Is(err, engine.ErrNotKept) {
			t.Errorf("switching to interrupted tables: %v, want ErrNotKept", err)
		}
		if complete, err := r.Keep(t.Context(), nil, nil); err != nil || !slices.Equal(complete, []string{"toy"}) {
			t.Fatalf("the next Keep = %v, %v", complete, err)
		}
		if after := keptOf(t, r, "toy"); after == nil || after.Generation != before.Generation {
			t.Errorf("%+v is kept, want generation %d", after, before.Generation)
		}
		if got := found(t, r, "toy"); got != "" {
			t.Errorf("differences\n%s", got)
		}
		if err := r.Discard(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestKeep_OneFoldFails_OthersAreComplete(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		bad := newToy("bad", e.Store, 1)
		r, _ := e.Start(engine.Config{}, bad, newToy("good", e.Store, 1))
		e.Fill(projectionstest.NewWorld(7, 5, 5, time.Hour), 100)
		e.CatchUp(r)
		bad.breakAt(func(*projections.Event) error { return errors.New("broken fold") })
		complete, err := r.Keep(t.Context(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "broken fold") || !slices.Equal(complete, []string{"good"}) {
			t.Fatalf("Keep = %v, %v", complete, err)
		}
		if err := r.Switch(t.Context(), complete, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestCompare_LiveTableIsMissing_IsErrLiveTables(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(t, e).all()...)
		e.Fill(projectionstest.NewWorld(8, 5, 5, time.Hour), 100)
		e.CatchUp(r)
		if _, err := r.Keep(t.Context(), []string{"payments"}, nil); err != nil {
			t.Fatal(err)
		}
		exec(t, e, "DROP TABLE payments_v3_g1_refunds")
		if _, err := r.Compare(t.Context(), []string{"payments"}, nil); !errors.Is(err, engine.ErrLiveTables) {
			t.Errorf("Compare = %v, want ErrLiveTables", err)
		}
	})
}
