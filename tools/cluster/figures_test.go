//go:build services

package cluster

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"
)

const (
	// burst is the number of look-ups of one measurement. It stays below the 3,000 requests per minute of an account,
	// because the preparation also needs some.
	burst        = 2800
	burstClients = 64
	// lagAccounts share the load of the lag measurement, because of the limit of 3,000 requests per minute of each.
	lagAccounts = 24
	lagLasts    = 20 * time.Second
	lagWanted   = 1000 // look-ups per second
	lagClients  = 128
	// idleLasts is how long an idle node is measured.
	idleLasts = 5 * time.Second
)

// measured skips a test that only measures, unless -figures is set.
func measured(t *testing.T) {
	t.Helper()
	if !*figures {
		t.Skip("-figures is not set")
	}
}

// TestFigures prints performance figures of the cluster, with all processes and services on this machine.
func TestFigures(t *testing.T) {
	measured(t)
	c := whole(t)
	t.Run("round trips", c.figureOfRoundTrips)
	t.Run("look-ups of one account", c.figureOfNodes)
	t.Run("crawl", c.figureOfCrawls)
	t.Run("lag", c.figureOfLag)
}

// figureOfRoundTrips measures the round trips to each service per charged look-up, with one client. It subtracts the
// round trips that an idle node makes in the same time.
func (c *cluster) figureOfRoundTrips(t *testing.T) {
	const lookups = 500
	n := c.apis[0]
	who := n.open(t, "custom", 2*lookups)
	seen := newTally()
	for range lookups / 10 {
		seen.lookup(n.get(lookup(hit), who.secret))
	}
	roundTrips := func() map[string]float64 {
		counts := map[string]float64{}
		for service, l := range n.links {
			counts[service] = float64(l.RoundTrips())
		}
		return counts
	}
	idle := roundTrips()
	began := time.Now()
	<-time.After(idleLasts)
	idleTook, before := time.Since(began), roundTrips()
	began = time.Now()
	for range lookups {
		seen.lookup(n.get(lookup(hit), who.secret))
	}
	took, after := time.Since(began), roundTrips()
	seen.check(t, 0)
	for _, service := range []string{eventStore, postgres, elasticsearch} {
		byItself := (before[service] - idle[service]) * took.Seconds() / idleTook.Seconds()
		// This includes data of subscriptions on the same connections.
		t.Logf("%-13s %.2f round trips per charged look-up", service, (after[service]-before[service]-byItself)/lookups)
	}
	t.Logf("one client: %.0f charged look-ups per second, p50 %s, p99 %s", lookups/took.Seconds(), seen.percentile(0.50).Round(100*time.Microsecond), seen.percentile(0.99).Round(100*time.Microsecond))
	c.agree(t, who, seen)
}

// figureOfNodes measures the look-ups of known brands per second, of one account, over one node and over three.
func (c *cluster) figureOfNodes(t *testing.T) {
	rates := map[int]float64{}
	for _, nodes := range []int{1, apiNodes} {
		who := c.apis[0].open(t, "custom", 2*burst)
		warm := newTally()
		for _, n := range c.apis { // open connections, fill caches, load the account
			warm.lookup(n.want(t, http.StatusOK, lookup(hit), who.secret), nil)
		}
		untilRoomInMinute(t, c.apis[0])
		before := c.appends()
		seen := newTally()
		began := time.Now()
		atOnce(burstClients, func(client int) {
			for i := range burst / burstClients {
				seen.lookup(c.apis[(client+i)%nodes].get(lookup(hit), who.secret))
			}
		})
		took := time.Since(began)
		seen.check(t, 0)
		rates[nodes] = float64(seen.status(http.StatusOK)) / took.Seconds()
		maps.Copy(seen.paid, warm.paid)
		c.agree(t, who, seen)
		t.Logf("%d node(s): %.0f charged look-ups per second, %.2f appends each, p50 %s, p99 %s (%s)", nodes, rates[nodes],
			(c.appends()-before)/float64(seen.status(http.StatusOK)), seen.percentile(0.50).Round(time.Millisecond), seen.percentile(0.99).Round(time.Millisecond), seen)
	}
	t.Logf("three nodes serve %.2f times as many as one", rates[apiNodes]/rates[1])
}

// appends returns the number of appends that the API nodes have made to the event store.
func (c *cluster) appends() (sum float64) {
	for _, n := range c.apis {
		if made, ok := n.metric("letterhead_eventlog_append_duration_seconds_count"); ok {
			sum += made
		}
	}
	return sum
}

