package page_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// leadsHome reports whether the only image of a page, in its header, leads home.
func leadsHome(t *testing.T, address, head, link string) bool {
	t.Helper()
	at := testmust.Get(url.Parse(address))(t)
	p := page.Parse([]byte(head+`<header>`+link+`<img src="/x.png"></a></header>`), "text/html", at, site.New("acme-widgets.com"))
	if len(p.Images) != 1 {
		t.Fatalf("%d images", len(p.Images))
	}
	return p.Images[0].Home
}

func TestHomeLink_URL_IsRecognized(t *testing.T) {
	const at = "https://www.acme-widgets.com/news/2024/a-story-of-many-words"
	for href, want := range map[string]bool{
		"/": true, "https://www.acme-widgets.com": true, "https://acme-widgets.com": true, "https://www.acme-widgets.com?utm_source=x": true,
		"//www.acme-widgets.com": true, "https://acme-widgets.de": true, "https://de.acme-widgets.com": true,
		"/en": true, "/de-DE/": true, "/en_us": true, "/de.html": true, "/us/en/home.html": true, "/index": true, "/index.html": true, "/index.php": true,
		"/home/index.html": true, "/start": true, "/web/de/start": true, "/web/guest/home": true, "/Default.aspx": true,
		"/DE/Home/home_node.html": true, "/DE/Startseite/startseite_node.html;jsessionid=1A": true,
		"/news": false, "/web": false, "/home/garden": false, "/en/products": false, "/index.html?id=3": false, "/?p=7": false, "/home.pdf": false,
		"/a/b/c/d/home": false, "/de/en/fr/it/home": false, "https://shop.acme-widgets.com/": false, "https://shop.acme-widgets.de": false,
		"https://other.example/": false, "mailto:home@acme-widgets.com": false,
		"/news/2024/a-story-of-many-words": false, // itself, but not a home page
	} {
		if got := leadsHome(t, at, "", `<a href="`+href+`">`); got != want {
			t.Errorf("%s: home is %t", href, got)
		}
	}
}

func TestHomeLink_FrontPageItself_IsRecognized(t *testing.T) {
	for _, c := range []struct {
		at, head, href string
		want           bool
	}{
		{"https://www.acme-widgets.com/store", "", "/store", true},
		{"https://www.acme-widgets.com/content/acme/de/de.html", "", "/content/acme/de/de.html", true},
		{"https://www.acme-widgets.com/store", `<meta property="og:type" content="article">`, "/store", false},
		{"https://www.acme-widgets.com/article4711", "", "/article4711", false},
		{"https://www.acme-widgets.com/store", "", "/store#top", true}, // URLs are stored without their fragment
		{"https://www.acme-widgets.com/", "", "#main", false},
		{"https://blog.acme-widgets.com/a-story", "", "https://blog.acme-widgets.com", true},
		{"https://en.blog.acme-widgets.com/a-story", "", "https://blog.acme-widgets.com", true},
		{"https://blog.acme-widgets.com/a-story", "", "https://shop.acme-widgets.com", false},
	} {
		if got := leadsHome(t, c.at, c.head, `<a href="`+c.href+`">`); got != c.want {
			t.Errorf("%s on %s: home is %t", c.href, c.at, got)
		}
	}
}

func TestHomeLink_Text_IsRecognized(t *testing.T) {
	const at = "https://www.acme-widgets.com/news/a-story-of-many-words"
	for link, want := range map[string]bool{
		`<a href="/x" rel="home">`:                                                         true,
		`<a href="/portal/7" title="Zur Startseite">`:                                      true,
		`<a href="/portal/7" aria-label="Acme Homepage">`:                                  true,
		`<a href="/portal/7" aria-label="Retour à l'accueil">`:                             true,
		`<a href="/portal/7" aria-label="Start">`:                                          false,
		`<a href="/portal/7" title="Smart home">`:                                          false,
		`<a href="https://other.example/" title="Zur Startseite">`:                         false,
		`<a href="/portal/7" title="How we redesigned the home page of the town library">`: false,
	} {
		if got := leadsHome(t, at, "", link); got != want {
			t.Errorf("%s: home is %t", link, got)
		}
	}
}

