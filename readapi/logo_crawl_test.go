package readapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections/brands"
	"letterhead/readapi"
	"letterhead/readapi/logo"
	"letterhead/readapi/lookup"
)

// logoOf requests a logo as PNG with the customer's publishable key.
func (c *customer) logoOf(domain string) answer {
	c.s.t.Helper()
	return c.s.send(request{path: "/logo/" + domain + "?format=png&key=" + c.publishable})
}

// keyless requests a logo as PNG without a key.
func (s *service) keyless(domain string) answer {
	s.t.Helper()
	return s.send(request{path: "/logo/" + domain + "?format=png"})
}

// is checks an image by its content and its cache lifetime.
func (a answer) is(t testing.TB, what string, logo bool, kept string) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%s: status %d, body %.200q; want %d", what, a.status, a.body, http.StatusOK)
	}
	if shown := a.showsInk(t); shown != logo || a.header.Get("Cache-Control") != kept {
		t.Errorf("%s: logo shown: %v; Cache-Control %s, want %s", what, shown, a.header.Get("Cache-Control"), kept)
	}
}

// length returns the number of events on an account's stream.
func (c *customer) length() int {
	c.s.t.Helper()
	events, err := c.s.log.ReadStream(context.Background(), account.Stream(c.id), 0, eventlog.Forward, 10_000)
	c.s.must(err)
	return len(events)
}

// finding makes crawls of a domain find the inked logo after a delay.
func (s *service) finding(domain string, after time.Duration) {
	s.t.Helper()
	r := s.withLogo("found", "png", inked(s.t, 64))
	s.crawler.does(domain, func(ctx context.Context, _ eventschemas.CrawlRequested) ending {
		if after > 0 {
			select {
			case <-time.After(after):
			case <-ctx.Done():
				return ending{}
			}
		}
		return ending{record: &r}
	})
}

func TestLogo_KeyAndNewDomain_IsCrawled(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.account(plan.Free, 0) // no credit is needed
	before := c.length()
	s.finding("fresh.com", 0)
	w, line := s.logged("/logo/fresh.com?format=png", bearer(c.publishable))
	answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}.is(t, "after the crawl", true, logoKept)
	if line["crawl"] != "ended" || line["logo"] != "brand" || line["account"] != c.id {
		t.Errorf("log %v", line)
	}
	s.keyless("fresh.com").is(t, "without a key", true, logoKept)
	c.logoOf("www.fresh.com").is(t, "again", true, logoKept)
	crawls := s.crawler.of("fresh.com")
	if len(crawls) != 1 || crawls[0].Cause != brand.CauseLogo || crawls[0].Priority != brand.PriorityLive || crawls[0].AllowedMS != patient.Milliseconds() {
		t.Errorf("crawls %+v", crawls)
	}
	if n := c.length(); n != before {
		t.Errorf("%d events were appended to the account's stream", n-before)
	}
}

func TestLogo_NoUsableKey_IsNotCrawled(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Growth, 50)
	revoked, id := c.issue("publishable")
	done, err := s.writer.RevokeKey(t.Context(), commands.RevokeKey{Request: operator(), AccountID: c.id, KeyID: id})
	s.must(err)
	s.inForce(done)
	for _, r := range []request{
		{path: "/logo/unknown.com?format=png"},
		{path: "/logo/unknown.com?format=png&key=" + revoked},
		{path: "/logo/unknown.com?format=png&key=" + c.secret},
		{path: "/logo/unknown.com?format=png", header: bearer("lh_sk_nobody")},
		{path: "/logo/unknown.com?format=png&c=" + c.publishable},
	} {
		if a := s.send(r); a.status != http.StatusOK || a.header.Get("Cache-Control") == "no-store" {
			t.Errorf("status %d, header %v", a.status, a.header)
		}
	}
	events, err := s.log.ReadStream(t.Context(), brand.Stream("unknown.com"), 0, eventlog.Forward, 10)
	if err != nil || len(events) != 0 {
		t.Errorf("%d events of the brand, %v; want 0", len(events), err)
	}
}

