package engine_test

import (
	"context"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// replayEvents is the size of the benchmarks' log.
func replayEvents(b *testing.B) int {
	text := os.Getenv("LETTERHEAD_REPLAY_EVENTS")
	if text == "" {
		return 200_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		b.Fatalf("LETTERHEAD_REPLAY_EVENTS is %q", text)
	}
	return n
}

// fillFast appends a world's events from several goroutines, so that the log commits them in groups.
func fillFast(b *testing.B, e *projectionstest.Env, events int) {
	b.Helper()
	const writers = 32
	w := projectionstest.NewWorld(1, 1000, 5000, 50*time.Millisecond)
	queues := make([]chan projectionstest.Group, writers) // a stream always uses one queue, to keep its order
	var group sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan projectionstest.Group, 64)
		group.Go(func() {
			for g := range queues[i] {
				e.Append(g)
			}
		})
	}
	for n := 0; n < events; {
		g := w.Next()
		sum := 0
		for _, c := range []byte(g.Stream) {
			sum = sum*31 + int(c)
		}
		queues[uint(sum)%writers] <- g
		n += len(g.Events)
	}
	for _, queue := range queues {
		close(queue)
	}
	group.Wait()
}

// profile writes a CPU profile of the rest of the benchmark, without the creation of the log, to the file that
// LETTERHEAD_REPLAY_PROFILE names.
func profile(b *testing.B) (stop func()) {
	path := os.Getenv("LETTERHEAD_REPLAY_PROFILE")
	if path == "" {
		return func() {}
	}
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		b.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// engines runs a benchmark on each.
func engines(b *testing.B, run func(b *testing.B, e *projectionstest.Env)) {
	b.Run("sqlite", func(b *testing.B) { run(b, projectionstest.Open(b)) })
	b.Run("postgres", func(b *testing.B) { run(b, projectionstest.OpenPostgres(b)) })
}

// BenchmarkReplay folds a log from its beginning into all read models, including indexes. Run it with -benchtime 1x;
// LETTERHEAD_REPLAY_EVENTS sets the size.
func BenchmarkReplay(b *testing.B) {
	engines(b, func(b *testing.B, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(b, e).all()...)
		e.CatchUp(r) // the first tables are live, and empty
		fillFast(b, e, replayEvents(b))
		e.CatchUp(r)
		head, err := e.Log.Head(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer profile(b)()
		b.ResetTimer()
		for b.Loop() {
			if err := r.Rebuild(b.Context(), nil, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(head)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkReadAndDecode reads and decodes the log's pages, the lower limit of a replay with one reader.
func BenchmarkReadAndDecode(b *testing.B) {
	e := projectionstest.Open(b)
	fillFast(b, e, replayEvents(b))
	var events atomic.Int64
	b.ResetTimer()
	for b.Loop() {
		for at := eventlog.Position(0); ; {
			page, err := e.Log.ReadAll(context.Background(), at, eventlog.Filter{}, 4096)
			if err != nil {
				b.Fatal(err)
			}
			for i := range page.Events {
				rec := &page.Events[i]
				if _, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data); err != nil {
					b.Fatal(err)
				}
			}
			events.Add(int64(len(page.Events)))
			if at = page.Next; page.End {
				break
			}
		}
	}
	b.ReportMetric(float64(events.Load())/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLive is the time from the append of one event until all read models show it.
func BenchmarkLive(b *testing.B) {
	engines(b, func(b *testing.B, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{}, newModels(b, e).all()...)
		live(b, e, r)
	})
}

// BenchmarkLiveLoad folds about 1,000 appends per second, one second in each iteration, and reports the events per
// transaction.
func BenchmarkLiveLoad(b *testing.B) {
	const perSecond = 1000
	engines(b, func(b *testing.B, e *projectionstest.Env) {
		moves := make(map[eventlog.Position]bool)
		r, _ := e.Start(engine.Config{}, newModels(b, e).all()...)
		w := projectionstest.NewWorld(1, 300, 100, time.Second)
		e.Fill(w, 5000)
		e.CatchUp(r)
		events := 0
		began := time.Now()
		for b.Loop() {
			for range perSecond {
				g := w.Next()
				e.Append(g)
				events += len(g.Events)
				for _, s := range must(b)(r.List(b.Context())) {
					moves[s.Position] = true
				}
				time.Sleep(time.Until(began.Add(time.Duration(events) * time.Second / perSecond)))
			}
		}
		b.ReportMetric(float64(events)/time.Since(began).Seconds(), "events/s")
		b.ReportMetric(float64(events)/float64(len(moves)), "events/tx")
	})
}

func must(b *testing.B) func([]engine.Status, error) []engine.Status {
	return func(all []engine.Status, err error) []engine.Status {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return all
	}
}

// BenchmarkLiveOnAnotherNode is BenchmarkLive as seen by a node that does not fold.
func BenchmarkLiveOnAnotherNode(b *testing.B) {
	e := projectionstest.OpenPostgres(b)
	e.Start(engine.Config{}, newModels(b, e).all()...)
	n := e.Node()
	r, _ := n.Start(engine.Config{FollowOnly: true}, newModels(b, n).all()...)
	live(b, e, r)
}

func live(b *testing.B, e *projectionstest.Env, r *engine.Runner) {
	b.Helper()
	w := projectionstest.NewWorld(1, 100, 100, time.Second)
	e.Fill(w, 5000)
	e.CatchUp(r)
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		at := e.Append(w.Next())
		appended := time.Now()
		b.StartTimer()
		for _, name := range names {
			if err := r.WaitFor(b.Context(), name, at); err != nil {
				b.Fatal(err)
			}
		}
		took = append(took, time.Since(appended))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
