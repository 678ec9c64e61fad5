package fonts_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/extracttest"
	"letterhead/workers/crawl/extract/fonts"
)

func fontsOf(in extract.Input) string {
	var out []string
	for _, f := range fonts.Decide(in).Value {
		id := ""
		if f.OriginID != nil {
			id = "=" + *f.OriginID
		}
		out = append(out, fmt.Sprintf("%s %s %s%s %v", f.Type, f.Name, f.Origin, id, f.Weights))
	}
	return strings.Join(out, ", ")
}

const (
	someTitle = "<h1>We make anvils</h1>"
	someText  = "<p>Anvils of every size, forged by hand and tested by coyotes since the beginning of the railroad.</p>"
	someWords = someTitle + someText
	twoLinked = `<link rel=stylesheet href="https://fonts.googleapis.com/css2?family=Lora:wght@700&family=Inter:ital,wght@0,400;1,600">`
)

func TestFonts_Sheets_NameFamilies(t *testing.T) {
	for name, c := range map[string]struct{ body, css, want string }{
		"title and text":                 {twoLinked + someWords, `h1{font-family:Lora,serif} body{font-family:"Inter",sans-serif}`, "title Lora google=Lora [700], body Inter google=Inter [400 600]"},
		"headings inherit":               {someWords, `body{font-family:Gotham,sans-serif} @font-face{font-family:Gotham;src:url(g.woff2);font-weight:400} @font-face{font-family:gotham;src:url(b.woff2);font-weight:bold}`, "title Gotham custom [400 700], body Gotham custom [400 700]"},
		"only headings":                  {someWords, `h1{font-family:Gotham}`, "title Gotham custom []"},
		"through a variable":             {twoLinked + someWords, `:root{--display:"Lora",serif;--text:Inter} h1{font-family:var(--display)} p{font:16px/1.5 var(--text)}`, "title Lora google=Lora [700], body Inter google=Inter [400 600]"},
		"what covers most":               {someTitle + `<p style="font-family:Georgia">A note of some length in another font.</p>` + someText + someText, `body{font-family:Verdana}`, "title Verdana system [], body Verdana system []"},
		"set on what holds the text":     {`<h1><a><span class=t>We make anvils</span></a></h1>` + someText, `.t{font-family:Lora} body{font-family:Arial}`, "title Lora custom [], body Arial system []"},
		"the computer's own":             {someWords, `body{font-family:-apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,sans-serif}`, "title system-ui system [], body system-ui system []"},
		"the browser's own":              {someWords, `body{font-family:sans-serif}`, ""},
		"icons are no text":              {someWords, `h1{font-family:"Font Awesome 5 Free","Lora"} body{font-family:icomoon}`, "title Lora custom []"},
		"first of a stack that loads":    {twoLinked + someWords, `body{font-family:"Proxima Nova",Inter,Arial}`, "title Inter google=Inter [400 600], body Inter google=Inter [400 600]"},
		"none of a stack loads":          {someWords, `body{font-family:"Proxima Nova",Arial}`, "title Proxima Nova custom [], body Proxima Nova custom []"},
		"next/font":                      {someWords, `body{font-family:__Open_Sans_a1b2c3,__Open_Sans_Fallback_a1b2c3} @font-face{font-family:__Open_Sans_a1b2c3;src:url(/_next/o.woff2);font-weight:300 500} @font-face{font-family:__Open_Sans_Fallback_a1b2c3;src:local(Arial)}`, "title Open Sans custom [300 400 500], body Open Sans custom [300 400 500]"},
		"fontsource":                     {someWords, `body{font-family:"Inter Variable",sans-serif} @font-face{font-family:"Inter Variable";src:url(i.woff2);font-weight:400}`, "title Inter custom [400], body Inter custom [400]"},
		"stand-ins":                      {someWords, `body{font-family:"Inter Fallback",Lora}`, "title Lora custom [], body Lora custom []"},
		"from Google's files":            {someWords, `body{font-family:"Open Sans"} @font-face{font-family:"Open Sans";src:url(https://fonts.gstatic.com/s/o.woff2);font-weight:700}`, "title Open Sans google=Open+Sans [700], body Open Sans google=Open+Sans [700]"},
		"imported from Google":           {`<style>@import url("https://fonts.googleapis.com/css?family=Open+Sans:400"); body{font-family:open sans}</style>` + someWords, ``, "title Open Sans google=Open+Sans [400], body Open Sans google=Open+Sans [400]"},
		"a kit of Adobe's":               {someWords, `body{font-family:proxima-nova,Arial} @font-face{font-family:proxima-nova;src:url(https://use.typekit.net/af/1/l);font-weight:400}`, "title proxima-nova adobe=proxima-nova [400], body proxima-nova adobe=proxima-nova [400]"},
		"a kit that a script loads":      {`<script src="https://use.typekit.net/abc1def.js"></script>` + someWords, `body{font-family:freight-text-pro,serif}`, "title freight-text-pro adobe=freight-text-pro [], body freight-text-pro adobe=freight-text-pro []"},
		"a font loader":                  {`<script>WebFontConfig={google:{families:['Open+Sans:400,700','Lora:700']}};</script>` + someWords, `body{font-family:Open Sans} h1{font-family:Lora}`, "title Lora google=Lora [700], body Open Sans google=Open+Sans [400 700]"},
		"a page of scripts":              {twoLinked + `<div id=root></div>`, `h1,h2{font-family:Lora} body{font-family:Inter}`, "title Lora google=Lora [700], body Inter google=Inter [400 600]"},
		"not the chrome":                 {`<nav><p>Products and services and prices and more</p></nav>` + someWords, `nav{font-family:Lora} body{font-family:Arial}`, "title Arial system [], body Arial system []"},
		"not the cookie notice":          {`<div id=cookie-consent><p>We use cookies, a great many of them, to show you this text.</p><p>We use cookies, a great many of them, to show you this text.</p><h2>We use cookies here and there</h2></div>` + someText, `#cookie-consent{font-family:Lora} body{font-family:Arial}`, "title Arial system [], body Arial system []"},
		"a state of the page":            {`<article class=ads-loaded>` + someWords + `</article>`, `article{font-family:Arial}`, "title Arial system [], body Arial system []"},
		"without sheets, in old pages":   {`<font face="Verdana, Arial">` + someWords + `</font>`, ``, "title Verdana system [], body Verdana system []"},
		"not for screen readers":         {`<h1 class=sr-only>We make anvils</h1><h2>Forged by hand</h2>` + someText, `h1{font-family:Lora} body{font-family:Arial}`, "title Arial system [], body Arial system []"},
		"a consent dialog's own names":   {`<div id=CybotCookiebotDialog><h2>This page uses cookies</h2><p>We use cookies, a great many of them, to show you this text.</p></div>` + someWords, `#CybotCookiebotDialog{font-family:Lora} body{font-family:Arial}`, "title Arial system [], body Arial system []"},
		"regular and italic":             {`<link rel=stylesheet href="https://fonts.googleapis.com/css?family=Karla:regular,italic,bold">`, ``, "title Karla google=Karla [400 700], body Karla google=Karla [400 700]"},
		"hostile":                        {someWords, `body{font-family:"</style><script>alert(1)</script>"} h1{font-family:` + strings.Repeat("a,", 10_000) + `b}`, ""},
		"sheets say nothing of fonts":    {twoLinked + someWords, `p{color:red}`, "title Lora google=Lora [700], body Inter google=Inter [400 600]"},
		"links fill in":                  {twoLinked + someWords, `h1{font-family:Inter}`, "title Inter google=Inter [400 600], body Lora google=Lora [700]"},
		"one for headings alone":         {`<link rel=stylesheet href="https://fonts.googleapis.com/css?family=Open+Sans+Condensed:700">` + someWords, ``, "title Open Sans Condensed google=Open+Sans+Condensed [700]"},
		"a script of its own and icons":  {`<link rel=stylesheet href="https://fonts.googleapis.com/css2?family=Noto+Sans+JP:wght@400&family=Material+Symbols+Outlined&family=Karla:wght@400">`, ``, "title Karla google=Karla [400], body Karla google=Karla [400]"},
		"no letter, no family":           {`<link rel=stylesheet href="https://fonts.googleapis.com/css?family=.|Oswald|4">` + someWords, `h1{font-family:".","42",Oswald} body{font-family:"-",Lora} @font-face{font-family:".";src:url(a.woff2)}`, "title Oswald google=Oswald [], body Lora custom []"},
		"system fonts by their spelling": {someWords, `h1{font-family:TIMESNEWROMAN} body{font-family:segoe ui,sans-serif}`, "title Times New Roman system [], body Segoe UI system []"},
		"preloaded":                      {`<link rel=preload as=style href="https://fonts.googleapis.com/css2?family=Karla:wght@400">`, ``, "title Karla google=Karla [400], body Karla google=Karla [400]"},
	} {
		t.Run(name, func(t *testing.T) {
			in := extracttest.Styled(`<link rel=stylesheet href=/a.css>`+c.body, c.css)
			if got := fontsOf(in); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestWeighed_Fonts_WinnerFirst(t *testing.T) {
	in := extracttest.Styled(`<style>h1{font-family:Lora} h3{font-family:Karla} body{font-family:Arial}</style>`+someWords+"<h3>And hammers</h3>", "")
	var got []string
	for _, w := range fonts.Weighed(in) {
		got = append(got, fmt.Sprint(w.Value, " ", w.Won))
		if w.Field != "fonts" || w.Method == "" || w.Source == "" {
			t.Errorf("incomplete candidate: %+v", w)
		}
	}
	want := "title: Lora (custom) true, body: Arial (system) true, title: Karla (custom) false, title: Arial (system) false"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func FuzzFonts(f *testing.F) {
	for _, seed := range []string{`Inter, sans-serif`, `"a, b", 'c`, `__A_b_a1b2c3`, `"</style>"`, `,,,`, `\22 a`, `Inter Variable Fallback`, `--x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, family string) {
		in := extracttest.Styled(`<link rel=stylesheet href=/a.css>`+someWords, `body{font-family:`+family+`} @font-face{font-family:`+family+`;src:url(a)}`)
		for _, font := range fonts.Decide(in).Value {
			if font.Name == "" || strings.ContainsAny(font.Name, "<>\"'{}") || font.Weights == nil || len([]rune(font.Name)) > 60 {
				t.Errorf("%q: %+v", family, font)
			}
		}
	})
}

func TestFonts_Page_TitleAndBody(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"one for everything": {`<link rel=stylesheet href="https://fonts.googleapis.com/css?family=Open+Sans:400,700">`, "title Open Sans google Open+Sans [400 700], body Open Sans google Open+Sans [400 700]"},
		"two":                {`<link rel=stylesheet href="https://fonts.googleapis.com/css2?family=Inter:wght@400&family=Lora:ital,wght@0,400;1,700&display=swap">`, "title Inter google Inter [400], body Lora google Lora [400 700]"},
		"none":               {`<link rel=stylesheet href="/fonts/css?family=Open+Sans">`, ""},
		"icons only":         {`<link rel=stylesheet href="https://fonts.googleapis.com/icon?family=Material+Icons"><link rel=stylesheet href="https://fonts.googleapis.com/css?family=Material+Icons">`, ""},
		"bunny":              {`<link rel=stylesheet href="https://fonts.bunny.net/css?family=inter:400">`, "title inter google inter [400], body inter google inter [400]"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range fonts.Decide(extracttest.Read("acme.com", c.body)).Value {
				got = append(got, fmt.Sprint(f.Type, " ", f.Name, " ", f.Origin, " ", *f.OriginID, " ", f.Weights))
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

func TestFonts_URLs_NameFamilies(t *testing.T) {
	for query, want := range map[string]string{
		"css?family=Open+Sans":                             "Open Sans []",
		"css?family=Open+Sans:300,400italic,700|Lora:bold": "Open Sans [300 400 700] Lora [700]",
		"css?family=Open%20Sans%3A400%2C700%7CLora":        "Open Sans [400 700] Lora []",
		"css2?family=Inter:wght@200..400":                  "Inter [200 300 400]",
		"css2?family=Inter:opsz,wght@14..32,250..450":      "Inter [250 300 400 450]",
		"css2?family=Inter:ital@0;1":                       "Inter []",
		"css2?family=A:wght@5000":                          "A []",
		"css2?family=A:wght@1..1000000000":                 "A [1 100 200 300 400 500 600 700 800 900 1000]",
		"css2?family=%3C/style%3E:wght@400":                "",
		"css2?family=":                                     "",
		"css2?family=%zz":                                  "",
		"css2?display=swap":                                "",
		"css?family=" + strings.Repeat("A", 100):           "",
	} {
		u := testmust.Get(url.Parse("https://fonts.googleapis.com/" + query))(t)
		var got []string
		for _, f := range fonts.ParseURL(u) {
			got = append(got, f.Name, fmt.Sprint(f.Weights))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %q, want %q", query, s, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"family=A:400,700|B", "family=A:ital,wght@0,400;1,700&family=B:wght@200..900", "family=%", "family=A:wght@..", "&&==", "family=A:@;,;@"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, family := range fonts.ParseURL(&url.URL{Scheme: "https", Host: "fonts.googleapis.com", Path: "/css2", RawQuery: query}) {
			if family.Name == "" || strings.ContainsAny(family.Name, "<>\"'") || len(family.Weights) > 20 || !slices.IsSorted(family.Weights) {
				t.Errorf("%q: %+v", query, family)
			}
			for _, w := range family.Weights {
				if w < 1 || w > 1000 {
					t.Errorf("%q: weight %d", query, w)
				}
			}
		}
	})
}