func TestLogo_SlowCrawl_AnswersInTimeAndCrawlContinues(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		s.finding("slow.com", 7*time.Second)
		began := s.clock.now()
		a := c.logoOf("slow.com")
		a.is(s.t, "before the crawl's end", false, "no-store")
		if took := s.clock.now().Sub(began); took != 4*time.Second {
			s.t.Errorf("waited %s, want %v", took, 4*time.Second)
		}
		synctest.Wait()
		if lines := s.logs.of(a.header.Get("X-Request-Id")); len(lines) != 1 || lines[0]["crawl"] != "runs" || lines[0]["logo"] != "fallback" {
			s.t.Errorf("log %v", lines)
		}
		c.logoOf("slow.com").is(s.t, "which joined the crawl", true, logoKept)
		if took := s.clock.now().Sub(began); took != 7*time.Second || len(s.crawler.of("slow.com")) != 1 {
			s.t.Errorf("the second request was answered after %s, %d crawls; want %v and 1", took, len(s.crawler.of("slow.com")), 7*time.Second)
		}
	})
}

// A crawl that never ends is remembered as a timeout, and cached like any fallback.
func TestLogo_CrawlNeverEnds_TimesOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		s.finding("dead.com", time.Hour)
		c.logoOf("dead.com").is(s.t, "first", false, "no-store")
		s.clock.add(3 * time.Second)
		c.logoOf("dead.com").is(s.t, "past the crawl's time", false, fallbackKept)
		c.logoOf("dead.com").is(s.t, "remembered", false, fallbackKept)
		if n := len(s.crawler.of("dead.com")); n != 1 {
			s.t.Errorf("%d crawls, want 1", n)
		}
	})
}

func TestLogo_CrawlWithoutLogo_IsAFallback(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Growth, 50)
	for domain, outcome := range map[string]string{
		"nowhere.com": brand.DNS, "parked.com": brand.NoData, "shut.com": brand.Blocked, "down.com": brand.FetchFailed, "late.com": brand.Timeout,
	} {
		s.crawler.fails(domain, outcome)
		c.logoOf(domain).is(t, outcome, false, fallbackKept)
		c.logoOf(domain).is(t, outcome+" remembered", false, fallbackKept)
		if n := len(s.crawler.of(domain)); n != 1 {
			t.Errorf("%s: %d crawls, want 1", outcome, n)
		}
	}
	s.crawler.finds("bare.com", plainRecord("bare"))
	c.logoOf("bare.com").is(t, "a brand without a logo", false, fallbackKept)
	s.catchUp()
	c.logoOf("bare.com").is(t, "a brand without a logo, held", false, fallbackKept)
	hidden := s.withLogo("hidden", "png", inked(t, 64))
	hidden.Restriction = &eventschemas.Restriction{Code: "nsfw", Message: "The site is adult content."}
	s.crawler.finds("hidden.com", hidden)
	c.logoOf("hidden.com").is(t, "a restricted brand", false, fallbackKept)
	c.logoOf("hidden.com").is(t, "a restricted brand, held", false, fallbackKept)
	for _, domain := range []string{"bare.com", "hidden.com"} {
		if n := len(s.crawler.of(domain)); n != 1 {
			t.Errorf("%s: %d crawls, want 1", domain, n)
		}
	}
}

// A withdrawn brand is no longer shown and not crawled, even before the index is updated.
func TestLogo_WithdrawnBrand_IsAFallback(t *testing.T) {
	t.Parallel()
	s, index := startStale(t)
	c := s.account(plan.Growth, 50)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	s.keyless("acme.com").is(t, "before", true, logoKept)
	held, err := index.Get(t.Context(), "acme.com")
	s.must(err)
	index.held.Store(held)
	s.withdraw("acme.com")
	s.keyless("acme.com").is(t, "with an index that trails", false, fallbackKept)
	c.logoOf("acme.com").is(t, "with an index that trails, with a key", false, fallbackKept)
	index.held.Store(nil)
	s.catchUp()
	s.keyless("acme.com").is(t, "gone", false, fallbackKept)
	c.logoOf("acme.com").is(t, "gone, with a key", false, fallbackKept)
	if n := len(s.crawler.of("acme.com")); n != 0 {
		t.Errorf("%d crawls, want 0", n)
	}
}