// figureOfCrawls measures how long a crawl request takes from the log through the broker to a crawler. The domain does
// not exist, so the crawl itself is only one DNS query.
func (c *cluster) figureOfCrawls(t *testing.T) {
	who := c.apis[0].open(t, "custom", 0)
	seen := newTally()
	var domains []string
	for range 50 {
		domain := nowhere()
		domains = append(domains, domain)
		seen.count(c.apis[0].get(lookup(domain), who.secret))
	}
	between := newTally()
	for _, domain := range domains {
		var requested, ended time.Time
		for _, e := range c.apis[0].events(t, "brand-"+domain) {
			at, err := time.Parse(time.RFC3339Nano, e.OccurredAt)
			if err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case "CrawlRequested":
				requested = at
			case "CrawlFailed":
				ended = at
			}
		}
		if !ended.IsZero() {
			between.count(answer{elapsed: ended.Sub(requested)}, nil)
		}
	}
	t.Logf("crawls of domains that do not exist: answered after p50 %s, p99 %s (%s); from request to outcome in the log p50 %s, p99 %s",
		seen.percentile(0.5).Round(time.Millisecond), seen.percentile(0.99).Round(time.Millisecond), seen,
		between.percentile(0.5).Round(time.Millisecond), between.percentile(0.99).Round(time.Millisecond))
}

// figureOfLag measures how far the read models are behind the log during charged look-ups of many accounts.
func (c *cluster) figureOfLag(t *testing.T) {
	spare := c.apis[0].open(t, "custom", 0)
	quietly, done := context.WithTimeout(context.Background(), idleLasts)
	defer done()
	idle := c.watchLag(quietly, t, spare)
	var accounts []customer
	for i := range lagAccounts {
		accounts = append(accounts, c.apis[i%apiNodes].open(t, "custom", 3000))
	}
	ctx, cancel := context.WithTimeout(context.Background(), lagLasts)
	defer cancel()
	seen := newTally()
	var lags lag
	var all sync.WaitGroup
	all.Go(func() { lags = c.watchLag(ctx, t, spare) })
	pace := make(chan struct{}, lagWanted)
	all.Go(func() {
		// Add tokens ten times per second, so that a busy machine keeps the pace too.
		tick := time.NewTicker(time.Second / 10)
		defer tick.Stop()
		for {
			for range lagWanted / 10 {
				select {
				case pace <- struct{}{}:
				default: // the clients are too slow
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	for client := range lagClients {
		all.Go(func() {
			for i := client; ; i++ {
				select {
				case <-pace:
					seen.lookup(c.apis[i%apiNodes].get(lookup(hit), accounts[i%lagAccounts].secret))
				case <-ctx.Done():
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%.0f charged look-ups per second for %s (%s)", float64(seen.status(http.StatusOK))/lagLasts.Seconds(), lagLasts, seen)
	t.Logf("time until the read models contain an append, including the command: %s; without load %s", lags.models, idle.models)
	t.Logf("time until the search index contains it too: %s; without load %s", lags.search, idle.search)
	c.caughtUp(t)
	c.verified(t)
}

// lag contains the times of commands that wait for the read models, and of commands that also wait for the search
// index.
type lag struct{ models, search spread }

// spread is a summary of durations.
type spread struct{ tally *tally }

func (s spread) String() string {
	return fmt.Sprintf("p50 %s, p99 %s of %d", s.tally.percentile(0.50).Round(time.Millisecond), s.tally.percentile(0.99).Round(time.Millisecond), len(s.tally.waits))
}

// watchLag measures commands until ctx ends: changes of a plan, which wait for the read models, and reads of the
// ledger, which also wait for the search index.
func (c *cluster) watchLag(ctx context.Context, t *testing.T, spare customer) lag {
	l := lag{spread{newTally()}, spread{newTally()}}
	took := func(into spread, args ...string) {
		began := time.Now()
		if _, err := c.apis[0].letterhead(args...); err != nil {
			t.Error(err)
		}
		into.tally.count(answer{elapsed: time.Since(began)}, nil)
	}
	for i := 0; ctx.Err() == nil; i++ {
		took(l.models, "account", "plan", spare.id, []string{"growth", "custom"}[i%2])
		took(l.search, "ledger", "show", "--account", spare.id, "--last", "1")
	}
	return l
}
