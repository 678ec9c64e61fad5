package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// quick shortens the pauses before retries.
var quick = engine.Config{RetryFirst: time.Millisecond, RetryLast: 5 * time.Millisecond}

func charge(n int) eventschemas.Event {
	return eventschemas.CreditsCharged{ChargeID: fmt.Sprint("c", n), Credits: 1, RequestID: fmt.Sprint("r", n), BrandID: "b", Domain: "d.com"}
}

func wantCount(t *testing.T, p *toy, account string, want int64) {
	t.Helper()
	n, _, err := p.count(account)
	testmust.Succeed(t, err)
	if n != want {
		t.Errorf("%s counts %d charges of %s, want %d", p.name, n, account, want)
	}
}

// status waits until List returns the wanted state, checking again after each log message of the Runner.
func status(t *testing.T, e *projectionstest.Env, r *engine.Runner, name string, want func(engine.Status) bool) engine.Status {
	t.Helper()
	var found engine.Status
	eventually(t, e, func() bool {
		all, err := r.List(t.Context())
		testmust.Succeed(t, err)
		for _, s := range all {
			if s.Name == name {
				found = s
			}
		}
		return want(found)
	})
	return found
}

// eventually waits until a condition is true.
func eventually(t *testing.T, e *projectionstest.Env, so func() bool) {
	t.Helper()
	ctx := e.Context()
	for {
		logged := e.LogCount()
		if so() {
			return
		}
		if err := e.WaitForLog(ctx, logged); err != nil {
			t.Fatal("timed out waiting for the condition")
		}
	}
}

// Rule 8.
func TestRunner_Crash_LosesAndDoublesNothing(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		for round := range 5 {
			p := newToy("toy", e.Store, 1)
			r, stop := e.Start(engine.Config{BatchEvents: 3}, p)
			for i := range 10 {
				e.Events("account-a", start, charge(round*10+i))
			}
			if round%2 == 0 {
				e.CatchUp(r)
			}
			stop() // in the middle of catching up in the odd rounds
			testmust.Succeed(t, e.Store.Close())
			e.OpenStore()
		}
		p := newToy("toy", e.Store, 1)
		r, _ := e.Start(engine.Config{}, p)
		e.CatchUp(r)
		wantCount(t, p, "a", 50)
	})
}

func TestFoldFails_ModelIsQuarantined_OthersContinue(t *testing.T) {
	for name, broken := range map[string]func(e *projections.Event) error{
		"error": func(e *projections.Event) error {
			if e.Revision == 700 {
				return errors.New("cannot fold this")
			}
			return nil
		},
		"panic": func(e *projections.Event) error {
			if e.Revision == 700 {
				panic("cannot fold this")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
				good, bad := newToy("good", e.Store, 1), newToy("bad", e.Store, 1)
				r, _ := e.Start(quick, good, bad)
				e.CatchUp(r)
				bad.breakAt(broken)
				var last eventlog.Position
				for i := range 1000 {
					last = e.Events("account-a", start, charge(i))
				}
				testmust.Succeed(t, r.WaitFor(e.Context(), "good", last))
				wantCount(t, good, "a", 1000)

				var aside *engine.QuarantinedError
				if err := r.WaitFor(e.Context(), "bad", last); !errors.As(err, &aside) || aside.Name != "bad" {
					t.Errorf("WaitFor of a quarantined read model: %v", err)
				}
				s := status(t, e, r, "bad", func(s engine.Status) bool { return s.State == "set_aside" && s.Attempts > 1 })
				if s.Position != 700 || !strings.Contains(s.Error, "cannot fold this") {
					t.Errorf("position %d with error %q, want the position before the event at 701", s.Position, s.Error)
				}
				wantCount(t, bad, "a", 700)

				bad.breakAt(nil)
				status(t, e, r, "bad", func(s engine.Status) bool { return s.State == "live" })
				if err := r.WaitFor(e.Context(), "bad", last); err != nil {
					t.Error(err)
				}
				wantCount(t, bad, "a", 1000)
				last = e.Events("account-a", start, charge(1000))
				if err := r.WaitFor(e.Context(), "bad", last); err != nil {
					t.Error(err)
				}
				wantCount(t, bad, "a", 1001)
				wantCount(t, good, "a", 1001)
			})
		})
	}
}

