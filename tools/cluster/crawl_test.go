//go:build services

package cluster

import (
	"net/http"
	"testing"
	"time"
)

const (
	concurrentLookups = 100 // of one unknown domain
	// holdEnds is how long an abandoned hold may last: the deadline of its work, 60 s, and two sweeps.
	// See account.HoldGrace and sweep.DefaultEvery.
	holdEnds = crawlTimeout + 75*time.Second
	// busyCrawls is the metric for the crawls in progress on a crawler.
	busyCrawls = `letterhead_crawl_pool_busy{lane="live"}`
)

// Rule 5.
func TestLookups_HundredForOneUnknownDomain_StartOneCrawl(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", concurrentLookups)
	domain := nowhere()
	if inLab() {
		domain = siteOfManyLookups
	}
	seen := newTally()
	atOnce(concurrentLookups, func(i int) {
		a, err := c.apis[i%len(c.apis)].get(lookup(domain), who.secret)
		seen.lookup(a, err)
		if err == nil && a.status == http.StatusInternalServerError {
			seen.mistake("%s: %s", a, a.body)
		}
	})
	t.Logf("%s: %s", domain, seen)
	seen.check(t, 0)
	requested := c.apis[0].events(t, "brand-"+domain, "CrawlRequested")
	if len(requested) != 1 {
		t.Errorf("%d crawls were requested, want 1", len(requested))
	}
	if ended := c.apis[0].events(t, "brand-"+domain, "CrawlSucceeded", "CrawlFailed"); len(ended) != 1 {
		t.Errorf("%d crawls ended, want 1", len(ended))
	}
	if got := seen.status(http.StatusOK); inLab() && got != concurrentLookups || !inLab() && got != 0 {
		t.Errorf("%d look-ups were answered with a brand, want %d in the lab and 0 elsewhere", got, concurrentLookups)
	}
	c.agree(t, who, seen)
	for _, n := range c.apis {
		until(t, settledWithin, "no hold is open on "+n.name, func() bool { return n.standing(t, who).OpenHolds == 0 })
	}
}

// Rule 5.
func TestCrawler_KilledDuringCrawl_AnotherTakesOver(t *testing.T) {
	sites := labOnly(t)
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	sites.behaves(t, siteOfKilledCrawler, "slow", slowSite)
	seen := newTally()
	answered := make(chan answer, 1)
	go func() {
		a, err := c.apis[0].get(lookup(siteOfKilledCrawler), who.secret)
		seen.lookup(a, err)
		answered <- a
	}()
	var busy *node
	until(t, answerWithin, "a crawler is busy", func() bool {
		for _, n := range c.crawlers {
			if crawls, ok := n.metric(busyCrawls); ok && crawls > 0 {
				busy = n
			}
		}
		return busy != nil
	})
	busy.kill()
	if a := <-answered; a.status != http.StatusGatewayTimeout || a.code() != "timeout" {
		t.Errorf("the look-up whose crawler was killed got %s, want 504 timeout", a)
	}
	sites.behaves(t, siteOfKilledCrawler, "up", "")
	// The remaining crawler takes over once the consumer group has rebalanced.
	took := until(t, settledWithin, "the domain is crawled again", func() bool {
		a, err := c.apis[1].get(lookup(siteOfKilledCrawler)+"?refresh=true", who.secret)
		seen.lookup(a, err)
		return err == nil && a.status == http.StatusOK
	})
	t.Logf("the other crawler crawled the domain %s after the timeout", took.Round(time.Millisecond))
	seen.check(t, 0)
	c.agree(t, who, seen)
}

// The holds of a dead node must be released by an event after their deadline, so that the account gets the credits
// back. The part after t.Parallel runs when the sequential tests have finished, so that no test waits for it.
// Rule 4.
func TestNode_KilledWhileHoldingCredits_ReleasesThem(t *testing.T) {
	const holds = 5
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	before := c.apis[0].standing(t, who)
	doomed := c.extra(t, "doomed", "api")
	// Stalled crawls keep their holds open.
	for _, n := range c.crawlers {
		if err := n.freeze(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.thaw() }() // if the test ends early
	}
	seen := newTally()
	died := make(chan struct{})
	go func() {
		defer close(died)
		atOnce(holds, func(int) { seen.lookup(doomed.get(lookup(nowhere()), who.secret)) })
	}()
	until(t, answerWithin, "all look-ups hold a credit", func() bool { return c.apis[1].standing(t, who).OpenHolds == holds })
	doomed.kill()
	killed := time.Now()
	<-died
	c.forget(doomed)
	for _, n := range c.crawlers {
		if err := n.thaw(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.apis[0].standing(t, who); got.Balance != before.Balance || got.Available != before.Available-holds {
		t.Errorf("standing with open holds = %+v, before them %+v, want %d fewer credits available", got, before, holds)
	}
	seen.check(t, holds)

	t.Parallel()
	until(t, max(settledWithin, holdEnds-time.Since(killed)), "the dead node's holds have ended", func() bool {
		return c.apis[2].standing(t, who).OpenHolds == 0
	})
	for _, n := range c.apis {
		if got := n.standing(t, who); got != before {
			t.Errorf("standing on %s = %+v, want %+v as before the holds", n.name, got, before)
		}
	}
	released := 0
	for _, l := range c.apis[0].ledger(t, who) {
		if l.Type == "HoldReleased" {
			released++
		}
	}
	if released != holds {
		t.Errorf("%d holds were released, want %d", released, holds)
	}
	c.agree(t, who, seen)
}
