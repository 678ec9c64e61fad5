package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/disk"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// liveTable is a live table of a read model with its present rows.
type liveTable struct {
	name    string
	key     []string
	columns []string
	rows    [][]any
}

func readTable(t *testing.T, e *projectionstest.Env, m projections.Projection, table projections.Table) liveTable {
	t.Helper()
	l := liveTable{key: table.Key}
	err := m.Handle().Read(func(q projections.Queryer, tables *projections.Tables) error {
		l.name = tables.Name(table.Name)
		rows, err := q.QueryContext(t.Context(), "SELECT * FROM "+l.name+" ORDER BY "+strings.Join(table.Key, ", "))
		if err != nil {
			return err
		}
		defer rows.Close()
		if l.columns, err = rows.Columns(); err != nil {
			return err
		}
		for rows.Next() {
			row, into := make([]any, len(l.columns)), make([]any, len(l.columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			l.rows = append(l.rows, row)
		}
		return rows.Err()
	})
	testmust.Succeed(t, err)
	return l
}

func (l *liveTable) where(row []any, first int) (text string, args []any) {
	for _, k := range l.key {
		args = append(args, row[slices.Index(l.columns, k)])
	}
	return "(" + strings.Join(l.key, ", ") + ") = " + sqlstore.In(first, len(l.key)), args
}

// flipped returns a value of which one bit differs, or nil for NULL.
func flipped(v any) any {
	switch v := v.(type) {
	case string:
		b := []byte(v)
		if len(b) == 0 {
			return "\x01"
		}
		b[len(b)-1] ^= 1
		return string(b)
	case []byte:
		if len(v) == 0 {
			return []byte{1}
		}
		b := slices.Clone(v)
		b[len(b)/2] ^= 1
		return b
	case int64:
		return v ^ 1<<14 // also of a SMALLINT
	case float64:
		return math.Float64frombits(math.Float64bits(v) ^ 1<<51)
	case bool:
		return !v
	}
	return nil
}

// flip changes one bit of a column in the first of the rows that has a value there, and returns that row's index.
func (l *liveTable) flip(t *testing.T, e *projectionstest.Env, column string, free []int) (taken int, ok bool) {
	t.Helper()
	i := slices.Index(l.columns, column)
	for _, n := range free {
		v := flipped(l.rows[n][i])
		if v == nil {
			continue
		}
		where, args := l.where(l.rows[n], 2)
		err := e.Store.Write(t.Context(), func(tx *sqlstore.Tx) error {
			_, err := tx.ExecContext(context.Background(), "UPDATE "+l.name+" SET "+column+" = $1 WHERE "+where, append([]any{v}, args...)...)
			return err
		})
		if err != nil {
			t.Fatalf("flip %s.%s: %v", l.name, column, err)
		}
		return n, true
	}
	return 0, false
}

func differences(t *testing.T, r *engine.Runner, name string) int64 {
	t.Helper()
	all := testmust.Get(r.List(t.Context()))(t)
	for _, s := range all {
		if s.Name == name && s.Scrub != nil {
			return s.Scrub.Differences
		}
	}
	t.Fatalf("%s was not scrubbed", name)
	return 0
}

func sameDumps(t *testing.T, e *projectionstest.Env, want map[string]string) {
	t.Helper()
	for name, before := range want {
		if got := e.Dump(name); got != before {
			t.Errorf("rows of %s after the scrub:\n%s\nwant\n%s", name, got, before)
		}
	}
}

// Rule 8.
func TestScrub_OneBitInAnyColumn_IsFoundAndRepaired(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		e.Fill(projectionstest.NewWorld(3, 8, 12, time.Minute), 1500)
		all := newModels(t, e).all()
		r, _ := e.Start(engine.Config{ScratchFolder: t.TempDir()}, all...)
		e.CatchUp(r)
		before := dumps(e)
		left := map[string][]string{} // columns that were not flipped yet, by table
		flips := 0
		for round := 0; ; round++ {
			want, more := map[string]int64{}, false
			for _, m := range all {
				want[m.Name()] = 0
				for _, table := range m.Versions()[0].Tables {
					l := readTable(t, e, m, table)
					free := make([]int, len(l.rows))
					for i := range free {
						free[i] = i
					}
					id := m.Name() + "." + table.Name
					if round == 0 {
						left[id] = l.columns
					}
					for len(left[id]) > 0 && len(free) > 0 {
						column := left[id][0]
						left[id] = left[id][1:]
						n, ok := l.flip(t, e, column, free)
						if !ok {
							continue // NULL in every row
						}
						free = slices.DeleteFunc(free, func(i int) bool { return i == n })
						flips++
						want[m.Name()]++
						if slices.Contains(l.key, column) {
							want[m.Name()]++ // one row is missing and one is not in the log
						}
					}
					more = more || len(left[id]) > 0 && len(l.rows) > 0
				}
			}
			testmust.Succeed(t, r.ScrubOnce(e.Context()))
			for name, n := range want {
				if got := differences(t, r, name); got != n {
					t.Errorf("round %d: scrub of %s found %d differences, want %d", round, name, got, n)
				}
			}
			sameDumps(t, e, before)
			if !more {
				break
			}
		}
		if flips < 150 {
			t.Errorf("%d columns were changed; the read models have more", flips)
		}
	})
}

