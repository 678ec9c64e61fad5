package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// pair returns two toys over a log of 200 charges; the tests make the second fail.
func pair(t *testing.T, e *projectionstest.Env) (r *engine.Runner, good, bad *toy) {
	t.Helper()
	good, bad = newToy("good", e.Store, 1), newToy("bad", e.Store, 1)
	cfg := quick
	cfg.BatchEvents = 20
	r, _ = e.Start(cfg, good, bad)
	for i := range 200 {
		e.Events("account-a", start, charge(i))
	}
	e.CatchUp(r)
	return r, good, bad
}

// The next batch is folded on top of the one that is being written. If the write fails, that fold is discarded.
func TestReplay_WriteFailsOnce_IsRetried(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, good, bad := pair(t, e)
		for _, last := range []uint64{19, 119, 199} { // the first batch, one in the middle, the last
			var failed atomic.Bool
			bad.breakWrite(func(l uint64) error {
				if l == last && failed.CompareAndSwap(false, true) {
					return errors.New("this once")
				}
				return nil
			})
			if err := r.Rebuild(e.Context(), nil, nil); err != nil {
				t.Errorf("failing at %d: %v", last, err)
			}
			if !failed.Load() {
				t.Errorf("no batch ended with revision %d", last)
			}
			wantCount(t, good, "a", 200)
			wantCount(t, bad, "a", 200)
		}
	})
}

func TestReplay_WriteAlwaysFails_ReportsItsEvent(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, good, bad := pair(t, e)
		bad.breakWrite(func(last uint64) error {
			if last >= 57 {
				return fmt.Errorf("no row after %d", last)
			}
			return nil
		})
		err := r.Rebuild(e.Context(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "rebuild bad") || !strings.Contains(err.Error(), "no row after 57") {
			t.Errorf("rebuild: %v", err)
		}
		wantCount(t, good, "a", 200)
		wantCount(t, bad, "a", 200) // the old tables
	})
}

// A failure of the database quarantines no model, and both retry.
func TestDatabaseFailure_QuarantinesNoModel(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, good, bad := pair(t, e)
		trouble := fmt.Errorf("disk is full: %w", sqlstore.ErrUnavailable)
		var folds, writes atomic.Int32
		folds.Store(3)
		writes.Store(3)
		bad.breakAt(func(ev *projections.Event) error {
			if ev.Revision%50 == 30 && folds.Add(-1) >= 0 {
				return trouble
			}
			return nil
		})
		bad.breakWrite(func(last uint64) error {
			if last%50 == 19 && writes.Add(-1) >= 0 {
				return trouble
			}
			return nil
		})
		if err := r.Rebuild(e.Context(), nil, nil); err != nil {
			t.Errorf("rebuild: %v", err)
		}
		wantCount(t, bad, "a", 200)
		folds.Store(2)
		writes.Store(0)
		for i := range 51 {
			e.Events("account-a", start, charge(200+i))
		}
		e.CatchUp(r)
		if e.Logged("is quarantined") {
			t.Error("a read model was quarantined")
		}
		wantCount(t, good, "a", 251)
		wantCount(t, bad, "a", 251)
		if folds.Load() > 0 || writes.Load() > 0 {
			t.Errorf("%d folds and %d writes are still to fail, want 0", folds.Load(), writes.Load())
		}
	})
}

// A failure of the database is retried soon, even if the pauses of quarantined models are long.
func TestDatabaseFailure_IsRetriedSoon(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		r, _ := e.Start(engine.Config{RetryFirst: time.Hour, RetryLast: time.Hour}, p)
		e.Events("account-a", start, charge(0))
		e.CatchUp(r)
		var folds, writes atomic.Int32
		folds.Store(1)
		writes.Store(1)
		p.breakAt(func(*projections.Event) error {
			if folds.Add(-1) >= 0 {
				return fmt.Errorf("away: %w", sqlstore.ErrUnavailable)
			}
			return nil
		})
		p.breakWrite(func(uint64) error {
			if writes.Add(-1) >= 0 {
				return fmt.Errorf("locked: %w", sqlstore.ErrUnavailable)
			}
			return nil
		})
		e.Events("account-a", start, charge(1))
		e.CatchUp(r)
		wantCount(t, p, "a", 2)
		if folds.Load() >= 0 || writes.Load() >= 0 {
			t.Error("the failure did not occur")
		}
	})
}

func TestRebuild_AlreadyBuilding_Fails(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _, bad := pair(t, e)
		gate := make(chan struct{})
		bad.mu.Lock()
		bad.gates = map[int]chan struct{}{1: gate}
		bad.mu.Unlock()
		ended := make(chan error, 1)
		go func() { ended <- r.Rebuild(e.Context(), []string{"bad"}, nil) }()
		for begun := false; !begun; {
			all := testmust.Get(r.List(e.Context()))(t)
			begun = slices.ContainsFunc(all, func(s engine.Status) bool { return s.Name == "bad" && s.Building != nil })
		}
		err := r.Rebuild(e.Context(), []string{"good", "bad"}, nil)
		if !errors.Is(err, engine.ErrBuilding) {
			t.Errorf("second rebuild: %v, want %v", err, engine.ErrBuilding)
		}
		close(gate)
		if err := <-ended; err != nil {
			t.Errorf("first rebuild: %v", err)
		}
		wantCount(t, bad, "a", 200)
	})
}

