//go:build lab

package lab

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"
)

// Figures are measured as benchmarks, which run only when asked for:
//
//	make lab LAB_FLAGS='-test.run ^$$ -test.bench . -test.benchtime 1x'

const (
	// concurrentCrawls is how many domains are looked up at once.
	concurrentCrawls = 50
	// throughputTime is how long crawls are counted, throughputClients at a time.
	throughputTime    = 30 * time.Second
	throughputClients = 6
)

// goodSites are domains with a good page and its files: the lab's own and written ones, then those without their files.
func goodSites(t testing.TB) []string {
	t.Helper()
	whole, saved := []string{"good-lab.com", "dark-lab.com", "bimi-lab.com"}, []string{}
	there := map[string]bool{}
	for _, in := range inhabitants(t) {
		for _, host := range in.hosts {
			there[host] = true
		}
	}
	pages := labeled(t)
	for _, host := range slices.Sorted(maps.Keys(pages)) {
		domain := registrable(host)
		switch l := pages[host]; {
		case l.Outcome != "ok" || !there[domain] && !there["www."+domain]:
		case l.Group == "saved" || l.Group == "recorded":
			saved = append(saved, domain)
		default:
			whole = append(whole, domain)
		}
	}
	slices.Sort(saved)
	return append(whole, slices.Compact(saved)...)
}

// figures starts a server that crawls nothing on its own.
func figures(b *testing.B) *server {
	b.Helper()
	return warm(b, portFigures, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off", fmt.Sprintf("LETTERHEAD_CRAWL_WORKERS=%d", concurrentCrawls))
}

// BenchmarkSite measures what one crawl costs, one at a time, over all good sites.
func BenchmarkSite(b *testing.B) {
	s := figures(b)
	for b.Loop() {
		var cpu, bytes, requests, took []float64
		for _, domain := range goodSites(b) {
			began, before := time.Now(), s.cpu(b)
			a := s.lookup(b, domain, "?refresh=true")
			if a.status != 200 {
				b.Errorf("%s answered %s", domain, a)
				continue
			}
			cpu = append(cpu, float64((s.cpu(b) - before).Milliseconds()))
			took = append(took, float64(a.elapsed.Milliseconds()))
			sum := 0.0
			seen := since(b, began)
			for _, r := range seen {
				sum += float64(r.Bytes)
			}
			bytes, requests = append(bytes, sum), append(requests, float64(len(seen)))
		}
		for _, f := range []struct {
			name   string
			values []float64
		}{{"cpu-ms", cpu}, {"bytes", bytes}, {"requests", requests}, {"ms", took}} {
			b.ReportMetric(quantile(f.values, 0.5), f.name+"-median")
			b.ReportMetric(quantile(f.values, 0.95), f.name+"-p95")
		}
	}
}

// BenchmarkCrawlsPerMinute counts crawls of good sites for a while.
func BenchmarkCrawlsPerMinute(b *testing.B) {
	s := figures(b)
	domains := goodSites(b)
	for b.Loop() {
		began, cpu := time.Now(), s.cpu(b)
		turns := make(chan string)
		var mu sync.Mutex
		var wg sync.WaitGroup
		crawls, failed := 0, 0
		for range throughputClients {
			wg.Go(func() {
				for domain := range turns {
					a, err := s.ask(domain, "?refresh=true")
					mu.Lock()
					if crawls++; err != nil || a.status != 200 {
						failed++
						b.Logf("%s: %s %v", domain, a, err)
					}
					mu.Unlock()
				}
			})
		}
		for i := 0; time.Since(began) < throughputTime; i++ {
			turns <- domains[i%len(domains)]
		}
		close(turns)
		wg.Wait()
		b.ReportMetric(float64(crawls-failed)/time.Since(began).Minutes(), "crawls/min")
		b.ReportMetric(float64(failed), "failed")
		b.ReportMetric((s.cpu(b)-cpu).Seconds()/time.Since(began).Seconds(), "cores")
	}
}

// BenchmarkFiftyAtOnce measures the memory of as many crawls.
func BenchmarkFiftyAtOnce(b *testing.B) {
	s := figures(b)
	domains := goodSites(b)[:concurrentCrawls]
	for b.Loop() {
		s.forgetPeak(b)
		before, cpu, began := s.resident(b), s.cpu(b), time.Now()
		var wg sync.WaitGroup
		answers := make([]answer, len(domains))
		for i, domain := range domains {
			wg.Go(func() { answers[i], _ = s.ask(domain, "?refresh=true") })
		}
		wg.Wait()
		ok, slowest := 0, time.Duration(0)
		for i, a := range answers {
			slowest = max(slowest, a.elapsed)
			if a.status == 200 {
				ok++
			} else {
				b.Logf("%s: %s", domains[i], a)
			}
		}
		peak := s.peak(b)
		b.ReportMetric(float64(before)/(1<<20), "before-MB")
		b.ReportMetric(float64(peak)/(1<<20), "peak-MB")
		b.ReportMetric(float64(peak-before)/(1<<20), "more-MB")
		b.ReportMetric(float64(ok), "answered")
		b.ReportMetric(slowest.Seconds(), "slowest-s")
		b.ReportMetric((s.cpu(b) - cpu).Seconds(), "cpu-s")
		b.ReportMetric(time.Since(began).Seconds(), "wall-s")
	}
}

// quantile is the value below which a share of the values lies.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(share*float64(len(values))))]
}
