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

// BenchmarkUnknownDomains looks up 2,000 domains that do not exist. It reports how many events of the log each leaves,
// and how many are left after an archive step.
func BenchmarkUnknownDomains(b *testing.B) {
	const domains, atOnce = 2000, 32
	for range b.N {
		s := own(b, portFailures, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off")
		before := s.events(b)
		queue := make(chan int)
		var crowd sync.WaitGroup
		for range atOnce {
			crowd.Go(func() {
				for i := range queue {
					if a, err := s.ask(fmt.Sprintf("no-such-brand-%d.com", i), ""); err != nil || a.status != 404 {
						b.Errorf("look-up %d: %v, %v", i, a, err)
					}
				}
			})
		}
		for i := range domains {
			queue <- i
		}
		close(queue)
		crowd.Wait()
		after := s.events(b)
		b.Logf("%d events before, %d after %d failures", before, after, domains)
		s.end()
		out, err := s.letterhead("archive", "--before", time.Now().UTC().Format(time.RFC3339Nano), "--to", filepath.Join(b.TempDir(), "failed.jsonl.zst"), "--yes", "--json")
		if err != nil {
			b.Fatal(err)
		}
		var archived struct{ Streams, Events uint64 }
		if err := json.Unmarshal(out, &archived); err != nil {
			b.Fatal(err)
		}
		left := s.events(b)
		b.Logf("%d events of %d streams archived, %d left", archived.Events, archived.Streams, left)
		b.ReportMetric(float64(after-before)/domains, "events/failure")
		b.ReportMetric(float64(left-before)/domains, "events-after-archive/failure")
	}
}

// events counts the events of the log but for those in which a node counts its requests.
func (s *server) events(b *testing.B) int {
	b.Helper()
	out, err := s.letterhead("events", "replay", "--json")
	if err != nil {
		b.Fatal(err)
	}
	return bytes.Count(out, []byte("\n")) - bytes.Count(out, []byte(`"stream":"usage-node-`))
}
