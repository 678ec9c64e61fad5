package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl"
)

// wants fails for URLs that were not requested.
func (n *internet) wants(t *testing.T, addresses ...string) {
	t.Helper()
	asked := n.requests()
	for _, a := range addresses {
		if !slices.Contains(asked, a) {
			t.Errorf("%s was not requested, only %v", a, asked)
		}
	}
}

// wantsNot fails for URLs that were requested.
func (n *internet) wantsNot(t *testing.T, addresses ...string) {
	t.Helper()
	for _, a := range n.requests() {
		if slices.Contains(addresses, a) {
			t.Errorf("%s was requested", a)
		}
	}
}

func TestStylesheets_OfBuilderPage_DesignComesFirst(t *testing.T) {
	n := newInternet(t)
	head := `<title>Acme</title>`
	site := files{}
	add := func(path, text string) {
		head += `<link rel=stylesheet href="` + path + `">`
		site[path] = typed("text/css", text)
	}
	plugin := "/*" + strings.Repeat("p", 260_000) + "*/" // costs bytes, but little time to parse
	for i := range 30 {
		add(fmt.Sprintf("/wp-content/plugins/p%d/style.css", i), plugin)
	}
	add("/wp-content/themes/oak/style.css", "a{color:#0a6b4f}")
	add("/wp-content/uploads/elementor/css/post-7.css", ".cta{background-color:#b3123c}")
	site["/"] = html(head + `<h1>Acme</h1><main><p><a href="/x">Read more</a> <a class="cta" href="/y">Book</a></p></main>`)
	n.serve("acme.com", site)
	result := testmust.Get(n.crawl("acme.com"))(t)
	n.wants(t, "acme.com/wp-content/themes/oak/style.css", "acme.com/wp-content/uploads/elementor/css/post-7.css")
	if plugins := len(slices.DeleteFunc(slices.Clone(n.requests()), func(r string) bool { return !strings.Contains(r, "/plugins/") })); plugins == 0 || plugins == 30 {
		t.Errorf("%d stylesheets of plug-ins were requested; bytes should limit them", plugins)
	}
	if !slices.ContainsFunc(result.Record.Colors, func(c eventschemas.Color) bool { return c.Hex == "#b3123c" }) {
		t.Errorf("colors are %v", result.Record.Colors)
	}
}

func TestStylesheets_Limit_OwnFirst(t *testing.T) {
	n := newInternet(t)
	head := `<title>Acme</title><link rel=stylesheet href="https://fonts.googleapis.com/css2?family=Inter"><link rel=stylesheet href="https://cdn.acme.net/a.css"><link rel=stylesheet href=/missing.css>`
	for i := range 4 {
		head += fmt.Sprintf(`<link rel=stylesheet href="/own%d.css">`, i)
	}
	site := files{"/": html(head + `<h1>Acme</h1>`)}
	for i := range 4 {
		site[fmt.Sprintf("/own%d.css", i)] = typed("text/css", fmt.Sprintf(`@import "deep%d.css"; h1 { color: red }`, i))
		site[fmt.Sprintf("/deep%d.css", i)] = typed("text/css", `@import "deeper.css"; body { color: blue }`)
	}
	n.serve("acme.com", site)
	n.serve("cdn.acme.net", files{"/a.css": typed("text/css", `@import url(more.css);`)})
	n.serve("fonts.googleapis.com", files{})
	testmust.Succeed(t, testmust.Err(n.crawl("acme.com")))
	n.wants(t, "acme.com/own0.css", "acme.com/own3.css", "acme.com/missing.css", "cdn.acme.net/a.css", "cdn.acme.net/more.css")
	n.wants(t, "acme.com/deep0.css")
	n.wantsNot(t, "acme.com/deeper.css", "fonts.googleapis.com/css2?family=Inter")
}

