package engine_test

import (
	"syscall"
	"testing"
	"time"

	"letterhead/internal/testmust"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
)

// BenchmarkScrub compares all read models with the log once, and reports the processor time for each million events of the
// log, which a pass within a day spreads over 86,400 seconds. Run it with -benchtime 1x; LETTERHEAD_REPLAY_EVENTS sets
// the size. The server of PostgreSQL is another process, whose time is not included.
func BenchmarkScrub(b *testing.B) {
	engines(b, func(b *testing.B, e *projectionstest.Env) {
		r, _ := e.Start(engine.Config{ScratchFolder: b.TempDir()}, newModels(b, e).all()...)
		fillFast(b, e, replayEvents(b))
		e.CatchUp(r)
		head := testmust.Get(e.Log.Head(b.Context()))(b)
		before := processorTime(b)
		b.ResetTimer()
		for b.Loop() {
			testmust.Succeed(b, r.ScrubOnce(b.Context()))
		}
		per := 1e6 / (float64(head) * float64(b.N))
		b.ReportMetric((processorTime(b)-before).Seconds()*per, "cpu-s/million")
		b.ReportMetric(b.Elapsed().Seconds()*per, "s/million")
		b.ReportMetric(0, "ns/op")
	})
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	testmust.Succeed(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