// behind is an index that never sees anything new.
type behind struct{ lookup.Index }

func (behind) Get(context.Context, string) (*brands.Entry, error) { return nil, brands.ErrNotFound }

// A brand that this node has just answered is shown to every caller although the index lags: a
// monogram would be cached for an hour.
func TestLogo_IndexLags_ShowsBrandJustAnswered(t *testing.T) {
	t.Parallel()
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Index = behind{d.Index} }
	})
	c := s.account(plan.Growth, 50)
	s.finding("fresh.com", 0)
	s.keyless("fresh.com").is(t, "before", false, fallbackKept)
	c.get("/v1/brands/fresh.com").ok(t)
	s.keyless("fresh.com").is(t, "without a key", true, logoKept)
	c.logoOf("fresh.com").is(t, "with a key", true, logoKept)
	if n := len(s.crawler.of("fresh.com")); n != 1 {
		t.Errorf("%d crawls, want 1", n)
	}
	// Known before the look-up, at the stream's first revision.
	_, err := s.brands.ImportBrand(t.Context(), commands.ImportBrand{Request: operator(), Domain: "known.com", Source: "test 1", Record: s.withLogo("known", "png", inked(t, 64))})
	s.must(err)
	c.get("/v1/brands/known.com").ok(t)
	s.keyless("known.com").is(t, "an import", true, logoKept)
}

// Of many concurrent requests one starts the crawl, and each takes one unit of the limits: ten find none left.
func TestLogos_OneNewDomain_ShareACrawl(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		s.finding("fresh.com", time.Second)
		var shown, limited atomic.Int64
		together(40, func(int) {
			a := c.logoOf("fresh.com")
			switch a.header.Get("Cache-Control") {
			case logoKept:
				shown.Add(1)
			case "no-store":
				limited.Add(1)
			}
		})
		if shown.Load() != 30 || limited.Load() != 10 || len(s.crawler.of("fresh.com")) != 1 {
			s.t.Errorf("%d show the logo, %d exceeded a limit, %d crawls; want 30, 10 and 1", shown.Load(), limited.Load(), len(s.crawler.of("fresh.com")))
		}
		// They joined: only one unit of the service's minute was used.
		s.clock.add(time.Minute)
		c.logoOf("fresh.com").is(s.t, "later", true, logoKept)
	}, func(set *setup) { set.config.CrawlsPerMinute = 1 })
}

