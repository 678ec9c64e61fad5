package page_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"

	"letterhead/internal/testmust"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

var home, _ = url.Parse("https://www.acme.com/")

func parse(t *testing.T, body, contentType string) *page.Page {
	t.Helper()
	p := page.Parse([]byte(body), contentType, home, site.New("acme.com"))
	for _, s := range []string{p.Title, p.Text, p.Lang} {
		if !utf8.ValidString(s) {
			t.Errorf("the text is not UTF-8: %q", s)
		}
	}
	return p
}

func encoded(t *testing.T, e encoding.Encoding, s string) string {
	t.Helper()
	out := testmust.Get(e.NewEncoder().String(s))(t)
	return out
}

func TestParse_Encoding_IsDetected(t *testing.T) {
	const japaneseText = "<title>株式会社アクメ</title><body>私たちは東京で精密な測定器を作っています。長い歴史があります。"
	const chineseText = "<title>北京实验室</title><body>我们制造精密仪器，服务于科学家和工程师。"
	utf16 := func(e unicode.Endianness, b unicode.BOMPolicy) encoding.Encoding { return unicode.UTF16(e, b) }
	for name, c := range map[string]struct{ body, contentType, title string }{
		"utf-8":                                {"<title>Ünits</title>", "text/html; charset=utf-8", "Ünits"},
		"no charset":                           {"<title>Ünits</title>", "text/html", "Ünits"},
		"no type":                              {"<title>Ünits</title>", "", "Ünits"},
		"byte order mark":                      {"\xef\xbb\xbf<title>Ünits</title>", "text/html; charset=iso-8859-1", "Ünits"},
		"mark in the middle":                   {"<title>Ac\ufeffme</title>", "text/html", "Acme"},
		"latin-1":                              {"<title>Caf\xe9</title>", "text/html; charset=iso-8859-1", "Café"},
		"latin-1, header only by rote":         {"<title>Café</title>", "text/html; charset=iso-8859-1", "Café"},
		"utf-16 with mark":                     {encoded(t, utf16(unicode.LittleEndian, unicode.UseBOM), "<title>Sixteen Ünits</title>"), "text/html", "Sixteen Ünits"},
		"utf-16be with mark":                   {encoded(t, utf16(unicode.BigEndian, unicode.UseBOM), "<title>Sixteen Ünits</title>"), "text/html", "Sixteen Ünits"},
		"utf-16 without mark":                  {encoded(t, utf16(unicode.LittleEndian, unicode.IgnoreBOM), "<title>Sixteen Ünits</title>"), "text/html", "Sixteen Ünits"},
		"utf-16be without mark":                {encoded(t, utf16(unicode.BigEndian, unicode.IgnoreBOM), "<title>Sixteen Ünits</title>"), "text/html", "Sixteen Ünits"},
		"gb18030 in meta":                      {"<meta charset=gb18030>" + encoded(t, simplifiedchinese.GB18030, chineseText), "text/html", "北京实验室"},
		"shift_jis in header":                  {encoded(t, japanese.ShiftJIS, japaneseText), "text/html; charset=Shift_JIS", "株式会社アクメ"},
		"shift_jis, header says utf-8":         {encoded(t, japanese.ShiftJIS, japaneseText), "text/html; charset=utf-8", "株式会社アクメ"},
		"shift_jis by meta, latin-1 by header": {"<meta http-equiv=content-type content='text/html; charset=Shift_JIS'>" + encoded(t, japanese.ShiftJIS, japaneseText), "text/html; charset=iso-8859-1", "株式会社アクメ"},
		"meta far down":                        {strings.Repeat("<!-- padding -->", 100) + "<meta charset=gb18030>" + encoded(t, simplifiedchinese.GB18030, chineseText), "text/html", "北京实验室"},
		"stray bytes":                          {"<title>Caf\xe9 Br\xfcken</title>", "text/html; charset=utf-8", "Café Brüken"},
		"windows-1251 in capitals":             {"<title>\xd0\xce\xcc\xc0\xd8\xca\xc0</title>", "text/html", "РОМАШКА"},
		"koi8-r":                               {"<title>\xf2\xcf\xcd\xc1\xdb\xcb\xc1</title>", "text/html", "Ромашка"},
		"gbk of two letters":                   {"<html lang=zh><title>\xbb\xaa\xce\xaa</title>", "text/html", "华为"},
		"zero bytes":                           {"<title>Ac\x00me</title>", "text/html; charset=utf-8", "Acme"},
		"unknown charset":                      {"<title>Acme</title>", "text/html; charset=klingon", "Acme"},
		"entities, once":                       {"<title>A&amp;amp;B &eacute;</title>", "text/html", "A&amp;B é"},
		"direction tricks":                     {"<title>Acme\u202e\u2066 gro</title>", "text/html", "Acme gro"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parse(t, c.body, c.contentType).Title; got != c.title {
				t.Errorf("title is %q, want %q", got, c.title)
			}
		})
	}
}