// TestFile_SeveralRolesAndURLs_IsDecodedOnce serves one file at many URLs:
// as icon, logo, part of a sprite, share image and image of the page.
func TestFile_SeveralRolesAndURLs_IsDecodedOnce(t *testing.T) {
	const vector = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 100"><path d="M0 0h300v100L150 9z" fill="#0b5fff"/></svg>`
	for name, c := range map[string]struct {
		page   string
		file   http.HandlerFunc
		images int
	}{
		"logo and share image": {`<meta property="og:image" content="/share"><header><a href="/"><img src="/logo" alt="Acme logo"></a></header>`, icon(1500, blue), 1},
		"all but sprites": {`<meta property="og:image" content="/share"><link rel=icon href="/icon"><link rel=apple-touch-icon href="/touch"><header><a href="/"><img src="/logo" alt="Acme logo"></a></header>
			<main><img src="/stage" width="1200" height="1200"></main>`, icon(1500, blue), 2},
		"sprite too": {`<style>.logo{background:url(/sprite) -100px -100px;width:1300px;height:1300px}</style><meta property="og:image" content="/share"><link rel=icon href="/icon">
			<header><a class="logo" href="/">Acme</a></header>`, icon(1500, blue), 1},
		"larger than a sprite may be": {`<meta property="og:image" content="/share"><link rel=icon href="/icon"><header><a href="/"><img src="/logo" alt="Acme logo"></a></header>`, icon(2400, blue), 1},
		"vector":                      {`<meta property="og:image" content="/share"><link rel=icon href="/icon"><link rel=mask-icon href="/mask" color=red><header><a href="/"><img src="/logo" alt="Acme logo"></a></header>`, typed("image/svg+xml", vector), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newInternet(t)
			site := files{"/": html(`<title>Acme</title>` + c.page)}
			for _, path := range []string{"/share", "/icon", "/touch", "/logo", "/stage", "/sprite", "/mask"} {
				site[path] = c.file
			}
			n.serve("acme.com", site)
			result, stats, err := n.crawlCounted(crawl.Target{Domain: "acme.com"}, crawlTime)
			testmust.Succeed(t, err)
			if stats.Decoded != 1 || !result.Record.HasLogo() || len(result.Record.Images) != c.images {
				t.Errorf("decoded %d times, logo %t, %d images; requested: %v", stats.Decoded, result.Record.HasLogo(), len(result.Record.Images), n.requests())
			}
		})
	}
}

func TestFile_TwoRoles_IsFetchedOnce(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{
		"/":         html(`<title>Acme</title><meta property="og:image" content="/logo.png"><link rel=icon href="/logo.png"><header><a href="/"><img src="/logo.png" alt="Acme logo"></a></header>`),
		"/logo.png": icon(400, blue),
	})
	result := testmust.Get(n.crawl("acme.com"))(t)
	times := 0
	for _, r := range n.requests() {
		if r == "acme.com/logo.png" {
			times++
		}
	}
	if times != 1 || !result.Record.HasLogo() || len(result.Record.Images) != 1 {
		t.Errorf("fetched %d times, logo %t, %d images", times, result.Record.HasLogo(), len(result.Record.Images))
	}
}

