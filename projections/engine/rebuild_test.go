package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/failures"
	"letterhead/projections/projectionstest"
)

func dumps(e *projectionstest.Env) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		out[name] = e.Dump(name)
	}
	return out
}

func compareDumps(t interface {
	Helper()
	Errorf(string, ...any)
}, want, got map[string]string) {
	t.Helper()
	for _, name := range names {
		if want[name] == got[name] {
			continue
		}
		w, g := strings.Split(want[name], "\n"), strings.Split(got[name], "\n")
		for i := range w {
			if i >= len(g) || w[i] != g[i] {
				t.Errorf("%s: line %d was\n%s\nand is\n%s", name, i, w[i], append(g, "missing")[min(i, len(g))])
				break
			}
		}
		if len(g) > len(w) {
			t.Errorf("%s: %d more lines than before", name, len(g)-len(w))
		}
	}
}

// countingLog counts how its reader reads.
type countingLog struct {
	eventlog.Log
	subscriptions, reads atomic.Int64
}

func (l *countingLog) Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error) {
	l.subscriptions.Add(1)
	return l.Log.Subscribe(ctx, after, filter)
}

func (l *countingLog) ReadAll(ctx context.Context, after eventlog.Position, filter eventlog.Filter, limit int) (eventlog.Page, error) {
	l.reads.Add(1)
	return l.Log.ReadAll(ctx, after, filter, limit)
}

// A rebuild reads the log itself while the live loop keeps its subscription, and then joins the live loop: later events
// are read once for both.
// Rule 8.
func TestRebuild_ReadsLogItselfAndJoinsLiveLoop(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		log := &countingLog{Log: e.Log}
		r := testmust.Get(engine.New(projectionstest.Config(engine.Config{}), log, e.Store, newModels(t, e).all()...))(t)
		if got := r.Names(); !slices.Equal(got, names) {
			t.Errorf("Names() = %v, want %v", got, names)
		}
		e.Run(r)
		w := projectionstest.NewWorld(1, 20, 30, time.Hour)
		e.Fill(w, 200)
		e.CatchUp(r)
		subscriptions, reads := log.subscriptions.Load(), log.reads.Load()
		testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
		if s := log.subscriptions.Load(); s != subscriptions {
			t.Errorf("the rebuild made %d subscriptions", s-subscriptions)
		}
		rebuilding := log.reads.Load()
		if rebuilding == reads {
			t.Error("the rebuild did not read the log itself")
		}
		e.Fill(w, 200)
		e.CatchUp(r)
		if s, n := log.subscriptions.Load(), log.reads.Load(); s != subscriptions || n != rebuilding {
			t.Errorf("after the rebuild there were %d subscriptions and %d reads", s-subscriptions, n-rebuilding)
		}
	})
}

// Rule 8.
func TestRebuild_SameRows(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(t, e).all()...)
		w := projectionstest.NewWorld(1, 20, 30, time.Hour)
		for range 40 { // small live batches
			e.Fill(w, 25)
			e.CatchUp(r)
		}
		live := dumps(e)
		for _, name := range names {
			least := 10
			if name == failures.Name { // few crawls of a world fail
				least = 2 // with the heading
			}
			if strings.Count(live[name], "\n") < least {
				t.Errorf("%s has fewer than %d lines:\n%s", name, least, live[name])
			}
		}
		var last engine.Progress
		testmust.Succeed(t, r.Rebuild(e.Context(), nil, func(p engine.Progress) { last = p }))
		compareDumps(t, live, dumps(e))
		head := testmust.Get(e.Log.Head(t.Context()))(t)
		if last.Position != head || last.Target != head || last.Events < 1000 && !e.Shared() {
			t.Errorf("last progress was %+v, head is %d", last, head)
		}
		list := testmust.Get(r.List(t.Context()))(t)
		for _, s := range list {
			if s.State != "live" || s.Generation != 2 || s.Lag != 0 || s.Building != nil || s.Error != "" {
				t.Errorf("after the rebuild: %+v, want generation 2, live without lag", s)
			}
		}
	})
}

// Rule 8.
func TestRebuildAndVerify_WhileEventsAreAppended_Agree(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := newModels(t, e)
		r, _ := e.Start(engine.Config{BatchEvents: 500}, m.all()...)
		w := projectionstest.NewWorld(2, 20, 30, time.Minute)
		e.Fill(w, 1000)

		ctx, stop := context.WithCancel(e.Context())
		tokens := make(chan struct{}, 2000) // the appends of each round
		var busy sync.WaitGroup
		busy.Go(func() { // charges and imports
			for range tokens {
				e.Append(w.Next())
			}
		})
		busy.Go(func() { // readers
			for ctx.Err() == nil {
				if _, err := m.accounts.List(context.Background(), "", 100); err != nil && !errors.Is(err, projections.ErrNotReady) {
					t.Errorf("read during rebuilds: %v", err)
					return
				}
			}
		})
		for round := range 2 {
			for range 400 {
				tokens <- struct{}{}
			}
			if err := r.Rebuild(e.Context(), nil, nil); err != nil && !(round == 0 && errors.Is(err, engine.ErrBuilding)) {
				t.Error(err)
			}
			found, err := r.Verify(e.Context(), nil, nil)
			if err != nil {
				t.Error(err)
			}
			for _, v := range found {
				if !v.OK() && !(round == 0 && errors.Is(v.Err, projections.ErrNotReady)) {
					t.Errorf("%s at %d: %v %v", v.Name, v.Position, v.Difference, v.Err)
				}
			}
			e.CatchUp(r) // the first round may end before the read models are built
		}
		stop()
		close(tokens)
		busy.Wait()
		e.CatchUp(r)
		live := dumps(e)
		testmust.Succeed(t, r.Rebuild(e.Context(), nil, nil))
		compareDumps(t, live, dumps(e))
	})
}

