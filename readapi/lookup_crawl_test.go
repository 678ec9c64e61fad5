package readapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/readapi"
	"letterhead/readapi/lookup"
)

func TestLookup_UnknownDomain_IsCrawledAndCharged(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.crawler.finds("new.com", record("new"))
	a := c.get("/v1/brands/www.new.com")
	if h := a.ok(t); h.Get("X-Cache") != "MISS" || h.Get("X-Credits-Remaining") != "49" {
		t.Errorf("headers %v", h)
	}
	if got := decodeBrand(t, a.body); got.Domain != "new.com" || got.Status != "ready" {
		t.Errorf("brand %+v", got)
	}
	b := c.books()
	if b.holds != 1 || len(b.openHolds) != 0 || len(b.charges) != 1 || b.charges[0].HoldID == "" {
		t.Errorf("%d holds, %d open, charges %+v", b.holds, len(b.openHolds), b.charges)
	}
	crawl := s.crawler.of("new.com")
	if len(crawl) != 1 || crawl[0].Cause != brand.CauseLookup || crawl[0].Priority != brand.PriorityLive || crawl[0].AllowedMS != patient.Milliseconds() {
		t.Errorf("crawls %+v", crawl)
	}
	// The brand is known immediately, even if the index has not processed it yet.
	if h := c.get("/v1/brands/new.com").ok(t); h.Get("X-Cache") != "HIT" || h.Get("X-Credits-Remaining") != "48" {
		t.Errorf("second look-up: headers %v", h)
	}
	if n := len(s.crawler.of("new.com")); n != 1 {
		t.Errorf("%d crawls, want 1", n)
	}
}

func TestLookup_CrawlWithoutLogo_IsFree(t *testing.T) {
	s, c := startWith(t, plan.Free, 50)
	s.crawler.finds("new.com", plainRecord("new"))
	if h := c.get("/v1/brands/new.com").ok(t); h.Get("X-Cache") != "MISS" || h.Get("X-Credits-Remaining") != "50" {
		t.Errorf("headers %v", h)
	}
	if b := c.books(); b.holds != 1 || len(b.openHolds) != 0 || len(b.charges) != 0 {
		t.Errorf("%d holds, %d open, %d charges; want 1, 0 and 0", b.holds, len(b.openHolds), len(b.charges))
	}
}

func TestLookup_CrawlFails_HasItsStatusAndIsFree(t *testing.T) {
	for _, c := range []struct {
		outcome          string
		first, again     int
		code             string
		remembered, wait time.Duration
	}{
		{brand.DNS, 404, 404, "domain_not_found", 15 * time.Minute, 0},
		{brand.NoData, 404, 404, "no_brand_data", 24 * time.Hour, 0},
		{brand.Blocked, 422, 422, "fetch_blocked", 24 * time.Hour, 0},
		{brand.FetchFailed, 502, 503, "fetch_failed", time.Hour, time.Hour},
		{brand.Timeout, 504, 503, "timeout", 5 * time.Minute, 5 * time.Minute},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			customer := s.account(plan.Free, 50)
			s.crawler.fails("bad.com", c.outcome)
			a := customer.get("/v1/brands/bad.com")
			a.rejected(t, c.first, c.code)
			if a.header.Get("X-Credits-Remaining") != "50" {
				t.Errorf("headers %v", a.header)
			}
			// Remembered: the same answer, or 503 with the remaining time, without a crawl and without
			// a unit of the account's ten.
			for range 15 {
				a = customer.get("/v1/brands/bad.com")
				a.rejected(t, c.again, c.code)
			}
			if got := a.header.Get("Retry-After"); c.wait > 0 && (got == "" || seconds(t, got) > c.wait || seconds(t, got) < c.wait-time.Minute) {
				t.Errorf("Retry-After %s, want about %s", got, c.wait)
			}
			if n := len(s.crawler.of("bad.com")); n != 1 {
				t.Errorf("%d crawls while the failure is remembered, want 1", n)
			}
			// Afterwards it is crawled again.
			s.clock.add(c.remembered)
			s.crawler.finds("bad.com", record("bad"))
			customer.get("/v1/brands/bad.com").ok(t)
			if b := customer.books(); b.balance() != 49 || len(b.openHolds) != 0 || b.holds != 2 {
				t.Errorf("balance %d, %d holds, %d open; want 49, 2 and 0", b.balance(), b.holds, len(b.openHolds))
			}
		})
	}
}

