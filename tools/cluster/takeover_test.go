//go:build services

package cluster

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// takeoverTimeout is the timeout for a standby to take over.
const takeoverTimeout = 2 * time.Minute

// Each projector is killed in turn. The other one continues from the same position.
func TestStandby_ProjectorKilled_TakesOver(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 1000)
	seen := newTally()
	for i, dying := range c.projectors {
		c.caughtUp(t)
		dying.kill()
		killed := time.Now()
		// The nodes continue to serve the current read models.
		for _, n := range c.apis {
			seen.lookup(n.want(t, http.StatusOK, lookup(hit), who.secret), nil)
		}
		c.apis[i].grant(t, who, 1)
		c.caughtUp(t)
		t.Logf("%s killed: the read models contained later events after %s", dying.name, time.Since(killed).Round(10*time.Millisecond))
		c.mend(t)
	}
	seen.check(t, 0)
	c.agree(t, who, seen)
	c.verified(t)
}

// A standby must take over from a frozen leader as from a dead one, and the old leader must do no harm when it resumes.
// Under load it freezes during a transaction, or after it has sent only some messages.
// Rule 8.
func TestStandby_LeaderHangs_TakesOver(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", enoughCredits)
	seen := newTally()
	ctx, stop := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() {
		steadily(ctx, 25*time.Millisecond, func(i int) {
			a, err := c.apis[i%apiNodes].get(lookup(hit), who.secret)
			seen.lookup(a, err)
			if err == nil && a.status != http.StatusOK {
				seen.mistake("%s: %s", a, a.body)
			}
		})
	})
	t.Run("projector", func(t *testing.T) {
		c.hangs(t, c.projectors, "projections", func() {
			c.apis[0].grant(t, who, 1)
			c.caughtUp(t)
		})
	})
	t.Run("relay", func(t *testing.T) {
		c.hangs(t, c.relays, "relay crawl.live", func() { c.crawlsAgain(t, who, seen) })
	})
	stop()
	load.Wait()
	t.Logf("%s", seen)
	seen.check(t, 0)
	c.agree(t, who, seen)
	c.verified(t)
}

// hangs freezes the leader until another node has done its work, and then resumes it.
func (c *cluster) hangs(t *testing.T, nodes []*node, what string, work func()) {
	t.Helper()
	metric := `letterhead_leading{name="` + what + `"}`
	leader := func() (leads *node, others int) {
		for _, n := range nodes {
			if value, _ := n.metric(metric); value == 1 {
				leads, others = n, others+1
			}
		}
		return leads, others - 1
	}
	var frozen *node
	until(t, takeoverTimeout, "exactly one node leads "+what, func() bool {
		n, others := leader()
		frozen = n
		return n != nil && others == 0
	})
	if err := frozen.freeze(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = frozen.thaw() }() // if the test ends early
	began := time.Now()
	work()
	t.Logf("%s frozen: another node had done its work after %s", frozen.name, time.Since(began).Round(10*time.Millisecond))
	if err := frozen.thaw(); err != nil {
		t.Fatal(err)
	}
	until(t, takeoverTimeout, "only another node leads "+what, func() bool {
		n, others := leader()
		return n != nil && n != frozen && others == 0 && frozen.ready()
	})
	work()
}

// crawlsAgain waits until a requested crawl reaches a crawler, and returns how long that took.
func (c *cluster) crawlsAgain(t *testing.T, who customer, seen *tally) time.Duration {
	t.Helper()
	return until(t, takeoverTimeout, "a requested crawl reaches a crawler", func() bool {
		a, err := c.apis[0].get(lookup(nowhere()), who.secret)
		seen.lookup(a, err)
		return err == nil && crawled(a)
	})
}

// caughtUp waits until the read models and the search index contain all events that are in the log at the call.
func (c *cluster) caughtUp(t testing.TB) {
	t.Helper()
	until(t, takeoverTimeout, "the read models have caught up", func() bool {
		models, err := c.apis[0].letterhead("projections", "list", "--json")
		return err == nil && models != "" && strings.Count(models, `"lag":0,`) == strings.Count(models, "\n")
	})
}

// Rule 6.
func TestStandby_RelayKilled_TakesOver(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	seen := newTally()
	for _, dying := range c.relays {
		dying.kill()
		took := c.crawlsAgain(t, who, seen)
		t.Logf("%s killed: requested crawls ran again after %s", dying.name, took.Round(10*time.Millisecond))
		c.mend(t)
	}
	seen.check(t, 0)
	c.agree(t, who, seen)
}
