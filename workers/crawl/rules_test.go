package crawl_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl"
)

// ruled returns a site with a robots.txt.
func ruled(rules string) files {
	return files{
		"/":            html(acmePage + `<a href="/about">About</a><img src="/photo.png">`),
		"/about":       html(`<title>About</title><p>hello</p>`),
		"/icon.png":    icon(128, blue),
		"/favicon.ico": icon(64, blue),
		"/robots.txt":  typed("text/plain", rules),
	}
}

func TestRobots_Disallowed_IsNotRequested(t *testing.T) {
	for name, c := range map[string]struct {
		rules     string
		scheduled bool
		want      string
		asked     []string
		not       []string
	}{
		"live, everybody refused":   {"User-agent: *\nDisallow: /", false, "Acme", []string{"acme.com/icon.png"}, []string{"acme.com/about"}},
		"live, we are refused":      {"User-agent: LetterheadBot\nDisallow: /", false, brand.Blocked, nil, []string{"acme.com/icon.png", "acme.com/about", "acme.com/favicon.ico"}},
		"live, a page is refused":   {"User-agent: *\nDisallow: /about", false, "Acme", []string{"acme.com/icon.png"}, []string{"acme.com/about"}},
		"live, a file is refused":   {"User-agent: LetterheadBot\nDisallow: /icon.png", false, "Acme", []string{"acme.com/about"}, []string{"acme.com/icon.png"}},
		"live, allowed":             {"User-agent: *\nDisallow: /admin", false, "Acme", []string{"acme.com/icon.png", "acme.com/about"}, nil},
		"scheduled, all refused":    {"User-agent: *\nDisallow: /", true, brand.Blocked, nil, []string{"acme.com/", "acme.com/icon.png"}},
		"scheduled, we are refused": {"User-agent: LetterheadBot\nDisallow: /", true, brand.Blocked, nil, []string{"acme.com/"}},
		"scheduled, we are allowed": {"User-agent: *\nDisallow: /\n\nUser-agent: LetterheadBot\nAllow: /", true, "Acme", []string{"acme.com/icon.png"}, nil},
		"scheduled, a file refused": {"User-agent: *\nDisallow: /*.png$", true, "Acme", []string{"acme.com/favicon.ico"}, []string{"acme.com/icon.png"}},
		"scheduled, the page alone": {"User-agent: *\nDisallow: /\nAllow: /$", true, "Acme", nil, []string{"acme.com/about", "acme.com/icon.png"}},
		"scheduled, a long delay":   {"User-agent: *\nCrawl-delay: 60", true, "Acme", []string{"acme.com/icon.png"}, []string{"acme.com/about"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", ruled(c.rules))
			result, err := n.crawlTarget(crawl.Target{Domain: "acme.com", Scheduled: c.scheduled}, crawlTime)
			if got := ending(result, err); got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
			var failure *crawl.Failure
			if errors.As(err, &failure) && !strings.Contains(failure.Detail, "robots.txt") {
				t.Errorf("the detail does not name robots.txt: %s", failure.Detail)
			}
			n.wants(t, c.asked...)
			n.wantsNot(t, c.not...)
		})
	}
}

func TestRobots_CrawlDelay_IsKept(t *testing.T) {
	n := newInternet(t)
	site := ruled("User-agent: *\nCrawl-delay: 1")
	var home, about time.Time
	site["/"] = func(w http.ResponseWriter, r *http.Request) {
		home = time.Now()
		html(acmePage+`<a href="/about">About</a>`)(w, r)
	}
	site["/about"] = func(w http.ResponseWriter, r *http.Request) {
		about = time.Now()
		html(`<title>About</title>`)(w, r)
	}
	n.serve("acme.com", site)
	testmust.Succeed(t, testmust.Err(n.crawlTarget(crawl.Target{Domain: "acme.com", Scheduled: true}, crawlTime)))
	if gap := about.Sub(home); gap < 990*time.Millisecond {
		t.Errorf("the second page was requested after %s", gap)
	}
}