// Rule 8.
func TestScrub_RowsInsertedAndDeleted_AreRepaired(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		e.Fill(projectionstest.NewWorld(4, 8, 12, time.Minute), 2500)
		all := newModels(t, e).all()
		r, _ := e.Start(engine.Config{ScratchFolder: t.TempDir()}, all...)
		e.CatchUp(r)
		before := dumps(e)
		for _, m := range all {
			want := int64(0)
			for _, table := range m.Versions()[0].Tables {
				l := readTable(t, e, m, table)
				if len(l.rows) == 0 {
					continue
				}
				first, last := l.rows[0], l.rows[len(l.rows)-1]
				where, args := l.where(first, 1)
				key := slices.Index(l.columns, l.key[len(l.key)-1])
				inserted := slices.Clone(last)
				for i, v := range inserted {
					text, isText := v.(string)
					blob, isBlob := v.([]byte)
					switch unique := i == key || l.columns[i] == "revision" || l.columns[i] == "account"; {
					case unique && isText:
						inserted[i] = text + "x"
					case unique:
						inserted[i] = flipped(v)
					case isBlob && blob == nil: // which would be written as NULL
						inserted[i] = []byte{}
					}
				}
				err := e.Store.Write(t.Context(), func(tx *sqlstore.Tx) error {
					if _, err := tx.ExecContext(context.Background(), "DELETE FROM "+l.name+" WHERE "+where, args...); err != nil {
						return err
					}
					return sqlstore.Insert(t.Context(), tx, l.name+" ("+strings.Join(l.columns, ", ")+")", len(l.columns), "", inserted)
				})
				testmust.Succeed(t, err)
				want += 2
			}
			testmust.Succeed(t, r.ScrubOnce(e.Context(), m.Name()))
			if got := differences(t, r, m.Name()); got != want {
				t.Errorf("scrub of %s found %d differences, want %d", m.Name(), got, want)
			}
		}
		sameDumps(t, e, before)
		e.Exec("DELETE FROM " + readTable(t, e, all[3], all[3].Versions()[0].Tables[0]).name) // ledger entries: several slices
		testmust.Succeed(t, r.ScrubOnce(e.Context(), all[3].Name()))
		sameDumps(t, e, before)
		if !e.Logged("rows of a read model differ from the event log") {
			t.Error("the differences were not logged")
		}
	})
}

// TestScrub_AnyHistoryAppendedMeanwhile_FindsNothing also shows that a repair during appends loses no update.
// Rule 8.
func TestScrub_AnyHistoryAppendedMeanwhile_FindsNothing(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		w := projectionstest.NewWorld(seed, 8, 12, time.Minute)
		e.Fill(w, 1000)
		m := newModels(t, e)
		r, _ := e.Start(engine.Config{ScratchFolder: t.TempDir()}, m.all()...)
		e.CatchUp(r)
		stop := make(chan struct{})
		var appending sync.WaitGroup
		appending.Go(func() {
			for range 3000 { // a scrub ends only if it folds faster than events are appended
				select {
				case <-stop:
					return
				default:
					e.Append(w.Next())
				}
			}
		})
		scrub := func(damaged int64) {
			t.Helper()
			testmust.Succeed(t, r.ScrubOnce(e.Context()))
			for _, name := range names {
				want := int64(0)
				if name == "keys" {
					want = damaged
				}
				if got := differences(t, r, name); got > want { // the next use of a key writes its whole row
					t.Errorf("scrub of %s found %d differences, want %d", name, got, want)
				}
			}
		}
		scrub(0)
		l := readTable(t, e, m.keys, m.keys.Versions()[0].Tables[0])
		if _, ok := l.flip(t, e, "account", []int{0}); !ok {
			t.Fatal("no key")
		}
		scrub(1)
		close(stop)
		appending.Wait()
		e.CatchUp(r)
		results := testmust.Get(r.Verify(e.Context(), nil, nil))(t)
		for _, v := range results {
			if !v.OK() {
				t.Errorf("verify of %s: %v", v.Name, v)
			}
		}
	})
}

// debugging is a configuration that logs the end of each pass.
func debugging(to testwait.Lines, now func() time.Time) engine.Config {
	all := &slog.HandlerOptions{Level: slog.LevelDebug}
	return engine.Config{Now: now, Logger: slog.New(slog.NewTextHandler(to, all))}
}

// wantFirst waits for the end of a pass, which should be over this read model.
func wantFirst(t *testing.T, lines testwait.Lines, name string) {
	t.Helper()
	line := ""
	for !strings.Contains(line, "was compared") {
		line = testwait.Receive(t, lines, "the end of a pass")
	}
	if !strings.Contains(line, "projection="+name) {
		t.Errorf("%s, want a pass over %s", line, name)
	}
}

