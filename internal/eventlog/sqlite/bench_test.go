package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

func openBench(b *testing.B) *sqlite.Log {
	b.Helper()
	l := testmust.Get(sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(b.TempDir(), "events.db")}))(b)
	b.Cleanup(func() { testmust.Succeed(b, l.Close()) })
	return l
}

// charge returns an event of the usual size: about 300 bytes of data and metadata.
func charge(n uint64) eventlog.Proposed {
	e := eventlog.Proposed{
		Type: "CreditsCharged", SchemaVersion: 1, OccurredAt: time.UnixMicro(1_760_000_000_000_000 + int64(n)).UTC(),
		Data: fmt.Appendf(nil, `{"charge_id":"c-%016d","credits":1,"request_id":"r-%016d","brand_id":"7f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50","domain":"example.com","record_revision":3}`, n, n),
		Metadata: eventlog.Metadata{
			RequestID: fmt.Sprintf("r-%016d", n), Actor: "account:0192f3a4-0000-7000-8000-000000000000",
			Hash: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d", n))
	e.ID = id
	return e
}

// Sequential durable appends: the cost of one flush.
func BenchmarkAppendOneByOne(b *testing.B) {
	l := openBench(b)
	n := uint64(0)
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		testmust.Succeed(b, testmust.Err(l.Append(context.Background(), "account-1", eventlog.After(n), []eventlog.Proposed{charge(n)})))
		took = append(took, time.Since(begun))
		n++
	}
	reportLatency(b, took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// 64 writers, each with its own stream: the effect of group commit.
func BenchmarkAppend64Writers(b *testing.B) {
	l := openBench(b)
	var next atomic.Int64
	var wg sync.WaitGroup
	took := make([][]time.Duration, 64)
	b.ResetTimer()
	for w := range 64 {
		wg.Go(func() {
			stream := fmt.Sprintf("account-%d", w)
			for n := uint64(0); next.Add(1) <= int64(b.N); n++ {
				begun := time.Now()
				if _, err := l.Append(context.Background(), stream, eventlog.After(n), []eventlog.Proposed{charge(n)}); err != nil {
					b.Error(err)
					return
				}
				took[w] = append(took[w], time.Since(begun))
			}
		})
	}
	wg.Wait()
	reportLatency(b, slices.Concat(took...))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// Replay of 200,000 events of 1,000 streams, without decoding their data.
func BenchmarkReplay(b *testing.B) {
	l := openBench(b)
	events := fillBench(b, l)
	b.ReportAllocs()
	for b.Loop() {
		var at eventlog.Position
		seen := 0
		for {
			page := testmust.Get(l.ReadAll(context.Background(), at, eventlog.Filter{}, 4096))(b)
			at = page.Next
			seen += len(page.Events)
			if page.End {
				break
			}
		}
		if seen != events {
			b.Fatalf("%d events, want %d", seen, events)
		}
	}
	b.ReportMetric(float64(b.N*events)/b.Elapsed().Seconds(), "events/s")
}

// The verification of a log at a start without a marker or with a small log, and by doctor: 200,000 events
// of 1,000 streams.
func BenchmarkCheck(b *testing.B) {
	l := openBench(b)
	events := fillBench(b, l)
	for b.Loop() {
		testmust.Succeed(b, l.Check(context.Background(), nil))
	}
	b.ReportMetric(float64(b.N*events)/b.Elapsed().Seconds(), "events/s")
}

func fillBench(b *testing.B, l *sqlite.Log) (events int) {
	b.Helper()
	const count, streams, perAppend = 200_000, 1_000, 50
	next := make([]uint64, streams)
	n := uint64(0)
	for i := 0; n < count; i++ {
		s := i % streams
		batch := make([]eventlog.Proposed, perAppend)
		for j := range batch {
			batch[j] = charge(n)
			n++
		}
		testmust.Succeed(b, testmust.Err(l.Append(context.Background(), fmt.Sprintf("account-%d", s), eventlog.After(next[s]), batch)))
		next[s] += perAppend
	}
	return count
}

func reportLatency(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// The disk's own time for flushing a page, for comparison.
func BenchmarkFlush(b *testing.B) {
	f := testmust.Get(os.Create(filepath.Join(b.TempDir(), "flush")))(b)
	defer f.Close()
	page := make([]byte, 4096)
	// Rewriting allocated space, as the WAL does after its first round.
	testmust.Succeed(b, testmust.Err(f.Write(make([]byte, 64*4096))))
	n := int64(0)
	for b.Loop() {
		testmust.Succeed(b, testmust.Err(f.WriteAt(page, n%64*4096)))
		testmust.Succeed(b, f.Sync())
		n++
	}
}