func TestRobots_RedirectTarget_HasItsOwn(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "https://www.acme.com/", http.StatusMovedPermanently)
	}))
	n.serve("www.acme.com", ruled("User-agent: LetterheadBot\nDisallow: /"))
	result, err := n.crawl("acme.com")
	if got := ending(result, err); got != brand.Blocked {
		t.Errorf("got %s", got)
	}
	n.wantsNot(t, "www.acme.com/icon.png")
}

func TestRobots_RedirectedWithSite_FetchedOnce(t *testing.T) {
	for _, scheduled := range []bool{false, true} {
		n := newInternet(t)
		n.serve("acme.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://www.acme.com"+r.URL.Path, http.StatusMovedPermanently)
		}))
		n.serve("www.acme.com", ruled("User-agent: *\nDisallow: /about"))
		testmust.Succeed(t, testmust.Err(n.crawlTarget(crawl.Target{Domain: "acme.com", Scheduled: scheduled}, 10*time.Second)))
		times := 0
		for _, r := range n.requests() {
			if r == "www.acme.com/robots.txt" {
				times++
			}
		}
		if times != 1 {
			t.Errorf("scheduled %t: robots.txt was fetched %d times", scheduled, times)
		}
		n.wantsNot(t, "www.acme.com/about")
	}
}

func TestRobots_Unavailable_DecidesOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		robots    http.HandlerFunc
		live      string
		scheduled string
	}{
		"missing": {http.NotFound, "Acme", "Acme"},
		"403":     {status(403, ""), "Acme", "Acme"},
		"500":     {status(500, ""), "Acme", brand.FetchFailed},
		"429":     {status(429, ""), "Acme", brand.FetchFailed},
		"a page":  {html("<title>Not found</title><p>Disallow: /"), "Acme", "Acme"},
		"silent": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // a handler that returns answers 200
		}, "Acme", brand.FetchFailed},
		"endless": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/robots.txt", http.StatusFound) }, "Acme", "Acme"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			site := ruled("")
			site["/robots.txt"] = c.robots
			n.serve("acme.com", site)
			for _, scheduled := range []bool{false, true} {
				want := c.live
				if scheduled {
					want = c.scheduled
				}
				result, err := n.crawlTarget(crawl.Target{Domain: "acme.com", Scheduled: scheduled}, 8*time.Second)
				if got := ending(result, err); got != want {
					t.Errorf("scheduled %t: got %s (%v), want %s", scheduled, got, err, want)
				}
			}
		})
	}
}

func TestRobots_SameSite_CachedForADay(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", ruled("User-agent: *\nDisallow: /x"))
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	cfg := config(t)
	cfg.Now = func() time.Time { return now }
	crawler := testmust.Get(crawl.New(cfg, n.client(), n.assets()))(t)
	count := func() (times int) {
		for _, r := range n.requests() {
			if r == "acme.com/robots.txt" {
				times++
			}
		}
		return times
	}
	for i, c := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {time.Hour, 1}, {23*time.Hour + 59*time.Minute, 2}} {
		now = now.Add(c.later)
		if _, _, err := crawler.Crawl(t.Context(), crawl.Target{Domain: "acme.com", Scheduled: true}); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != c.want {
			t.Errorf("after crawl %d robots.txt was fetched %d times, want %d", i, got, c.want)
		}
	}
}

func TestRobots_LateRules_Apply(t *testing.T) {
	n := newInternet(t)
	site := ruled("")
	later := make(chan struct{})
	site["/robots.txt"] = func(w http.ResponseWriter, r *http.Request) {
		<-later // after the wait for the rules of the home page is over
		typed("text/plain", "User-agent: LetterheadBot\nDisallow: /")(w, r)
	}
	site["/icon.png"] = func(w http.ResponseWriter, r *http.Request) {
		close(later)
		<-r.Context().Done() // the crawl waits for this icon until shortly before its deadline
	}
	n.serve("acme.com", site)
	result, err := n.crawlTarget(crawl.Target{Domain: "acme.com"}, 3*time.Second)
	if got := ending(result, err); got != brand.Blocked {
		t.Errorf("got %s, want %s", got, brand.Blocked)
	}
}

// refusing returns a site that excludes this crawler.
func refusing() files { return ruled("User-agent: LetterheadBot\nDisallow: /") }

