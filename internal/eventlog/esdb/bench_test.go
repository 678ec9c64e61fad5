package esdb_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/esdb/esdbtest"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
)

// charge returns an event of the usual size: about 300 bytes of data and metadata.
func charge(n uint64) eventlog.Proposed {
	return eventlog.Proposed{
		ID:   uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d", n)),
		Type: "CreditsCharged", SchemaVersion: 1, OccurredAt: time.UnixMicro(1_760_000_000_000_000 + int64(n)).UTC(),
		Data: fmt.Appendf(nil, `{"charge_id":"c-%016d","credits":1,"request_id":"r-%016d","brand_id":"7f0c4a52-6f0e-5c35-9a55-1d1c2d3e4f50","domain":"example.com","record_revision":3}`, n, n),
		Metadata: eventlog.Metadata{
			RequestID: fmt.Sprintf("r-%016d", n), Actor: "account:0192f3a4-0000-7000-8000-000000000000",
			Hash: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		},
	}
}

// Appends of one event by that many writers, each with its own stream, over one connection. The server runs
// in the same process and takes its share of the processor.
func BenchmarkAppend(b *testing.B) {
	for _, durable := range []bool{false, true} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("durable=%t/writers=%d", durable, writers), func(b *testing.B) {
				cfg := esdbtest.Config{}
				if durable {
					cfg.Dir = b.TempDir()
				}
				benchAppend(b, esdbtest.StartWith(b, cfg), writers, 1)
			})
		}
	}
	b.Run("durable=true/writers=64/group=16", func(b *testing.B) {
		benchAppend(b, esdbtest.StartWith(b, esdbtest.Config{Dir: b.TempDir()}), 64, 16)
	})
}

func benchAppend(b *testing.B, server *esdbtest.Server, writers, group int) {
	appendMany(b, open(b, server, esdb.Config{}), "account-", writers, group)
}

func appendMany(b *testing.B, l eventlog.Log, prefix string, writers, group int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	took := make([][]time.Duration, writers)
	b.ResetTimer()
	for w := range writers {
		wg.Go(func() {
			stream := fmt.Sprintf("%s%d", prefix, w)
			for n := uint64(0); next.Add(1) <= int64(b.N); n += uint64(group) {
				events := make([]eventlog.Proposed, group)
				for i := range events {
					events[i] = charge(n + uint64(i))
				}
				begun := time.Now()
				if _, err := l.Append(context.Background(), stream, eventlog.After(n), events); err != nil {
					b.Error(err)
					return
				}
				took[w] = append(took[w], time.Since(begun))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(b.N*group)/b.Elapsed().Seconds(), "events/s")
}

// Reading 200,000 events of 1,000 account streams, of which every fiftieth is a brand's.
func BenchmarkRead(b *testing.B) {
	const events, perAppend = 200_000, 100
	server := esdbtest.Start(b)
	l := open(b, server, esdb.Config{})
	brands := 0
	for i := 0; i < events/perAppend; i++ {
		stream := fmt.Sprintf("account-%d", i%1000)
		if i%50 == 0 {
			stream = fmt.Sprintf("brand-%d", i)
			brands += perAppend
		}
		batch := make([]eventlog.Proposed, perAppend)
		for j := range batch {
			batch[j] = charge(uint64(i*perAppend + j))
		}
		testmust.Succeed(b, testmust.Err(l.Append(b.Context(), stream, eventlogtest.End(b, l, stream), batch)))
	}
	some := eventlog.Filter{StreamPrefixes: []string{"brand-"}}
	for name, read := range map[string]func(*testing.B) int{
		"ReadAll":             func(b *testing.B) int { return readThrough(b, l, eventlog.Filter{}) },
		"ReadAll/filtered":    func(b *testing.B) int { return readThrough(b, l, some) * events / brands },
		"Subscribe":           func(b *testing.B) int { return followThrough(b, l, eventlog.Filter{}) },
		"Subscribe/filtered":  func(b *testing.B) int { return followThrough(b, l, some) * events / brands },
		"ReadAll/small pages": func(b *testing.B) int { return readPages(b, l, eventlog.Filter{}, 256) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n := read(b); n != events {
					b.Fatalf("%d events, want %d", n, events)
				}
			}
			b.ReportMetric(float64(b.N)*events/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func readThrough(b *testing.B, l eventlog.Log, filter eventlog.Filter) int {
	return readPages(b, l, filter, 4096)
}

func readPages(b *testing.B, l eventlog.Log, filter eventlog.Filter, size int) int {
	seen := 0
	for at, end := eventlog.Position(0), false; !end; {
		page := testmust.Get(l.ReadAll(b.Context(), at, filter, size))(b)
		seen += len(page.Events)
		at, end = page.Next, page.End
	}
	return seen
}

func followThrough(b *testing.B, l eventlog.Log, filter eventlog.Filter) int {
	sub := testmust.Get(l.Subscribe(b.Context(), 0, filter))(b)
	defer sub.Close()
	for seen := 0; ; {
		batch := testmust.Get(sub.Next(b.Context()))(b)
		if seen += len(batch.Events); batch.Live {
			return seen
		}
	}
}

// The head, requested concurrently.
func BenchmarkHead(b *testing.B) {
	l := open(b, esdbtest.Start(b), esdb.Config{})
	testmust.Succeed(b, testmust.Err(l.Append(b.Context(), stream, eventlog.NoStream(), batch(0, 1))))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.Head(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// The same with a separate server, for several processes.
func BenchmarkAppendOutside(b *testing.B) {
	l := connectTo(b, esdb.Config{ConnectionString: testservices.EventStore(b)})
	for _, group := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=64/group=%d", group), func(b *testing.B) {
			appendMany(b, l, uuid.NewString()+"-", 64, group)
		})
	}
}
