package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// A rebuild that ends anywhere goes on from its checkpoint, although rows of later events are in the tables.
// Rule 8.
func TestRebuild_InterruptedWhileRowsAreHeld_SameRows(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		if e.Shared() {
			t.Skip("on a shared database the leader goes on when the caller is gone")
		}
		r, stop := e.Start(engine.Config{BatchEvents: 10}, newModels(t, e).all()...)
		e.Fill(projectionstest.NewWorld(4, 20, 20, time.Hour), 1000)
		e.CatchUp(r)
		live, ahead := dumps(e), 0
		for n := int64(84); n < 700; n += 77 { // 25 batches of 10 are held
			ctx, cancel := context.WithCancel(e.Context())
			err := r.Rebuild(ctx, nil, func(p engine.Progress) {
				if p.Events >= n {
					cancel()
				}
			})
			cancel()
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("interrupted rebuild: %v", err)
			}
			stop()
			ahead += entriesAhead(t, e)
			r, stop = e.Start(engine.Config{BatchEvents: 10}, newModels(t, e).all()...)
		}
		if ahead == 0 {
			t.Error("no rebuild was interrupted while rows were ahead of the checkpoint")
		}
		testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
		compareDumps(t, live, dumps(e))
		for _, v := range testmust.Get(r.Verify(e.Context(), nil, nil))(t) {
			if !v.OK() {
				t.Errorf("%s: %v %v", v.Name, v.Difference, v.Err)
			}
		}
	})
}

// entriesAhead counts the entries of the ledger that is being built which are ahead of its checkpoint. There are none if
// the start has finished an earlier rebuild of the ledger, because the next one then leaves it out.
func entriesAhead(t *testing.T, e *projectionstest.Env) (n int) {
	t.Helper()
	const building = ` FROM projections_registry WHERE name = 'ledger' AND state = 'building'`
	var version, generation int
	err := e.Store.Read().QueryRow(`SELECT fold_version, generation`+building).Scan(&version, &generation)
	if errors.Is(err, sql.ErrNoRows) {
		return 0
	}
	testmust.Succeed(t, err)
	testmust.Succeed(t, e.Store.Read().QueryRow(fmt.Sprintf(
		`SELECT count(*) FROM ledger_v%d_g%d_entries WHERE position > (SELECT position%s)`, version, generation, building)).
		Scan(&n))
	return n
}

// After a failure of the database in a fold that holds rows, they are folded again from the checkpoint.
// Rule 8.
func TestBuild_DatabaseFailsWhileRowsAreHeld_FoldsThemAgain(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		for i := range 400 {
			e.Events("account-a", start, charge(i))
		}
		p, failed := newToy("toy", e.Store, 1), false
		p.breakAt(func(ev *projections.Event) error {
			if ev.Revision != 330 || failed {
				return nil
			}
			failed = true
			return sqlstore.ErrUnavailable
		})
		r, _ := e.Start(engine.Config{BatchEvents: 10, RetryFirst: time.Millisecond}, p)
		e.CatchUp(r)
		wantCount(t, p, "a", 400)
		if !failed || !e.Logged("will retry from the checkpoint") {
			t.Error("the fold did not fail while it held rows")
		}
	})
}

// A read model that cannot fold an event stops right before it, with the rows that it held.
// Rule 8.
func TestBuild_FoldFailsWhileRowsAreHeld_StopsBeforeTheEvent(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		for i := range 400 {
			e.Events("account-a", start, charge(i))
		}
		good, bad := newToy("good", e.Store, 1), newToy("bad", e.Store, 1)
		bad.breakAt(func(ev *projections.Event) error {
			if ev.Revision == 333 {
				return errors.New("cannot fold this")
			}
			return nil
		})
		cfg := quick
		cfg.BatchEvents = 10
		r, _ := e.Start(cfg, good, bad)
		status(t, e, r, "bad", func(s engine.Status) bool { return s.Building != nil && s.Building.Position == 333 })
		bad.breakAt(nil)
		status(t, e, r, "bad", func(s engine.Status) bool { return s.State == "live" })
		e.CatchUp(r)
		wantCount(t, good, "a", 400)
		wantCount(t, bad, "a", 400)
	})
}