// Building a read model that has no tables yet is a rebuild already.
func TestRebuild_BuildingSinceTheStart_WaitsForThatBuild(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		if e.Store.Shared() {
			t.Skip("on a shared database, the leader answers the request")
		}
		for i := range 200 {
			e.Events("account-a", start, charge(i))
		}
		built, gate := newToy("built", e.Store, 1), make(chan struct{})
		built.gates = map[int]chan struct{}{1: gate}
		r, _ := e.Start(quick, built)
		ended := make(chan error, 1)
		go func() { ended <- r.Rebuild(e.Context(), nil, nil) }()
		close(gate)
		if err := <-ended; err != nil {
			t.Fatalf("rebuild during the first build: %v", err)
		}
		all := testmust.Get(r.List(e.Context()))(t)
		if len(all) != 1 || all[0].State != engine.Live || all[0].Building != nil {
			t.Errorf("afterwards: %+v, want one that is live and not built", all)
		}
		wantCount(t, built, "a", 200)
	})
}

func TestRebuild_RunEndsDuringFirstBuild_Returns(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		if e.Store.Shared() {
			t.Skip("on a shared database, Rebuild waits for the next leader")
		}
		e.Events("account-a", start, charge(1))
		built, gate := newToy("built", e.Store, 1), make(chan struct{})
		built.gates = map[int]chan struct{}{1: gate}
		r := e.New(quick, built)
		testmust.Succeed(t, r.Start(e.Context()))
		running, stop := context.WithCancel(e.Context())
		stopped, ended := make(chan error, 1), make(chan error, 1)
		go func() { stopped <- r.Run(running) }()
		for begun := false; !begun; {
			built.mu.Lock()
			begun = built.folds > 0
			built.mu.Unlock()
		}
		go func() { ended <- r.Rebuild(e.Context(), nil, nil) }()
		stop()
		close(gate)
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, engine.ErrBuilding) {
			t.Errorf("rebuild: %v, want %v or %v", err, context.Canceled, engine.ErrBuilding)
		}
		testmust.Succeed(t, <-stopped)
	})
}

// Rows that are no longer cached are read again, but never before their last change is written.
func TestReplay_MoreRowsThanCached_SameRows(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1) // caches three rows
		cfg := quick
		cfg.BatchEvents = 10
		r, _ := e.Start(cfg, p)
		want := map[string]int64{}
		for i := range 1000 {
			account := fmt.Sprint((i*i*7 + i/3) % 13)
			want[account]++
			e.Events("account-"+account, start, charge(i))
		}
		e.CatchUp(r)
		for range 3 {
			testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
			for account, n := range want {
				wantCount(t, p, account, n)
			}
		}
	})
}

// On a full disk, readers of tables that a batch does not change do not wait for it; those of others do.
func TestFullDisk_UnchangedModel_IsCurrent(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		r, _ := e.Start(quick, p)
		e.Events("account-a", start, charge(0))
		e.CatchUp(r)
		var full atomic.Bool
		full.Store(true)
		p.breakWrite(func(uint64) error {
			if full.Load() {
				return sqlstore.ErrFull
			}
			return nil
		})
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		unchanged := e.Events("account-a", start, eventschemas.AccountSuspended{Reason: "a test"})
		if err := r.WaitFor(e.Context(), "toy", unchanged); err != nil {
			t.Errorf("on a full disk a model that does not change is not current: %v", err)
		}
		if err := r.Full(); !errors.Is(err, sqlstore.ErrFull) {
			t.Errorf("Full = %v, want ErrFull", err)
		}
		changed := e.Events("account-a", start, charge(1))
		if err := r.Await(ended, "toy", changed); !errors.Is(err, context.Canceled) {
			t.Errorf("on a full disk a model that changes is current: %v", err)
		}
		full.Store(false)
		if err := r.WaitFor(e.Context(), "toy", changed); err != nil || r.Full() != nil {
			t.Errorf("when there is room: %v, Full %v", err, r.Full())
		}
		wantCount(t, p, "a", 2)
	})
}

// A build that fails for another reason is no proof that the disk has room.
func TestFullDisk_BuildFailsMeanwhile_IsStillReported(t *testing.T) {
	e := projectionstest.Open(t)
	r, stop := e.Start(quick, newToy("toy", e.Store, 1), newToy("built", e.Store, 1))
	e.Events("account-a", start, charge(0))
	e.CatchUp(r)
	stop()
	live, built := newToy("toy", e.Store, 1), newToy("built", e.Store, 2, 1)
	gate, room := make(chan struct{}), make(chan struct{})
	defer close(room)
	built.gates = map[int]chan struct{}{2: gate}
	built.breakNew(errors.New("a test"))
	var tries atomic.Int64
	live.breakWrite(func(uint64) error {
		if tries.Add(1) > 1 {
			<-room
			return nil
		}
		return sqlstore.ErrFull
	})
	r, _ = e.Start(quick, live, built)
	e.Events("account-a", start, charge(1))
	eventually(t, e, func() bool { return e.Logged("writing read models failed") })
	close(gate)
	eventually(t, e, func() bool { return e.Logged("building a read model failed") })
	if err := r.Full(); !errors.Is(err, sqlstore.ErrFull) {
		t.Errorf("Full = %v, want ErrFull", err)
	}
}