func TestUnreadableEvent_QuarantinesOnlyModelsOfItsStream(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := newModels(t, e)
		r, _ := e.Start(quick, m.all()...)
		unknown := eventlog.Proposed{ID: uuid.New(), Type: "FromTheFuture", SchemaVersion: 9, OccurredAt: start, Data: []byte(`{}`)}
		done, err := e.Log.Append(t.Context(), "brand-acme.com", eventlog.NoStream(), []eventlog.Proposed{unknown})
		testmust.Succeed(t, err)
		for _, name := range []string{"accounts", "keys", "usage", "ledger"} {
			if err := r.WaitFor(e.Context(), name, done.Position); err != nil {
				t.Error(err)
			}
		}
		if err := r.WaitFor(e.Context(), "brands", done.Position); !errors.Is(err, eventschemas.ErrUnknownType) {
			t.Errorf("WaitFor brands: %v, want %v", err, eventschemas.ErrUnknownType)
		}
	})
}

func TestQuarantine_SurvivesRestart(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		p.breakAt(func(ev *projections.Event) error {
			if ev.Revision >= 2 {
				return errors.New("no")
			}
			return nil
		})
		other := newToy("other", e.Store, 1)
		r, stop := e.Start(quick, p, other)
		e.CatchUp(r)
		for i := range 5 {
			e.Events("account-a", start, charge(i))
		}
		status(t, e, r, "toy", func(s engine.Status) bool { return s.State == "set_aside" && s.Position == 2 })
		testmust.Succeed(t, r.WaitFor(e.Context(), "other", 5))
		stop()

		p, other = newToy("toy", e.Store, 1), newToy("other", e.Store, 1)
		cfg := quick
		cfg.Logger = e.Logger()
		r, err := engine.New(projectionstest.Config(cfg), e.Log, e.Store, p, other)
		testmust.Succeed(t, err)
		testmust.Succeed(t, r.Start(t.Context()))
		all, err := r.List(t.Context()) // the command "projections list" does this without a server
		testmust.Succeed(t, err)
		if s := all[1]; s.Name != "toy" || s.State != "set_aside" || !strings.Contains(s.Error, "no") || s.Lag != 3 {
			t.Errorf("after a restart: %+v, want toy set aside with lag 3", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		status(t, e, r, "toy", func(s engine.Status) bool { return s.State == "live" })
		if err := r.WaitFor(e.Context(), "toy", 5); err != nil {
			t.Error(err)
		}
		wantCount(t, p, "a", 5)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Rule 8.
func TestNewVersion_IsBuiltNextToOldOne(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		r, stop := e.Start(engine.Config{}, p)
		for i := range 20 {
			e.Events("account-a", start, charge(i))
		}
		e.CatchUp(r)
		stop()

		p = newToy("toy", e.Store, 2, 1)
		gate := make(chan struct{})
		p.gates = map[int]chan struct{}{2: gate}
		var clock clock
		r, stop = e.Start(engine.Config{BatchEvents: 5, Now: clock.now}, p)
		last := e.Events("account-a", start, charge(20))
		testmust.Succeed(t, r.WaitFor(e.Context(), "toy", last))
		if n, v, err := p.count("a"); n != 21 || v != 1 || err != nil {
			t.Errorf("while version 2 is built: %d of version %d, %v", n, v, err)
		}

		// Readers continue during the swap, and a reader that began before it keeps its tables.
		err := p.handle.Read(func(q projections.Queryer, tables *projections.Tables) error {
			close(gate)
			status(t, e, r, "toy", func(s engine.Status) bool { return s.Version == 2 && s.State == "live" })
			if n, v, err := p.count("a"); n != 21 || v != 2 || err != nil {
				t.Errorf("after the swap: %d of version %d, %v", n, v, err)
			}
			for range 2 { // the old tables would be dropped in this time
				if err := r.Rebuild(e.Context(), nil, nil); err != nil {
					t.Error(err)
				}
			}
			var n int64
			return q.QueryRowContext(t.Context(), tables.SQL(`SELECT v1 FROM {counts1}`)).Scan(&n)
		})
		if err != nil {
			t.Errorf("reader that began before the swap: %v", err)
		}
		clock.runs.Store(true)
		eventually(t, e, func() bool { return len(e.Tables("toy_v1_")) == 0 }) // the reader has left
		e.Events("account-a", start, charge(21))
		e.CatchUp(r)
		wantCount(t, p, "a", 22)
		stop()

		// A release without version 1 finds no tables of it.
		p = newToy("toy", e.Store, 2)
		r, _ = e.Start(engine.Config{}, p)
		e.CatchUp(r)
		wantCount(t, p, "a", 22)
	})
}

func TestStart_TablesOfNewerRelease_Fails(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, stop := e.Start(engine.Config{}, newToy("toy", e.Store, 2))
		e.CatchUp(r)
		stop()
		r, err := engine.New(projectionstest.Config(engine.Config{}), e.Log, e.Store, newToy("toy", e.Store, 1))
		testmust.Succeed(t, err)
		if err := r.Start(t.Context()); !errors.Is(err, projections.ErrNewerRelease) {
			t.Errorf("start of an older release: %v, want %v", err, projections.ErrNewerRelease)
		}
	})
}