// behindProxy makes the service trust its clients' X-Forwarded-For.
func behindProxy(set *setup) {
	set.config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

func TestLogoCrawls_AccountAndAddress_HaveLimits(t *testing.T) {
	t.Parallel()
	s := start(t, behindProxy)
	s.crawler.otherwise = func(context.Context, eventschemas.CrawlRequested) ending { return ending{outcome: brand.DNS} }
	one, two := s.account(plan.Growth, 50), s.account(plan.Growth, 50)
	n := 0
	ask := func(c *customer, address string) answer {
		n++
		header := bearer(c.secret)
		header.Set("X-Forwarded-For", address)
		return s.send(request{path: fmt.Sprintf("/logo/new%d.com?format=png", n), header: header})
	}
	for i := range 30 {
		ask(one, fmt.Sprintf("192.0.2.%d", 1+i%2)).is(t, "within the limits", false, fallbackKept)
	}
	a := ask(one, "192.0.2.3")
	a.is(t, "past the account's limit", false, "no-store")
	if a.header.Get("X-Api-Key-Status") != "" {
		t.Errorf("key status %s, want %q", a.header.Get("X-Api-Key-Status"), "")
	}
	if got := len(s.crawler.of("new31.com")); got != 0 {
		t.Errorf("%d crawls past the limit, want 0", got)
	}
	for range 15 { // 15 units of this address are used
		ask(two, "192.0.2.1").is(t, "another account", false, fallbackKept)
	}
	ask(two, "192.0.2.1").is(t, "past the limit of the address", false, "no-store")
	for range 15 {
		ask(two, "192.0.2.9").is(t, "an account whose unit was given back", false, fallbackKept)
	}
	ask(two, "192.0.2.9").is(t, "past the second account's limit", false, "no-store")
	s.clock.add(time.Minute)
	ask(one, "192.0.2.1").is(t, "in the next minute", false, fallbackKept)
}

func TestLogoCrawls_ServiceCeiling_Stops(t *testing.T) {
	t.Parallel()
	s := start(t, func(set *setup) { set.config.CrawlsPerMinute = 1 })
	c := s.account(plan.Growth, 50)
	s.finding("one.com", 0)
	s.finding("two.com", 0)
	c.logoOf("one.com").is(t, "first", true, logoKept)
	for range 31 { // nothing is taken of the account's limit
		c.logoOf("two.com").is(t, "past the ceiling", false, "no-store")
	}
	c.get("/v1/brands/two.com").rejected(t, http.StatusServiceUnavailable, "upstream_failed")
	s.clock.add(time.Minute)
	c.logoOf("two.com").is(t, "in the next minute", true, logoKept)
}

func TestLogoCrawls_CountersUnavailable_DoNotStart(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"logo-crawls", "logo-crawl-addresses", "service-crawls"} {
		s := start(t, func(set *setup) {
			set.deps = func(d *readapi.Deps) { d.Counters = awayFor{d.Counters, scope} }
		})
		c := s.account(plan.Growth, 50)
		s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
		c.logoOf("unknown.com").plainly(t, http.StatusServiceUnavailable)
		c.logoOf("acme.com").is(t, "which needs no crawl", true, logoKept)
		s.keyless("unknown.com").is(t, "without a key", false, fallbackKept)
		if n := len(s.crawler.of("unknown.com")); n != 0 {
			t.Errorf("%s: %d crawls, want 0", scope, n)
		}
	}
}

func TestLogoCrawls_ClientLeaves_Continue(t *testing.T) {
	t.Parallel()
	s, c := startWith(t, plan.Growth, 50)
	r, release := s.withLogo("fresh", "png", inked(t, 64)), make(chan struct{})
	s.crawler.does("fresh.com", func(context.Context, eventschemas.CrawlRequested) ending {
		<-release
		return ending{record: &r}
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.do(ctx, request{path: "/logo/fresh.com?format=png", header: bearer(c.secret)})
		left <- err
	}()
	s.crawler.sees("fresh.com")
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("client error %v, want Canceled", err)
	}
	close(release)
	s.follow(brand.Stream("fresh.com"), func(ev eventschemas.Event) bool { _, ok := ev.(eventschemas.CrawlSucceeded); return ok })
	s.catchUp()
	s.keyless("fresh.com").is(t, "afterwards", true, logoKept)
}

// downLog is BrandCommands with an unavailable log.
type downLog struct {
	lookup.Brands
	hangs bool
}

func (d downLog) State(ctx context.Context, _ string) (*brand.Brand, error) {
	if d.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, eventlog.ErrUnavailable
}

// Without the log no domain can be crawled, but a page still gets its images.
func TestLogo_LogUnavailable_KnownBrandIsServed(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		inBubble(t, func(s *service) {
			c := s.account(plan.Growth, 50)
			s.known("acme.com", s.withLogo("acme", "png", inked(s.t, 64)))
			began := s.clock.now()
			c.logoOf("unknown.com").is(s.t, "unknown", false, "no-store")
			if took := s.clock.now().Sub(began); took > 4*time.Second {
				s.t.Errorf("answered after %s, want at most %v", took, 4*time.Second)
			}
			c.logoOf("acme.com").is(s.t, "known", true, logoKept)
		}, func(set *setup) {
			set.deps = func(d *readapi.Deps) { d.Brands = downLog{d.Brands, hangs} }
		})
	}
}