func TestImages_Placeholders_AreIgnored(t *testing.T) {
	for body, want := range map[string]string{
		`<img src="/lazy.svg">`:                                                          "",
		`<img src="/img/clear.gif">`:                                                     "",
		`<img src="/t.gif">`:                                                             "",
		`<img src="/blank-1x1.gif">`:                                                     "",
		`<img src="/lazyloading-placeholder.png">`:                                       "",
		`<img src="/loading.gif" data-td-src-property="/own.svg">`:                       "/own.svg",
		`<img src="/spacer.gif" data-echo="/own.webp" data-x="/y">`:                      "/own.webp",
		`<img src="/spacer.gif" srcset="/own.png 2x">`:                                   "/own.png",
		`<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">`:                         "",
		`<img data-mark="/own.png">`:                                                     "/own.png",
		`<img src="/logo-transparent.png">`:                                              "/logo-transparent.png",
		`<img src="/pixel-phone.png">`:                                                   "/pixel-phone.png",
		`<img src="/acme.png" data-hover="/acme-hover.png">`:                             "/acme.png",
		`<picture><source data-srcset="/own.webp 400w"><img src="/blank.gif"></picture>`: "/own.webp",
	} {
		got := ""
		if p := parse(t, body, "text/html"); len(p.Images) > 0 {
			got = p.Images[0].URL.Path
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	at, _ := url.Parse("https://www.blank.com/")
	if p := page.Parse([]byte(`<img src="/blank.svg">`), "text/html", at, site.New("blank.com")); len(p.Images) != 1 {
		t.Error("the site's own name counts as a placeholder")
	}
}

func TestInlineSVG_WrapsOneImage_IsThatImage(t *testing.T) {
	for body, want := range map[string]string{
		`<svg width="90" height="30"><image xlink:href="/own.svg" src="/own.png"/></svg>`: "/own.svg",
		`<svg><title>Acme</title><g><image href="/own.png"></image></g></svg>`:            "/own.png",
		`<svg><image href="/ground.png"></image><path d="M0 0h9"/></svg>`:                 "",
		`<svg><image href="/a.png"></image><image href="/b.png"></image></svg>`:           "",
		`<svg><image href="data:image/png;base64,AAAA"></image></svg>`:                    "",
		`<svg><path d="M0 0h9"/></svg>`:                                                   "",
	} {
		p := parse(t, body, "text/html")
		got := ""
		if len(p.Images) > 0 {
			got = p.Images[0].URL.Path
		}
		if got != want || len(p.Images)+len(p.InlineSVGs) != 1 {
			t.Errorf("%s: %q and %d svg elements, want %q", body, got, len(p.InlineSVGs), want)
		}
	}
}

func TestInlineSVG_ManyUses_HasNameOfFirst(t *testing.T) {
	p := parse(t, `<svg><use href="#own-logo"/>`+strings.Repeat(`<use href="#other-sign"/>`, 5000)+`</svg>`, "text/html")
	if own := p.InlineSVGs[0].Own; fmt.Sprint(own) != "[own logo]" {
		t.Errorf("%d words: %.60v", len(own), own)
	}
}

func TestPictureElement_ManySources_AreLimited(t *testing.T) {
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, `<source media="(prefers-color-scheme: dark)" srcset="/%d.png"><source srcset="/%d.webp %dw">`, i, i, i+2)
	}
	p := parse(t, `<picture>`+b.String()+`<img src="/own.png"></picture>`, "text/html")
	if len(p.Images) > 30 || p.Images[0].Large.Width > 30 {
		t.Errorf("%d images, the largest %d wide", len(p.Images), p.Images[0].Large.Width)
	}
}
