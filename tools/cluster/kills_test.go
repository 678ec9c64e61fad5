//go:build services

package cluster

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// awayAtMost is the maximum time that a killed service or node stays down in a round of random kills.
const awayAtMost = 5 * time.Second

// The test kills the event store, the database or an API node with SIGKILL at random times under load,
// LETTERHEAD_KILL_ROUNDS times. Every request must be answered, or rejected with 503 or 504. Afterwards the cluster
// must serve again, and the ledger must match what the clients saw. Only requests to a killed node may get no answer.
// Rule 2.
func TestRandomKills_UnderLoad_LoseNoAnsweredCharge(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("LETTERHEAD_KILL_ROUNDS"))
	if err != nil || rounds < 1 {
		t.Skip("LETTERHEAD_KILL_ROUNDS is not set: the rounds take about half a minute each (make verify runs 16)")
	}
	c := whole(t)
	who := c.apis[0].open(t, "custom", enoughCredits)
	kinds := c.steadyLoad(t, who)
	paid := newTally()
	seen := make([]*tally, len(kinds))
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for i, k := range kinds {
		seen[i] = newTally()
		load.Go(func() {
			steadily(ctx, k.every, func(turn int) {
				a, err := c.apis[turn%len(c.apis)].get(k.path(), k.key)
				seen[i].count(a, err)
				if k.paid {
					paid.lookup(a, err)
				}
				rejected := a.status == http.StatusServiceUnavailable || k.name == kindUnknown && (a.status == http.StatusGatewayTimeout || crawled(a))
				if err == nil && !rejected && !slices.Contains(k.right, a.status) {
					seen[i].mistake("%s: %s: %s", k.name, a, a.body)
				}
			})
		})
	}
	for round := range rounds {
		var f fault
		switch rand.IntN(3) {
		case 0:
			f = stopped(t, eventStore)
		case 1:
			f = stopped(t, postgres)
		default:
			n := c.apis[rand.IntN(len(c.apis))]
			f = fault{n.name + " killed", func(*cluster) error { n.kill(); return nil }, func(*cluster) error { return n.start() }}
		}
		away := rand.N(awayAtMost)
		<-time.After(rand.N(calm)) // the load continues
		if err := f.begin(c); err != nil {
			t.Fatal(err)
		}
		<-time.After(away) // also during the fault
		if err := f.end(c); err != nil {
			t.Fatal(err)
		}
		if c.lost != nil {
			t.Fatal(c.lost)
		}
		t.Logf("round %d: %s for %s: every node served again %s after the fault ended", round+1, f.name, away.Round(10*time.Millisecond),
			c.recover(t, c.apis, who, paid).Round(10*time.Millisecond))
	}
	stop()
	load.Wait()
	for i, k := range kinds {
		t.Logf("%-28s %s", k.name, seen[i])
		seen[i].check(t, len(seen[i].unanswered)) // a killed node answers nothing
	}
	c.ready(t)
	c.agree(t, who, paid)
	c.verified(t)
}
