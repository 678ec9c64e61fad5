package readapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
)

// Batches on every node spend exactly the credits of one account.
func TestBatches_ThreeNodes_SpendExactlyTheBalance(t *testing.T) {
	const credits, clients = 300, 12
	s := startSite(t, 3)
	domains := numbered("known-%d.com", 12)
	for _, domain := range domains[1:] {
		_, err := s.nodes[0].brands.ImportBrand(t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: record("Known")})
		s.must(err)
	}
	s.known(domains[0]) // and all before it
	for i, domain := range numbered("new-%d.com", 6) {
		if i%2 == 0 {
			s.crawler.finds(domain, record("New"))
		} else {
			s.crawler.fails(domain, brand.DNS)
		}
		domains = append(domains, domain)
	}
	c := s.nodes[0].account(plan.Custom, credits)
	var found, rejected atomic.Int64
	together(clients, func(i int) {
		at := c.at(s.nodes[i%3])
		for {
			a := at.asks(domains...)
			switch a.status {
			case http.StatusPaymentRequired:
				a.rejected(t, 402, "insufficient_credits")
				rejected.Add(1)
				return
			case http.StatusServiceUnavailable: // 503 means retry
				continue
			}
			for _, item := range a.items(t, domains) {
				switch said := item.said(); said {
				case "200":
					found.Add(1)
				case "402 insufficient_credits", "404 domain_not_found", "503 upstream_failed", "429 rate_limited":
				default:
					t.Errorf("%s: %s", item.Identifier, said)
				}
			}
		}
	})
	b := c.books()
	if found.Load() != credits || len(b.charges) != credits || b.balance() != 0 || b.lowest < 0 || len(b.openHolds) != 0 || rejected.Load() != clients {
		t.Errorf("%d brands for %d credits, %d charges, balance %d, lowest %d, %d holds open, %d rejections",
			found.Load(), credits, len(b.charges), b.balance(), b.lowest, len(b.openHolds), rejected.Load())
	}
}

// A node that last read the account before another spent its credits rejects the whole batch, and an
// id that one node returned is known to a batch on the next.
func TestBatch_OtherNodesChargedOrAnswered_UsesLatestState(t *testing.T) {
	s := startSite(t, 3)
	s.known("acme.com")
	c := s.nodes[0].account(plan.Custom, 8)
	for i := range 6 {
		fresh := "fresh" + uuid.NewString() + ".com"
		s.crawler.finds(fresh, record("Fresh"))
		c.at(s.nodes[i%3]).get("/v1/brands/" + fresh).ok(t)
		items, h := c.at(s.nodes[(i+1)%3]).batch(uuid.NewString(), brand.ID("nobody.com").String(), brand.ID("nobody.com").String())
		if got := said(items); !slices.Equal(got, []string{"404 not_found", "404 not_found", "404 not_found"}) || h.Get("X-Credits-Remaining") != fmt.Sprint(7-i) {
			t.Errorf("%q, %s remaining", got, h.Get("X-Credits-Remaining"))
		}
	}
	fresh := "fresh" + uuid.NewString() + ".com"
	s.crawler.finds(fresh, record("Fresh"))
	c.at(s.nodes[0]).get("/v1/brands/" + fresh).ok(t)
	// One credit is left, and every node has read that. The first spends it on a brand that the second requests by its id.
	items, h := c.at(s.nodes[1]).batch(brand.ID(fresh).String(), fresh, "acme.com")
	if got := said(items); !slices.Equal(got, []string{"200", "200", "402 insufficient_credits"}) || h.Get("X-Credits-Remaining") != "0" {
		t.Errorf("%q, %s remaining", got, h.Get("X-Credits-Remaining"))
	}
	for _, n := range s.nodes {
		c.at(n).asks("acme.com").rejected(t, 402, "insufficient_credits")
		c.at(n).asks("co.uk").rejected(t, 402, "insufficient_credits") // no item of it would need a credit
	}
	if b := c.books(); b.balance() != 0 || len(b.charges) != 8 || b.lowest < 0 {
		t.Errorf("balance %d, %d charges, lowest %d; want 0, 8 and at least 0", b.balance(), len(b.charges), b.lowest)
	}
}

// A suspension on one node stops a batch on another between two items: running items are paid from
// their holds, and none after them is looked up or charged.
func TestBatch_AccountSuspendedOnAnotherNode_StopsBetweenItems(t *testing.T) {
	s := startSite(t, 2)
	s.known("acme.com")
	c := s.nodes[0].account(plan.Custom, 50)
	here, there := c.at(s.nodes[0]), s.nodes[1].writer
	slow := numbered("slow-%d.com", 5)
	first, others := make(chan struct{}), make(chan struct{})
	r := record("slow")
	for i, domain := range slow {
		release := others
		if i == 0 {
			release = first
		}
		s.crawler.does(domain, waitThen(release, ending{record: &r}))
	}
	after := append(numbered("new-%d.com", 8), "acme.com")
	for _, domain := range after[:8] {
		s.crawler.finds(domain, record("New"))
	}
	identifiers := append(slices.Clone(slow), after...)
	answered := make(chan answer, 1)
	go func() { answered <- here.asks(identifiers...) }()
	for _, domain := range slow {
		s.crawler.sees(domain)
	}
	_, err := there.Suspend(t.Context(), commands.SuspendAccount{Request: operator(), AccountID: c.id, Reason: "test"})
	s.must(err)
	close(first)
	c.until("the first is charged", func(b books) bool { return len(b.charges) == 1 })
	close(others)
	items := (<-answered).items(t, identifiers)
	for i, item := range items {
		want := "403 forbidden"
		if i < len(slow) {
			want = "200"
		}
		if said := item.said(); said != want {
			t.Errorf("%s: %s, want %s", item.Identifier, said, want)
		}
	}
	if b := c.books(); len(b.charges) != len(slow) || b.holds != len(slow) || len(b.openHolds) != 0 || b.balance() != 45 {
		t.Errorf("%d charges, %d holds, %d of them open, balance %d; want %d, %d, 0 and 45", len(b.charges), b.holds, len(b.openHolds), b.balance(), len(slow), len(slow))
	}
	here.asks("acme.com").rejected(t, 403, "forbidden")
}
