package e2e

import (
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
)

// BenchmarkChargedLookups measures charged look-ups of a server on its own folder, over 300 accounts with 64 clients. If
// LETTERHEAD_TEST_PREVIOUS names the binary of another release, it measures both, one after the other in each round.
// It reports the medians of the rounds: look-ups a second, the 99th percentile of the time to answer, and the CPU time of
// the server for each look-up, which varies less than the rate while other work runs.
func BenchmarkChargedLookups(b *testing.B) {
	const accounts, clients, each, rounds = 300, 64, 40_000, 4
	type release struct {
		name string
		node *node
		keys []string
	}
	run := func(name, file string) release {
		n := launchBinary(b, file, b.TempDir())
		n.ready()
		r := release{name, n, make([]string, accounts)}
		var next atomic.Int64
		atOnce(4, func() { // commands
			for i := next.Add(1); i <= accounts && !b.Failed(); i = next.Add(1) {
				acc, key := account(b, n.data, "custom")
				ok(b, n.data, "credits", "grant", "--account", acc.Account.ID, "--amount", "1000000", "--kind", "adjustment", "--reason", "test")
				r.keys[i-1] = key
			}
		})
		return r
	}
	releases := []release{run("this", binary)}
	if previous := os.Getenv("LETTERHEAD_TEST_PREVIOUS"); previous != "" {
		releases = append(releases, run("before", previous))
	}
	measured := map[string][]float64{}
	for b.Loop() {
		for range rounds {
			for _, r := range releases {
				before := testmust.Get(testprocess.ID(r.node.cmd.Process.Pid).CPUTime())(b)
				began := time.Now()
				waits := make(chan []time.Duration, clients)
				var next atomic.Int64
				atOnce(clients, func() {
					client := &http.Client{Timeout: wireTimeout, Transport: &http.Transport{}}
					var took []time.Duration
					for i := next.Add(1); i <= each && !b.Failed(); i = next.Add(1) {
						sent := time.Now()
						if !lookUp(b, client, r.node, r.keys[i%accounts]) {
							break
						}
						took = append(took, time.Since(sent))
					}
					waits <- took
				})
				lasted := time.Since(began)
				spent := testmust.Get(testprocess.ID(r.node.cmd.Process.Pid).CPUTime())(b) - before
				var took []time.Duration
				for range clients {
					took = append(took, <-waits...)
				}
				if b.Failed() {
					b.FailNow()
				}
				slices.Sort(took)
				for unit, value := range map[string]float64{
					"lookups/s":     each / lasted.Seconds(),
					"ms-p99":        float64(took[len(took)*99/100].Microseconds()) / 1000,
					"cpu-us/lookup": float64(spent.Microseconds()) / each,
				} {
					measured[unit+"-"+r.name] = append(measured[unit+"-"+r.name], value)
				}
			}
		}
	}
	for unit, values := range measured {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], unit)
	}
}

// atOnce runs n calls at the same time.
func atOnce(n int, call func()) {
	var running sync.WaitGroup
	for range n {
		running.Go(call)
	}
	running.Wait()
}
