package imaging_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"

	"letterhead/internal/imaging"
)

const (
	open   = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 40">`
	honest = `<rect width="90" height="30" fill="#0b5fff"/>`
)

// hostile is an SVG that means harm, or that tools choke on.
type hostile struct {
	name string
	svg  string
	// want is the error; nil means that the honest rectangle must come out, and nothing else that matters.
	want error
}

func around(s string) string { return open + honest + s + "</svg>" }

func chain(element string, n int, link string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<%s id="c0"><rect width="1" height="1"/></%s>`, element, element)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `<%s id="c%d" %s/>`, element, i, fmt.Sprintf(link, i-1))
	}
	return b.String()
}

func utf16LE(s string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

func hostileSVGs() []hostile {
	laughs := `<!DOCTYPE svg [<!ENTITY a0 "lol">`
	for i := range 10 {
		laughs += fmt.Sprintf(`<!ENTITY a%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&a%d;", i), 10))
	}
	laughs += "]>"
	useBomb := `<g id="g0">` + honest + `</g>`
	for i := range 9 {
		useBomb += fmt.Sprintf(`<g id="g%d">%s</g>`, i+1, strings.Repeat(fmt.Sprintf(`<use href="#g%d"/>`, i), 10))
	}
	blurs := `<filter id="f">` + strings.Repeat(`<feGaussianBlur stdDeviation="50"/>`, 200) + `</filter>`
	manyEntities := `<!DOCTYPE svg [`
	for i := range 100 {
		manyEntities += fmt.Sprintf(`<!ENTITY e%d "x">`, i)
	}
	manyEntities += "]>"
	quadratic := `<!DOCTYPE svg [<!ENTITY q "` + strings.Repeat("q", 5000) + `">]>` + open + honest + `<text>` + strings.Repeat("&q;", 50_000) + `</text></svg>`
	svgInside := base64.StdEncoding.EncodeToString([]byte(open + `<script>alert(1)</script></svg>`))
	bomb := base64.StdEncoding.EncodeToString(pngBomb())
	big := imaging.ErrTooLarge
	return []hostile{
		{"billion laughs in text", laughs + around("<text>&a10;</text>"), nil},
		{"billion laughs as elements", strings.ReplaceAll(laughs, `"lol"`, `"<rect/>"`) + around("&a10;"), nil},
		{"many entities", manyEntities + around(""), big},
		{"quadratic entities", quadratic, big},
		{"external entity, file", `<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + around("<text>&x;</text>"), nil},
		{"external entity, http", `<!DOCTYPE svg [<!ENTITY x PUBLIC "-//x" "http://10.0.0.1/x">]>` + around("<text>&x;</text>"), nil},
		{"external document type", `<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://10.0.0.1/evil.dtd">` + around(""), nil},
		{"parameter entity", `<!DOCTYPE svg [<!ENTITY % x SYSTEM "http://10.0.0.1/x"> %x;]>` + around(""), nil},
		{"use bomb", open + "<defs>" + useBomb + `</defs><use href="#g9"/></svg>`, big},
		{"use bomb that is never drawn", open + honest + "<defs>" + useBomb + `</defs><g display="none"><use href="#g9"/></g></svg>`, big},
		{"use cycle", around(`<g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g>`), big},
		{"use of itself", around(`<g id="a"><use xlink:href="#a"/></g>`), big},
		{"use of the root", strings.Replace(around(`<use href="#r"/>`), "<svg ", `<svg id="r" `, 1), big},
		{"gradient cycle", around(`<linearGradient id="a" href="#b"/><linearGradient id="b" href="#a"/><rect fill="url(#a)" width="1" height="1"/>`), big},
		{"pattern cycle", around(`<pattern id="p" width="9" height="9"><rect width="9" height="9" fill="url(#p)"/></pattern><rect fill="url(#p)" width="9" height="9"/>`), big},
		{"pattern cycle by inheritance", around(`<g fill="url(#p)"><pattern id="p" width="9" height="9"><g style="fill:url(#p)"><rect width="9" height="9"/></g></pattern></g>`), big},
		{"mask cycle", around(`<mask id="m" mask="url(#m)"><rect width="9" height="9"/></mask><rect mask="url(#m)" width="9" height="9"/>`), big},
		{"clip cycle by style", around(`<style>.c{clip-path:url(#k)}</style><clipPath id="k"><rect class="c" width="9" height="9"/></clipPath><rect class="c" width="9" height="9"/>`), big},
		{"deep gradient chain", around(chain("linearGradient", 2000, `href="#c%d"`) + `<rect width="1" height="1" fill="url(#c1999)"/>`), big},
		{"deep use chain", around(chain("g", 2000, `><use href="#c%d"/></g><g`) + `<use href="#c1999"/>`), big},
		{"deep mask chain", around(chain("mask", 2000, `mask="url(#c%d)"`) + `<rect mask="url(#c1999)" width="1" height="1"/>`), big},
		{"deep nesting", around(strings.Repeat("<g>", 30_000) + strings.Repeat("</g>", 30_000)), big},
		{"viewBox NaN", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 NaN NaN">` + honest + `</svg>`, nil},
		{"viewBox Inf", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 Infinity 1e999">` + honest + `</svg>`, nil},
		{"viewBox zero", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 0 0">` + honest + `</svg>`, nil},
		{"viewBox negative", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 -10 -10">` + honest + `</svg>`, nil},
		{"width 1e9", `<svg xmlns="http://www.w3.org/2000/svg" width="1e9" height="1e9" viewBox="0 0 10 10">` + honest + `</svg>`, nil},
		{"aspect 1:1e8", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000000 0.01">` + honest + `</svg>`, big},
		{"huge blur", around(`<filter id="f"><feGaussianBlur stdDeviation="1e5"/></filter><g filter="url(#f)"><rect width="9" height="9"/></g>`), nil},
		{"many blurs", around(blurs + strings.Repeat(`<rect filter="url(#f)" width="9" height="9"/>`, 50)), big},
		{"turbulence", around(`<filter id="f"><feTurbulence numOctaves="1000000" baseFrequency="0.9"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"huge morphology", around(`<filter id="f"><feMorphology radius="1e4"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"huge filter canvas", around(`<filter id="f" width="90000000%" height="90000000%"><feOffset dx="1"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"tiny pattern", around(`<pattern id="p" width="0.0001" height="0.0001" patternUnits="userSpaceOnUse"><path d="M0 0h1v1z"/></pattern><rect fill="url(#p)" width="90" height="30"/>`), big},
		{"tiny pattern in a mask", around(`<pattern id="p" width="1" height="1" patternTransform="scale(1e-5)" patternUnits="userSpaceOnUse"><path d="M0 0h1v1z"/></pattern><mask id="m"><rect fill="url(#p)" width="90" height="30"/></mask><rect mask="url(#m)" width="9" height="9"/>`), big},
		{"narrow pattern", around(`<pattern id="p" width="0.0000001" height="1" ><path d="M0 0h1v1z"/></pattern><rect fill="url(#p)" width="90" height="30"/>`), big},
		{"inherited pattern", around(`<pattern id="p" width="1" height="1">` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 1000) + `</pattern><g fill="url(#p)">` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 1000) + `</g>`), big},
		{"tiny dashes", around(`<path d="M0 0h1000000" stroke="red" stroke-dasharray="0.0001"/>`), big},
		{"tiny dashes by style", around(`<style>path{stroke:red;stroke-dasharray:.0001 .0001}</style><path d="M0 0h1000000"/>`), big},
		{"far coordinates", around(`<path d="M0 0 L1e38 1e38 1e38 0z" stroke="red"/>`), nil},
		{"path of half a million points", around(`<path d="M0 0` + strings.Repeat("h1v1", 250_000) + `"/>`), big},
		{"a hundred thousand rects", around(strings.Repeat(`<p/>`, 100_000)), big},
		{"a hundred thousand attributes", around(`<rect ` + strings.Repeat(`a="" `, 90_000) + `/>`), big},
		{"many filters over use", around(`<filter id="f"><feGaussianBlur stdDeviation="5"/></filter><g id="g"><rect filter="url(#f)" width="9" height="9"/></g>` + strings.Repeat(`<use href="#g"/>`, 2000)), big},
		{"slow selectors", around(`<style>` + strings.Repeat(`g g g *{fill:red}`, 3000) + `</style>` + strings.Repeat("<g>", 60) + strings.Repeat(`<path d="M0 0h1"/>`, 9000) + strings.Repeat("</g>", 60)), big},
		{"mask by a selector that needs a second try", around(`<style>.a>g .x{mask:url(#m)}</style><mask id="m">` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 3000) + `</mask><g class="a"><g><g>` + strings.Repeat(`<path class="x" d="M0 0h1v1z"/>`, 200) + `</g></g></g>`), big},
		{"mask by a rule that another one seems to undo", around(`<style>path{mask:url(#m)}path{mask:bogus}</style><mask id="m">` + strings.Repeat(`<rect width="1" height="1"/>`, 3000) + `</mask>` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 200)), big},
		{"dashes by a rule that another one seems to undo", around(`<path d="M0 0h1000000" stroke="red" style="stroke-dasharray:.0001;stroke-dasharray:1 px"/>`), big},
		{"dashes by arithmetic", around(`<path d="M0 0h1000000" stroke="red" style="stroke-dasharray:calc(.0001px);stroke-dasharray:var(--x);stroke-dasharray:1%"/>`), nil},
		{"nested SVG as data", around(`<image href="data:image/svg+xml;base64,` + svgInside + `" width="9" height="9"/>`), nil},
		{"PNG bomb inside", around(`<image href="data:image/png;base64,` + bomb + `" width="9" height="9"/>`), nil},
		{"image from a file", around(`<image href="file:///etc/passwd" width="9" height="9"/>`), nil},
		{"image from the network", around(`<image xlink:href="http://169.254.169.254/latest/meta-data/" width="9" height="9"/>`), nil},
		{"HTML as PNG data", around(`<image href="data:image/png;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==" width="9" height="9"/>`), nil},
		{"image in a filter", around(`<filter id="f"><feImage href="http://10.0.0.1/x"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"style import", around(`<style>@import url("http://10.0.0.1/evil.css");@import 'evil.css';rect{stroke:none}</style>`), nil},
		{"style with outside urls", around(`<style>rect{fill:url(http://10.0.0.1/p.svg#p);background:url(javascript:alert(1));stroke:URL( "//evil/x" )}</style><rect width="9" height="9" style="fill:url('data:image/svg+xml,x')"/>`), nil},
		{"style with escapes", around(`<style>rect{fill:u\72l(http://10.0.0.1/x);filter:\75rl(//x)}</style><rect width="9" height="9" style="stroke:u\000072l(http://x)"/>`), nil},
		{"style that ends early", around(`<style>rect{fill:red}&lt;/style>&lt;script>alert(1)&lt;/script></style><style><![CDATA[</style><script>alert(1)</script>]]></style>`), nil},
		{"style with fonts and frames", around(`<style>@font-face{font-family:x;src:url(http://10.0.0.1/f)}@keyframes k{to{fill:red}}@namespace url(http://x);rect{animation:k;-moz-binding:url(http://x);behavior:url(x)}</style>`), nil},
		{"url in a custom property", around(`<style>:root{--x:url(http://10.0.0.1/)}rect{stroke:var(--x)}</style>`), nil},
		{"script", around(`<script>alert(1)</script><SCRIPT>alert(1)</SCRIPT><script href="http://10.0.0.1/evil.js"/>`), nil},
		{"CDATA script", around(`<script><![CDATA[alert(1)]]></script>`), nil},
		{"script in another namespace", around(`<h:script xmlns:h="http://www.w3.org/1999/xhtml">alert(1)</h:script><x:g xmlns:x="http://www.w3.org/1999/xhtml" onclick="alert(1)"/>`), nil},
		{"handlers", strings.Replace(around(`<rect width="9" height="9" onclick="alert(1)" ONLOAD="alert(1)" on:click="x"/>`), "<svg ", `<svg onload="alert(1)" `, 1), nil},
		{"handler by namespace", around(`<rect xmlns:ev="http://www.w3.org/2001/xml-events" ev:onclick="alert(1)" width="9" height="9"/><handler type="text/ecmascript">alert(1)</handler><listener event="click" handler="#h"/>`), nil},
		{"foreign object", around(`<foreignObject width="9" height="9"><body xmlns="http://www.w3.org/1999/xhtml"><iframe src="http://10.0.0.1/"></iframe><script>alert(1)</script></body></foreignObject>`), nil},
		{"javascript link", around(`<a href="javascript:alert(1)"><text>x</text></a><a xlink:href="jAvA&#x9;script:alert(1)"><rect width="9" height="9"/></a><a href="java&#10;script&#58;alert(1)"/>`), nil},
		{"set on href", around(`<use id="u" href="#x"/><set href="#u" attributeName="href" to="javascript:alert(1)"/><set attributeName="onmouseover" to="alert(1)"/>`), nil},
		{"animate on href", around(`<rect width="9" height="9"><animate attributeName="xlink:href" values="javascript:alert(1)"/><animateTransform/><animateMotion path="M0 0"/></rect>`), nil},
		{"odd prefix for xlink", `<svg xmlns="http://www.w3.org/2000/svg" xmlns:zz="http://www.w3.org/1999/xlink" viewBox="0 0 100 40">` + honest + `<use zz:href="http://10.0.0.1/x.svg#y"/><use zz:href="&#x6a;avascript:alert(1)"/></svg>`, nil},
		{"use of another file", around(`<use href="sprite.svg#icon"/><use href="//evil/x#y"/><use href="data:image/svg+xml,x#y"/>`), nil},
		{"xml:base", strings.Replace(around(`<use href="#a" xml:base="http://10.0.0.1/"/>`), "<svg ", `<svg xml:base="http://10.0.0.1/" `, 1), nil},
		{"instructions", `<?xml version="1.0"?><?xml-stylesheet href="http://10.0.0.1/evil.css"?>` + around(`<?php system("id") ?><!--[if IE]><script>alert(1)</script><![endif]-->`), nil},
		{"metadata", around(`<metadata><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><script>alert(1)</script></rdf:RDF></metadata><title>javascript:alert(1)</title><desc onclick="x">x</desc>`), nil},
		{"names that clobber", around(`<g id="location"/><form id="body"><input name="cookie"/></form>`), nil},
		{"markup in attributes", around(`<rect width="9" height="9" fill='"&gt;&lt;script&gt;alert(1)&lt;/script&gt;' class="&quot;&gt;&lt;script&gt;" id="&lt;x" preserveAspectRatio="&quot; onload=&quot;alert(1)"/>`), nil},
		{"UTF-7", `<?xml version="1.0" encoding="UTF-7"?>` + around(`+ADw-script+AD4-alert(1)+ADw-/script+AD4-`), imaging.ErrUnsupported},
		{"UTF-16", utf16LE(`<?xml version="1.0" encoding="UTF-16"?>` + around(`<script>alert(1)</script>`)), nil},
		{"entity that is markup", `<!DOCTYPE svg [<!ENTITY s "&#60;script>alert(1)&#60;/script>">]>` + around("<text>&s;</text>&s;"), nil},
		{"entity-defined namespace", `<!DOCTYPE svg [<!ENTITY ns "http://www.w3.org/2000/svg"><!ENTITY xl "http://www.w3.org/1999/xlink">]><svg xmlns="&ns;" xmlns:k="&xl;" viewBox="0 0 100 40">` + honest + `<use k:href="http://10.0.0.1/"/></svg>`, nil},
		{"no namespace", `<svg viewBox="0 0 100 40">` + honest + `<script>alert(1)</script></svg>`, nil},
		{"two roots", around("") + around("<script>alert(1)</script>"), imaging.ErrMalformed},
		{"cut off", strings.TrimSuffix(around(""), "</svg>"), imaging.ErrMalformed},
		{"not balanced", open + honest + `</g></svg>`, imaging.ErrMalformed},
		{"HTML", `<!doctype html><html><body>` + around("") + `</body></html>`, imaging.ErrUnknown},
		{"nothing drawn", open + `<g fill="none"/><rect width="9" height="9" fill="none"/></svg>`, imaging.ErrMalformed},
		{"only clear ink", open + `<rect width="9" height="9" opacity="0"/><rect width="9" height="9" fill="transparent"/></svg>`, imaging.ErrMalformed},
		{"past the limit of bytes", around(strings.Repeat(" ", imaging.MaxSVGBytes)), big},
		{"cdata in a value", around(`<text>]]&gt;<tspan>&lt;script&gt;</tspan></text>`), nil},
	}
}

func TestHostileSVG(t *testing.T) {
	for _, h := range hostileSVGs() {
		t.Run(h.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			clean, _, err := imaging.SanitizeSVG([]byte(h.svg))
			runtime.ReadMemStats(&after)
			// Of allocations in total, so of memory at any time. 21 MiB is the most that was seen; the race
			// detector, which empties pools at random, makes it more.
			const most = 256 << 20
			if used := after.TotalAlloc - before.TotalAlloc; used > most {
				t.Errorf("allocated %d MiB", used>>20)
			}
			if h.want != nil {
				if !errors.Is(err, h.want) || clean != nil {
					t.Fatalf("error %v, want %v; %d bytes", err, h.want, len(clean))
				}
				return
			}
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			for _, r := range residue(clean) {
				t.Errorf("residue: %s", r)
			}
			if !bytes.Contains(clean, []byte(`fill="#0b5fff"`)) {
				t.Errorf("the honest rectangle is gone: %s", clean)
			}
			again, _, err := imaging.SanitizeSVG(clean)
			if err != nil || !bytes.Equal(again, clean) {
				t.Errorf("a second time: %v\n%s\n%s", err, clean, again)
			}
		})
	}
}

// TestResidueScanFindsResidue keeps the scan itself honest.
func TestResidueScanFindsResidue(t *testing.T) {
	for _, svg := range []string{
		`<script>alert(1)</script>`, `<SCRIPT/>`, `<foreignObject/>`, `<a href="#x"/>`, `<rect onclick="x"/>`, `<rect ONCLICK="x"/>`,
		`<use href="http://x"/>`, `<use xlink:href="//x"/>`, `<use xlink:href="&#106;avascript:x"/>`, `<rect fill="url(http://x)"/>`,
		`<rect fill="URL( 'x' )"/>`, `<style>@import "x"</style>`, `<style>a{b:u\72l(x)}</style>`, `<image href="data:image/svg+xml,x"/>`,
		`<image href="data:image/png;base64,AAAA"/>`, `<!DOCTYPE x>`, `<?x?>`, `<!--x-->`, `<text>&x;</text>`, `<rect style="fill:url(//x)"/>`,
		`<animate/>`, `<set/>`, `<g xml:base="x"/>`, `<g xmlns:x="y"/>`, `<style>rect{fill:url(data:x)}</style>`, `<feImage/>`,
	} {
		if len(residue([]byte(`<svg xmlns="http://www.w3.org/2000/svg">`+svg+`</svg>`))) == 0 {
			t.Errorf("not found: %s", svg)
		}
	}
	if found := residue([]byte(open + honest + `</svg>`)); len(found) > 0 {
		t.Errorf("found in an honest file: %v", found)
	}
}

func TestEmbeddedRasterIsEncodedAnew(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 2000, 20))
	for i := range img.Pix {
		img.Pix[i] = byte(i * 7)
	}
	png, err := imaging.EncodePNG(img)
	if err != nil {
		t.Fatal(err)
	}
	jpeg, err := imaging.EncodeJPEG(img, imaging.White)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range [][]byte{append(png, "<script>alert(1)</script>"...), jpeg} {
		svg := around(`<image width="90" height="9" xlink:href="data:image/png;base64,` + base64.StdEncoding.EncodeToString(raw) + `"/>`)
		clean, info, err := imaging.SanitizeSVG([]byte(svg))
		if err != nil {
			t.Fatal(err)
		}
		if !info.HasRaster {
			t.Error("HasRaster is false")
		}
		if found := residue(clean); len(found) > 0 {
			t.Errorf("residue: %v", found)
		}
		if !bytes.Contains(clean, []byte("data:image/png;base64,")) || bytes.Contains(clean, []byte(base64.StdEncoding.EncodeToString(raw)[:64])) && bytes.Contains(clean, []byte("PHNjcmlwdD")) {
			t.Error("the raster is gone, or as it came")
		}
		again, _, err := imaging.SanitizeSVG(clean)
		if err != nil || !bytes.Equal(again, clean) {
			t.Errorf("a second time differs: %v", err)
		}
	}
}