func TestRebuild_Interrupted_ContinuesAtNextStart(t *testing.T) {
	e := projectionstest.Open(t)
	p := newToy("toy", e.Store, 1)
	r, stop := e.Start(engine.Config{BatchEvents: 1}, p)
	for i := range 100 {
		e.Events("account-a", start, charge(i))
	}
	e.CatchUp(r)
	ctx, interrupt := context.WithCancel(e.Context())
	err := r.Rebuild(ctx, []string{"toy"}, func(p engine.Progress) {
		if p.Events >= 30 {
			interrupt()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted rebuild: %v, want %v", err, context.Canceled)
	}
	all, err := r.List(t.Context())
	testmust.Succeed(t, err)
	b := all[0].Building
	if b == nil || b.Position == 0 || b.Position >= 100 || b.Generation != 2 {
		t.Fatalf("after the interruption: %+v, want generation 2 between positions 0 and 100", b)
	}
	wantCount(t, p, "a", 100)
	stop()

	p = newToy("toy", e.Store, 1)
	r, _ = e.Start(engine.Config{BatchEvents: 1}, p)
	s := status(t, e, r, "toy", func(s engine.Status) bool { return s.Generation == 2 })
	if s.State != "live" || s.Building != nil {
		t.Errorf("after the next start: %+v, want live and not building", s)
	}
	wantCount(t, p, "a", 100)
	if p.folds > 80 { // at least the 25 batches whose rows are written together were complete
		t.Errorf("the rebuild folded %d batches, so it did not continue where it stopped", p.folds)
	}
}

func TestRebuild_FoldFails_KeepsOldTables(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		good, bad := newToy("good", e.Store, 1), newToy("bad", e.Store, 1)
		r, _ := e.Start(engine.Config{}, good, bad)
		for i := range 10 {
			e.Events("account-a", start, charge(i))
		}
		e.CatchUp(r)
		bad.breakAt(func(ev *projections.Event) error {
			if ev.Revision == 4 {
				return errors.New("not this one")
			}
			return nil
		})
		err := r.Rebuild(e.Context(), nil, nil)
		if err == nil || !strings.Contains(err.Error(), "rebuild bad") || !strings.Contains(err.Error(), "account-a@4") {
			t.Errorf("rebuild: %v", err)
		}
		wantCount(t, good, "a", 10)
		wantCount(t, bad, "a", 10)
		all, err := r.List(t.Context())
		testmust.Succeed(t, err)
		if all[0].Name != "bad" || all[0].Generation != 1 || all[0].Building != nil || all[1].Generation != 2 {
			t.Errorf("after the failed rebuild: %+v, want generation 1 of bad and 2 of the other model", all)
		}
		if left := e.Tables("bad_v1_g2"); len(left) > 0 {
			t.Errorf("remaining tables of the failed rebuild: %v", left)
		}
		if err := r.Rebuild(e.Context(), []string{"nobody"}, nil); !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("rebuild of an unknown model: %v, want %v", err, engine.ErrUnknown)
		}
	})
}