const declared = `<title>Nested Lab</title><meta property=og:site_name content='Nested Lab'><link rel=icon href=/i.png sizes=32x32>`

func TestParse_DeepNesting_KeepsDeclarations(t *testing.T) {
	for _, depth := range []int{513, 600, 20_000} {
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			p := parse(t, "<!doctype html>"+declared+strings.Repeat("<div>", depth)+`<h1>Deep</h1><a href="/about">About us</a>`+strings.Repeat("</div>", depth)+`<a href="https://x.com/acme">x</a>`, "text/html")
			if p.Title != "Nested Lab" || p.Meta("og:site_name") != "Nested Lab" || len(p.Icons) != 1 {
				t.Errorf("title %q, site name %q, %d icons", p.Title, p.Meta("og:site_name"), len(p.Icons))
			}
			if len(p.Headings) != 1 || len(p.Anchors) != 2 {
				t.Errorf("headings %q and %d links, want those inside and behind the nesting", p.Headings, len(p.Anchors))
			}
		})
	}
	t.Run("declared inside of the nesting", func(t *testing.T) {
		p := parse(t, strings.Repeat("<div>", 700)+declared, "text/html")
		if p.Title != "Nested Lab" || len(p.Icons) != 1 {
			t.Errorf("title %q, %d icons", p.Title, len(p.Icons))
		}
	})
}