func TestBIMI_Record_GivesMark(t *testing.T) {
	n := newInternet(t)
	mark := typed("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" fill="#0b5fff"/><circle cx="32" cy="32" r="20" fill="#fff"/></svg>`)
	n.serve("acme.com", files{"/": html(`<title>Acme</title><meta property="og:site_name" content="Acme"><h1>Acme</h1>`)})
	n.serve("bimi.acme.net", files{"/mark.svg": mark})
	n.Announce("default._bimi.acme.com", "v=spf1 -all")
	for _, domain := range []string{"acme.com", "blocked.com"} {
		n.Announce("default._bimi."+domain, "v=BIMI1; l=https://bimi.acme.net/mark.svg; a=")
	}
	result, err := n.crawl("acme.com")
	testmust.Succeed(t, err)
	if !result.Record.HasLogo() || sourceOf(result, "logos[0]") != "https://bimi.acme.net/mark.svg" {
		t.Errorf("logos are %+v, want the mark of the BIMI record first", result.Record.Logos)
	}
	// It is also tried after a refusal.
	n.serve("blocked.com", everywhere(status(403, "")))
	result, err = n.crawl("blocked.com")
	if err != nil || !result.Record.HasLogo() || result.Record.Complete {
		t.Errorf("site that refuses access: %v, %+v, want an incomplete record with a logo", err, result)
	}
}

func TestManifest_FirstForbidden_NextIsTried(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/site.webmanifest":
			typed("application/manifest+json", `{"name":"Acme Instruments","icons":[{"src":"/big.png","sizes":"512x512"}]}`)(w, r)
		case "/big.png":
			icon(128, blue)(w, r)
		default:
			status(403, "<title>Access Denied</title>")(w, r)
		}
	}))
	result := testmust.Get(n.crawl("acme.com"))(t)
	if text(result.Record.Name) != "Acme Instruments" || !result.Record.HasLogo() || result.Record.Complete {
		t.Errorf("name %s, logo %t, complete %t", text(result.Record.Name), result.Record.HasLogo(), result.Record.Complete)
	}
}

func TestSecondPage_FieldsMissing_IsRead(t *testing.T) {
	about := html(`<title>About us</title><meta name="description" content="Acme makes careful instruments for curious people, since 1978."><h1>About Acme</h1><p>` + strings.Repeat("We make careful instruments. ", 30) + `</p>`)
	n := newInternet(t)
	n.serve("acme.com", files{
		"/":             html(`<title>Acme</title><h1>Acme</h1><nav><a href="/blog/about-the-moon-and-other-things">About the moon and other things</a><a href="/de/ueber-uns">Über uns</a><a href="/impressum">Impressum</a><a href="https://elsewhere.com/about">About</a><a href="/press">Press</a></nav>`),
		"/de/ueber-uns": about,
		"/impressum":    html(`<title>Impressum</title><h1>Impressum</h1><p>Acme GmbH, Hauptstraße 1, 10115 Berlin, Deutschland</p>`),
	})
	testmust.Succeed(t, testmust.Err(n.crawl("acme.com")))
	n.wants(t, "acme.com/de/ueber-uns", "acme.com/impressum")
	n.wantsNot(t, "acme.com/press", "acme.com/blog/about-the-moon-and-other-things")
}

func TestFurtherPages_ManyLanguages_AreFound(t *testing.T) {
	for name, c := range map[string]struct {
		links string
		want  string // "" is none
	}{
		"path":              {`<a href="/company/about-us.html">More</a>`, "/company/about-us.html"},
		"text":              {`<a href="/p/1">About us →</a>`, "/p/1"},
		"numbered":          {`<a href="/content/2-mentions-legales">Informations</a>`, "/content/2-mentions-legales"},
		"French":            {`<a href="/x/1">À propos</a>`, "/x/1"},
		"Spanish":           {`<a href="/quienes-somos/">Nosotros</a>`, "/quienes-somos/"},
		"Italian":           {`<a href="/it/chi-siamo">Noi</a>`, "/it/chi-siamo"},
		"Polish":            {`<a href="/o-nas">O nas</a>`, "/o-nas"},
		"Japanese":          {`<a href="/p/2">会社概要</a>`, "/p/2"},
		"Russian":           {`<a href="/p/3">О компании</a>`, "/p/3"},
		"imprint first":     {`<a href="/kontakt">Kontakt</a><a href="/impressum">Impressum</a>`, "/impressum"},
		"Chinese":           {`<a href="/lianxi">联系方式</a>`, "/lianxi"},
		"Korean":            {`<a href="/c/1">오시는 길</a>`, "/c/1"},
		"Turkish":           {`<a href="/kunye">Künye</a>`, "/kunye"},
		"Indonesian":        {`<a href="/p/4">Tentang Kami</a>`, "/p/4"},
		"Portuguese":        {`<a href="/p/5">A empresa</a>`, "/p/5"},
		"French, joining":   {`<a href="/p/6">Nous joindre</a>`, "/p/6"},
		"two topics":        {`<a href="/p/7">Datenschutz &amp; Impressum</a>`, "/p/7"},
		"part of the name":  {`<h1>Acme Mill</h1><meta property="og:site_name" content="Acme Mill"><a href="/p/8">The mill</a>`, "/p/8"},
		"another thing":     {`<a href="/p/9">The blog</a>`, ""},
		"contact":           {`<a href="/contact">Contact</a>`, "/contact"},
		"an article":        {`<a href="/2026/11/21/about-time-too">About time: what we learned about clocks</a>`, ""},
		"another host":      {`<a href="https://other.com/about">About</a>`, ""},
		"another subdomain": {`<a href="https://blog.acme.com/about">About</a>`, ""},
		"a query":           {`<a href="/?page=about">About</a>`, ""},
		"deep":              {`<a href="/a/b/c/d/e/about">About</a>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", files{"/": html(`<title>Acme</title><h1>Acme</h1>` + c.links)})
			testmust.Succeed(t, testmust.Err(n.crawl("acme.com")))
			got := ""
			for _, r := range n.requests() {
				path := strings.TrimPrefix(r, "acme.com")
				if got == "" && strings.Contains(c.links, "\""+path+"\"") || strings.Contains(r, "other.com") || strings.Contains(r, "blog.") {
					got = path
				}
			}
			if got != c.want {
				t.Errorf("read %q, want %q", got, c.want)
			}
		})
	}
}