func TestWaitFor_ReturnsWhenFolded(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		r, err := engine.New(projectionstest.Config(engine.Config{}), e.Log, e.Store, p)
		testmust.Succeed(t, err)
		if err := r.Run(t.Context()); !errors.Is(err, engine.ErrNotStarted) {
			t.Errorf("run before start: %v, want %v", err, engine.ErrNotStarted)
		}
		if _, _, err := p.count("a"); !errors.Is(err, projections.ErrNotReady) {
			t.Errorf("read before start: %v, want %v", err, projections.ErrNotReady)
		}
		if err := r.Ready(); !errors.Is(err, projections.ErrNotReady) || !strings.Contains(err.Error(), "toy") {
			t.Errorf("ready before start: %v", err)
		}
		short, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.WaitFor(short, "toy", 0); !errors.Is(err, context.Canceled) {
			t.Errorf("WaitFor without tables: %v, want %v", err, context.Canceled)
		}
		if err := r.WaitFor(t.Context(), "nobody", 0); !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("WaitFor an unknown model: %v, want %v", err, engine.ErrUnknown)
		}
		r, _ = e.Start(engine.Config{}, newToy("toy", e.Store, 1))
		e.CatchUp(r)
		if err := r.Ready(); err != nil {
			t.Error(err)
		}
	})
}

func TestList_ReportsLagBehindLog(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		p := newToy("toy", e.Store, 1)
		reg := prometheus.NewPedanticRegistry()
		now := start.Add(time.Minute)
		cfg := engine.Config{Registerer: reg, Now: func() time.Time { return now }, RetryFirst: time.Hour, RetryLast: time.Hour}
		r, _ := e.Start(cfg, p)
		e.Events("account-a", start, charge(0))
		e.CatchUp(r)
		p.breakAt(func(*projections.Event) error { return errors.New("stop here") })
		e.Events("account-a", start.Add(10*time.Second), charge(1))
		e.Events("account-a", start.Add(20*time.Second), charge(2))
		s := status(t, e, r, "toy", func(s engine.Status) bool { return s.State == "set_aside" && s.Lag == 2 && s.Attempts > 0 })
		if s.Behind != 50*time.Second || s.RetryAt.Sub(now) != time.Hour {
			t.Errorf("behind %s, next attempt at %s", s.Behind, s.RetryAt)
		}
		categories, err := reg.Gather()
		testmust.Succeed(t, err)
		gauges := map[string]float64{}
		for _, f := range categories {
			if f.GetType() != dto.MetricType_GAUGE {
				continue
			}
			for _, m := range f.GetMetric() {
				gauges[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		want := map[string]float64{
			"letterhead_projection_behind_seconds toy": 50,
			"letterhead_projection_lag_positions toy":  2,
			"letterhead_projection_set_aside toy":      1,

			"letterhead_projection_scrub_last_complete_timestamp_seconds toy": 0, // never
		}
		if !maps.Equal(gauges, want) {
			t.Errorf("gauges are %v, want %v", gauges, want)
		}
	})
}

func TestNew_BadReadModels_ReportsAllErrors(t *testing.T) {
	e := projectionstest.Open(t)
	twice := newToy("toy", e.Store, 1)
	_, err := engine.New(projectionstest.Config(engine.Config{}), e.Log, e.Store,
		twice, twice, newToy("Bad Name", e.Store, 1), newToy("backwards", e.Store, 1, 2), newToy("none", e.Store))
	for _, part := range []string{"given twice", "Bad Name", "out of order", "0 versions"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}
