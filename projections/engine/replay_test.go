package engine_test

import (
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"
	"time"

	"letterhead/internal/testmust"
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
	f := testmust.Get(os.Create(path))(b)
	testmust.Succeed(b, pprof.StartCPUProfile(f))
	return func() {
		pprof.StopCPUProfile()
		testmust.Succeed(b, f.Close())
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
		head := testmust.Get(e.Log.Head(b.Context()))(b)
		defer profile(b)()
		b.ResetTimer()
		for b.Loop() {
			testmust.Succeed(b, r.Rebuild(b.Context(), nil, nil))
		}
		b.ReportMetric(float64(head)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		b.ReportMetric(0, "ns/op")
	})
}