func TestParse_HostilePage_StaysWithinLimits(t *testing.T) {
	attributes := func(distinct bool) string {
		var b strings.Builder
		b.WriteString("<div ")
		for i := range 100_000 {
			if distinct {
				fmt.Fprintf(&b, "a%d=1 ", i)
			} else {
				b.WriteString("a=1 ")
			}
		}
		return b.String() + ">"
	}
	for name, body := range map[string]string{
		"100k open divs":         declared + strings.Repeat("<div>", 100_000),
		"100k siblings":          declared + strings.Repeat("<div></div>", 100_000),
		"one attribute of 2 MB":  declared + `<div class="` + strings.Repeat("a ", 1<<20) + `">`,
		"100k attributes":        declared + attributes(false),
		"100k names":             declared + attributes(true),
		"half a million <!--":    declared + strings.Repeat("<!--", 500_000),
		"unclosed comment":       declared + "<!-- " + strings.Repeat("x", 1000),
		"unclosed script":        declared + "<script>" + strings.Repeat("x", 1000),
		"table inside of tables": declared + strings.Repeat("<table><tr><td>", 5000),
		"100k metas":             declared + strings.Repeat(`<meta name=a content=b>`, 100_000),
		"100k icons":             declared + strings.Repeat(`<link rel=icon href=/x.png>`, 100_000),
		"100k links":             declared + strings.Repeat(`<a href=/x>x</a>`, 100_000),
		"100k images":            declared + strings.Repeat(`<img src=/x.png>`, 60_000),
		"long formatting list":   declared + strings.Repeat(`<b><i><u>`, 30_000),
		"10 MB of linked data":   declared + `<script type="application/ld+json">[` + strings.Repeat(`{"@type":"Organization"},`, 100_000) + `{}]</script>`,
	} {
		t.Run(name, func(t *testing.T) {
			p := parse(t, body, "text/html")
			if p.Title != "Nested Lab" || len(p.Icons) < 1 {
				t.Errorf("title %q, %d icons: the declarations came first", p.Title, len(p.Icons))
			}
			if len(p.Metas) > page.MaxMetas || len(p.Icons) > page.MaxIcons || len(p.Anchors) > page.MaxAnchors || len(p.Images) > page.MaxImages {
				t.Errorf("%d metas, %d icons, %d links, %d images: past a limit", len(p.Metas), len(p.Icons), len(p.Anchors), len(p.Images))
			}
		})
	}
	for name, c := range map[string]struct{ body, title string }{
		"unclosed title":      {"<title>Acme and the rest of the page <p>", "Acme and the rest of the page <p>"},
		"title inside of svg": {"<svg><title>An icon</title></svg><title>Acme</title>", "Acme"},
		"two titles":          {"<title>Acme</title><title>Other</title>", "Acme"},
		"empty first title":   {"<title> </title><title>Acme</title>", "Acme"},
		"nothing":             {"", ""},
		"binary":              {"%PDF-1.4\n1 0 obj<</Type/Catalog>>\x00\x01\x02", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parse(t, c.body, "text/html").Title; got != c.title {
				t.Errorf("title is %q, want %q", got, c.title)
			}
		})
	}
}