func TestFurtherPages_Fetches_KeepGap(t *testing.T) {
	n := newInternet(t)
	var times []time.Time
	note := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			n.mu.Lock()
			times = append(times, time.Now())
			n.mu.Unlock()
			h(w, r)
		}
	}
	n.serve("acme.com", files{
		"/":        note(html(`<title>Acme</title><h1>Acme</h1><a href="/about">About</a><a href="/imprint">Imprint</a>`)),
		"/about":   note(html(`<title>About</title><p>hello</p>`)),
		"/imprint": note(html(`<title>Imprint</title><p>hello</p>`)),
	})
	testmust.Succeed(t, testmust.Err(n.crawl("acme.com")))
	if len(times) != 3 {
		t.Fatalf("%d pages were read, want 3", len(times))
	}
	// The crawl measures from its requests, and at first from the response. The test sees their arrivals, which may be
	// later on a busy machine, so it compares them with the first.
	for i, at := range times {
		if took, least := at.Sub(times[0]), time.Duration(i)*200*time.Millisecond; took < least {
			t.Errorf("page %d was requested %s after the first, want at least %s", i, took, least)
		}
	}
}

func TestFetches_ManyFiles_StayWithinLimits(t *testing.T) {
	n := newInternet(t)
	head := `<title>Acme</title><link rel=manifest href=/m.json><meta property="og:image" content="/share.png">`
	for i := range 20 {
		head += fmt.Sprintf(`<link rel=icon href="/icon%[1]d.png" sizes="%[2]dx%[2]d"><link rel=stylesheet href="/s%[1]d.css">`, i, 32+i)
	}
	for i := range 30 {
		head += fmt.Sprintf(`<img src="/photo%d.jpg" width=1200 height=800>`, i)
	}
	n.serve("acme.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			html(head+`<a href=/about>About</a><a href=/contact>Contact</a>`)(w, r)
			return
		}
		icon(64, blue)(w, r)
	}))
	_, stats, err := n.crawlCounted(crawl.Target{Domain: "acme.com"}, crawlTime)
	testmust.Succeed(t, err)
	others := slices.DeleteFunc(slices.Clone(n.requests()), func(r string) bool { return strings.HasSuffix(r, ".css") })
	if stats.Requests > 80 || len(others) > 32 {
		t.Errorf("%d fetches, %d requests without stylesheets", stats.Requests, len(others))
	}
	if most := n.busiest["acme.com"]; most > 4 {
		t.Errorf("%d concurrent requests", most)
	}
}

