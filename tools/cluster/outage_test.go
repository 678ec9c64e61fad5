//go:build services

package cluster

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// faultLasts is how long a service is unavailable.
	faultLasts = 30 * time.Second
	// nodeFaultLasts is how long one node is cut off from a service: a bit longer than a request may take.
	nodeFaultLasts = requestDeadline + 2*time.Second
	// calm is how long the load runs before and after a fault.
	calm = 3 * time.Second
	// recoveredWithin is the maximum time from the end of a fault until the nodes serve all requests again. It is less
	// than a minute, because nodes must not wait for the next minute window after a crash of PostgreSQL has emptied the
	// minute counters.
	recoveredWithin = 40 * time.Second
	// enoughCredits is more than the load of one outage spends.
	enoughCredits = 20000
	// served is the number of consecutive rounds that each node must answer to count as recovered.
	served = 5
)

// kind is a kind of request.
type kind struct {
	name  string
	every time.Duration
	path  func() string
	right []int  // statuses that are right without a fault; for an unknown domain see crawled
	key   string // API key of the requests
	paid  bool   // compare the answers with the ledger
}

// Names of the kinds of load.
const (
	kindHit     = "look-up of a known brand"
	kindSearch  = "search"
	kindMe      = "own account"
	kindFile    = "stored logo"
	kindRevoked = "look-up with a revoked key"
	kindNobody  = "brand id that does not exist"
	kindUnknown = "look-up of an unknown domain"
)

// steadyLoad returns a load of about thirty requests per second: enough for several at any time of a fault, and few
// enough for two cores that also run the cluster and the services.
func (c *cluster) steadyLoad(t testing.TB, who customer) []kind {
	t.Helper()
	stranger := c.apis[0].open(t, "custom", 0)
	c.apis[0].must(t, "key", "revoke", stranger.keyID)
	same := func(path string) func() string { return func() string { return path } }
	return []kind{
		{kindHit, 80 * time.Millisecond, same(lookup(hit)), []int{200}, who.secret, true},
		{kindSearch, 250 * time.Millisecond, same("/v1/search?q=github"), []int{200}, who.secret, false},
		{kindMe, 250 * time.Millisecond, same("/v1/me"), []int{200}, who.secret, false},
		{kindFile, 250 * time.Millisecond, same(c.storedLogo(t)), []int{200}, "", false},
		{kindRevoked, 500 * time.Millisecond, same(lookup(hit)), []int{401}, stranger.secret, false},
		{kindNobody, 500 * time.Millisecond, same(lookup("00000000-0000-4000-8000-000000000000")), []int{404}, who.secret, true},
		{kindUnknown, 2 * time.Second, func() string { return lookup(nowhere()) }, nil, who.secret, true},
	}
}

// storedLogo returns the path of a logo file of the known brand.
func (c *cluster) storedLogo(t testing.TB) string {
	t.Helper()
	var b struct {
		Logos []struct{ Formats []struct{ Src string } }
	}
	decode(t, c.apis[0].must(t, "brand", "get", hit), &b)
	for _, l := range b.Logos {
		for _, f := range l.Formats {
			if _, path, ok := strings.Cut(f.Src, "/cdn/"); ok {
				return "/cdn/" + path
			}
		}
	}
	t.Fatalf("%s has no stored logo", hit)
	return ""
}

// Rule 2.
func TestService_Unavailable_ClusterRecovers(t *testing.T) {
	spared := map[string][]string{
		kafkaBroker:   {kindFile, kindHit, kindSearch, kindMe, kindRevoked, kindNobody},
		elasticsearch: {kindFile, kindHit, kindMe, kindRevoked, kindNobody, kindUnknown},
		eventStore:    {kindFile, kindRevoked}, // a search is answered only after its count is durable
		postgres:      {kindFile},
	}
	for _, service := range []string{kafkaBroker, elasticsearch, eventStore, postgres} {
		for _, how := range []struct {
			name string
			make func(testing.TB, string) fault
		}{{"hung", hung}, {"stopped", stopped}} {
			t.Run(service+" "+how.name, func(t *testing.T) {
				c := whole(t)
				f := how.make(t, service)
				c.endures(t, c.apis, faultLasts, spared[service], nil,
					func() error { return f.begin(c) }, func() error { return f.end(c) })
			})
		}
	}
}

