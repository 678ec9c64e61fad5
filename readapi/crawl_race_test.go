package readapi_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

// outrun calls by between a look-up's decision to crawl and its request, like another node.
type outrun struct {
	lookup.Brands
	by func(domain string)
	// asked is closed when the look-up has requested its crawl.
	asked chan struct{}
	once  sync.Once
}

func (o *outrun) RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error) {
	o.by(in.Domain)
	defer o.once.Do(func() { close(o.asked) })
	return o.Brands.RequestCrawl(ctx, in)
}

// A look-up that decided to crawl but was slower than another answers with the other's result, and returns the units
// that were not needed. The service's limit is one, and the account's own ten, so a second domain shows what was
// returned.
func TestLookup_AnotherNodeWasFaster_UsesItsResult(t *testing.T) {
	ctx := context.Background()
	crawl := func(s *service, domain string) {
		_, err := s.brands.RequestCrawl(ctx, commands.RequestCrawl{Request: operator(), Domain: domain, Cause: brand.CauseLookup, Priority: brand.PriorityLive, Allowed: 8 * time.Second})
		s.must(err)
	}
	ended := func(s *service, domain string) {
		crawl(s, domain)
		s.follow(brand.Stream(domain), func(ev eventschemas.Event) bool {
			switch ev.(type) {
			case eventschemas.CrawlSucceeded, eventschemas.CrawlFailed:
				return true
			}
			return false
		})
	}
	for _, c := range []struct {
		name   string
		script func(c *scriptedCrawler, asked <-chan struct{})
		before func(s *service, domain string)
		status int
		code   string
		cache  string
		// balance is the balance after the look-up, of 50.
		balance int64
	}{
		{"its crawl runs", func(c *scriptedCrawler, asked <-chan struct{}) {
			found := record("raced")
			c.does("raced.com", waitThen(asked, ending{record: &found}))
		}, crawl, 200, "", "MISS", 49},
		{"its crawl has found the brand", func(c *scriptedCrawler, _ <-chan struct{}) { c.finds("raced.com", record("raced")) }, ended, 200, "", "HIT", 49},
		{"its crawl has found no logo", func(c *scriptedCrawler, _ <-chan struct{}) { c.finds("raced.com", plainRecord("raced")) }, ended, 200, "", "HIT", 50},
		{"its crawl has failed", func(c *scriptedCrawler, _ <-chan struct{}) { c.fails("raced.com", brand.FetchFailed) }, ended, 503, "fetch_failed", "", 50},
		{"the brand was withdrawn", func(*scriptedCrawler, <-chan struct{}) {}, func(s *service, domain string) {
			s.must(s.brands.WithdrawBrand(ctx, commands.WithdrawBrand{Request: operator(), Domain: domain, Reason: "test"}))
		}, 404, "no_brand_data", "", 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s *service
			asked := make(chan struct{})
			s = start(t, func(set *setup) {
				set.config.CrawlsPerMinute = 1
				set.deps = func(d *readapi.Deps) {
					var once sync.Once
					d.Brands = &outrun{Brands: d.Brands, asked: asked, by: func(domain string) { once.Do(func() { c.before(s, domain) }) }}
				}
			})
			c.script(s.crawler, asked)
			customer := s.account(plan.Free, 50)
			a := customer.get("/v1/brands/raced.com")
			if c.status == http.StatusOK {
				if h := a.ok(t); h.Get("X-Cache") != c.cache {
					t.Errorf("X-Cache %s, want %s", h.Get("X-Cache"), c.cache)
				}
			} else {
				a.rejected(t, c.status, c.code)
			}
			if b := customer.books(); b.balance() != c.balance || b.holds != 1 || len(b.openHolds) != 0 {
				t.Errorf("balance %d, %d holds, %d open; want %d, 1 and 0", b.balance(), b.holds, len(b.openHolds), c.balance)
			}
			if n := len(s.crawler.of("raced.com")); n > 1 {
				t.Errorf("%d crawls, want at most 1", n)
			}
			s.crawler.fails("next.com", brand.Blocked)
			customer.get("/v1/brands/next.com").rejected(t, http.StatusUnprocessableEntity, "fetch_blocked")
		})
	}
}