func TestDeadline_ReturnsPartialResult(t *testing.T) {
	t.Parallel() // it waits for the end of the crawl
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	n := newInternet(t)
	n.serve("acme.com", files{
		"/":         html(acmePage + `<link rel=stylesheet href=/slow.css><link rel=manifest href=/slow.json><a href=/about>About</a>`),
		"/icon.png": icon(128, blue), "/slow.css": hang, "/slow.json": hang, "/about": hang,
	})
	result := testmust.Get(n.crawlTarget(crawl.Target{Domain: "acme.com"}, 15*time.Second))(t)
	if !result.Record.HasLogo() || text(result.Record.Name) != "Acme" {
		t.Errorf("name %s, logo %t", text(result.Record.Name), result.Record.HasLogo())
	}
}

func TestUnchangedPage_Validators_NotModified(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{"/": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` || r.Header.Get("If-Modified-Since") == "Sat, 21 Nov 2026 08:00:00 GMT" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		html(acmePage)(w, r)
	}, "/icon.png": icon(64, blue)})
	for _, target := range []crawl.Target{{Domain: "acme.com", ETag: `"1"`}, {Domain: "acme.com", LastModified: "Sat, 21 Nov 2026 08:00:00 GMT"}} {
		result := testmust.Get(n.crawlTarget(target, 10*time.Second))(t)
		if !result.NotModified || result.FinalURL != "https://acme.com/" || result.Record.Name != nil {
			t.Errorf("Crawl(%+v) = %+v, want only NotModified and FinalURL", target, result)
		}
	}
	n.wantsNot(t, "acme.com/icon.png")
	result, err := n.crawlTarget(crawl.Target{Domain: "acme.com", ETag: `"0"`}, 10*time.Second)
	if err != nil || result.NotModified || result.ETag != `"1"` {
		t.Errorf("changed page: %v, %+v, want a new crawl with an ETag", err, result)
	}
	// A 304 for an unconditional request has no page.
	n.serve("odd.com", everywhere(status(http.StatusNotModified, "")))
	if got := ending(n.crawl("odd.com")); got != brand.NoData {
		t.Errorf("unrequested response: %s", got)
	}
}

func TestGatePage_Record_IsPartial(t *testing.T) {
	whole := `<meta property="og:site_name" content="Acme"><meta name="description" content="Acme makes careful instruments for curious people."><meta name="theme-color" content="#0b5fff"><link rel="icon" href="/icon.png" sizes="128x128">`
	n := newInternet(t)
	n.serve("good.com", files{"/": html(`<title>Acme</title>` + whole + `<h1>Acme</h1><p>` + strings.Repeat("We make careful instruments. ", 20) + `</p>`), "/icon.png": icon(128, blue)})
	n.serve("app.com", files{"/": html(`<title>Acme</title>` + whole + `<div id=root></div><script src=/app.js></script>`), "/icon.png": icon(128, blue)})
	n.serve("gate.com", files{"/": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"/login": html(`<title>Log in</title>` + whole + `<form><input type=password></form>`), "/icon.png": icon(128, blue)})
	for domain, want := range map[string]bool{"good.com": true, "app.com": false, "gate.com": false} {
		result := testmust.Get(n.crawl(domain))(t)
		if text(result.Record.Name) != "Acme" || !result.Record.HasLogo() || result.Record.Complete != want {
			t.Errorf("%s: name %s, logo %t, complete %t", domain, text(result.Record.Name), result.Record.HasLogo(), result.Record.Complete)
		}
	}
}

// fakeBrowser is a fake browser.
type fakeBrowser struct {
	html  string
	at    string
	err   error
	asked []string
}

func (d *fakeBrowser) Render(_ context.Context, u *url.URL) ([]byte, *url.URL, error) {
	d.asked = append(d.asked, u.String())
	at, err := url.Parse(d.at)
	return []byte(d.html), at, errors.Join(d.err, err)
}

func TestAppShell_WithBrowser_IsRendered(t *testing.T) {
	shell := files{"/": html(`<title>loading</title><link rel=icon href=/icon.png sizes=128x128><div id=root></div><script src=/app.js></script>`), "/icon.png": icon(128, blue)}
	drawn := `<title>Acme</title><meta property="og:site_name" content="Acme Instruments"><header><a href="/">Acme Instruments</a></header><h1>Careful instruments</h1>`
	for name, c := range map[string]struct {
		browser fakeBrowser
		want    string
	}{
		"drawn":             {fakeBrowser{html: drawn, at: "https://acme.com/en/"}, "Acme Instruments"},
		"failed":            {fakeBrowser{at: "https://acme.com/", err: errors.New("crashed")}, "loading"},
		"empty":             {fakeBrowser{html: "", at: "https://acme.com/"}, "loading"},
		"at another domain": {fakeBrowser{html: drawn, at: "https://other.com/"}, "loading"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", shell)
			cfg := config(t)
			cfg.Browser = &c.browser
			result, _, err := n.crawlWith(cfg, crawl.Target{Domain: "acme.com"}, crawlTime)
			testmust.Succeed(t, err)
			if got := text(result.Record.Name); (got == "Acme Instruments") != (c.want == "Acme Instruments") {
				t.Errorf("name is %s", got)
			}
			if len(c.browser.asked) != 1 {
				t.Errorf("the browser rendered %v", c.browser.asked)
			}
		})
	}
	n := newInternet(t)
	n.serve("acme.com", files{"/": html(acmePage)})
	cfg, never := config(t), &fakeBrowser{}
	cfg.Browser = never
	if _, _, err := n.crawlWith(cfg, crawl.Target{Domain: "acme.com"}, crawlTime); err != nil || len(never.asked) > 0 {
		t.Errorf("page with text: %v, rendered %v", err, never.asked)
	}
}

func TestTemplateTitle_WithBrowser_IsDecidedAfterDrawing(t *testing.T) {
	shell := files{"/": html(`<title>React App</title><meta name=description content="Web site created using create-react-app"><link rel=icon href=/icon.png><div id=root></div><script src=/app.js></script>`), "/icon.png": icon(128, blue)}
	for name, c := range map[string]struct {
		drawn string
		found bool
	}{
		"drawn":        {`<title>React App</title><header><a href="/"><img src="/icon.png" alt="Acme Instruments"></a></header><h1>Acme Instruments</h1><p>We make careful instruments for curious people in Leeds.</p>`, true},
		"the template": {`<title>React App</title><img src="/logo.svg" alt="logo"><p>Edit src/App.js and save to reload.</p><a href="https://reactjs.org">Learn React</a>`, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", shell)
			cfg := config(t)
			cfg.Browser = &fakeBrowser{html: c.drawn, at: "https://acme.com/"}
			result, _, err := n.crawlWith(cfg, crawl.Target{Domain: "acme.com"}, crawlTime)
			if (err == nil) != c.found {
				t.Fatalf("error: %v", err)
			}
			if c.found && text(result.Record.Name) != "Acme Instruments" {
				t.Errorf("name is %s", text(result.Record.Name))
			}
		})
	}
}

// broken is an asset store that fails.
type broken struct{}

func (broken) Put(context.Context, []byte, string) (string, error) {
	return "", errors.New("disk is full")
}

func TestAssetStore_Fails_ReturnsStoreError(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{"/": html(acmePage), "/icon.png": icon(64, blue)})
	crawler, err := crawl.New(config(t), n.client(), broken{})
	testmust.Succeed(t, err)
	_, _, err = crawler.Crawl(t.Context(), crawl.Target{Domain: "acme.com"})
	var store *crawl.StoreError
	var failure *crawl.Failure
	if !errors.As(err, &store) || errors.As(err, &failure) || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("got %v, want a *StoreError", err)
	}
}

func TestOnce_Site_ReturnsCandidatesAndFiles(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{"/": html(acmePage + `<link rel=icon href=/missing.png sizes=256x256><script type="application/ld+json">{"@context":"https://schema.org","@type":"Restaurant","name":"Acme","url":"https://acme.com/"}</script>`), "/icon.png": icon(64, blue)})
	result, _, err := crawl.Once(t.Context(), config(t), n.client(), "acme.com")
	testmust.Succeed(t, err)
	if len(result.Trials) == 0 {
		t.Fatal("no trials")
	}
	chosen := 0
	for _, trial := range result.Trials {
		switch {
		case trial.Chosen >= 0:
			chosen++
			if result.Files[trial.AssetID] == nil {
				t.Errorf("the file of %s is not kept", trial.URL)
			}
		case trial.Rejected == "":
			t.Errorf("no explanation of %s", trial.URL)
		case strings.HasSuffix(trial.URL.Path, "missing.png") && !strings.Contains(trial.Rejected, "404"):
			t.Errorf("a missing file: %q", trial.Rejected)
		}
	}
	if chosen != len(result.Record.Logos) {
		t.Errorf("%d chosen of %d logos", chosen, len(result.Record.Logos))
	}
	if !slices.ContainsFunc(result.Weighed, func(w judgeWeighed) bool { return w.Field == "name" && w.Won && w.Value == "Acme" }) {
		t.Errorf("the name is not explained: %+v", result.Weighed)
	}
	for _, field := range []string{"description", "industries"} {
		if !slices.ContainsFunc(result.Weighed, func(w judgeWeighed) bool { return w.Field == field && w.Won }) {
			t.Errorf("no explanation of the field %s", field)
		}
	}
}

func mustURL(t testing.TB, address string) *url.URL {
	t.Helper()
	u := testmust.Get(url.Parse(address))(t)
	return u
}

func TestSite_OnlyUnderWWW_IsFound(t *testing.T) {
	good := files{"/": html(acmePage), "/icon.png": icon(128, blue)}
	for name, c := range map[string]struct {
		bare http.Handler
		want string
	}{
		"an unconfigured server": {everywhere(html("<title>Welcome to nginx!</title><h1>Welcome to nginx!</h1>")), "Acme"},
		"404":                    {everywhere(status(404, "")), "Acme"},
		"503":                    {everywhere(status(503, "")), "Acme"},
		"parked":                 {everywhere(html("<title>acme.com is for sale</title>")), brand.NoData},
		"refused":                {everywhere(status(403, "")), brand.Blocked},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.serve("acme.com", c.bare)
			n.serve("www.acme.com", good)
			if got := ending(n.crawl("acme.com")); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// faulty is a renderer that panics.
type faulty struct{}

func (faulty) Render(context.Context, []byte, int) (*image.NRGBA, error) { panic("a fault") }

func TestDecoder_Panics_LosesOneFile(t *testing.T) {
	n := newInternet(t)
	n.serve("acme.com", files{
		"/":         html(acmePage + `<link rel=icon href=/icon.svg>`),
		"/icon.png": icon(128, blue),
		"/icon.svg": typed("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><circle cx="32" cy="32" r="20" fill="#f00"/></svg>`),
	})
	result, _, err := n.crawlWith(crawl.Config{Renderer: faulty{}}, crawl.Target{Domain: "acme.com"}, crawlTime)
	if err != nil || sourceOf(result, "logos[0]") != "https://acme.com/icon.png" {
		t.Errorf("Crawl = %+v, %v, want a logo from /icon.png", result, err)
	}
}