// Rule 5.
func TestLookup_CrawlNeverEnds_TimesOut(t *testing.T) {
	inBubble(t, func(s *service) {
		c := s.account(plan.Free, 50)
		s.crawler.does("silent.com", never)
		c.get("/v1/brands/silent.com").rejected(s.t, http.StatusGatewayTimeout, "timeout")
		if b := c.books(); len(b.openHolds) != 0 || b.balance() != 50 {
			s.t.Errorf("%d holds open, balance %d; want 0 and 50", len(b.openHolds), b.balance())
		}
		state, err := s.brands.State(s.t.Context(), "silent.com")
		s.must(err)
		if outcome, _, ok := state.Remembered(s.clock.now()); !ok || outcome != brand.Timeout {
			s.t.Errorf("the end of the crawl is not on the log: %q %v", outcome, ok)
		}
		c.get("/v1/brands/silent.com").rejected(s.t, http.StatusServiceUnavailable, "timeout")
	})
}

// The broker is down, or no crawler runs: the answer does not blame the site, costs nothing, and is not remembered.
// Rule 5.
func TestLookup_CrawlNeverBegins_BlamesTheService(t *testing.T) {
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		s.crawler.gets("fresh.com", false)
		for range 2 {
			a := c.get("/v1/brands/fresh.com")
			p := a.rejected(s.t, http.StatusServiceUnavailable, "upstream_failed")
			if !strings.Contains(p.Error.Message, "was not crawled in time") || a.header.Get("Retry-After") == "" {
				s.t.Errorf("%q, Retry-After %q; want a sentence about the crawl, and a wait", p.Error.Message, a.header.Get("Retry-After"))
			}
		}
		state, err := s.brands.State(s.t.Context(), "fresh.com")
		s.must(err)
		if outcome, until, ok := state.Remembered(s.clock.now()); ok {
			s.t.Errorf("%s is remembered until %s, want nothing remembered", outcome, until)
		}
		if _, _, _, running := state.Running(); running {
			s.t.Error("the crawl has not ended")
		}
		if b := c.books(); len(b.openHolds) != 0 || b.balance() != 50 || b.holds != 2 {
			s.t.Errorf("%d holds, %d open, balance %d; want 2, 0 and 50", b.holds, len(b.openHolds), b.balance())
		}
		s.crawler.finds("fresh.com", record("fresh"))
		s.crawler.gets("fresh.com", true)
		c.get("/v1/brands/fresh.com").ok(s.t)
	})
}

// Rule 5.
func TestLookup_CrawlLeftByCrash_IsEnded(t *testing.T) {
	s, c := startWith(t, plan.Growth, 50)
	s.crawler.does("left.com", never)
	_, err := s.brands.RequestCrawl(t.Context(), commands.RequestCrawl{Request: operator(), Domain: "left.com", Cause: brand.CauseLookup, Priority: brand.PriorityLive, Allowed: time.Second})
	s.must(err)
	s.crawler.sees("left.com")
	s.clock.add(time.Minute)
	c.get("/v1/brands/left.com").rejected(t, http.StatusServiceUnavailable, "timeout")
	s.crawler.finds("left.com", record("left"))
	if h := c.get("/v1/brands/left.com?refresh=true").ok(t); h.Get("X-Cache") != "MISS" {
		t.Errorf("headers %v", h)
	}
}

func TestRefresh_PaidPlansOnly_Crawls(t *testing.T) {
	s := start(t)
	free, paid := s.account(plan.Free, 50), s.account(plan.Starter, 50)
	s.known("acme.com", record("old"))
	s.crawler.finds("acme.com", record("fresh"))
	if h := free.get("/v1/brands/acme.com?refresh=true").ok(t); h.Get("X-Cache") != "HIT" {
		t.Errorf("refresh on the free plan: %v", h)
	}
	if n := len(s.crawler.of("acme.com")); n != 0 {
		t.Fatalf("the free plan's refresh led to %d crawls, want 0", n)
	}
	a := paid.get("/v1/brands/acme.com?refresh=1")
	if h := a.ok(t); h.Get("X-Cache") != "MISS" || h.Get("X-Credits-Remaining") != "49" {
		t.Errorf("refresh on a paid plan: %v", h)
	}
	if got := decodeBrand(t, a.body); *got.Name != "fresh" || got.Status != "ready" {
		t.Errorf("brand %+v", got)
	}
	if crawls := s.crawler.of("acme.com"); len(crawls) != 1 || crawls[0].Cause != brand.CauseRefresh {
		t.Errorf("crawls %+v", crawls)
	}
	// A confirmed record is a success, too.
	if h := paid.get("/v1/brands/acme.com?refresh=true").ok(t); h.Get("X-Cache") != "MISS" || h.Get("X-Credits-Remaining") != "48" {
		t.Errorf("refresh that confirms: %v", h)
	}
	for _, bad := range []string{"refresh=yes", "refresh=", "refresh=true&refresh=true", "refresh=%zz"} {
		paid.get("/v1/brands/acme.com?"+bad).rejected(t, http.StatusBadRequest, "invalid_request")
	}
	paid.get("/v1/brands/acme.com?refresh=false&utm=a&utm=%zz").ok(t)
}

