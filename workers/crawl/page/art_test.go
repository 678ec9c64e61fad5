package page_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// shown describes the place of the first inline SVG of a page.
func shown(im page.Image) string {
	out := im.Zone.String()
	for _, f := range []struct {
		is   bool
		name string
	}{{im.Top, "top"}, {im.Home, "home"}, {im.Foreign, "foreign"}, {im.Excluded, "excluded"}, {im.Hidden, "hidden"}, {im.Narrow, "narrow"}, {im.Scheme != "", im.Scheme}} {
		if f.is {
			out += " " + f.name
		}
	}
	return out
}

func TestInlineSVGs_Place_IsRecorded(t *testing.T) {
	const svg = `<svg viewBox="0 0 9 9"><path d="M0 0h9v9z"/></svg>`
	filler := "<p>" + strings.Repeat("word ", 100) + "</p>"
	for name, c := range map[string]struct{ body, want string }{
		"header":                         {`<header><a href="/">` + svg + `</a></header>`, "header home"},
		"named header":                   {`<div class="site-header"><a href="/">` + svg + `</a></div>`, "header home"},
		"banner":                         {`<div role="banner"><a href="/">` + svg + `</a></div>`, "header home"},
		"top without a header":           {`<div><a href="/">` + svg + `</a></div>`, "body top home"},
		"far down":                       {filler + `<a href="/">` + svg + `</a>`, "body home"},
		"header of an article":           {`<header>x</header><main><article><header>` + svg + `</header></article></main>`, "body"},
		"header in main":                 {`<main><header><a href="/">` + svg + `</a></header></main>`, "header home"},
		"footer":                         {`<footer><a href="/">` + svg + `</a></footer>`, "footer home"},
		"tracked home":                   {`<header><a href="/?source=nav&utm_x=1">` + svg + `</a></header>`, "header home"},
		"another page by query":          {`<header><a href="/?p=12">` + svg + `</a></header>`, "header"},
		"the name under another suffix":  {`<header><a href="https://www.acmecorp.co.uk/">` + svg + `</a></header>`, "header foreign"}, // acme is too short to be conclusive
		"another site":                   {`<header><a href="https://other.example/">` + svg + `</a></header>`, "header foreign"},
		"a search box":                   {`<header><div class="search-box">` + svg + `</div></header>`, "header excluded"},
		"a logo in a search bar":         {`<header><div class="search-bar"><a class="logo" href="/">` + svg + `</a></div></header>`, "header home"},
		"customers":                      {`<section class="customers"><div class="logo">` + svg + `</div></section>`, "body excluded"},
		"display none":                   {`<header style="DISPLAY : none"><a href="/">` + svg + `</a></header>`, "header home hidden"},
		"utility hidden":                 {`<header><a class="hidden" href="/">` + svg + `</a></header>`, "header home hidden"},
		"hidden on small screens only":   {`<header><a class="hidden md:block" href="/">` + svg + `</a></header>`, "header home"},
		"hidden on large screens":        {`<header><a class="md:hidden" href="/">` + svg + `</a></header>`, "header home narrow"},
		"the other framework":            {`<header><a class="d-none d-lg-inline-block" href="/">` + svg + `</a><a class="d-lg-none"></a></header>`, "header home"},
		"the other framework, for small": {`<header><a class="d-lg-none" href="/">` + svg + `</a></header>`, "header home narrow"},
		"a component, no consent":        {`<header class="cmp-header"><a class="cmp-header__logo" href="/">` + svg + `</a></header>`, "header home"},
		"a dialog":                       {`<header><div role="dialog"><a href="/">` + svg + `</a></div></header>`, "header home hidden"},
		"a shadow tree":                  {`<header><x-bar><template shadowrootmode="open"><a href="/">` + svg + `</a></template></x-bar></header>`, "header home"},
		"for dark pages":                 {`<header><a class="hidden dark:block" href="/">` + svg + `</a></header>`, "header home dark"},
		"for light pages":                {`<header><a class="dark:hidden" href="/">` + svg + `</a></header>`, "header home light"},
	} {
		t.Run(name, func(t *testing.T) {
			p := parse(t, c.body, "text/html")
			if len(p.InlineSVGs) != 1 {
				t.Fatalf("%d svg elements", len(p.InlineSVGs))
			}
			if got := shown(p.InlineSVGs[0]); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestImages_OwnName_IsNotExcluded(t *testing.T) {
	body := `<div class="review-site"><a href="/"><svg></svg></a></div>`
	at, _ := url.Parse("https://metalreview.com/")
	if p := page.Parse([]byte(body), "text/html", at, site.New("metalreview.com")); p.InlineSVGs[0].Excluded {
		t.Error("treated a review site's own review as a stranger's")
	}
	if p := parse(t, body, "text/html"); !p.InlineSVGs[0].Excluded {
		t.Error("a review on another site is not treated as a stranger's")
	}
}

func TestParse_ConsentLayer_IsIgnored(t *testing.T) {
	for _, class := range []string{"cookie-banner", "onetrust-banner-sdk", "qc-cmp2-container", "cmpbox", "CybotCookiebotDialog cookiebot"} {
		if p := parse(t, `<div class="`+class+`"><a href="/"><svg></svg></a></div>`, "text/html"); len(p.InlineSVGs) != 0 {
			t.Errorf("%s: its svg counts as the page's", class)
		}
	}
}

func TestParse_LayerThatAsksForConsent_IsIgnored(t *testing.T) {
	const svg = `<a href="/"><svg></svg></a>`
	for _, layer := range []string{
		`<div id="cmp-dialog" class="cmp-header">` + svg + `<h2>We use cookies</h2></div>`,
		`<div role="dialog" aria-modal="true"><header>` + svg + `</header><h1>We value your privacy</h1></div>`,
		`<dialog open><nav>` + svg + `</nav><p>Diese Website verwendet Cookies.</p></dialog>`,
		`<div class="privacy-banner">` + svg + `<p>This website uses cookies to improve your visit.</p><a href="/privacy">More</a></div>`,
		`<section class="modal">` + svg + `<p>Nous utilisons des cookies pour mesurer notre audience.</p></section>`,
		`<div class="overlay-box">` + svg + `<p>Utilizamos cookies propias y de terceros.</p></div>`,
		`<aside class="notice">` + svg + `<p>Używamy plików cookie.</p></aside>`,
		`<div class="popup">` + svg + `<p>Мы используем файлы cookie.</p></div>`,
		`<div class="notification">` + svg + `<p>当サイトではクッキーを使用しています。</p></div>`,
		`<div class="bottom-bar">` + svg + `<p>Vi använder kakor för att webbplatsen ska fungera.</p></div>`,
		`<div id="cookiescript_injected">` + svg + `</div>`,
		`<div class="osano-cm-window">` + svg + `</div>`,
	} {
		if p := parse(t, layer, "text/html"); len(p.InlineSVGs) != 0 || p.Text != "" {
			t.Errorf("%s: it counts as the page's", layer)
		}
	}
	for _, part := range []string{
		`<div class="cmp-header">` + svg + `<ul><li>Bread</li></ul></div>`,
		`<div class="hero-banner">` + svg + `<h2>Fresh cookies every day</h2><p>Our cookies are in your store.</p></div>`,
		`<div class="top-bar">` + svg + `<a href="/cookies">We use cookies</a></div>`,
		`<div class="page-layer"><header>` + svg + `</header><p>We use cookies</p></div>`,
		`<div class="modal-page">` + svg + `<main><h1>Acme</h1></main><p>We use cookies</p></div>`,
		`<div class="content-layer">` + svg + `<p>` + strings.Repeat("word ", 200) + `</p><p>We use cookies</p></div>`,
		`<div class="box">` + svg + `<p>Privacy for everybody</p></div>`,
	} {
		if p := parse(t, part, "text/html"); len(p.InlineSVGs) != 1 {
			t.Errorf("%s: it does not count as the page's", part)
		}
	}
	at, _ := url.Parse("https://crumblycookies.com/")
	if p := page.Parse([]byte(`<div class="cookie-logo">`+svg+`</div>`), "text/html", at, site.New("crumblycookies.com")); len(p.InlineSVGs) != 1 {
		t.Error("treated the logo of a bakery as a consent dialog's")
	}
}

func TestInlineSVGs_Names_AreRead(t *testing.T) {
	p := parse(t, `<svg aria-label="Acme"><path/></svg><svg><title>Acme home</title><path/></svg><a data-framer-name="Logo"><svg data-testid="brandLogo"></svg></a>`, "text/html")
	if len(p.InlineSVGs) != 3 || p.InlineSVGs[0].Alt != "Acme" || p.InlineSVGs[1].Alt != "Acme home" || fmt.Sprint(p.InlineSVGs[2].Own) != "[brand logo]" || fmt.Sprint(p.InlineSVGs[2].Tokens) != "[brand logo logo]" {
		t.Errorf("svg elements %+v", p.InlineSVGs)
	}
	p2 := parse(t, `<svg class="icon"><use xlink:href="#icon-search"></use></svg><svg><use href="/sprite.svg#brand-logo"/></svg>`, "text/html")
	if fmt.Sprint(p2.InlineSVGs[0].Own, p2.InlineSVGs[1].Own) != "[icon icon search] [brand logo]" {
		t.Errorf("words are %v and %v", p2.InlineSVGs[0].Own, p2.InlineSVGs[1].Own)
	}
	if p.Title != "" {
		t.Errorf("the page got the title of an svg: %q", p.Title)
	}
}

func TestInlineSVGs_Variants_ShareBox(t *testing.T) {
	p := parse(t, `<header><a href="/"><img src="/a.svg"><img src="/b.svg"></a><div class="logo"><span><img src="/c.svg"></span><img src="/d.svg"></div><img src="/e.svg"></header>`, "text/html")
	im := p.Images
	if len(im) != 5 || im[0].Box != im[1].Box || im[2].Box != im[3].Box || im[0].Box == im[2].Box || im[4].Box == im[2].Box {
		t.Errorf("wrong boxes of %d images", len(im))
	}
}

func TestImages_URLs_AreResolved(t *testing.T) {
	for body, want := range map[string]string{
		`<img src="/blank.gif" data-src="/own.png">`:                          "/own.png",
		`<img src="/blank.gif" data-srcset="/small.png 100w, /large.png 2x">`: "/small.png",
		`<img src="/old.png" srcset="/new.svg">`:                              "/new.svg",
		`<img src="/one.png" srcset="/one.png 1x, /two.png 2x">`:              "/one.png",
		`<object type="image/svg+xml" data="/own.svg"></object>`:              "/own.svg",
		`<embed src="/own.svg">`:                                              "/own.svg",
		`<input type="image" src="/own.png">`:                                 "/own.png",
		`<img src="/sprite.svg#logo">`:                                        "/sprite.svg",
		`<img src="{{ logo }}" data-src="{{ logo }}" srcset="/own.png">`:      "/own.png",
	} {
		p := parse(t, body, "text/html")
		if len(p.Images) != 1 || p.Images[0].URL.Path != want {
			t.Errorf("%s: %+v, want %s", body, p.Images, want)
		}
	}
	p := parse(t, `<picture><source srcset="/wide.avif 2400w" type="image/avif"><source srcset="/wide.webp 1600w"><img src="/small.jpg" width="800" srcset="/mid.jpg 800w"></picture><img src="/sprite.svg#logo">`, "text/html")
	if got := p.Images[0].Large; got.URL == nil || got.URL.Path != "/wide.webp" || got.Width != 1600 {
		t.Errorf("largest is %+v", got)
	}
	if p.Images[1].Part != "logo" {
		t.Errorf("part is %q", p.Images[1].Part)
	}
}

func TestBackgrounds_Candidates_AreListed(t *testing.T) {
	p := parse(t, `<header><a class="brand" href="/">Acme</a><a href="/">Home</a><a href="/x">Other</a><div class="logo"><img src="/own.svg"></div><h1 class="logo"><a href="/"><span>Acme</span></a></h1></header>`, "text/html")
	var got []string
	for _, im := range p.Backgrounds {
		got = append(got, im.Node.Data+":"+im.Alt)
	}
	if fmt.Sprint(got) != "[a:Acme a:Home h1:Acme a:Acme]" {
		t.Errorf("elements are %v", got)
	}
}

func TestParse_AppShell_IsRecognized(t *testing.T) {
	for body, want := range map[string]bool{
		`<div id="root"></div><script src="/app.js"></script><noscript>` + strings.Repeat("You need JavaScript. ", 20) + `</noscript>`: true,
		`<div id="root">` + strings.Repeat("Words that are there. ", 20) + `</div><script src="/app.js"></script>`:                     false,
		`<p>Short.</p>`: false,
	} {
		if got := parse(t, body, "text/html").Shell(); got != want {
			t.Errorf("%.40s: shell is %t", body, got)
		}
	}
}

func TestInlineSVGs_Many_StayWithinLimits(t *testing.T) {
	p := parse(t, strings.Repeat(`<a class="logo" href="/"><svg></svg></a><a class="logo" href="/">x</a>`, 1000), "text/html")
	if len(p.InlineSVGs) != page.MaxInlineSVGs || len(p.Backgrounds) != page.MaxBackgrounds {
		t.Errorf("%d svg elements, %d backgrounds", len(p.InlineSVGs), len(p.Backgrounds))
	}
}
