package logofinder_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

func read(body string) extract.Input {
	at, _ := url.Parse("https://www.acme.com/")
	of := site.New("acme.com")
	return extract.Input{Site: of, Page: page.Parse([]byte(body), "text/html", at, of)}
}

// best returns the file name of the best mark, or "" if there is none.
func best(in extract.Input) string {
	for _, c := range logofinder.Candidates(in) {
		if c.Kind == logofinder.Mark {
			return c.URL.Path
		}
	}
	return ""
}

func TestCandidates_Logo_BeforeOtherImages(t *testing.T) {
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
		"linked data with a share image":  {`<meta property="og:image" content="https://www.acme.com/ld.png?w=1200"><script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/ld.png"}</script>`, ""},
		"… in another size":               {`<meta name="twitter:image" content="/up/ld-1200x630.jpg"><script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/up/ld.jpg"}</script>`, ""},
		"… and a logo":                    {`<meta property="og:image" content="/ld.png"><script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":["/ld.png","/mark.png"]}</script>`, "/mark.png"},
		"… that the header shows":         {`<meta property="og:image" content="/ld.png"><script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/ld.png"}</script><header><a href="/"><img src="/ld.png"></a></header>`, "/ld.png"},
		"linked data with a banner":       {`<script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/img/social-share.jpg"}</script>`, ""},
		"linked data with an og image":    {`<script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/acme-og-image.png"}</script>`, ""},
		"a logo for sharing":              {`<script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/og-logo.png"}</script>`, "/og-logo.png"},
		"a logo of a script's images":     {`<meta property="og:image" content="/image.php?id=7"><script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/image.php?id=8"}</script>`, "/image.php"},
		"… that is the share image":       {`<meta property="og:image" content="/image.php?id=8"><script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/image.php?id=8"}</script>`, ""},
		"og:logo of the share image":      {`<meta property="og:image" content="/s.png"><meta property="og:logo" content="/s.png">`, ""},
		"another organization's data":     {`<script type="application/ld+json">{"@type":"Organization","name":"Other","url":"https://other.example","logo":"/ld.png"}</script>`, ""},
		"header before linked data":       {`<script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/ld.png"}</script>` + header, "/own.svg"},
		"share image in the text":         {`<meta property="og:image" content="/logo-share.png"><img class="logo" src="/logo-share.png" alt="Acme">`, ""},
		"share image linked home":         {`<meta property="og:image" content="/own.png"><header><a href="/"><img src="/own.png" alt="Acme logo"></a></header>`, "/own.png"},
		"hidden duplicate":                {`<header><a href="/" style="display: none"><img src="/mobile.svg" alt="Acme"></a><a href="/"><img src="/own.svg" alt="Acme"></a></header>`, "/own.svg"},
		"a tiny menu icon before it":      {`<header><a href="/"><img src="/burger.svg" width=24 height=24></a><a href="/"><img class="logo" src="/own.svg" alt="Acme" width=160></a></header>`, "/own.svg"},
		"og:logo":                         {`<meta property="og:logo" content="/og-logo.svg">`, ""}, // 43 points: not enough on their own
		"app store badge":                 {`<div class="app-store-badges"><a href="/"><img src="/appstore.svg" alt="App Store"></a></div>`, ""},
		"header of a card is no header":   {`<div class="card-header"><img src="/person.png" alt="Jane"></div>`, ""},
		"nothing":                         {`<p>Acme</p>`, ""},
		"a link to the bare domain":       {`<header><a href="https://www.acme.com"><img src="/own.svg"></a></header>`, "/own.svg"},
		"the home page by its own path":   {`<header><a href="/DE/Home/home_node.html"><img src="/own.svg"></a></header>`, "/own.svg"},
		"another part of the site":        {`<header><a href="https://classifieds.acme.com/"><img src="/classifieds.svg" alt="Classifieds"></a></header>`, ""},
		"called after a file":             {`<header><a href="/"><img src="/own.svg" alt="logo-full-2.svg"></a></header>`, "/own.svg"},
		"called after its size":           {`<header><a href="/x"><img class="logo" src="/own.svg" alt="Logo 548x334"></a></header>`, "/own.svg"},
		"called by the brand's long name": {`<header><a href="/"><img src="/own.svg" alt="Logo Union Widgets"></a></header>`, "/own.svg"},
		"a network's logo linked home":    {`<header><a href="/"><img src="/f.svg" alt="Facebook logo"></a></header>`, ""},
		"next to the advertisements":      {`<header><div class="logo-ads-wrapper"><a href="/" rel="home"><img src="/own.svg" alt="Acme"></a></div></header>`, "/own.svg"},
		"built for a browser":             {`<header><a href="/"><img src="/client/build/own.svg" alt="Acme"></a></header>`, "/client/build/own.svg"},
		"a client":                        {`<header><a href="/"><img src="/img/client/globex.svg"></a></header>`, ""},
		"an extension's badge":            {`<header><a href="/"><img src="/wp-content/plugins/give/give.png"></a></header>`, ""},
		"an extension's own logo":         {`<header><a href="/"><img src="/wp-content/plugins/give/logo.png"></a></header>`, "/wp-content/plugins/give/logo.png"},
		"nothing but a placeholder":       {`<header><a href="/"><img src="/lazy.svg" alt="Acme"></a></header>`, ""},
		"kept for a script of the page's": {`<header><a href="/"><img src="/lazy.svg" data-td-src-property="/own.svg" alt="Acme"></a></header>`, "/own.svg"},
		"a theme's own photograph":        {`<header><a href="/"><img src="/wp-content/themes/ten/images/headers/fern.png" alt="Acme"></a></header>`, ""},
		"a photograph across the page":    {`<header><a href="/"><img src="/fern.jpg" width="940" height="198" alt="Acme"></a></header>`, ""},
		"a photograph cut for the head":   {`<header><a href="/"><img src="/cropped-fern.jpg" alt="Acme"></a></header>`, ""},
		"a logo cut for the head":         {`<header><a href="/"><img src="/cropped-logo.jpg" alt="Acme"></a></header>`, "/cropped-logo.jpg"},
		"a logo in a photograph's form":   {`<header><a href="/"><img src="/acme.jpg" width="300" height="80"></a></header>`, "/acme.jpg"},
		"the house of a path":             {`<nav class="breadcrumb"><a href="/"><img src="/house_small.svg" alt="Startseite"></a></nav>`, ""},
		"a teaser in the menu":            {`<nav><div class="m-teaser"><a href="/"><img src="/offer.png" alt="Offer"></a></div></nav>`, ""},
		"a file in a drawing":             {`<header><a href="/"><svg width="102" height="30"><image xlink:href="/own.svg" src="/own.png" width="100%"/></svg></a></header>`, "/own.svg"},
		"a header in a language":          {`<header class="site-header lang-en"><a href="/"><img src="/own.svg"></a></header>`, "/own.svg"},
		"a header that holds a badge":     {`<header class="has-badge with-press-bar"><a href="/"><img src="/own.svg"></a></header>`, "/own.svg"},
		"a bar that drops down":           {`<nav class="navbar navbar-dropdown"><a href="/"><img src="/own.svg"></a></nav>`, "/own.svg"},
		"among the account":               {`<header><div class="account-area"><a href="/"><img src="/own.svg" alt="Acme"></a></div></header>`, "/own.svg"},
		"a client of an agency":           {`<header><a href="/"><img src="/clients/acme/own.svg" alt="Acme"></a></header>`, "/clients/acme/own.svg"},
		"a shop's brands":                 {`<header><b>Acme</b></header><section class="brands"><img class="brand-logo" src="/g.svg" alt="Globex"></section>`, ""},
		"a card":                          {`<header><b>Acme</b></header><main><article><a href="/brands/g"><img class="brand-logo" src="/g.svg" alt="Globex"></a></article></main>`, ""},
		"a wall of logos":                 {`<div><a href="/">Acme</a></div><div class="logos"><a href="/c/g"><img src="/globex_logo.svg"></a><a href="/c/i"><img src="/initech_logo.svg"></a></div>`, ""},
		"a strip of logos":                {`<header><a href="/">Acme</a><div class="logo-strip"><a href="/c/g"><img class="logo" src="/g.svg" alt="Globex"></a></div></header>`, ""},
		"somebody's name below the head":  {`<div class="top">Acme</div><div><img class="logo" src="/g.svg" alt="Globex"></div>`, ""},
		"an article's publisher":          {`<article itemscope><div itemprop="publisher" itemscope><meta itemprop="name" content="Globex"><img itemprop="logo" src="/g.svg"></div></article>`, ""},
		"a list of clients":               {`<ul class="clients"><li itemscope><img itemprop="logo" src="/g.svg"></li></ul>`, ""},
		"the brand's own item":            {`<div itemscope><span itemprop="name">Acme</span><link itemprop="logo" href="/own.png"></div>`, "/own.png"},
		"the brand's item behind others":  {`<div itemscope><b itemprop="name">Globex</b><link itemprop="logo" href="/g.png"></div><div itemscope><b itemprop="name">Acme</b><link itemprop="logo" href="/own.png"></div>`, "/own.png"},
		"named by its file, in no link":   {`<div><div><img src="/acme.svg" height="36"></div></div>`, "/acme.svg"},
		"in another window":               {`<nav><a href="/" target="_blank">Acme <svg viewBox="0 0 20 20" width="20" height="20"><path d="M0 0h20v20z"/></svg></a></nav>`, ""},
		"a copied alt":                    {`<header><div class="logo"><img src="/img/logo.svg" alt="Globex logo"></div></header>`, "/img/logo.svg"},
		"a copied alt, linked home":       {`<header><a class="logo" href="/"><img src="/img/logo-2.svg" alt="Instagram"></a></header>`, "/img/logo-2.svg"},
		"a copied alt of a template":      {`<nav class="navbar"><a class="navbar-brand" href="#"><img src="/images/logo.png" alt="Finexa Logo"></a></nav>`, "/images/logo.png"},
		"a copied alt, a label":           {`<header><a class="logo" href="/" aria-label="Acme"><img src="/mark.svg" alt="Search"></a></header>`, "/mark.svg"},
		"a copied alt, white":             {`<header><div class="logo"><img src="/img/logo-white.svg" alt="Globex logo"></div></header>`, "/img/logo-white.svg"},
		"customers in a header":           {`<header><h1>Acme</h1><div class="logo-bar"><img src="/img/logo1.png" alt="Globex logo"><img src="/img/logo-2.png" alt="Initech logo"></div></header>`, ""},
		"a sponsor in a header":           {`<header><h1>Acme</h1><div class="logo-right"><img src="/img/logo-eu.png" alt="European Union logo"></div></header>`, ""},
		"alt and file of another":         {`<header><div class="logo"><img src="/globex-logo.svg" alt="Globex logo"></div></header>`, ""},
		"a network's file, called logo":   {`<header><a href="/"><img class="logo" src="/facebook-logo.svg" alt="Facebook"></a></header>`, ""},
		"a copied alt below the head":     {`<header><b>Acme</b></header><section><div class="logo"><img src="/logo.svg" alt="Globex logo"></div></section>`, ""},
		"private addresses stay out here": {`<header><a href="/"><img src="file:///etc/passwd" alt="Acme"></a></header>`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := best(read(c.body))
			if name == "og:logo" { // declared marks are candidates at any score
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

// A browser shows the header that a script of the page writes.
func TestCandidates_HeaderWrittenByScript_HasTheLogo(t *testing.T) {
	const header = `<header class="site-header"><a href="/"><img src="/own.svg" alt="Acme"></a></header>`
	for name, body := range map[string]string{
		"document.write":           `<script>document.write('` + header + `');</script><main><h1>Acme</h1></main>`,
		"joined literals":          `<script>document.write('<header><a href="/">' + '<img src="/own.svg" alt="Acme"></a>' + "</header>");</script>`,
		"escaped literals":         `<script>document.write("<header>\n<a href=\"/\"><img src=\"\/own.svg\" alt=\"Acme\"><\/a><\/header>")</script>`,
		"a template literal":       "<div id=\"top\"></div><script>document.getElementById('top').innerHTML = `\n" + header + "\n`;</script>",
		"an unknown value":         "<div id=\"top\"></div><script>document.querySelector('#top').innerHTML = `" + `<header data-year="${new Date()}"><a href="/"><img class="logo" src="/own.svg"></a></header>` + "`</script>",
		"a variable":               `<div id="head"></div><script>const el = document.getElementById("head"); el.innerHTML = '` + header + `';</script>`,
		"into a header":            `<header id="h"></header><script>document.getElementById("h").innerHTML = '<a href="/"><img class="logo" src="/own.svg"></a>';</script>`,
		"insertAdjacentHTML":       `<div class="head"></div><script>document.querySelector(".head").insertAdjacentHTML("afterbegin", '` + header + `')</script>`,
		"an address before":        `<div id="h"></div><script>var at = "https://acme.com/"; document.getElementById("h").innerHTML = '` + header + `'; // don't wait</script>`,
		"jQuery":                   `<div id="head"></div><script>$(function(){ $("#head").html('` + header + `'); });</script>`,
		"an element of the page's": `<site-header></site-header><script>class H extends HTMLElement { connectedCallback() { this.innerHTML = '` + header + `' } } customElements.define("site-header", H)</script>`,
	} {
		if got := best(read(`<body>` + body)); got != "/own.svg" {
			t.Errorf("%s: best is %q", name, got)
		}
	}
	for name, body := range map[string]string{
		"a place that is missing": `<script>document.getElementById("none").innerHTML = '` + header + `'</script>`,
		"data":                    `<script type="application/json">{"html": "` + strings.ReplaceAll(header, `"`, `\"`) + `"}</script>`,
		"a comparison":            `<div id="x"></div><script>if (document.getElementById("x").innerHTML == '` + header + `') {}</script>`,
		"a comment":               "<div id=\"x\"></div><script>const e = document.getElementById('x')\n// e.innerHTML = '" + header + "'\n/* e.innerHTML = '" + header + "' */ if (0) {e.innerHTML = ''}</script>",
		"code in a text":          `<div id="x"></div><script>document.getElementById("x").title = "e.innerHTML = '` + strings.ReplaceAll(header, `"`, `\"`) + `'"</script>`,
		"a counter":               `<script>document.write('<a href="/"><img src="/count.gif" alt="Acme"></a>')</script>`,
	} {
		if got := best(read(`<body>` + body)); got != "" {
			t.Errorf("%s: best is %q", name, got)
		}
	}
}

func TestDeclared_Icons_BestFirst(t *testing.T) {
	in := read(`<link rel="icon" href="/16.png" sizes="16x16"><link rel="icon" href="/96.png" sizes="96x96"><link rel="icon" type="image/svg+xml" href="/v.svg">
		<link rel="apple-touch-icon" sizes="180x180" href="/t180.png"><link rel="apple-touch-icon" sizes="60x60" href="/t60.png"><link rel="mask-icon" href="/m.svg"><meta name="msapplication-TileImage" content="/tile.png">
		<link rel="icon" href="/16.png" sizes="16x16">`)
	in.Manifest = &manifest.Manifest{Icons: []manifest.Icon{{URL: resolve("/512.png"), Sizes: []page.Size{{Width: 512, Height: 512}}}}}
	in.Config = &manifest.Manifest{Icons: []manifest.Icon{{URL: resolve("/310.png"), Sizes: []page.Size{{Width: 310, Height: 310}}}}}
	var got []string
	for _, c := range logofinder.Candidates(in) {
		got = append(got, c.URL.Path)
	}
	want := "[/512.png /t180.png /v.svg /t60.png /tile.png /310.png /m.svg /96.png /16.png /apple-touch-icon.png /favicon.ico]"
	if s := fmt.Sprint(got); !slices.Contains(got, "/favicon.ico") || s != want && !sameOrderOfTop(got) {
		t.Errorf("order is %s, want about %s", s, want)
	}
}

// sameOrderOfTop checks the relevant order: large and vector icons before small ones, known paths last.
func sameOrderOfTop(got []string) bool {
	at := func(path string) int { return slices.Index(got, path) }
	return at("/512.png") == 0 && at("/t180.png") < at("/t60.png") && at("/v.svg") < at("/96.png") && at("/96.png") < at("/16.png") &&
		at("/16.png") < at("/favicon.ico") && at("/t60.png") < at("/16.png") && len(got) == 11
}

func resolve(path string) *url.URL {
	u, _ := url.Parse("https://www.acme.com" + path)
	return u
}

func TestCandidates_Many_StayWithinLimits(t *testing.T) {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `<link rel="icon" href="/i%d.png" sizes="%dx%d"><header><a href="/"><img src="/logo%d.svg" alt="Acme"></a></header>`, i, 16*(i+1), 16*(i+1), i)
	}
	got := logofinder.Candidates(read(b.String()))
	if len(got) != logofinder.MaxCandidates {
		t.Errorf("%d candidates, want %d", len(got), logofinder.MaxCandidates)
	}
	icons := 0
	for _, c := range got {
		if c.Kind == logofinder.Icon {
			icons++
		}
	}
	if icons < logofinder.MaxCandidates/2 {
		t.Errorf("%d icons among %d candidates: marks crowd them out", icons, len(got))
	}
}

func TestCandidates_SquareCrop_BelongsToItsOriginal(t *testing.T) {
	in := read(`<meta property="og:logo" content="/wp-content/uploads/oak-150x150.png"><header><a href="/"><img src="/wp-content/uploads/oak.png" alt="Acme"></a></header>`)
	if got := best(in); !strings.HasSuffix(got, "/oak.png") {
		t.Errorf("best is %s", got)
	}
	for _, c := range logofinder.Candidates(in) {
		if strings.Contains(c.URL.Path, "150x150") {
			t.Errorf("%s is a candidate", c.URL)
		}
	}
}

func TestCandidates_FormatThatIsNotSupported_GivesNextOfSrcset(t *testing.T) {
	for _, body := range []string{
		`<header><a href="/"><img class=logo src="/l.avif" srcset="/l.png 300w, /l.avif 600w" alt="Acme"></a></header>`,
		`<header><a href="/"><picture><source type="image/png" srcset="/l.png 2x"><img class=logo src="/l.avif" alt="Acme"></picture></a></header>`,
	} {
		if got := best(read(body)); !strings.HasSuffix(got, "/l.png") {
			t.Errorf("%s: best is %s", body, got)
		}
	}
}

func TestCandidates_BuilderIcon_IsIgnored(t *testing.T) {
	in := read(`<link rel="icon" href="https://www.wix.com/favicon.ico"><link rel="icon" href="/vite.svg"><link rel="icon" href="https://s.w.org/favicon.ico"><link rel="apple-touch-icon" href="https://s2.wp.com/i/webclip.png"><link rel="icon" href="/own.png">`)
	for _, c := range logofinder.Candidates(in) {
		if c.Probed {
			continue
		}
		if c.URL.Path != "/own.png" {
			t.Errorf("candidate %s", c.URL)
		}
	}
}

func TestDeclared_ForeignIcon_IsIgnored(t *testing.T) {
	in := read(`<link rel="icon" href="/own.png"><link rel="icon" href="https://challenge.example/vendor.png"><header><a href="/"><img src="/vendor-logo.svg" alt="Acme"></a></header>`)
	var got []string
	for _, c := range logofinder.Declared(in) {
		got = append(got, c.URL.Path)
	}
	if fmt.Sprint(got) != "[/own.png /apple-touch-icon.png /favicon.ico]" {
		t.Errorf("candidates are %v", got)
	}
}
