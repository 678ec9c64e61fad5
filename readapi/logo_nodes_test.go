package readapi_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// logoFrom requests a logo as PNG with the customer's publishable key, for a visitor with the given address.
func (c *customer) logoFrom(t testing.TB, address, domain string) answer {
	t.Helper()
	a, err := c.s.do(t.Context(), request{path: "/logo/" + domain + "?format=png&key=" + c.publishable, header: from(address, nil)})
	if err != nil || a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
		t.Errorf("%s: status %d, %v, body %.200q", domain, a.status, err, a.body)
	}
	return a
}

// withinAMinute repeats a test of minute windows, with other names, if it ran past the end of a minute.
func withinAMinute(t *testing.T, test func(attempt int) (verdict string)) {
	t.Helper()
	const attempts = 3
	for attempt := range attempts {
		minute := time.Now().Truncate(time.Minute)
		verdict := test(attempt)
		if !time.Now().Truncate(time.Minute).Equal(minute) {
			continue
		}
		if verdict != "" {
			t.Error(verdict)
		}
		return
	}
	t.Fatalf("all %d attempts spanned the end of a minute", attempts)
}

// Of many concurrent requests to several nodes for a new domain's logo, the first starts the crawl. The others wait for
// that crawl, as long as logos wait, and answers that may soon improve are not cached.
func TestLogos_OneNewDomainOnNodes_ShareACrawl(t *testing.T) {
	const asked = 24
	s := startSite(t, 3)
	one, other := s.nodes[0].account(plan.Free, 0), s.nodes[0].account(plan.Growth, 50)
	at := func(i int) *customer { return []*customer{one, other}[i%2].at(s.nodes[i%3]) }
	found := s.nodes[0].withLogo("found", "png", inked(t, 64))

	s.crawler.finds("fresh.com", found)
	together(asked, func(i int) {
		a := at(i).logoFrom(t, fmt.Sprintf("203.0.113.%d", i), "fresh.com")
		switch kept := a.header.Get("Cache-Control"); {
		case a.status != http.StatusOK: // a busy machine
		case kept == "no-store": // so busy that the crawl took longer than a logo waits
			if a.showsInk(t) {
				t.Error("the logo is not cacheable")
			}
		case kept != logoKept || !a.showsInk(t):
			t.Errorf("Cache-Control %s, logo shown: %v", kept, a.showsInk(t))
		}
	})

	release := make(chan struct{})
	s.crawler.does("slow.com", func(ctx context.Context, _ eventschemas.CrawlRequested) ending {
		select {
		case <-release:
			return ending{record: &found}
		case <-ctx.Done():
			return ending{}
		}
	})
	var fallbacks atomic.Int64
	together(asked, func(i int) {
		if a := at(i).logoFrom(t, fmt.Sprintf("203.0.113.%d", i), "slow.com"); a.status == http.StatusOK {
			a.is(t, "while the crawl runs", false, "no-store")
			fallbacks.Add(1)
		}
	})
	if fallbacks.Load() == 0 {
		t.Error("no request was answered while the crawl ran")
	}
	close(release)
	s.nodes[0].follow(brand.Stream("slow.com"), func(ev eventschemas.Event) bool { _, ok := ev.(eventschemas.CrawlSucceeded); return ok })
	for i, n := range s.nodes {
		at(i).logoFrom(t, "203.0.113.200", "slow.com").is(t, "after the crawl, with a key", true, logoKept)
		s.must(n.runner.CatchUp(t.Context()))
		n.keyless("slow.com").is(t, "after the crawl", true, logoKept)
		n.keyless("fresh.com").is(t, "after the crawl", true, logoKept)
	}
	for _, domain := range []string{"fresh.com", "slow.com"} {
		if crawls := s.crawler.of(domain); len(crawls) != 1 || crawls[0].Cause != brand.CauseLogo {
			t.Errorf("%s: crawls %+v", domain, crawls)
		}
	}
}

