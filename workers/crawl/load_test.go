package crawl_test

import (
	"context"
	"image"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/logofinder"
)

// wholePage has everything for a complete record, and two logos: a drawing and an icon.
const wholePage = `<!doctype html><title>Acme</title><meta property="og:site_name" content="Acme"><meta name="description" content="Acme makes careful instruments for curious people."><meta name="theme-color" content="#0b5fff"><link rel="icon" href="/icon.png" sizes="128x128"><header><a href="/"><img class="logo" alt="Acme" src="/logo.svg"></a></header><h1>Acme</h1>`

func wholeSite() files {
	return files{
		"/":         html(wholePage + "<p>" + strings.Repeat("We make careful instruments. ", 20) + "</p>"),
		"/logo.svg": typed("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 60"><path d="M0 60L30 0L60 60zM80 10h100v40h-100z" fill="#c02010"/></svg>`),
		"/icon.png": icon(128, blue),
	}
}

// slowStore is an asset store that blocks in its first Put until a crawl's time is over.
type slowStore struct {
	logofinder.Assets
	over  <-chan struct{}
	fails bool // every Put fails
	cut   bool // every Put but the first fails

	mu    sync.Mutex
	begun int
}

func (s *slowStore) Put(ctx context.Context, data []byte, ext string) (string, error) {
	s.mu.Lock()
	s.begun++
	first := s.begun == 1
	s.mu.Unlock()
	if s.fails || s.cut && !first {
		<-ctx.Done()
		return "", ctx.Err()
	}
	if first {
		<-s.over
	}
	return s.Assets.Put(ctx, data, ext)
}

func TestDeadline_Passed_StoresPrimaryLogoOnly(t *testing.T) {
	t.Parallel() // it waits for the ends of crawls
	n := newInternet(t)
	n.serve("acme.com", wholeSite())
	// soon is the time of a crawl that fetches and encodes everything, but waits for its store until the end.
	const soon = 15 * time.Second
	for name, c := range map[string]struct {
		allowed, assemble time.Duration
		late, fails, cut  bool
		logos             int
		complete          bool
	}{
		"in time":                  {crawlTime, 0, false, false, false, 2, true},
		"late":                     {soon, crawlTime, true, false, false, 1, true},
		"nothing is stored":        {soon, 0, true, true, false, 0, false},
		"one form of it is stored": {soon, 0, false, false, true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), c.allowed)
			defer cancel()
			store := &slowStore{Assets: n.assets(), over: ctx.Done(), fails: c.fails, cut: c.cut}
			if !c.late {
				over := make(chan struct{})
				close(over)
				store.over = over
			}
			cfg := config(t)
			cfg.AssembleTime = c.assemble
			crawler := testmust.Get(crawl.New(cfg, n.client(), store))(t)
			result, _, err := crawler.Crawl(ctx, crawl.Target{Domain: "acme.com"})
			testmust.Succeed(t, err)
			if r := result.Record; len(r.Logos) != c.logos || r.Complete != c.complete || text(r.Name) != "Acme" {
				t.Errorf("%d logos, complete %t, name %s; want %d, %t and Acme", len(r.Logos), r.Complete, text(r.Name), c.logos, c.complete)
			}
		})
	}
}

// countingRenderer detects concurrent drawings: each waits a little for another one.
type countingRenderer struct {
	logofinder.Renderer
	mu    sync.Mutex
	now   int
	most  int
	other chan struct{}
}

func (c *countingRenderer) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	c.mu.Lock()
	c.now++
	if c.now == 2 && c.most < 2 {
		close(c.other)
	}
	c.most = max(c.most, c.now)
	other := c.other
	c.mu.Unlock()
	select {
	case <-other:
	case <-time.After(30 * time.Millisecond):
	}
	defer func() {
		c.mu.Lock()
		c.now--
		c.mu.Unlock()
	}()
	return c.Renderer.Render(ctx, svg, side)
}

func TestEncoding_Running_CountsAsDecoder(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", wholeSite())
	cfg := config(t)
	counting := &countingRenderer{Renderer: cfg.Renderer, other: make(chan struct{}, 1)}
	cfg.Renderer, cfg.Decoders = counting, 1
	crawler := testmust.Get(crawl.New(cfg, n.client(), n.assets()))(t)
	var crawls sync.WaitGroup
	for range 4 {
		crawls.Go(func() {
			result, _, err := crawler.Crawl(t.Context(), crawl.Target{Domain: "acme.com"})
			if err != nil || len(result.Record.Logos) != 2 {
				t.Errorf("crawl: %v, %+v, want 2 logos", err, result)
			}
		})
	}
	crawls.Wait()
	if counting.most != 1 {
		t.Errorf("%d concurrent renders, want 1", counting.most)
	}
}

func TestNameServer_Silent_NoDelay(t *testing.T) {
	n := newInternet(t)
	n.mute = make(chan struct{})
	site := wholeSite()
	waited := false
	site["/icon.png"] = func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-n.mute:
			waited = true
		default:
		}
		icon(128, blue)(w, r)
	}
	n.serve("acme.com", site)
	result, err := n.crawl("acme.com")
	if err != nil || len(result.Record.Logos) != 2 {
		t.Fatalf("crawl: %v, %+v, want 2 logos", err, result)
	}
	if waited {
		t.Error("the icon was fetched although the look-up of the BIMI record had timed out")
	}
}

func TestPage_OnPlatform_IsNotBrands(t *testing.T) {
	for _, host := range []string{"www.facebook.com", "m.facebook.com", "www.instagram.com", "linktr.ee", "www.yelp.com"} {
		for name, path := range map[string]func(*http.Request) string{
			"to a page": func(*http.Request) string { return "/joesdiner" },
			"with path": func(r *http.Request) string { return "/joesdiner" + r.URL.Path },
		} {
			n := newInternet(t)
			n.serve("joesdiner.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://"+host+path(r), http.StatusMovedPermanently)
			}))
			n.serve(host, everywhere(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, ".png") || strings.HasSuffix(r.URL.Path, ".ico") {
					icon(128, blue)(w, r)
					return
				}
				html(`<title>Joe's Diner | Springfield</title><link rel=icon href=/fb.png sizes=128x128><header><a href="/"><img class=logo alt="Platform" src=/fb.png></a></header>`+strings.Repeat("<p>Joe's Diner. Log in or sign up", 40))(w, r)
			}))
			result, err := n.crawl("joesdiner.com")
			if got := ending(result, err); got != brand.NoData {
				t.Errorf("%s, %s: got %s (%v)", host, name, got, err)
			}
		}
	}
	// The platforms themselves are brands, and their other domains redirect to their start pages.
	n := newInternet(t)
	n.serve("facebook.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://www.facebook.com/login/", http.StatusFound)
	}))
	n.serve("thefacebook.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://www.facebook.com/", http.StatusFound)
	}))
	n.serve("www.facebook.com", files{"/": html(acmePage), "/login/": html(acmePage), "/icon.png": icon(128, blue)})
	for _, domain := range []string{"facebook.com", "thefacebook.com"} {
		if result, err := n.crawl(domain); err != nil || !result.Record.HasLogo() {
			t.Errorf("%s: %v", domain, err)
		}
	}
	// Other content of a domain still counts.
	n.serve("joesdiner.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://www.facebook.com/joesdiner", http.StatusFound)
	}))
	n.serve("bimi.example", files{"/mark.svg": typed("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" fill="#0b5fff"/><circle cx="32" cy="32" r="20" fill="#fff"/></svg>`)})
	n.Announce("default._bimi.joesdiner.com", "v=BIMI1; l=https://bimi.example/mark.svg; a=")
	result, err := n.crawl("joesdiner.com")
	if err != nil || len(result.Record.Logos) != 1 || result.Record.Complete {
		t.Errorf("domain with a BIMI record: %v, %+v, want an incomplete record with one logo", err, result)
	}
}

func TestPort_Dropped_OtherURLIsTried(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", wholeSite())
	n.serve("www.acme.com", wholeSite())
	n.silent["acme.com:443"], n.silent["www.acme.com:443"] = true, true
	result, err := n.crawlTarget(crawl.Target{Domain: "acme.com"}, 8*time.Second)
	if err != nil || text(result.Record.Name) != "Acme" {
		t.Errorf("site on port 80 only: %v", err)
	}
}

func TestUnchangedPage_OfOtherSite_IsFetched(t *testing.T) {
	since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	n := newInternet(t)
	n.serve("acme.com", everywhere(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://other.com/", http.StatusMovedPermanently)
	}))
	n.serve("other.com", files{"/": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", since, strings.NewReader(wholePage))
	}, "/icon.png": icon(64, blue)})
	result := testmust.Get(n.crawlTarget(crawl.Target{Domain: "acme.com", LastModified: since.Add(time.Hour).Format(http.TimeFormat)}, 8*time.Second))(t)
	if result.NotModified || text(result.Record.Name) == "" {
		t.Errorf("another site's page was reported as unchanged: %+v", result)
	}
	if result.ETag != "" || result.LastModified != "" {
		t.Errorf("kept the validators of another site's page: %q %q", result.ETag, result.LastModified)
	}
}