// A node that cannot reach a service rejects requests. The other nodes are not affected.
func TestNode_CutOff_OthersKeepServing(t *testing.T) {
	for _, service := range []string{postgres, eventStore, elasticsearch} {
		t.Run(service, func(t *testing.T) {
			c := whole(t)
			cutOff := c.apis[2]
			c.endures(t, c.apis, nodeFaultLasts, nil, c.apis[:2],
				func() error { cutOff.links[service].Hang(); return nil },
				func() error { cutOff.links[service].Resume(); return nil })
		})
	}
}

// Clients must not notice a rebuild of the read models.
// Rule 8.
func TestReadModels_RebuiltWhileServed_AnswerThroughout(t *testing.T) {
	c := whole(t)
	everything := []string{kindHit, kindSearch, kindMe, kindFile, kindRevoked, kindNobody, kindUnknown}
	c.endures(t, c.apis, 0, everything, nil,
		func() error { _, err := c.apis[1].letterhead("projections", "rebuild", "--all"); return err },
		func() error { return nil })
}

// endures runs the steady load over nodes, causes a fault meanwhile, and checks every answer. The kinds in serves, and
// all requests to spared nodes, must always be served. Other requests must be served, or rejected with 503, in time.
// After the fault all nodes must recover and all counts must agree.
func (c *cluster) endures(t *testing.T, over []*node, lasts time.Duration, serves []string, spared []*node, begin, end func() error) {
	t.Helper()
	who := c.apis[0].open(t, "custom", enoughCredits)
	kinds := c.steadyLoad(t, who)
	paid := newTally()
	var faulty atomic.Bool
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	seen := map[string]*tally{}
	for _, k := range kinds {
		into := newTally()
		seen[k.name] = into
		running.Go(func() {
			steadily(ctx, k.every, func(i int) {
				n := over[i%len(over)]
				disturbed := faulty.Load()
				a, err := n.get(k.path(), k.key)
				disturbed = disturbed || faulty.Load()
				into.count(a, err)
				if k.paid {
					paid.lookup(a, err)
				}
				if err != nil || slices.Contains(k.right, a.status) || k.name == kindUnknown && crawled(a) {
					return
				}
				may := disturbed && !slices.Contains(serves, k.name) && !slices.Contains(spared, n)
				rejected := a.status == http.StatusServiceUnavailable || k.name == kindUnknown && a.status == http.StatusGatewayTimeout
				if !may || !rejected {
					into.mistake("%s: %s: %s", k.name, a, a.body)
				}
			})
		})
	}
	after := func(d time.Duration) { <-time.After(d) } // no condition to wait for: these are durations of the load and the fault
	after(calm)
	faulty.Store(true)
	if err := begin(); err != nil {
		t.Error(err)
	}
	after(lasts)
	if err := end(); err != nil {
		t.Error(err)
	}
	if c.lost != nil {
		stop()
		running.Wait()
		t.FailNow()
	}
	recovered := c.recover(t, over, who, paid)
	t.Logf("every node served again %s after the end of the fault", recovered.Round(10*time.Millisecond))
	faulty.Store(false)
	after(calm)
	stop()
	running.Wait()

	for _, k := range kinds {
		t.Logf("%-28s %s", k.name, seen[k.name])
		seen[k.name].check(t, 0)
	}
	for _, n := range c.all() {
		if !n.alive() {
			t.Errorf("%s exited", n.name)
		}
	}
	c.ready(t)
	c.agree(t, who, paid)
	c.verified(t)
}

// recover waits until every node answers several consecutive rounds of all kinds.
func (c *cluster) recover(t *testing.T, over []*node, who customer, paid *tally) time.Duration {
	t.Helper()
	inARow := map[*node]int{}
	return until(t, recoveredWithin, "every node serves all requests again", func() bool {
		all := true
		for _, n := range over {
			known, err := n.get(lookup(hit), who.secret)
			paid.lookup(known, err)
			unknown, crawlErr := n.get(lookup(nowhere()), who.secret)
			paid.lookup(unknown, crawlErr)
			found, searchErr := n.get("/v1/search?q=github", who.secret)
			if errors.Join(err, crawlErr, searchErr) == nil && known.status == http.StatusOK && found.status == http.StatusOK && crawled(unknown) {
				inARow[n]++
			} else {
				inARow[n] = 0
			}
			all = all && inARow[n] >= served
		}
		return all
	})
}
