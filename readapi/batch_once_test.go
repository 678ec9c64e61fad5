package readapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/internal/race"
)

// asksOnce sends a batch under an idempotency key.
func (c *customer) asksOnce(key string, identifiers ...string) answer {
	c.s.t.Helper()
	header := bearer(c.secret)
	header.Set("Idempotency-Key", key)
	a, err := c.s.post(c.s.t.Context(), batchPath, batchOf(c.s.t, identifiers), header)
	c.s.must(err)
	return a
}

// A repeated batch answers from the earlier charges, whatever the credits and records are by then, and
// looks up the rest.
func TestBatch_Repeated_IsChargedOnce(t *testing.T) {
	s := start(t)
	s.known("acme.com", record("Acme"))
	s.known("plain.com", plainRecord("Plain"))
	s.crawler.finds("fresh.com", record("Fresh"))
	s.crawler.fails("nowhere.com", brand.DNS)
	identifiers := []string{"acme.com", "https://acme.com/about", "plain.com", "fresh.com", "nowhere.com", "co.uk"}
	c := s.account(plan.Growth, 3)
	first := c.asksOnce("once", identifiers...)
	if got := said(first.items(t, identifiers)); !slices.Equal(got, []string{"200", "200", "200", "200", "404 domain_not_found", "400 invalid_domain"}) {
		t.Fatalf("first batch: %q", got)
	}
	c.get("/v1/brands/acme.com").ok(t) // the last credit
	s.crawler.finds("acme.com", record("Renamed"))
	other := s.account(plan.Growth, 50)
	other.get("/v1/brands/acme.com?refresh=true").ok(t)
	s.catchUp()

	again := c.asksOnce("once", identifiers...).items(t, identifiers)
	if got := said(again); !slices.Equal(got, []string{"200", "200", "402 insufficient_credits", "200", "402 insufficient_credits", "400 invalid_domain"}) {
		t.Fatalf("repeat without credits: %q", got)
	}
	if *again[0].Brand.Name != "Acme" || *again[1].Brand.Name != "Acme" || *again[3].Brand.Name != "Fresh" {
		t.Errorf("the repeat returned the names %q, %q and %q; want %q, %q and %q", *again[0].Brand.Name, *again[1].Brand.Name, *again[3].Brand.Name, "Acme", "Acme", "Fresh")
	}
	if got := c.chargedDomains(); !slices.Equal(got, []string{"acme.com", "acme.com", "fresh.com"}) {
		t.Errorf("charged for %q", got)
	}

	full := s.account(plan.Growth, 50)
	one := full.asksOnce("same", "acme.com", "fresh.com")
	two := full.asksOnce("same", "acme.com", "fresh.com")
	if !bytes.Equal(one.body, two.body) || two.header.Get("X-Credits-Remaining") != "48" {
		t.Errorf("%s credits remain, and the repeat is\n%s\nafter\n%s", two.header.Get("X-Credits-Remaining"), two.body, one.body)
	}
	s.clock.add(24 * time.Hour)
	full.asksOnce("same", "acme.com", "fresh.com").items(t, []string{"acme.com", "fresh.com"})
	if b := full.books(); len(b.charges) != 4 || len(b.openHolds) != 0 {
		t.Errorf("repeat after a day: %d charges, %d holds open; want 4 and 0", len(b.charges), len(b.openHolds))
	}
}

// The key of a batch belongs to that batch: another list, even without a common domain, the same list
// in another order, and a look-up of one of its domains are other requests.
func TestBatch_KeyOfAnotherRequest_Is400(t *testing.T) {
	s := start(t)
	for _, domain := range []string{"acme.com", "other.com", "third.com"} {
		s.known(domain, record(domain))
	}
	c := s.account(plan.Growth, 50)
	c.asksOnce("k", "acme.com", "other.com").ok(t)
	c.asksOnce("k", "third.com").rejected(t, 400, "invalid_request")
	c.asksOnce("k", "other.com", "acme.com").rejected(t, 400, "invalid_request")
	header := bearer(c.secret)
	header.Set("Idempotency-Key", "k")
	s.send(request{path: "/v1/brands/acme.com", header: header}).rejected(t, 400, "invalid_request")
	header.Set("Idempotency-Key", "")
	a, err := s.post(t.Context(), batchPath, batchOf(t, []string{"acme.com"}), header)
	s.must(err)
	a.rejected(t, 400, "invalid_request")
	if b := c.books(); len(b.charges) != 2 {
		t.Errorf("%d charges, want 2", len(b.charges))
	}
}

