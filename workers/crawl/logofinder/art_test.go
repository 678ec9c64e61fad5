package logofinder_test

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/css"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/site"
)

// styled parses a page with its style elements.
func styled(body string) extract.Input {
	in := read(body)
	in.Style = css.New(in.Page.Root, in.Page.Base, nil, site.Resolve)
	return in
}

// marks lists the candidates that are not icons: path and fragment, or "drawing".
func marks(in extract.Input) []string {
	var out []string
	for _, c := range logofinder.Candidates(in) {
		if c.Kind != logofinder.Mark {
			continue
		}
		switch {
		case c.Data != nil:
			out = append(out, "drawing")
		case c.URL.Fragment != "":
			out = append(out, c.URL.Path+"#"+c.URL.Fragment)
		default:
			out = append(out, c.URL.Path)
		}
	}
	return out
}

const (
	wordmark = `<svg class="logo" viewBox="0 0 120 30" width="120" height="30"><path d="M0 0h120v30z"/></svg>`
	burger   = `<svg class="menu-icon" viewBox="0 0 24 24" width="24" height="24"><path d="M3 6h18v2H3z"/></svg>`
)

func TestCandidates_Symbol_IsUsedIfNothingElseIsTheLogo(t *testing.T) {
	const shape = `viewBox="0 0 90 30"><path d="M0 0h90v30L40 9z"/></symbol>`
	const header = `<header><a href="/"><img src="/own.svg" alt="Acme"></a></header>`
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"named as the brand":                {`<svg style="display:none"><symbol id="acme-wordmark" ` + shape + `</svg><h1>Acme</h1>`, []string{"drawing"}},
		"in definitions":                    {`<svg hidden><defs><symbol id="logo" ` + shape + `</defs></svg><h1>Acme</h1>`, []string{"drawing"}},
		"of another company":                {`<svg><symbol id="visa-logo" ` + shape + `<symbol id="globex_logo" ` + shape + `</svg><h1>Acme</h1>`, nil},
		"of several companies":              {`<section><svg hidden><symbol id="logo-1" ` + shape + `<symbol id="logo-2" ` + shape + `</svg></section><h1>Acme</h1>`, nil},
		"one of two without a name":         {`<svg hidden><symbol id="logo" ` + shape + `<symbol id="brand" ` + shape + `</svg><h1>Acme</h1>`, nil},
		"among partners":                    {`<div class="partners"><svg><symbol id="brand" ` + shape + `</svg></div><h1>Acme</h1>`, nil},
		"of another company, in one word":   {`<svg><symbol id="brand-visalogo" ` + shape + `</svg><h1>Acme</h1>`, nil},
		"of a partner of the brand":         {`<svg><symbol id="acme-partner-globex-logo" ` + shape + `</svg><h1>Acme</h1>`, nil},
		"not a logo":                        {`<svg><symbol id="acme-shop" ` + shape + `</svg><h1>Acme</h1>`, nil},
		"beside a logo":                     {`<svg><symbol id="logo" ` + shape + `</svg>` + header, []string{"/own.svg"}},
		"named as the brand, beside a logo": {`<svg><symbol id="acme-logo" ` + shape + `</svg>` + header, []string{"/own.svg", "drawing"}},
		"without content":                   {`<svg><symbol id="logo" viewBox="0 0 9 9"></symbol></svg><h1>Acme</h1>`, nil},
	} {
		if got := marks(styled(c.body)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestCandidates_AnyElement_IsFound(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"drawing linked home":           {`<header><a href="/">` + wordmark + `</a></header>`, []string{"drawing"}},
		"next to icons of the header":   {`<header><button>` + burger + `</button><a href="/">` + wordmark + `</a><a href="/search">` + burger + `</a></header>`, []string{"drawing"}},
		"signs alone":                   {`<header><button>` + burger + `</button><a href="/">` + burger + `</a></header>`, nil},
		"the house of a link home":      {`<nav><a href="/"><svg class="icon icon-home" viewBox="0 0 9 9"><path d="M0 0h9v9z"/></svg></a></nav>`, nil},
		"named by its label":            {`<header><a href="/x"><svg aria-label="Acme" viewBox="0 0 90 30"><path d="M0 0h90v30z"/></svg></a></header>`, []string{"drawing"}},
		"once for phones, once for all": {`<header><a href="/" class="md:hidden">` + wordmark + `</a><a href="/" class="hidden md:block">` + wordmark + `</a></header>`, []string{"drawing"}},
		"in an external sprite":         {`<header><a href="/"><svg viewBox="0 0 90 30"><use href="/sprite.svg#brand"/></svg></a></header>`, []string{"/sprite.svg#brand"}},
		"an icon in the sprite":         {`<header><a href="/"><svg><use href="/sprite.svg#icon-search"/></svg></a></header>`, nil},
		"part of a file":                {`<header><a href="/"><img src="/sprite.svg#logo" alt="Acme"></a></header>`, []string{"/sprite.svg#logo"}},
		"background":                    {`<style>.logo{background:url(/own.svg) no-repeat;width:120px}</style><header><a class="logo" href="/">Acme</a></header>`, []string{"/own.svg"}},
		"background of a child":         {`<style>.logo span{background-image:url("/own.svg")}</style><header><a class="logo" href="/"><span></span></a></header>`, []string{"/own.svg"}},
		"background before":             {`<style>.logo::before{content:"";background-image:url(/own.svg)}</style><header><a class="logo" href="/">Acme</a></header>`, []string{"/own.svg"}},
		"background in the element":     {`<header><a class="logo" href="/" style="background-image: url('/own.svg')">Acme</a></header>`, []string{"/own.svg"}},
		"background beside a variable":  {`<header><a class="logo" href="/" style="background-image:url(/own.svg), var(--gradient)">Acme</a></header>`, []string{"/own.svg"}},
		"background after a brace":      {`<header><a class="logo" href="/" style="display:block};background-image:url(/own.svg)">Acme</a></header>`, []string{"/own.svg"}},
		"mask":                          {`<style>.logo{mask-image:url(/own.svg);background-color:red}</style><header><a class="logo" href="/">Acme</a></header>`, []string{"/own.svg"}},
		"object":                        {`<header><a href="/"><object class="logo" data="/own.svg"></object></a></header>`, []string{"/own.svg"}},
		"light and dark":                {`<header><a href="/"><img class="logo" src="/own-white.svg"><img class="logo" src="/own.svg"></a></header>`, []string{"/own-white.svg", "/own.svg"}},
		"for dark pages second":         {`<header><a href="/"><picture><source media="(prefers-color-scheme: dark)" srcset="/own-dark.svg"><img src="/own.svg" alt="Acme"></picture></a></header>`, []string{"/own.svg", "/own-dark.svg"}},
		"hidden by a stylesheet last":   {`<style>.phone{display:none}</style><header><a class="phone" href="/"><img src="/acme-small.svg" alt="Acme"></a><a href="/"><img src="/own.svg" alt="Acme"></a></header>`, []string{"/own.svg", "/acme-small.svg"}},
		"not in a logo, not the brand":  {`<header><a href="/"><img src="/own.svg" alt="Acme"></a><div class="logo"><img src="/sister.svg" alt="Sister brand"></div></header>`, []string{"/own.svg"}},
		"the theme's in the footer":     {`<header><a href="/"><img src="/own.svg" alt="Acme"></a></header><footer><a href="/"><img class="logo" src="/theme/default.png" alt="Acme"></a></footer>`, []string{"/own.svg"}},
		"the brand's in the footer":     {`<header><a href="/"><img src="/own.svg" alt="Acme"></a></header><footer><a href="/"><img class="logo" src="/acme-white.png" alt="Acme"></a></footer>`, []string{"/own.svg", "/acme-white.png"}},
		"a flag by its folder":          {`<header><a href="/"><img src="/img/flags/de.png"></a></header>`, nil},
		"a network's button":            {`<header><a href="/"><img src="/fb.svg" alt="Facebook"></a></header>`, nil},
		"a file named after a sign":     {`<header><a href="/"><img src="/img/menu-white.svg"></a></header>`, nil},
		"scaled by a server":            {`<header><img src="/_next/image?url=%2Fimg%2Facme-logo.png&amp;w=256" alt="Acme"></header>`, []string{"/_next/image"}},
		"customers' logos alone":        {`<p>` + strings.Repeat("word ", 80) + `</p><div class="logos"><img class="logo" src="/microsoft-logo.svg" alt="Microsoft"><img class="logo" src="/visa-logo.svg" alt="Visa"></div>`, nil},
		"a banner that leads home":      {`<p>` + strings.Repeat("word ", 80) + `</p><a href="/"><img src="/summer.png" width="300" height="100"></a>`, nil},
		"sisters first":                 {`<header><div><a href="https://shop.acme.com/"><img src="/acme-shop.svg" alt="Acme Shop"></a></div><a href="https://acme.com/"><img src="/acme.svg" alt="Acme"></a></header>`, []string{"/acme.svg", "/acme-shop.svg"}},
		"a README's picture":            {`<h1>Acme</h1><p align="center"><img src="/img/acme.png" alt="acme"></p><p><img src="/badge.png" alt="build"></p>`, []string{"/img/acme.png"}},
		"drawn as text":                 {`<header><a href="/"><svg class="logo" viewBox="0 0 90 30"><text>Acme</text></svg></a></header>`, []string{"drawing"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := marks(styled(c.body)); !slices.Equal(got, c.want) {
				t.Errorf("marks are %v, want %v", got, c.want)
			}
		})
	}
}

func TestCandidates_Score_IsSumOfReasons(t *testing.T) {
	in := styled(`<link rel="icon" href="/i.png" sizes="96x96"><link rel="apple-touch-icon" href="/t.png"><script type="application/ld+json">{"@type":"Organization","name":"Acme","url":"/","logo":"/own.svg"}</script>
		<header><a href="/"><img class="logo" src="/own.svg" alt="Acme logo" width="120" height="30"></a></header><footer><a href="/"><img src="/own.svg"></a></footer>`)
	in.BIMI, _ = url.Parse("https://bimi.acme.com/mark.svg")
	all := logofinder.Candidates(in)
	for _, c := range all {
		sum := 0.0
		for _, r := range c.Reasons {
			sum += r.Points
		}
		if len(c.Reasons) == 0 || math.Abs(sum-c.Score) > 1e-9 {
			t.Errorf("%s has %.1f points, its reasons %.1f: %v", c.URL, c.Score, sum, c.Reasons)
		}
	}
	if all[0].URL.Path != "/own.svg" || !strings.Contains(fmt.Sprint(all[0].Reasons), "in the footer too") || !strings.Contains(fmt.Sprint(all[0].Reasons), "found in two ways") {
		t.Errorf("best candidate %s: %v", all[0].URL, all[0].Reasons)
	}
	if i := slices.IndexFunc(all, func(c logofinder.Candidate) bool { return c.Kind == logofinder.Icon }); i < 0 || all[i].URL.Path != "/mark.svg" {
		t.Errorf("the best icon is not from BIMI: %v", all)
	}
}

func TestRead_RasterSprite_IsCropped(t *testing.T) {
	in := styled(`<style>.logo{background:url(/sprite.png) -100px -20px;background-size:200px auto;width:80px;height:40px}</style><header><a class="logo" href="/">Acme</a></header>`)
	c := logofinder.Candidates(in)[0]
	if c.URL.Path != "/sprite.png" || c.Crop == nil || *c.Crop != (logofinder.Crop{X: 100, Y: 20, Width: 80, Height: 40, Across: 200}) {
		t.Fatalf("best is %s, crop %+v", c.URL, c.Crop)
	}
	sprite := withInk(400, 400, red, blue, func(x, y float64) bool { return x > 0.6 && x < 0.8 && y > 0.12 && y < 0.25 })
	p := mustRead(t, c, sprite)
	if p.Width != 160 || p.Height != 80 || p.Raster.NRGBAAt(80, 40) != blue || p.Raster.NRGBAAt(2, 2) != red {
		t.Errorf("cut %d×%d, %v in the middle", p.Width, p.Height, p.Raster.NRGBAAt(80, 40))
	}
	outside := c
	outside.Crop = &logofinder.Crop{X: 4000, Y: 20, Width: 80, Height: 40}
	if _, err := logofinder.Read(t.Context(), renderer(t), outside, encode(t, sprite)); !errors.Is(err, logofinder.ErrNotLogo) {
		t.Errorf("part outside the image: %v, want %v", err, logofinder.ErrNotLogo)
	}
	for name, css := range map[string]string{
		"unknown size":  `background:url(/sprite.png) -100px -20px`,
		"unknown place": `background:url(/sprite.png) 50% 50%;width:80px`,
	} {
		if got := marks(styled(`<style>.logo{` + css + `}</style><header><a class="logo" href="/">Acme</a></header>`)); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := marks(styled(`<style>.logo{background:url(/own.png) center/contain no-repeat;width:80px}</style><header><a class="logo" href="/">Acme</a></header>`)); !slices.Equal(got, []string{"/own.png"}) {
		t.Errorf("own background: %v", got)
	}
}

func TestRead_VectorSprite_IsCropped(t *testing.T) {
	c := logofinder.Candidates(styled(`<style>header{color:#0b5fff}</style><header><a href="/"><svg fill="currentColor" viewBox="0 0 90 30"><use href="/sprite.svg#brand"/></svg></a></header>`))[0]
	sprite := []byte(`<svg xmlns="http://www.w3.org/2000/svg"><symbol id="other" viewBox="0 0 9 9"><path d="M0 0h9v9z"/></symbol><symbol id="brand" viewBox="0 0 90 30"><path d="M0 0h90v30z"/></symbol></svg>`)
	p := testmust.Get(logofinder.Read(t.Context(), renderer(t), c, sprite))(t)
	if p.Width != 90 || len(p.Colors.Inks) != 1 || p.Colors.Inks[0].Color.Hex() != "#0b5fff" || p.Type() != "logo" {
		t.Errorf("%d×%d in %v, a %s", p.Width, p.Height, p.Colors.Inks, p.Type())
	}
	if _, err := logofinder.Read(t.Context(), renderer(t), c, []byte("<!doctype html><title>Not found</title>")); !errors.Is(err, logofinder.ErrNotLogo) {
		t.Errorf("a web page as sprite: %v, want %v", err, logofinder.ErrNotLogo)
	}
}

func TestRead_FrameworkIcon_OnlyOnOwnSite(t *testing.T) {
	data := testmust.Get(os.ReadFile("testdata/vite.svg"))(t)
	c := candidate(logofinder.Icon, 35)
	if _, err := logofinder.Read(t.Context(), renderer(t), c, data); !errors.Is(err, logofinder.ErrDefault) || !logofinder.IsFileFault(err) {
		t.Errorf("on a site of its own: %v", err)
	}
	c.URL = &url.URL{Scheme: "https", Host: "vite.dev", Path: "/logo.svg"}
	if _, err := logofinder.Read(t.Context(), renderer(t), c, data); err != nil {
		t.Errorf("on the framework's site: %v", err)
	}
}

func TestRead_Ink_DecidesTheme(t *testing.T) {
	svg := func(fill string) []byte {
		return []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 50"><path d="M0 0h200v50z" fill="` + fill + `"/></svg>`)
	}
	for name, c := range map[string]struct {
		words  []string
		scheme string
		fill   string
		want   string
	}{
		"black":                         {nil, "", "#000", "dark"},
		"white":                         {nil, "", "#fff", "light"},
		"white, called dark":            {[]string{"logo", "dark"}, "", "#fff", "light"}, // for dark pages
		"black for dark pages":          {nil, "dark", "#111", "dark"},
		"between, for dark pages":       {nil, "dark", "#6a6aff", "light"},
		"between, called dark":          {[]string{"logo", "dark"}, "", "#9a9a9a", "dark"},
		"between, called white and all": {[]string{"white", "black"}, "", "#9a9a9a", "light"},
	} {
		cand := candidate(logofinder.Mark, 80)
		cand.Words, cand.Scheme = c.words, c.scheme
		p, err := logofinder.Read(t.Context(), renderer(t), cand, svg(c.fill))
		if err != nil || p.Theme != c.want {
			t.Errorf("%s: %v, %v; want %s", name, p, err, c.want)
		}
	}
	if p := mustRead(t, candidate(logofinder.Mark, 80), withInk(300, 60, white, blue, word)); p.Theme != "dark" {
		t.Errorf("theme %q of dark ink on white", p.Theme)
	}
	if p := mustRead(t, candidate(logofinder.Mark, 80), withInk(300, 60, blue, white, word)); p.Theme != "light" {
		t.Errorf("theme %q of white ink on blue", p.Theme)
	}
}

func TestSelect_VectorReplacesRaster(t *testing.T) {
	vector := testmust.Get(logofinder.Read(t.Context(), renderer(t), candidate(logofinder.Mark, 45), []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100"><circle cx="50" cy="50" r="40" fill="#0b5fff"/></svg>`)))(t)
	raster := mustRead(t, candidate(logofinder.Mark, 90), withInk(300, 300, color.NRGBA{}, blue, disc))
	light := mustRead(t, candidate(logofinder.Mark, 80), withInk(300, 300, color.NRGBA{}, white, disc))
	s := logofinder.Select([]*logofinder.Image{light, vector, raster})
	if len(s.Chosen) != 2 || s.Chosen[0] != vector || s.Chosen[1] != light || len(s.Dropped) != 1 || s.Dropped[raster] == "" {
		t.Errorf("chose %d, dropped %v", len(s.Chosen), s.Dropped)
	}
}

func TestTrials_EachCandidate_HasResult(t *testing.T) {
	kept := mustRead(t, candidate(logofinder.Mark, 90), withInk(300, 60, color.NRGBA{}, blue, word))
	twin := mustRead(t, candidate(logofinder.Mark, 60), withInk(310, 62, color.NRGBA{}, blue, word))
	s := logofinder.Select([]*logofinder.Image{kept, twin})
	candidates := []logofinder.Candidate{kept.Candidate, twin.Candidate, candidate(logofinder.Icon, 39), candidate(logofinder.Icon, 15)}
	got := logofinder.Trials(candidates, []*logofinder.Image{kept, twin, nil, nil}, []error{nil, nil, errors.New("the server said 404"), nil}, s,
		map[*logofinder.Image]logofinder.Stored{kept: {Place: 0, Logo: eventschemas.Logo{Formats: []eventschemas.Asset{{ID: "abc"}}}}})
	var text []string
	for _, tr := range got {
		text = append(text, fmt.Sprint(tr.Chosen, " ", tr.Type, " ", tr.AssetID, " ", tr.Rejected))
	}
	want := []string{"0 logo abc ", "-1 logo  the same drawing as a chosen one", "-1   the server said 404", "-1   not there"}
	if !slices.Equal(text, want) {
		t.Errorf("got %q", text)
	}
}

func TestImages_OfPage_AreChosen(t *testing.T) {
	in := read(`<meta property="og:image" content="/share.jpg"><header><a href="/"><img src="/acme.jpg" width="800" height="400"></a></header><main>
		<img src="/share.jpg" width="1200" height="600"><img src="/stage.jpg" width="1200" height="600"><img src="/stage.jpg?w=600" width="1200" height="600">
		<img src="/small.jpg" srcset="/small.jpg 300w, /wide.jpg 1600w" width="300" height="150"><img src="/tiny.jpg" width="300" height="200"><img src="/stripe.jpg" width="1200" height="200">
		<img src="/tower.jpg" width="600" height="1600"><img src="/drawing.svg" width="1200" height="600"><img src="/unknown.jpg"><img class="avatar" src="/face.jpg" width="800" height="800">
		<div class="customers"><img src="/customer.jpg" width="900" height="500"></div><img class="hero-logo" src="/l.jpg" width="900" height="500">
		<img src="/b.jpg" width="900" height="500"><img src="/c.jpg" width="900"><img src="/d.jpg" width="900" height="500"></main>`)
	var got []string
	for _, u := range logofinder.Images(in) {
		got = append(got, u.Path)
	}
	if fmt.Sprint(got) != "[/stage.jpg /wide.jpg /b.jpg /c.jpg]" {
		t.Errorf("images %v", got)
	}
	assets := shelf{}
	stored, err := storeImage(t, assets, encode(t, withInk(1600, 800, color.NRGBA{}, blue, disc)))
	if err != nil || stored.Type != "other" || len(stored.Formats) != 1 || stored.Formats[0].Format != "jpeg" || *stored.Formats[0].Width != 1200 {
		t.Errorf("stored %+v, %v", stored, err)
	}
	if _, err := storeImage(t, assets, encode(t, withInk(600, 200, white, blue, disc))); !errors.Is(err, logofinder.ErrNotLogo) {
		t.Errorf("flat image: %v, want %v", err, logofinder.ErrNotLogo)
	}
}
