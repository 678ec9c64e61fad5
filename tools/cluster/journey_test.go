//go:build services

package cluster

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// doneCrawls is the metric for finished crawls.
const doneCrawls = `letterhead_crawls_total{lane="live"`

// One look-up passes through every part: key, API node, event, relay, broker, crawler, log, answer, charge, read
// models, search index.
func TestLookup_UnknownDomain_PassesThroughEveryPart(t *testing.T) {
	labOnly(t)
	c := whole(t)
	who := c.apis[0].open(t, "custom", 0)
	done := c.crawlsDone()
	a := c.apis[0].want(t, http.StatusOK, lookup(siteOfJourney), who.secret)
	t.Logf("%s", a)
	seen := newTally()
	seen.lookup(a, nil)
	if got := a.header.Get("X-Cache"); got != "MISS" {
		t.Errorf("X-Cache = %q, want MISS", got)
	}
	if got := c.crawlsDone(); got != done+1 {
		t.Errorf("the crawlers finished %g crawls, want 1", got-done)
	}

	// The log contains the request and the outcome.
	events := c.apis[1].events(t, "brand-"+siteOfJourney)
	types := map[string]event{}
	for _, e := range events {
		types[e.Type] = e
	}
	var requested struct {
		CrawlID string `json:"crawl_id"`
	}
	if err := json.Unmarshal(types["CrawlRequested"].Data, &requested); err != nil || requested.CrawlID == "" {
		t.Fatalf("the stream contains no crawl request: %+v", events)
	}
	if types["CrawlSucceeded"].Position <= types["CrawlRequested"].Position {
		t.Errorf("the requested crawl did not succeed: %+v", events)
	}
	// The broker carried the request, the record and the charge, each in its topic.
	for topic, payload := range map[string]string{"crawl.live": requested.CrawlID, "brands": requested.CrawlID, "ledger": a.requestID()} {
		until(t, settledWithin, "topic "+topic+" contains the message", func() bool {
			found, err := c.carried(topic, payload)
			if err != nil {
				t.Logf("topic %s: %v", topic, err)
			}
			return found
		})
	}
	// The credit was held, then charged.
	held := false
	for _, l := range c.apis[2].ledger(t, who) {
		held = held || l.Type == "CreditsHeld" && l.RequestID == a.requestID()
	}
	if !held {
		t.Error("no credit was held while the crawl ran")
	}
	// Every node now serves the brand from the index and finds it in a search.
	for _, n := range c.apis {
		until(t, settledWithin, n.name+" finds the brand", func() bool {
			var found struct{ Results []struct{ Domain string } }
			decode(t, string(n.want(t, http.StatusOK, "/v1/search?q="+siteOfJourney, who.secret).body), &found)
			return len(found.Results) > 0 && found.Results[0].Domain == siteOfJourney
		})
		again := n.want(t, http.StatusOK, lookup(siteOfJourney), who.secret)
		seen.lookup(again, nil)
		if got := again.header.Get("X-Cache"); got != "HIT" {
			t.Errorf("X-Cache on %s = %q, want HIT", n.name, got)
		}
	}
	c.agree(t, who, seen)
	c.verified(t)
}

func (c *cluster) crawlsDone() (sum float64) {
	for _, n := range c.crawlers {
		if done, ok := n.metric(doneCrawls); ok {
			sum += done
		}
	}
	return sum
}

// clockAhead is how far the clock of one node is ahead.
const clockAhead = 5 * time.Second

// A node whose clock is ahead must count credits and minutes like the others, and its events must have ordered times.
// Rule 10.
func TestNode_ClockAhead_ChangesNoCount(t *testing.T) {
	c := whole(t)
	ahead := c.extra(t, "ahead", "api", "LETTERHEAD_CLOCK_SKEW="+clockAhead.String())
	defer c.drop(t, ahead)
	over := []*node{c.apis[0], c.apis[1], ahead}
	t.Run("credits", func(t *testing.T) { c.spendExactly(t, over) })
	t.Run("minutes", func(t *testing.T) { c.oneTooMany(t, over) })
	t.Run("times", func(t *testing.T) {
		who := ahead.open(t, "custom", 0)
		for i := range 2 * len(over) {
			over[i%len(over)].want(t, http.StatusOK, lookup(hit), who.secret)
		}
		latest := time.Now().Add(clockAhead / 5)
		before := time.Time{}
		for _, e := range c.apis[0].events(t, "account-"+who.id) {
			at, err := time.Parse(time.RFC3339Nano, e.OccurredAt)
			if err != nil {
				t.Fatal(err)
			}
			if at.After(latest) || at.Before(before) {
				t.Errorf("%s occurred at %s, want a time from %s to %s", e.Type, at, before, latest)
			}
			before = at
		}
	})
}

// Clients behind a proxy must not notice a rolling restart: each node answers every request that it accepted, and all
// answers are charged.
// Rule 2.
func TestNodes_SIGTERM_FinishAcceptedRequests(t *testing.T) {
	c := whole(t)
	who := c.apis[0].open(t, "custom", 2000)
	seen := newTally()
	for _, stopping := range c.apis {
		halt := make(chan struct{})
		served := make(chan struct{})
		go func() {
			defer close(halt)
			atOnce(stormClients/2, func(int) {
				for {
					a, err := stopping.get(lookup(hit), who.secret)
					if err != nil && !stopping.accepts() {
						return // the node accepts no more requests
					}
					seen.lookup(a, err)
					if err != nil || a.status != http.StatusOK {
						return
					}
					select {
					case served <- struct{}{}:
					default:
					}
				}
			})
		}()
		<-served // the load has begun
		if err := stopping.stop(); err != nil {
			t.Error(err)
		}
		<-halt
		if err := stopping.start(); err != nil {
			t.Fatal(err)
		}
		c.ready(t)
	}
	t.Logf("%s", seen)
	seen.check(t, 0)
	c.agree(t, who, seen)
}