func TestRefresh_CrawlFails_KeepsTheOldRecord(t *testing.T) {
	s, c := startWith(t, plan.Starter, 50)
	s.crawler.finds("acme.com", record("acme"))
	c.get("/v1/brands/acme.com").ok(t)
	s.crawler.fails("acme.com", brand.FetchFailed)
	a := c.get("/v1/brands/acme.com?refresh=true")
	a.rejected(t, http.StatusBadGateway, "fetch_failed")
	if a.header.Get("X-Credits-Remaining") != "49" {
		t.Errorf("headers %v", a.header)
	}
	s.catchUp()
	a = c.get("/v1/brands/acme.com")
	if h := a.ok(t); h.Get("X-Cache") != "HIT" || h.Get("X-Credits-Remaining") != "48" {
		t.Errorf("plain look-up after the failed refresh: %v", h)
	}
	if got := decodeBrand(t, a.body); got.Status != "failed" || *got.Name != "acme" {
		t.Errorf("brand %+v", got)
	}
	// A remembered failure does not stop a paid refresh.
	s.crawler.fails("acme.com", brand.Blocked)
	c.get("/v1/brands/acme.com?refresh=true").rejected(t, http.StatusUnprocessableEntity, "fetch_blocked")
	if b := c.books(); b.balance() != 48 || len(b.openHolds) != 0 || b.holds != 3 {
		t.Errorf("balance %d, %d holds, %d open; want 48, 3 and 0", b.balance(), b.holds, len(b.openHolds))
	}
}

// lateReader lets other refreshes of the domain end before the outcome of a crawl is read.
type lateReader struct {
	lookup.Brands
	brands *commands.Brands
	armed  atomic.Bool
	failed error
}

func (l *lateReader) State(ctx context.Context, domain string) (*brand.Brand, error) {
	if l.armed.CompareAndSwap(true, false) {
		for i := range 12 { // more than a brand remembers
			by := commands.Request{ID: fmt.Sprint("other-", i), Actor: "system:test"}
			crawl, err := l.brands.RequestCrawl(ctx, commands.RequestCrawl{Request: by, Domain: domain, Cause: brand.CauseRefresh, Priority: brand.PriorityLive, Allowed: time.Minute, Force: true})
			if err == nil {
				err = l.brands.SucceedCrawl(ctx, commands.SucceedCrawl{Request: by, Domain: domain, CrawlID: crawl.ID, Record: record(fmt.Sprint("Other ", i))})
			}
			l.failed = errors.Join(l.failed, err)
		}
	}
	return l.Brands.State(ctx, domain)
}

func TestRefresh_ManyOthersEndMeanwhile_IsAnsweredByItsOutcome(t *testing.T) {
	late := &lateReader{}
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { late.Brands, d.Brands = d.Brands, late }
	})
	late.brands = s.brands
	for name, c := range map[string]struct {
		outcome string
		status  int
		left    int64
	}{"success": {"", 200, 9}, "failure": {brand.Blocked, 422, 10}} {
		t.Run(name, func(t *testing.T) {
			domain := name + ".com"
			s.known(domain, record("known"))
			var first atomic.Bool
			s.crawler.does(domain, func(context.Context, eventschemas.CrawlRequested) ending {
				if first.CompareAndSwap(false, true) {
					late.armed.Store(true)
				}
				if c.outcome != "" {
					return ending{outcome: c.outcome}
				}
				r := record("crawled")
				return ending{record: &r}
			})
			customer := s.account(plan.Custom, 10)
			if a := customer.get("/v1/brands/" + domain + "?refresh=true"); a.status != c.status {
				t.Errorf("status %d, want %d: %s", a.status, c.status, a.body)
			}
			if late.failed != nil || late.armed.Load() {
				t.Fatalf("the other refreshes: %v", late.failed)
			}
			if b := customer.until("no hold is open", func(b books) bool { return len(b.openHolds) == 0 }); b.balance() != c.left {
				t.Errorf("balance %d, want %d", b.balance(), c.left)
			}
		})
	}
}