// scrubbing runs Scrub until stop is called or the test ends.
func scrubbing(t *testing.T, r *engine.Runner) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Scrub(ctx, engine.MaxScrubPercent); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

func TestScrub_PassesFail_LogsThatItBeginsAndEnds(t *testing.T) {
	e := projectionstest.Open(t)
	lines := testwait.NewLines()
	r := e.New(engine.Config{Logger: lines.Logger(), ScratchFolder: t.TempDir()}, newToy("toy", e.Store, 1))
	var full atomic.Bool
	var asked atomic.Int64
	r.OnDisk(func(string) (disk.Space, error) {
		s := disk.Space{Free: gibibyte, Size: gibibyte}
		if asked.Add(1); full.Load() {
			s.Free = s.Reserve()
		}
		return s, nil
	})
	e.Events("account-a", start, charge(0))
	e.Run(r)
	e.CatchUp(r)
	full.Store(true)
	scrubbing(t, r)
	const fails, works = "could not be compared with the event log", "can be compared with the event log again"
	for range 2 {
		lines.Wait(t, 1, fails)
		before := asked.Load()
		if _, ok := testwait.Until(testwait.Timeout, func() bool { return asked.Load() >= before+4 }); !ok {
			t.Fatal("the scrub does not retry")
		}
		full.Store(false)
		for line := ""; !strings.Contains(line, works); {
			if line = testwait.Receive(t, lines, works); strings.Contains(line, fails) {
				t.Errorf("logged again: %s", line)
			}
		}
		full.Store(true)
	}
}

func TestScrub_Restarted_BeginsWithStrictReadModelsOnceADay(t *testing.T) {
	e := projectionstest.Open(t)
	e.Events("account-a", start, charge(0))
	var hours atomic.Int64
	for _, c := range []struct {
		hours int64 // since the strict read model was compared
		first string
	}{{1, "plain"}, {23, "plain"}, {24, "strict"}} {
		lines := testwait.NewLines()
		begin := func() (r *engine.Runner, stop func()) {
			strict := newToy("strict", e.Store, 1)
			strict.strict = true
			now := func() time.Time { return start.Add(time.Duration(hours.Load()) * time.Hour) }
			r, stop = e.Start(debugging(lines, now), strict, newToy("plain", e.Store, 1))
			e.CatchUp(r)
			return r, stop
		}
		r, stop := begin()
		for _, name := range []string{"plain", "strict"} {
			hours.Add(1)
			testmust.Succeed(t, r.ScrubOnce(e.Context(), name))
		}
		lines.Wait(t, 2, "was compared")
		stop()
		hours.Add(c.hours)
		r, stop = begin()
		end := scrubbing(t, r)
		wantFirst(t, lines, c.first)
		end()
		stop()
	}
}

// Rule 8.
func TestScrub_TablesAreBuilt_Pauses(t *testing.T) {
	e := projectionstest.Open(t)
	e.Fill(projectionstest.NewWorld(6, 3, 3, time.Minute), 50)
	p := newToy("toy", e.Store, 1)
	r, _ := e.Start(engine.Config{}, p)
	e.CatchUp(r)
	quiet := func() bool {
		t.Helper()
		ok := testmust.Get(r.Quiet(e.Context()))(t)
		return ok
	}
	if !quiet() {
		t.Error("a scrub would pause though nothing is built")
	}
	built := make(chan error)
	go func() {
		built <- r.Rebuild(e.Context(), nil, func(engine.Progress) {
			if quiet() {
				t.Error("a scrub would run during a rebuild")
			}
		})
	}()
	testmust.Succeed(t, <-built)
	if !quiet() {
		t.Error("a scrub would pause after the rebuild")
	}
}

// Rule 8.
func TestScrub_FollowsLeader(t *testing.T) {
	eachNodes(t, func(t *testing.T, n *nodes) {
		n.root.Fill(projectionstest.NewWorld(7, 3, 3, time.Minute), 200)
		a := n.start(engine.Config{}, 1)
		a.leading(t)
		a.CatchUp(a.r)
		b := n.start(engine.Config{}, 1)
		b.CatchUp(b.r)
		if err := b.r.ScrubOnce(b.Context(), "toy"); !errors.Is(err, engine.ErrNotFolding) {
			t.Errorf("scrub on a follower: %v, want ErrNotFolding", err)
		}
		if err := a.r.ScrubOnce(a.Context(), "toy"); err != nil {
			t.Errorf("scrub on the leader: %v", err)
		}
		if differences(t, b.r, "toy") != 0 {
			t.Error("the follower reports differences")
		}
		a.stop()
		b.leading(t)
		if err := b.r.ScrubOnce(b.Context(), "toy"); err != nil {
			t.Errorf("scrub on the next leader: %v", err)
		}
	})
}
