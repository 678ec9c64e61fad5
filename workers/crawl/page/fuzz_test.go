package page_test

import (
	"testing"
	"unicode/utf8"

	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		declared, "<title>", "<base href=//evil><a href=x rel=me>", "<svg><title>x</title>", "\xff\xfe<\x00t\x00",
		`<meta http-equiv=refresh content="0;url=x"><img srcset="a 1x, b 2x,, c (1,2 9w 9h,d" sizes>`,
		`<script type="application/ld+json">{"@graph":[{"@id":"a","logo":{"@id":"a"}}]}</script>`,
		`<script>var a="/x"+location.host;setTimeout(function(){try{top["location"].href=a}catch(e){}},9)</script><body onload="f()">`,
		`<script>function f(){f()}f();(()=>{location.replace("\u002f\x")})()</script><frameset><frame src=a></frameset>`,
		"<div><div><p><table><a><b><i></a>", "<picture><source media='(prefers-color-scheme:dark)' srcset=x><img>",
	} {
		f.Add([]byte(seed), "text/html")
	}
	f.Add([]byte(`<div id="a"></div><script>document.write('<nav>' + "<b>"); document.getElementById('a').innerHTML = '<header><script id=s>'</script><script>customElements.define("x-a", X); this.innerHTML = '<nav>'</script><x-a></x-a>`), "text/html")
	f.Add([]byte(`<script>/* <nav> */ document.write('<nav>' + "\"''" + '</script>`), "text/html")
	f.Add([]byte("<title>\x83A</title>"), "text/html; charset=shift_jis")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		p := page.Parse(body, contentType, home, site.New("acme.com"))
		if !utf8.ValidString(p.Title) || !utf8.ValidString(p.Text) {
			t.Errorf("invalid text: %q %q", p.Title, p.Text)
		}
		for _, i := range p.Icons {
			if s := i.URL.Scheme; s != "http" && s != "https" && s != "data" {
				t.Errorf("icon at %s", i.URL)
			}
		}
		if to := p.Onward(); to != nil && to.URL.Scheme != "http" && to.URL.Scheme != "https" {
			t.Errorf("onward to %s", to.URL)
		}
		for _, a := range p.Anchors {
			if s := a.URL.Scheme; s != "http" && s != "https" {
				t.Errorf("link to %s", a.URL)
			}
		}
	})
}

func FuzzParseSizes(f *testing.F) {
	for _, seed := range []string{"16x16 32x32", "any", "192X192", "x", "1e9x1", "-1x-1", "16×16", "99999999999999999999x1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sizes, _ := page.ParseSizes(text)
		if len(sizes) > 16 {
			t.Errorf("%d sizes", len(sizes))
		}
		for _, s := range sizes {
			if s.Width < 1 || s.Height < 1 || s.Width > 8192 || s.Height > 8192 {
				t.Errorf("size %v", s)
			}
		}
	})
}
