package readapi_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/domain/plan"
)

// soonKept is how long the answer of a profile is kept while the domain is crawled.
const soonKept = "public, max-age=10"

// atOnce requests a path of the API's host without a key, and checks the status and the cache lifetime of the answer, which
// must not take any time.
func (s *service) atOnce(path string, status int, kept string) {
	s.t.Helper()
	began := s.clock.now()
	a := s.sendTo("brands.example.com", http.MethodGet, path, nil)
	if took := s.clock.now().Sub(began); a.status != status || a.header.Get("Cache-Control") != kept || took != 0 {
		s.t.Errorf("%s: %d, Cache-Control %s, after %s; want %d, %s, at once", path, a.status, a.header.Get("Cache-Control"), took, status, kept)
	}
}

func TestProfiles_KeylessCrawls_RunAsideWithinTheDaysLimit(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		for _, domain := range []string{"slow.com", "second.com", "third.com"} {
			s.finding(domain, 2*time.Second)
		}
		s.atOnce("/logo/slow.com?format=png", http.StatusOK, fallbackKept)
		s.atOnce("/compat/clearbit/nas.local", http.StatusNotFound, "public, max-age=86400")
		for range 3 {
			s.atOnce("/compat/clearbit/slow.com", http.StatusNotFound, soonKept)
			s.atOnce("/compat/besticon/icon?url=slow.com", http.StatusOK, soonKept)
		}
		s.atOnce("/compat/clearbit/slow.com?key=lh_pk_mistyped", http.StatusNotFound, "private, max-age=10")
		s.atOnce("/compat/google/s2/favicons?domain=second.com", http.StatusNotFound, soonKept)
		time.Sleep(3 * time.Second)
		s.atOnce("/compat/clearbit/slow.com", http.StatusOK, logoKept)
		s.atOnce("/compat/bitwarden/second.com/icon.png", http.StatusOK, logoKept)
		for range 2 {
			s.atOnce("/compat/clearbit/third.com", http.StatusNotFound, fallbackKept)
		}
		if n := len(s.crawler.of("third.com")); n != 0 || len(s.crawler.of("slow.com")) != 1 || len(s.crawler.of("second.com")) != 1 {
			s.t.Errorf("%d crawls past the limit; %v %v", n, s.crawler.of("slow.com"), s.crawler.of("second.com"))
		}
		if n := strings.Count(s.logs.all(), `"crawl":"used-up"`); n != 2 {
			s.t.Errorf("%d requests are logged as rejected, want 2", n)
		}
		s.clock.add(24 * time.Hour)
		s.atOnce("/compat/clearbit/third.com", http.StatusNotFound, soonKept)
		time.Sleep(3 * time.Second)
		s.atOnce("/compat/clearbit/third.com", http.StatusOK, logoKept)
		synctest.Wait()
		if n := strings.Count(s.logs.all(), "requests without a key are used up"); n != 1 {
			s.t.Errorf("%d warnings, want 1", n)
		}
	}, onProfiles, func(set *setup) {
		set.config.KeylessCrawls, set.config.UnlimitedLogos = 2, []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	})
}

func TestProfiles_KeylessCrawls_OneAddressCausesAQuarter(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		from := func(address, domain, kept string) {
			s.t.Helper()
			s.finding(domain, 2*time.Second)
			a := s.sendTo("brands.example.com", http.MethodGet, "/compat/clearbit/"+domain, http.Header{"X-Forwarded-For": {address}})
			if got := a.header.Get("Cache-Control"); a.status != http.StatusNotFound || got != kept {
				s.t.Errorf("%s from %s: %d, Cache-Control %s, want %s", domain, address, a.status, got, kept)
			}
		}
		from("203.0.113.1", "a1.com", soonKept)
		from("203.0.113.1", "a2.com", soonKept)
		from("203.0.113.1", "a3.com", besideStatus)
		from("203.0.113.1", "a1.com", soonKept) // its crawl runs, and costs no more
		from("2001:db8::1", "b1.com", soonKept)
		from("2001:db8::2", "b2.com", soonKept)
		from("2001:db8::ffff:3", "b3.com", besideStatus)
		from("2001:db8:0:1::1", "b4.com", soonKept)
		if strings.Contains(s.logs.all(), "requests without a key are used up") {
			s.t.Error("the day's crawls are reported as used up")
		}
		s.clock.add(24 * time.Hour)
		from("203.0.113.1", "a4.com", soonKept)
	}, onProfiles, func(set *setup) {
		set.config.KeylessCrawls, set.config.TrustedProxies = 8, []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	})
}

func TestProfiles_Key_CrawlsAside(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		s.finding("slow.com", 2*time.Second)
		s.atOnce("/compat/clearbit/slow.com?key="+c.publishable, http.StatusNotFound, soonKept)
		s.atOnce("/compat/clearbit/slow.com", http.StatusNotFound, fallbackKept)
		time.Sleep(3 * time.Second)
		s.atOnce("/compat/clearbit/slow.com", http.StatusOK, logoKept)
		s.finding("cdn.com", 2*time.Second)
		a := s.sendTo("brands.example.com", http.MethodGet, "/compat/brandfetch/cdn.com?key="+c.publishable, nil)
		a.is(s.t, "in the form that waits", true, logoKept)
	}, onProfiles)
}

func TestProfiles_KeylessCrawls_LimitsOfTheMinuteComeFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		for _, domain := range []string{"first.com", "second.com", "third.com"} {
			s.finding(domain, 2*time.Second)
		}
		s.atOnce("/compat/clearbit/first.com", http.StatusNotFound, soonKept)
		s.atOnce("/compat/clearbit/second.com", http.StatusNotFound, soonKept)
		if logs := s.logs.all(); !strings.Contains(logs, `"crawl":"limited"`) || strings.Contains(logs, `"crawl":"used-up"`) {
			s.t.Error("the crawls of the day were asked before those of the minute")
		}
		s.clock.add(time.Minute)
		s.atOnce("/compat/clearbit/second.com", http.StatusNotFound, fallbackKept)
		s.atOnce("/compat/clearbit/third.com?key="+c.publishable, http.StatusNotFound, soonKept) // with the unit that was given back
		time.Sleep(3 * time.Second)
		s.atOnce("/compat/clearbit/third.com", http.StatusOK, logoKept)
	}, onProfiles, func(set *setup) {
		set.config.KeylessCrawls, set.config.CrawlsPerMinute = 1, 1
		set.config.UnlimitedLogos = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	})
}

func TestProfiles_KeylessCrawls_ShareComesBeforeLimitsOfAll(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		s.finding("first.com", 2*time.Second)
		s.atOnce("/compat/clearbit/first.com", http.StatusNotFound, soonKept)
		s.atOnce("/compat/clearbit/second.com", http.StatusNotFound, besideStatus)
		if logs := s.logs.all(); !strings.Contains(logs, `"crawl":"share-used-up"`) || strings.Contains(logs, `"crawl":"limited"`) {
			s.t.Error("the limit of the minute was asked before the share of the address")
		}
	}, onProfiles, func(set *setup) { set.config.KeylessCrawls, set.config.CrawlsPerMinute = 1, 1 })
}