// The 30 crawls per minute of an account, and of an address, apply to all nodes together. A caller who
// waits for another's crawl takes one of them, too.
func TestLogoCrawls_AllNodes_ShareTheLimits(t *testing.T) {
	s := startSite(t, 3)
	s.crawler.otherwise = func(context.Context, eventschemas.CrawlRequested) ending { return ending{outcome: brand.DNS} }
	// requested returns the number of crawls of a domain on the log.
	requested := func(domain string) (n int64) {
		events, err := s.nodes[0].log.ReadStream(t.Context(), brand.Stream(domain), 0, eventlog.Forward, 10)
		s.must(err)
		for _, ev := range events {
			if ev.Type == (eventschemas.CrawlRequested{}).EventType() {
				n++
			}
		}
		return n
	}
	// crawls requests the logos of 40 new domains, and describes what is wrong with the number of crawls.
	crawls := func(label string, ask func(i int, domain string) answer) string {
		const asked, limit = 40, 30
		domains := make([]string, asked)
		began := time.Now()
		var limited, failed atomic.Int64
		together(asked, func(i int) {
			domains[i] = fmt.Sprintf("%s-%d.com", label, i)
			switch a := ask(i, domains[i]); {
			case a.status != http.StatusOK: // a busy machine; it may have taken its units
				failed.Add(1)
			case a.header.Get("Cache-Control") == "no-store":
				limited.Add(1)
			}
		})
		n, quick := int64(0), time.Since(began) < siteLogoTimeout && failed.Load() == 0 // no request can have timed out waiting
		for _, d := range domains {
			n += requested(d)
		}
		if n > limit || quick && (n < limit || limited.Load() != asked-limit) {
			return fmt.Sprintf("%s: %d of %d new domains were crawled, %d not stored, %d failed", label, n, asked, limited.Load(), failed.Load())
		}
		return ""
	}
	t.Run("of an account", func(t *testing.T) {
		withinAMinute(t, func(attempt int) string {
			c := s.nodes[0].account(plan.Growth, 50)
			return crawls(fmt.Sprintf("account-%d", attempt), func(i int, domain string) answer {
				return c.at(s.nodes[i%3]).logoFrom(t, fmt.Sprintf("203.0.113.%d", i), domain)
			})
		})
	})
	t.Run("of an address", func(t *testing.T) {
		withinAMinute(t, func(attempt int) string {
			customers := []*customer{s.nodes[0].account(plan.Growth, 50), s.nodes[0].account(plan.Growth, 50)}
			return crawls(fmt.Sprintf("address-%d", attempt), func(i int, domain string) answer {
				return customers[i%2].at(s.nodes[i%3]).logoFrom(t, fmt.Sprintf("198.51.100.%d", attempt), domain)
			})
		})
	})
	t.Run("of who joins a crawl", func(t *testing.T) {
		withinAMinute(t, func(attempt int) string {
			c := s.nodes[0].account(plan.Growth, 50)
			ask := func(i int, domain string) answer {
				return c.at(s.nodes[i%3]).logoFrom(t, fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("%s-%d.com", domain, attempt))
			}
			slow := fmt.Sprintf("slow-%d.com", attempt)
			s.crawler.does(slow, func(ctx context.Context, _ eventschemas.CrawlRequested) ending { <-ctx.Done(); return ending{} })
			takes := func() (n int64) {
				for _, w := range s.windows {
					n += w.takes.Load()
				}
				return n
			}
			before := takes()
			var busy atomic.Bool
			together(29, func(i int) {
				if ask(i, "slow").status != http.StatusOK {
					busy.Store(true)
				}
			})
			if takes()-before < 3*29+1 { // one as a logo and two as a crawl for each, plus the service's
				return "" // the machine was so busy that some had no time to take theirs
			}
			if ask(1, "last").status != http.StatusOK || ask(2, "past").status != http.StatusOK || busy.Load() {
				return ""
			}
			first, last, past := requested(slow), requested(fmt.Sprintf("last-%d.com", attempt)), requested(fmt.Sprintf("past-%d.com", attempt))
			if first != 1 || last != 1 || past != 0 {
				return fmt.Sprintf("%d crawls for 29 requests, %d for the 30th, %d for the 31st", first, last, past)
			}
			return ""
		})
	})
}