func TestNew_MissingParts_Fails(t *testing.T) {
	n := newInternet(t)
	for name, make := range map[string]func() (*crawl.Crawler, error){
		"no renderer": func() (*crawl.Crawler, error) { return crawl.New(crawl.Config{}, n.client(), n.assets()) },
		"no client":   func() (*crawl.Crawler, error) { return crawl.New(config(t), nil, n.assets()) },
		"no store":    func() (*crawl.Crawler, error) { return crawl.New(config(t), n.client(), nil) },
	} {
		if _, err := make(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLogo_OnlyAsAVIF_IsStoredAsPNG(t *testing.T) {
	ring := testmust.Get(os.ReadFile("../../internal/avif/testdata/ring.avif"))(t)
	n := newInternet(t)
	n.serve("acme.com", files{
		"/":          html(`<title>Acme</title><header><a href="/"><picture><source type="image/avif" srcset="/logo.avif"><img src="/logo.avif" alt="Acme logo"></picture></a></header>`),
		"/logo.avif": typed("image/avif", string(ring)),
	})
	result := testmust.Get(n.crawl("acme.com"))(t)
	if !result.Record.HasLogo() {
		t.Fatalf("no logo; requested: %v", n.requests())
	}
	file := result.Record.Logos[0].Formats[0]
	if file.Format != "png" || file.Width == nil || *file.Width != 160 || file.Background == nil {
		t.Errorf("the first format is %+v", file)
	}
	if c := result.Record.Colors; len(c) == 0 || !strings.HasPrefix(c[0].Hex, "#0b5ff") { // AVIF loses a little
		t.Errorf("colors %+v", c)
	}
}

// drawPNG draws a disc and a bar, as in a symbol with a word.
func drawPNG(t *testing.T, w, h int) string {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			if dx, dy := x-h/2, y-h/2; 5*(dx*dx+dy*dy) < h*h || x > h*3/2 && y > h/3 && y < h*2/3 && x%h > h/8 {
				img.SetNRGBA(x, y, color.NRGBA{20, 110, 70, 255})
			}
		}
	}
	return string(testmust.Get(imaging.EncodePNG(img))(t))
}

func TestLogo_Srcset_IsStoredInTheLargestSizeThatIsThere(t *testing.T) {
	small := drawPNG(t, 120, 30)
	for body, width := range map[string]int{
		`<img src="/s.png" srcset="/s.png 1x,/l.png 2x" alt="Acme">`:                                                480,
		`<picture><source srcset="/gone.webp 3x"><source srcset="/s.png 1x,/l.png 2x"><img src="/s.png"></picture>`: 480,
		`<picture><source srcset="/gone.webp 3x"><source srcset="/page.html 2x"><img src="/s.png"></picture>`:       120,
		`<img data-srcset="/s.png 120w,/l.png 480w" src="/blank.gif" alt="Acme">`:                                   480,
		`<img src="/s.png" srcset="/s.png 1x,/cut.png 2x" alt="Acme">`:                                              120,
	} {
		n := newInternet(t)
		n.serve("acme.com", files{
			"/":          html(`<title>Acme</title><header><a class=logo href="/">` + body + `</a></header>`),
			"/s.png":     typed("image/png", small),
			"/l.png":     typed("image/png", drawPNG(t, 480, 120)),
			"/cut.png":   typed("image/png", drawPNG(t, 480, 120)[:100]),
			"/page.html": html("<title>404</title>"),
		})
		result := testmust.Get(n.crawl("acme.com"))(t)
		if !result.Record.HasLogo() || *result.Record.Logos[0].Formats[0].Width != width {
			t.Errorf("%s: %+v; requested: %v", body, result.Record.Logos, n.requests())
		}
	}
}