// Concurrent batches with one key, on one node and over several, are charged once and get the same answer.
func TestConcurrentBatches_OneKey_AreChargedOnce(t *testing.T) {
	identifiers := []string{"acme.com", "other.com", "fresh.com"}
	run := func(t *testing.T, c *customer, at func(i int) *customer) {
		var mu sync.Mutex
		var bodies [][]byte
		together(12, func(i int) {
			a := at(i).asksOnce("k", identifiers...)
			a.items(t, identifiers)
			mu.Lock()
			defer mu.Unlock()
			bodies = append(bodies, a.body)
		})
		for _, body := range bodies[1:] {
			if !bytes.Equal(body, bodies[0]) {
				t.Errorf("one answered\n%s\nanother\n%s", bodies[0], body)
			}
		}
		if b := c.books(); len(b.charges) != 3 || len(b.reversals) != 0 || len(b.openHolds) != 0 {
			t.Errorf("%d charges, %d reversals, %d holds open; want 3, 0 and 0", len(b.charges), len(b.reversals), len(b.openHolds))
		}
	}
	t.Run("one node", func(t *testing.T) {
		s := start(t)
		s.known("acme.com", record("Acme"))
		s.known("other.com", record("Other"))
		s.crawler.finds("fresh.com", record("Fresh"))
		c := s.account(plan.Growth, 3) // no credit is left for a second charge
		run(t, c, func(int) *customer { return c })
	})
	t.Run("three nodes", func(t *testing.T) {
		s := startSite(t, 3)
		s.known("acme.com")
		s.known("other.com")
		s.crawler.finds("fresh.com", record("Fresh"))
		c := s.nodes[0].account(plan.Growth, 100)
		run(t, c, func(i int) *customer { return c.at(s.nodes[i%3]) })
	})
}

// A stopping server starts no further items, and answers those that it has started.
func TestBatch_ServerStops_EndsEarly(t *testing.T) {
	s := start(t)
	identifiers := numbered("slow-%d.com", 9)
	release := make(chan struct{})
	for _, domain := range identifiers {
		r := record("Slow")
		s.crawler.does(domain, waitThen(release, ending{record: &r}))
	}
	c := s.account(plan.Custom, 50)
	var a answer
	var asked sync.WaitGroup
	asked.Go(func() { a = c.asks(identifiers...) })
	for _, domain := range identifiers[:5] {
		s.crawler.sees(domain)
	}
	s.api.Stop()
	close(release)
	asked.Wait()
	items := a.items(t, identifiers)
	for i, item := range items {
		want := "200"
		if i >= 5 {
			want = "504 timeout"
		}
		if item.said() != want {
			t.Errorf("item %d: %s, want %v", i, item.said(), want)
		}
	}
	if b := c.books(); a.status != http.StatusOK || len(b.charges) != 5 || len(b.openHolds) != 0 {
		t.Errorf("status %d: %d charges, %d holds open; want %d, 5 and 0", a.status, len(b.charges), len(b.openHolds), http.StatusOK)
	}
}

// A key is valid for 24 hours, however many other keys are charged in the meantime: an account's fold
// holds some of them, and the read model finds the rest.
// Rule 1.
func TestIdempotencyKey_ManyLaterKeys_StillCounts(t *testing.T) {
	if testing.Short() || race.Enabled {
		t.Skip("makes some 16,500 charges")
	}
	s := start(t)
	domains := make([]string, 100)
	for i := range domains {
		domains[i] = fmt.Sprintf("brand%d.com", i)
		s.known(domains[i], record("Acme"))
	}
	s.known("first.com", record("First"))
	const batches = account.MaxIdempotencyKeys/100 + 1
	credits := int64(1 + batches*len(domains) + 1)
	c := s.account(plan.Custom, credits)
	first := c.once("/v1/brands/first.com", "the-first")
	for i := range batches {
		c.asksOnce(fmt.Sprint("batch-", i), domains...).items(t, domains)
		s.clock.add(time.Second) // the minute window of the plan advances
	}
	s.catchUp()
	again := c.once("/v1/brands/first.com", "the-first")
	if again.status != http.StatusOK || !bytes.Equal(again.body, first.body) {
		t.Fatalf("the repeat was answered %d, body %s", again.status, again.body)
	}
	if again := c.once("/v1/brands/brand0.com", "the-first"); again.status != http.StatusBadRequest {
		t.Errorf("another request under the key was answered %d, want %d", again.status, http.StatusBadRequest)
	}
	if b := c.books(); len(b.charges) != int(credits)-1 {
		t.Errorf("%d charges, want %d", len(b.charges), credits-1)
	}
}