// piecemeal describes a way to fold a world: in batches, with or without waiting between pieces, with restarts.
type piecemeal struct {
	seed   uint64
	batch  int
	step   time.Duration
	pieces []piece
}

type piece struct {
	events        int
	wait, restart bool
}

// Folding in batches of any size gives the same rows as one replay.
// Rule 8.
func TestReplay_AnyBatchSize_SameRows(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			p := piecemeal{
				seed:  rapid.Uint64().Draw(rt, "seed"),
				batch: rapid.SampledFrom([]int{1, 2, 7, 50, 1000}).Draw(rt, "batch"),
				step:  rapid.SampledFrom([]time.Duration{time.Second, time.Hour, 12 * time.Hour}).Draw(rt, "step"),
			}
			for _, n := range rapid.SliceOfN(rapid.IntRange(1, 40), 1, 5).Draw(rt, "pieces") {
				p.pieces = append(p.pieces, piece{
					events: n, wait: rapid.Bool().Draw(rt, "wait"), restart: rapid.IntRange(0, 4).Draw(rt, "restart") == 0,
				})
			}
			e := projectionstest.Open(t)
			defer e.Close()
			p.check(t, rt, e)
		})
	})
	t.Run("postgres", func(t *testing.T) { // a schema for each case is too slow for a property
		for _, p := range []piecemeal{
			{seed: 1, batch: 1, step: time.Second, pieces: []piece{{30, false, true}, {1, true, false}, {25, false, false}}},
			{seed: 2, batch: 7, step: 12 * time.Hour, pieces: []piece{{40, true, true}, {40, false, true}, {13, true, false}}},
			{seed: 3, batch: 1000, step: time.Hour, pieces: []piece{{200, false, true}, {3, true, false}, {300, true, true}, {1, true, false}}},
		} {
			p.check(t, t, projectionstest.OpenPostgres(t))
		}
	})
}

func (p piecemeal) check(t *testing.T, report interface {
	Helper()
	Errorf(string, ...any)
}, e *projectionstest.Env) {
	t.Helper()
	w := projectionstest.NewWorld(p.seed, 5, 5, p.step)
	r, stop := e.Start(engine.Config{BatchEvents: p.batch}, newModels(t, e).all()...)
	for _, piece := range p.pieces {
		e.Fill(w, piece.events)
		if piece.wait {
			e.CatchUp(r)
		}
		if piece.restart {
			stop()
			r, stop = e.Start(engine.Config{BatchEvents: p.batch}, newModels(t, e).all()...)
		}
	}
	e.CatchUp(r)
	live := dumps(e)
	stop()
	r, stop = e.Start(engine.Config{}, newModels(t, e).all()...)
	defer stop()
	if err := r.Rebuild(e.Context(), nil, nil); err != nil {
		report.Errorf("rebuild: %v", err)
		return
	}
	compareDumps(report, live, dumps(e))
}

func TestVerify_ChangedRow_ReportsFirstDifference(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(t, e).all()...)
		w := projectionstest.NewWorld(3, 10, 10, time.Minute)
		e.Fill(w, 800)
		e.CatchUp(r)
		tampered := map[string]string{
			"accounts": `UPDATE accounts_v2_g1_accounts SET balance = balance + 1 WHERE id = (SELECT max(id) FROM accounts_v2_g1_accounts)`,
			"ledger":   `DELETE FROM ledger_v8_g1_entries WHERE position = (SELECT max(position) FROM ledger_v8_g1_entries)`,
			"usage":    `INSERT INTO usage_v2_g1_months VALUES ('zzz', '2026-01', 1, 2, 3)`,
		}
		for _, sql := range tampered {
			e.Exec(sql)
		}
		found := testmust.Get(r.Verify(e.Context(), nil, nil))(t)
		if len(found) != len(names) {
			t.Fatalf("%d read models were verified, want %d", len(found), len(names))
		}
		for _, v := range found {
			d := v.Difference
			switch {
			case tampered[v.Name] == "":
				if !v.OK() || v.Rows == 0 {
					t.Errorf("%s: %v %v, %d rows", v.Name, d, v.Err, v.Rows)
				}
			case d == nil:
				t.Errorf("%s: Verify found no difference", v.Name)
			case v.Name == "accounts" && d.Column != "balance",
				v.Name == "ledger" && (d.Column != "" || !strings.Contains(d.Live, "lacks it")),
				v.Name == "usage" && !strings.Contains(d.Key, "zzz"):
				t.Errorf("%s: %v", v.Name, d)
			}
		}
		if left := e.Tables("accounts_v2_g2"); len(left) > 0 {
			t.Errorf("remaining scratch tables: %v", left)
		}
	})
}