func TestResolve_AnyURL_IsAbsoluteOrNil(t *testing.T) {
	for name, c := range map[string]struct{ base, href, want string }{
		"relative":                {"", "/i.png", "https://www.acme.com/i.png"},
		"scheme-relative":         {"", "//cdn.acme.com/i.png", "https://cdn.acme.com/i.png"},
		"fragment dropped":        {"", "/i.svg#mark", "https://www.acme.com/i.svg"},
		"newlines inside":         {"", "/i\n\t.png", "https://www.acme.com/i.png"},
		"base elsewhere":          {`<base href="https://cdn.acme.com/a/">`, "i.png", "https://cdn.acme.com/a/i.png"},
		"base without scheme":     {`<base href="//evil.example/">`, "i.png", "https://evil.example/i.png"}, // like in browsers; the fetcher guards URLs
		"relative base":           {`<base href="/sub/">`, "i.png", "https://www.acme.com/sub/i.png"},
		"first base counts":       {`<base href="/one/"><base href="/two/">`, "i.png", "https://www.acme.com/one/i.png"},
		"unusable base":           {`<base href="javascript:alert(1)"><base href="/two/">`, "i.png", "https://www.acme.com/two/i.png"},
		"base after the link":     {"AFTER<base href='/sub/'>", "i.png", "https://www.acme.com/sub/i.png"},
		"javascript":              {"", "javascript:alert(1)", ""},
		"file":                    {"", "file:///etc/passwd", ""},
		"gopher":                  {"", "gopher://127.0.0.1/", ""},
		"credentials":             {"", "https://user:pw@acme.com/i.png", ""},
		"malformed":               {"", "http://[fe80::1%25eth0/", ""},
		"longer than any address": {"", "/" + strings.Repeat("a", page.MaxURLBytes), ""},
		"data text":               {"", "data:text/html,x", ""},
		"data image":              {"", "data:image/svg+xml,<svg/>", "data:image/svg+xml,<svg/>"},
		"data of 3 MB":            {"", "data:image/png;base64," + strings.Repeat("A", 2<<20), ""},
	} {
		t.Run(name, func(t *testing.T) {
			link := `<link rel="icon" href="` + c.href + `">`
			body := c.base + link
			if after, ok := strings.CutPrefix(c.base, "AFTER"); ok {
				body = link + after
			}
			p := parse(t, body, "text/html")
			got := ""
			if len(p.Icons) > 0 {
				got = p.Icons[0].URL.String()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestParse_Icons_AreRead(t *testing.T) {
	p := parse(t, `
		<LINK REL="SHORTCUT ICON" HREF="/fav.ico">
		<link rel="apple-touch-icon-precomposed" sizes="114x114" href="/a.png">
		<link rel="mask-icon" href="/m.svg" color="#ff0000">
		<link rel="icon" sizes="any" mask href="/old-mask.svg">
		<link rel="icon" type="image/svg+xml" sizes="any" media="(prefers-color-scheme: dark)" href="/d.svg">
		<link rel="alternate icon" href="/alt.png" sizes="16x16 32x32">
		<link rel="stylesheet" href="/icon.css">
		<link rel="icon">`, "text/html")
	var got []string
	for _, i := range p.Icons {
		got = append(got, fmt.Sprint(i.Rel, " ", i.URL.Path, " ", i.Sizes, " ", i.Any, " ", i.Color, i.Media))
	}
	want := []string{
		"icon /fav.ico [] false ",
		"apple-touch-icon /a.png [{114 114}] false ",
		"mask-icon /m.svg [] false #ff0000",
		"mask-icon /old-mask.svg [] true ",
		"icon /d.svg [] true (prefers-color-scheme: dark)",
		"icon /alt.png [{16 16} {32 32}] false ",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestImages_Place_IsRecorded(t *testing.T) {
	p := parse(t, `<body class="search cookie-notice-shown">
		<div class="onetrust-consent-sdk"><img src="/vendor.svg" alt="Consent vendor logo"></div>
		<div id="page" class="has-partners-menu"><header><a href="/" aria-label="Acme home"><img class="siteLogo" src="/logo.svg" alt="Acme"></a></header></div>
		<nav><a href="/de-de/"><img src="/nav.png"></a><a href="https://other.example/"><img src="/foreign.png"></a></nav>
		<section class="customer-logos"><a href="/"><img src="/customer.png" alt="Customer"></a></section>
		<main><img data-src="/lazy.png" src="data:image/gif;base64,R0lGOD" width="300px" height=20></main>
		<img srcset="/small.png 1x, /large.png 3x">
		<a href="/"><picture><source media="(prefers-color-scheme: dark)" srcset="/dark.svg"><img src="/light.svg"></picture></a>
		<noscript><img src="/noscript.png"></noscript>
		<footer><a href="/"><img src="/foot.svg"></a></footer>`, "text/html")
	got := map[string]page.Image{}
	for _, im := range p.Images {
		got[im.URL.Path] = im
	}
	if _, ok := got["/vendor.svg"]; ok {
		t.Error("found the logo of a consent vendor")
	}
	for path, want := range map[string]string{
		"/logo.svg":     "header home=true excluded=false",
		"/nav.png":      "nav home=true excluded=false",
		"/foreign.png":  "nav home=false excluded=false",
		"/customer.png": "body home=true excluded=true",
		"/lazy.png":     "body home=false excluded=false",
		"/large.png":    "body home=false excluded=false",
		"/light.svg":    "body home=true excluded=false",
		"/dark.svg":     "body home=true excluded=false",
		"/noscript.png": "body home=false excluded=false",
		"/foot.svg":     "footer home=true excluded=false",
	} {
		im, ok := got[path]
		if !ok {
			t.Errorf("%s was not gathered", path)
			continue
		}
		if s := fmt.Sprintf("%s home=%t excluded=%t", im.Zone, im.Home, im.Excluded); s != want {
			t.Errorf("%s: %s, want %s", path, s, want)
		}
	}
	if im := got["/logo.svg"]; im.LinkLabel != "Acme home" || im.Alt != "Acme" || fmt.Sprint(im.Tokens[:2]) != "[site logo]" {
		t.Errorf("logo is %+v", im)
	}
	if !got["/foreign.png"].Foreign || got["/dark.svg"].Scheme != "dark" || got["/lazy.png"].Width != 300 {
		t.Errorf("foreign %v, scheme %q, width %d", got["/foreign.png"].Foreign, got["/dark.svg"].Scheme, got["/lazy.png"].Width)
	}
}

func TestText_Page_ContentOnly(t *testing.T) {
	p := parse(t, `<h1>Acme</h1><script>var words = "hidden words";</script><style>a{}</style><template>templated</template>
		<noscript>Enable JavaScript</noscript><div id="CookieBanner">We use cookies</div><p>Careful   instruments</p><svg><text>drawn</text></svg>`, "text/html")
	if p.Text != "Acme Careful instruments" || p.Words != 3 {
		t.Errorf("text is %q with %d words", p.Text, p.Words)
	}
	if !strings.Contains(p.Script, "hidden words") {
		t.Error("inline scripts are missing")
	}
}

func TestParse_Refresh_IsRead(t *testing.T) {
	for content, want := range map[string]string{
		"0; url=/en/":                     "0 https://www.acme.com/en/",
		"5;URL='https://other.example/x'": "5 https://other.example/x",
		"0,/next":                         "0 https://www.acme.com/next",
		"1.5; /frac":                      "1 https://www.acme.com/frac",
		"300":                             "",
		"soon; url=/x":                    "",
		"0; url=javascript:alert(1)":      "",
		"-1; url=/x":                      "",
	} {
		p := parse(t, `<meta http-equiv="refresh" content="`+content+`">`, "text/html")
		got := ""
		if p.Refresh != nil {
			got = fmt.Sprint(p.Refresh.Seconds, " ", p.Refresh.URL)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
}

func TestParse_Microdata_IsRead(t *testing.T) {
	p := parse(t, `<div itemscope><span itemprop="name">Acme</span><img itemprop="logo image" src="/l.svg"><a itemprop="sameAs" href="https://x.com/acme">x</a><meta itemprop="description" content="Instruments"></div>`, "text/html")
	if p.Itemprop("name") != "Acme" || p.Itemprop("logo") != "/l.svg" || p.Itemprop("sameas") != "https://x.com/acme" || p.Itemprop("description") != "Instruments" {
		t.Errorf("microdata: %+v", p.Metas)
	}
	if p.Meta("description") != "" {
		t.Error("a microdata value is taken for a meta element")
	}
}

func TestIsHidden_Style_DecidesVisibility(t *testing.T) {
	for style, want := range map[string]bool{
		"display: none": true, "color:red;visibility:hidden": true, "visibility: collapse;": true, "opacity:0": true, "opacity: 0.0; color:red": true, "opacity:0!important": true,
		"font-size:0": true, "font-size: 0px;color:red": true, "font-size:0 !important": true, "FONT-SIZE:0REM": true, "position:absolute;left:-9999px": true,
		"top: -10000px; position: fixed": true, "position:absolute;left:-999em": true, "text-indent:-9999px": true, "text-indent:-999em": true, "margin-left:-9999px": true, "clip:rect(0,0,0,0)": true, "max-height:0": true,

		"": false, "font-size:0.9rem": false, "font-size: 0.875em; color:red": false, "font-size:05px": false, "margin-left:-100px": false, "position:absolute;left:-100px": false, "top:-250px;position:absolute": false,
		"left:-9999px": false, "opacity:0;transform:translateY(20px)": false, "transition: opacity .4s; opacity:0": false, "-webkit-transform:none;opacity:0;": false, "opacity:0;transition-duration:1s": false,
		"opacity:0.5": false, "opacity:1": false, "text-indent:-16px": false, "max-height:0.5em": false, "max-height:100%": false, "visibility:visible": false,
	} {
		n := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div, Attr: []html.Attribute{{Key: "style", Val: style}}}
		if got := page.IsHidden(n); got != want {
			t.Errorf("%q: %v, want %v", style, got, want)
		}
	}
}
