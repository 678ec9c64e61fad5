//go:build lab

package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// BenchmarkUnknownDomains looks up 2,000 domains that do not exist. It reports how many events each failure adds to the
// log, and how many of them remain after an archive step.
func BenchmarkUnknownDomains(b *testing.B) {
	const domains, concurrency = 2000, 32
	for range b.N {
		s := startServer(b, portFailures, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
		before := s.events(b)
		queue := make(chan int)
		var clients sync.WaitGroup
		for range concurrency {
			clients.Go(func() {
				for i := range queue {
					if a, err := s.ask(fmt.Sprintf("no-such-brand-%d.com", i), ""); err != nil || a.status != 404 {
						b.Errorf("look-up %d answered %v (%v), want 404", i, a, err)
					}
				}
			})
		}
		for i := range domains {
			queue <- i
		}
		close(queue)
		clients.Wait()
		after := s.events(b)
		b.Logf("%d events before, %d after %d failures", before, after, domains)
		s.kill()
		out, err := s.letterhead("archive", "--before", time.Now().UTC().Format(time.RFC3339Nano), "--to", filepath.Join(b.TempDir(), "failed.jsonl.zst"), "--yes", "--json")
		if err != nil {
			b.Fatal(err)
		}
		var archived struct{ Streams, Events uint64 }
		if err := json.Unmarshal(out, &archived); err != nil {
			b.Fatal(err)
		}
		left := s.events(b)
		b.Logf("%d events of %d streams were archived, %d remain", archived.Events, archived.Streams, left)
		b.ReportMetric(float64(after-before)/domains, "events/failure")
		b.ReportMetric(float64(left-before)/domains, "events-after-archive/failure")
	}
}

// events counts the events of the log, except those in which a node records its request counts.
func (s *server) events(b *testing.B) int {
	b.Helper()
	out, err := s.letterhead("events", "replay", "--json")
	if err != nil {
		b.Fatal(err)
	}
	return bytes.Count(out, []byte("\n")) - bytes.Count(out, []byte(`"stream":"usage-node-`))
}
