package commands

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/internal/eventlog/esdb/esdbtest"
)

// BenchmarkNodesOneAccount measures one account on writers of one node and of three, each with its own
// gRPC connection to one store, with the same total number of callers, who call again right after each
// answer. On one machine the nodes share its processors.
func BenchmarkNodesOneAccount(b *testing.B) {
	for _, commit := range []time.Duration{0, time.Millisecond} {
		for _, callers := range []int{64, 192} {
			for _, count := range []int{1, 3} {
				b.Run(fmt.Sprintf("commit=%s/callers=%d/nodes=%d", commit, callers, count), func(b *testing.B) {
					n := newNodes(b, count, commit, esdbtest.Config{})
					n.chargeFrom(b, n.opened(n.writers[0], 1<<40), callers)
				})
			}
		}
	}
}

func (n *nodes) chargeFrom(b *testing.B, id string, callers int) {
	appends, reads := n.calls()
	var next atomic.Int64
	var wg sync.WaitGroup
	waits := make([]time.Duration, callers)
	served := make([]int64, len(n.writers))
	b.ResetTimer()
	for i := range callers {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				asked := time.Now()
				if _, err := n.writers[i%len(n.writers)].ChargeLookup(context.Background(), n.lookup(id)); err != nil {
					b.Error(err)
					return
				}
				took := time.Since(asked)
				waits[i] = max(waits[i], took)
				atomic.AddInt64(&served[i%len(n.writers)], 1)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	nowAppends, nowReads := n.calls()
	worst, least := time.Duration(0), int64(b.N)
	for _, w := range waits {
		worst = max(worst, w)
	}
	for _, s := range served {
		least = min(least, s)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "charges/s")
	b.ReportMetric(float64(nowAppends-appends)/float64(b.N)*100, "appends/100")
	b.ReportMetric(float64(nowReads-reads)/float64(b.N)*100, "reads/100")
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
	b.ReportMetric(float64(least)/float64(b.N)*float64(len(n.writers))*100, "%fair")
	b.ReportMetric(0, "ns/op")
}
