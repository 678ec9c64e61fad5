package backup_test

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/workers/backup"
)

// benchEvents returns the number of events that the benchmarks copy: BENCH_EVENTS, or a number for a short run.
func benchEvents(b *testing.B) int {
	if n, err := strconv.Atoi(os.Getenv("BENCH_EVENTS")); err == nil && n > 0 {
		return n
	}
	return 20_000
}

// filled is a log like that of a service: mostly single charges of a thousand accounts.
func filled(b *testing.B, events int) side {
	b.Helper()
	s := embedded(b)
	w := newWriter(b, s)
	const accounts = 1000
	var writers sync.WaitGroup
	per := max(events/accounts, 1)
	jobs := make(chan int)
	var mu sync.Mutex // of w
	for range 64 {
		writers.Go(func() {
			for i := range jobs {
				stream := fmt.Sprintf("account-%08d", i%accounts)
				mu.Lock()
				first := w.next[stream]
				e := w.event(stream, "CreditsCharged", 1, fmt.Appendf(nil, `{"charge_id":"c-%016d","credits":1,"request_id":"r-%016d","brand_id":"7f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50","domain":"example.com","record_revision":3}`, i, i))
				mu.Unlock()
				if _, err := s.log.Append(b.Context(), stream, eventlog.After(first), []eventlog.Proposed{e}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range per * accounts {
		jobs <- i
	}
	close(jobs)
	writers.Wait()
	return s
}

func rate(b *testing.B, events uint64, bytes int64) {
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(bytes)*float64(b.N)/1e6/b.Elapsed().Seconds(), "MB/s")
}

func BenchmarkBackup(b *testing.B) {
	from := filled(b, benchEvents(b))
	var sum backup.Summary
	for b.Loop() {
		sum = run(b, backup.Config{}, from, b.TempDir())
	}
	rate(b, sum.Events, sum.RawBytes)
	b.ReportMetric(float64(sum.RawBytes)/float64(sum.Bytes), "times-smaller")
}

func BenchmarkRestore(b *testing.B) {
	benchmarkRestore(b, func(log eventlog.Log) eventlog.Log { return log })
}

// The same into a log that is not an importer and takes windows of appends, to measure the gain of imports.
func BenchmarkRestoreWindows(b *testing.B) {
	benchmarkRestore(b, func(log eventlog.Log) eventlog.Log { return struct{ eventlog.Log }{log} })
}

func benchmarkRestore(b *testing.B, into func(eventlog.Log) eventlog.Log) {
	from, folder := filled(b, benchEvents(b)), b.TempDir()
	sum := run(b, backup.Config{}, from, folder)
	stages := map[backup.Stage]time.Duration{}
	for b.Loop() {
		to := embedded(b).target()
		to.Log = into(to.Log)
		clear(stages)
		begun := time.Now()
		cfg := backup.Config{Progress: func(p backup.Progress) { stages[p.Stage] = time.Since(begun) }}
		testmust.Succeed(b, testmust.Err(backup.Restore(b.Context(), backup.RestoreConfig{Config: cfg}, folder, opened(to))))
	}
	rate(b, sum.Events, sum.RawBytes)
	for stage, at := range stages { // of the last round: end of the stage
		b.ReportMetric(at.Seconds(), "s-until-"+string(stage))
	}
}

func BenchmarkMigrate(b *testing.B) {
	from := filled(b, benchEvents(b))
	var out backup.Migrated
	for b.Loop() {
		_, log := eventStore(b)
		var err error
		if out, err = backup.Migrate(b.Context(), backup.Config{}, true, from.source(), backup.Target{Log: log}); err != nil {
			b.Fatal(err)
		}
	}
	rate(b, out.Events, 0)
}

// The final pass after a first one that has copied nearly everything: the downtime of the service.
func BenchmarkFinalPass(b *testing.B) {
	from := filled(b, benchEvents(b))
	_, log := eventStore(b)
	to := backup.Target{Log: log}
	testmust.Succeed(b, testmust.Err(backup.Migrate(b.Context(), backup.Config{}, false, from.source(), to)))
	var out backup.Migrated
	for b.Loop() {
		var err error
		if out, err = backup.Migrate(b.Context(), backup.Config{}, true, from.source(), to); err != nil {
			b.Fatal(err)
		}
	}
	rate(b, out.Events, 0)
}
