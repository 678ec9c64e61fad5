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

// Benchmarks run only on request:
//
//	make lab LAB_FLAGS='-test.run ^$$ -test.bench . -test.benchtime 1x'

const (
	// concurrentCrawls is how many domains BenchmarkConcurrentCrawls looks up concurrently.
	concurrentCrawls = 50
	// BenchmarkCrawlsPerMinute counts the crawls of throughputClients concurrent clients during throughputTime.
	throughputTime    = 30 * time.Second
	throughputClients = 6
)

// goodSites returns the domains with a good page. Sites whose files are in the lab come first, pages that were saved
// or recorded without their files come last.
func goodSites(t testing.TB) []string {
	t.Helper()
	complete, saved := []string{"good-lab.com", "dark-lab.com", "bimi-lab.com"}, []string{}
	inLab := map[string]bool{}
	for _, in := range labHosts(t) {
		for _, host := range in.hosts {
			inLab[host] = true
		}
	}
	pages := labeled(t)
	for _, host := range slices.Sorted(maps.Keys(pages)) {
		domain := registrable(host)
		switch l := pages[host]; {
		case l.Outcome != "ok" || !inLab[domain] && !inLab["www."+domain]:
		case l.Group == "saved" || l.Group == "recorded":
			saved = append(saved, domain)
		default:
			complete = append(complete, domain)
		}
	}
	slices.Sort(saved)
	return append(complete, slices.Compact(saved)...)
}

// startForBenchmark starts a server without background crawls.
func startForBenchmark(b *testing.B) *server {
	b.Helper()
	return startWarm(b, portBenchmarks, "LETTERHEAD_REFRESH=off", "LETTERHEAD_STARTER=off", fmt.Sprintf("LETTERHEAD_CRAWL_WORKERS=%d", concurrentCrawls))
}

// BenchmarkSite crawls all good sites one after the other and measures the cost of each crawl.
func BenchmarkSite(b *testing.B) {
	s := startForBenchmark(b)
	for b.Loop() {
		var cpu, bytes, requests, took []float64
		for _, domain := range goodSites(b) {
			began, before := time.Now(), s.cpu(b)
			a := s.lookup(b, domain, "?refresh=true")
			if a.status != 200 {
				b.Errorf("the look-up of %s answered %s, want 200", domain, a)
				continue
			}
			cpu = append(cpu, float64((s.cpu(b) - before).Milliseconds()))
			took = append(took, float64(a.elapsed.Milliseconds()))
			sum := 0.0
			seen := requestsSince(b, began)
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

// BenchmarkCrawlsPerMinute measures the throughput of crawls of good sites.
func BenchmarkCrawlsPerMinute(b *testing.B) {
	s := startForBenchmark(b)
	domains := goodSites(b)
	for b.Loop() {
		began, cpu := time.Now(), s.cpu(b)
		queue := make(chan string)
		var mu sync.Mutex
		var wg sync.WaitGroup
		crawls, failed := 0, 0
		for range throughputClients {
			wg.Go(func() {
				for domain := range queue {
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
			queue <- domains[i%len(domains)]
		}
		close(queue)
		wg.Wait()
		b.ReportMetric(float64(crawls-failed)/time.Since(began).Minutes(), "crawls/min")
		b.ReportMetric(float64(failed), "failed")
		b.ReportMetric((s.cpu(b)-cpu).Seconds()/time.Since(began).Seconds(), "cores")
	}
}

// BenchmarkConcurrentCrawls measures the memory and time of concurrent crawls.
func BenchmarkConcurrentCrawls(b *testing.B) {
	s := startForBenchmark(b)
	domains := goodSites(b)[:concurrentCrawls]
	for b.Loop() {
		s.resetPeak(b)
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

// quantile returns the value below which the given share of the values lies.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(share*float64(len(values))))]
}