func TestRobots_SchemeOrHostDiffers_FetchedAgain(t *testing.T) {
	for _, scheduled := range []bool{false, true} {
		n := newInternet(t)
		n.serve("acme.com", refusing())
		n.refuse("acme.com:443")
		result, err := n.crawlTarget(crawl.Target{Domain: "acme.com", Scheduled: scheduled}, 10*time.Second)
		if got := ending(result, err); got != brand.Blocked {
			t.Errorf("a site without https, scheduled %t: %s (%v)", scheduled, got, err)
		}
	}
	n := newInternet(t)
	own := refusing()
	n.serve("acme.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		own.ServeHTTP(w, r)
	}))
	c := n.crawler()
	if _, _, err := c.Crawl(t.Context(), crawl.Target{Domain: "acme.com", Start: mustURL(t, "http://acme.com/")}); err != nil {
		t.Fatal(err)
	}
	result, _, err := c.Crawl(t.Context(), crawl.Target{Domain: "acme.com"})
	if got := ending(result, err); got != brand.Blocked {
		t.Errorf("https after http: %s (%v)", got, err)
	}
}

// crawler returns a crawler for several crawls of a test.
func (n *internet) crawler() *crawl.Crawler {
	n.t.Helper()
	c := testmust.Get(crawl.New(config(n.t), n.client(), n.assets()))(n.t)
	return c
}

func TestRobots_OtherDomain_CannotSetRules(t *testing.T) {
	for _, to := range []string{"https://acme.com/robots.txt?x=1", "https://acme.com/robots.txt", "https://acme.com/robots.txt?"} {
		n := newInternet(t)
		n.serve("evil.com", files{"/": html(acmePage), "/robots.txt": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to, http.StatusFound)
		}})
		own, asked := refusing(), 0
		n.serve("acme.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				if asked++; asked == 1 || r.URL.RawQuery != "" {
					http.NotFound(w, r)
					return
				}
			}
			own.ServeHTTP(w, r)
		}))
		c := n.crawler()
		if _, _, err := c.Crawl(t.Context(), crawl.Target{Domain: "evil.com", Scheduled: true}); err != nil {
			t.Fatal(err)
		}
		asked = 1
		result, _, err := c.Crawl(t.Context(), crawl.Target{Domain: "acme.com"})
		if got := ending(result, err); got != brand.Blocked {
			t.Errorf("%s: site that refuses this crawler: %s (%v)", to, got, err)
		}
	}
}

func TestRobots_Redirect_RequestedAtFinalURL(t *testing.T) {
	for _, scheduled := range []bool{false, true} {
		n := newInternet(t)
		n.serve("acme.com", everywhere(status(404, "nothing")))
		n.serve("www.acme.com", refusing())
		n.serve("beta.com", files{
			"/": html(`<meta http-equiv=refresh content="0;url=/private/">`), "/private/": html(acmePage),
			"/robots.txt": typed("text/plain", "User-agent: LetterheadBot\nDisallow: /private"),
		})
		for _, domain := range []string{"acme.com", "beta.com"} {
			result, err := n.crawlTarget(crawl.Target{Domain: domain, Scheduled: scheduled}, 10*time.Second)
			if got := ending(result, err); got != brand.Blocked {
				t.Errorf("%s, scheduled %t: %s (%v)", domain, scheduled, got, err)
			}
		}
		n.wantsNot(t, "www.acme.com/", "beta.com/private/")
	}
}

func TestRobots_BrowserURL_IsChecked(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{"/": html(`<title>Acme</title><div id="root"></div><script src="/app.js"></script>`), "/icon.png": icon(128, blue)})
	n.serve("app.acme.com", refusing())
	cfg := config(t)
	cfg.Browser = &fakeBrowser{html: acmePage + strings.Repeat("<p>Acme makes careful instruments.</p>", 40), at: "https://app.acme.com/"}
	result, _, err := n.crawlWith(cfg, crawl.Target{Domain: "acme.com"}, crawlTime)
	testmust.Succeed(t, err)
	if strings.Contains(text(result.Record.Description), "careful") {
		t.Error("kept a page rendered from a server that refuses this crawler")
	}
}