// Requests that wait for a crawl do not accumulate without limit: one too many gets its image immediately.
func TestLogoCrawls_TooManyWait_AreLimited(t *testing.T) {
	t.Parallel()
	const most = 2048
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		ask := func() answer {
			return s.sendTo("", http.MethodGet, "/logo/unknown.com?size=16&format=png", bearer(c.secret))
		}
		var waiting sync.WaitGroup
		for range most {
			waiting.Go(func() { ask() })
		}
		synctest.Wait()
		began := s.clock.now()
		ask().is(s.t, "one more", false, "no-store")
		if took := s.clock.now().Sub(began); took != 0 {
			s.t.Errorf("answered after %s, want 0", took)
		}
		waiting.Wait()
	}, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Brands = downLog{d.Brands, true} }
	})
}

// The wait for a crawl does not reduce the time for drawing.
func TestLogo_WaitedForCrawl_IsStillDrawn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *service) {
		c := s.account(plan.Growth, 50)
		s.finding("slow.com", time.Hour)
		began := s.clock.now()
		a := c.logoOf("slow.com")
		if took := s.clock.now().Sub(began); a.status != http.StatusOK || string(a.body) != "an image" || took != 7*time.Second {
			s.t.Errorf("status %d after %s: body %q", a.status, took, a.body)
		}
	}, func(set *setup) {
		set.deps = func(d *readapi.Deps) {
			d.Logos = rendererFunc(func(ctx context.Context) (logo.Image, error) {
				select {
				case <-time.After(3 * time.Second):
					return logo.Image{Body: []byte("an image"), ContentType: "image/png", ETag: `"a"`, Fallback: logo.Monogram}, nil
				case <-ctx.Done():
					return logo.Image{}, ctx.Err()
				}
			})
		}
	})
}

// Until the index is filled after a start, a fallback may be wrong a second later.
func TestLogo_IndexIncomplete_FallbackIsNotCached(t *testing.T) {
	t.Parallel()
	var filled atomic.Bool
	s := start(t, func(set *setup) {
		set.deps = func(d *readapi.Deps) { d.Filled = filled.Load }
	})
	c := s.account(plan.Growth, 50)
	s.known("acme.com", s.withLogo("acme", "png", inked(t, 64)))
	s.known("bare.com", plainRecord("bare"))
	s.crawler.fails("nowhere.com", brand.DNS)
	s.finding("fresh.com", 0)
	for _, kept := range []string{"no-store", fallbackKept} {
		s.keyless("unknown.com").is(t, "unknown", false, kept)
		s.keyless("bare.com").is(t, "without a logo", false, kept)
		c.logoOf("nowhere.com").is(t, "a crawl that found nothing", false, kept)
		none := s.send(request{path: "/logo/unknown.com?format=png&fallback=404"})
		again := s.send(request{path: "/logo/unknown.com?format=png", header: http.Header{"If-None-Match": {"*"}}})
		for status, a := range map[int]answer{http.StatusNotFound: none, http.StatusNotModified: again} {
			if a.status != status || a.header.Get("Cache-Control") != kept {
				t.Errorf("status %d, want %d; Cache-Control %s, want %s", a.status, status, a.header.Get("Cache-Control"), kept)
			}
		}
		s.keyless("acme.com").is(t, "a logo", true, logoKept)
		c.logoOf("fresh.com").is(t, "a logo of a crawl", true, logoKept)
		bad := s.send(request{path: "/logo/unknown.com?format=png&key=lh_pk_nobody"})
		if want := map[bool]string{false: "no-store", true: besideStatus}[filled.Load()]; bad.header.Get("Cache-Control") != want {
			t.Errorf("Cache-Control with X-Api-Key-Status: %s, want %s", bad.header.Get("Cache-Control"), want)
		}
		filled.Store(true)
	}
}
