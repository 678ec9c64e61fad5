package inlinesvg_test

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"

	"letterhead/internal/css"
	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/workers/crawl/inlinesvg"
	"letterhead/workers/crawl/site"
)

func home() *url.URL { return &url.URL{Scheme: "https", Host: "acme.com", Path: "/"} }

// resolve resolves the svg element with the id logo, or else the first one of a page.
func resolve(t testing.TB, body string) (*inlinesvg.Image, error) {
	t.Helper()
	root := testmust.Get(html.Parse(strings.NewReader(body)))(t)
	svg := find(root)
	if svg == nil {
		t.Fatal("no svg in the page")
	}
	return inlinesvg.NewResolver(root, home(), css.New(root, home(), nil, site.Resolve)).Resolve(svg)
}

func find(root *html.Node) *html.Node {
	var first *html.Node
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "svg" {
			continue
		}
		if first == nil {
			first = n
		}
		for _, a := range n.Attr {
			if a.Key == "id" && a.Val == "logo" {
				return n
			}
		}
	}
	return first
}

var renderer = sync.OnceValues(func() (*resvg.Renderer, error) {
	return resvg.New(context.Background(), resvg.Config{CacheDir: resvgtest.Folder()})
})

// pixel draws an SVG 100 pixels long and returns the color of one pixel.
func pixel(t testing.TB, data []byte, x, y int) string {
	t.Helper()
	clean, _, err := svg.Sanitize(data)
	if err != nil {
		t.Fatalf("Sanitize: %v\n%s", err, data)
	}
	r := testmust.Get(renderer())(t)
	img, err := r.Render(t.Context(), clean, 100)
	if err != nil {
		t.Fatalf("Render: %v\n%s", err, clean)
	}
	c := img.NRGBAAt(x, y)
	if c == (color.NRGBA{}) {
		return "clear"
	}
	return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)
}

const triangle = `<path d="M0 0h100v50z"/>`

func TestResolve_Colors_AreComputed(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nothing said":           {`<svg viewBox="0 0 100 50">` + triangle + `</svg>`, "#000000"},
		"an attribute":           {`<svg viewBox="0 0 100 50" fill="#0b5fff">` + triangle + `</svg>`, "#0b5fff"},
		"a class":                {`<style>.ink{fill:#0b5fff}</style><svg viewBox="0 0 100 50"><path class="ink" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"a class beats its fill": {`<style>.ink{fill:#0b5fff}</style><svg viewBox="0 0 100 50"><path class="ink" fill="red" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"a style attribute":      {`<svg viewBox="0 0 100 50"><path style="fill: #0b5fff" fill="red" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"currentColor":           {`<style>header{color:#0b5fff}</style><header><svg viewBox="0 0 100 50" fill="currentColor">` + triangle + `</svg></header>`, "#0b5fff"},
		"currentColor unknown":   {`<header><svg viewBox="0 0 100 50" fill="currentColor">` + triangle + `</svg></header>`, "#000000"},
		"color of the path":      {`<svg viewBox="0 0 100 50" color="red"><path color="#0b5fff" fill="currentColor" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"a variable":             {`<style>:root{--brand:#0b5fff}</style><svg viewBox="0 0 100 50"><path style="fill:var(--brand)" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"a variable's fallback":  {`<svg viewBox="0 0 100 50"><path fill="var(--brand, #0b5fff)" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"fill from above":        {`<style>header{fill:#0b5fff}</style><header><a><svg viewBox="0 0 100 50">` + triangle + `</svg></a></header>`, "#0b5fff"},
		"its own style element":  {`<svg viewBox="0 0 100 50"><style>.a{fill:#0b5fff}</style><path class="a" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"fill none, no sheet":    {`<svg viewBox="0 0 100 50" fill="none" class="fill-black">` + triangle + `</svg>`, "#000000"},
		"modern color":           {`<svg viewBox="0 0 100 50"><path fill="rgb(11 95 255)" d="M0 0h100v50z"/></svg>`, "#0b5fff"},
		"transition to opaque":   {`<style>svg{opacity:0;fill:#0b5fff}</style><svg viewBox="0 0 100 50">` + triangle + `</svg>`, "#0b5fff"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testmust.Get(resolve(t, c.body))(t)
			if got := pixel(t, d.SVG, 80, 10); got != c.want {
				t.Errorf("color is %s, want %s\n%s", got, c.want, d.SVG)
			}
		})
	}
}

func TestResolve_Shapes_AreKept(t *testing.T) {
	const sprite = `<svg style="display:none"><symbol id="mark" viewBox="0 0 100 50"><path class="a" d="M0 0h100v50z"/></symbol><g id="part"><path d="M0 0h50v50z"/></g>
		<linearGradient id="paint"><stop stop-color="#0b5fff"/><stop offset="1" stop-color="#0b5fff"/></linearGradient></svg>`
	for name, c := range map[string]struct {
		body, want string
		x, y       int
	}{
		"a symbol":                   {sprite + `<svg id="logo"><use href="#mark"/></svg>`, "#000000", 80, 10},
		"by the old attribute":       {sprite + `<svg id="logo"><use xlink:href="#mark"></use></svg>`, "#000000", 80, 10},
		"a symbol in color":          {sprite + `<svg id="logo" fill="#0b5fff"><use href="#mark"/></svg>`, "#0b5fff", 80, 10},
		"a class in the symbol":      {`<style>.a{fill:#0b5fff}</style>` + sprite + `<svg id="logo"><use href="#mark"/></svg>`, "#0b5fff", 80, 10},
		"the use has the color":      {`<style>.b{color:#0b5fff}</style><svg style="display:none"><symbol id="s" viewBox="0 0 100 50"><path fill="currentColor" d="M0 0h100v50z"/></symbol></svg><svg id="logo"><use class="b" href="#s"/></svg>`, "#0b5fff", 80, 10},
		"a symbol at a place":        {sprite + `<svg id="logo" viewBox="0 0 200 100"><use href="#mark" x="100" y="50" width="100" height="50"/></svg>`, "#000000", 90, 30},
		"nothing where it is not":    {sprite + `<svg id="logo" viewBox="0 0 200 100"><use href="#mark" x="100" y="50" width="100" height="50"/><path d="M0 0h1v1z"/></svg>`, "clear", 40, 10},
		"a group":                    {sprite + `<svg id="logo" viewBox="0 0 100 50"><use href="#part" transform="translate(50 0)"/></svg>`, "#000000", 80, 10},
		"a gradient from elsewhere":  {sprite + `<svg id="logo" viewBox="0 0 100 50"><path fill="url(#paint)" d="M0 0h100v50z"/></svg>`, "#0b5fff", 80, 10},
		"a gradient by full address": {sprite + `<svg id="logo" viewBox="0 0 100 50"><path fill="url(https://acme.com/#paint)" d="M0 0h100v50z"/></svg>`, "#0b5fff", 80, 10},
		"hidden parts left out":      {`<svg viewBox="0 0 100 50">` + triangle + `<path style="display:none" fill="red" d="M0 0h100v50z"/><path class="x" fill="red" d="M0 0h100v50z"/></svg><style>.x{display:none}</style>`, "#000000", 80, 10},
		"size for a viewBox":         {`<svg width="200" height="100"><path d="M100 0h100v50z"/></svg>`, "#000000", 90, 10},
		"size from a stylesheet":     {`<style>svg{width:200px;height:100px}</style><svg><path d="M100 0h100v50z"/></svg>`, "#000000", 90, 10},
	} {
		t.Run(name, func(t *testing.T) {
			d := testmust.Get(resolve(t, c.body))(t)
			if got := pixel(t, d.SVG, c.x, c.y); got != c.want {
				t.Errorf("%d, %d is %s, want %s\n%s", c.x, c.y, got, c.want, d.SVG)
			}
		})
	}
}

func TestResolve_NotAnImage_Fails(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"nothing":           {`<svg viewBox="0 0 10 10"><title>Acme</title></svg>`, inlinesvg.ErrEmpty},
		"only hidden":       {`<svg viewBox="0 0 10 10"><g style="display:none"><path d="M0 0h9v9z"/></g></svg>`, inlinesvg.ErrEmpty},
		"a dead use":        {`<svg viewBox="0 0 10 10"><use href="#gone"/></svg>`, inlinesvg.ErrEmpty},
		"text of nothing":   {`<svg viewBox="0 0 100 20"><text y="15"> </text></svg>`, inlinesvg.ErrEmpty},
		"a use of itself":   {`<svg viewBox="0 0 10 10"><g id="a"><use href="#a"/></g></svg>`, inlinesvg.ErrEmpty},
		"uses in a ring":    {`<svg viewBox="0 0 10 10"><g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g></svg>`, inlinesvg.ErrEmpty},
		"a billion uses":    {laughs(), inlinesvg.ErrTooLarge},
		"too many elements": {`<svg viewBox="0 0 10 10">` + strings.Repeat(`<path d="M0 0h9v9z"/>`, 5000) + `</svg>`, inlinesvg.ErrTooLarge},
		"too many bytes":    {`<svg viewBox="0 0 10 10"><path d="` + strings.Repeat("M0 0h9v9z", 40_000) + `"/></svg>`, inlinesvg.ErrTooLarge},
		"too deep":          {`<svg viewBox="0 0 10 10">` + strings.Repeat("<g>", 100) + `<path d="M0 0h9v9z"/></svg>`, inlinesvg.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := resolve(t, c.body); !errors.Is(err, c.want) {
				t.Errorf("got %v, %v; want %v", d, err, c.want)
			}
		})
	}
}

// Text has the fonts that the page gives it, wherever it does.
func TestResolve_Text_HasTheFontOfThePage(t *testing.T) {
	for name, body := range map[string]string{
		"by the body":   `<body style="font:700 40px/1 Arial;color:#004466"><svg viewBox="0 0 50 50"><text y="40" fill="currentColor">I</text></svg>`,
		"by rules":      `<style>.l text{font-family:"Helvetica Neue",Arial;font-size:2.5rem;font-weight:bold;fill:#046}</style><a class=l><svg viewBox="0 0 50 50"><text y="40">I</text></svg></a>`,
		"by variables":  `<style>:root{--f:'Open Sans',sans-serif;--w:800}svg{font-family:var(--f);font-weight:var(--w);fill:#046}</style><svg viewBox="0 0 50 50"><text y="40" font-size="40">I</text></svg>`,
		"by parts":      `<svg viewBox="0 0 50 50" style="font-family:Arial"><text y="40" fill="#046"><tspan style="font-size:40px;font-weight:bold">I</tspan></text></svg>`,
		"in the middle": `<style>svg text{text-anchor:end;text-transform:uppercase;font:bold 40px Arial}</style><svg viewBox="0 0 50 50"><text x="11.1" y="40" fill="#046">i</text></svg>`,
		"used":          `<svg hidden><symbol id="s" viewBox="0 0 50 50"><text y="40" style="font:bold 40px Arial;fill:#046">I</text></symbol></svg><svg id="logo"><use href="#s"/></svg>`,
	} {
		t.Run(name, func(t *testing.T) {
			d := testmust.Get(resolve(t, body))(t)
			for at, want := range map[int]string{11: "#004466", 25: "clear"} {
				if got := pixel(t, d.SVG, at, 50); got != want {
					t.Errorf("%d is %s, want %s\n%s", at, got, want, d.SVG)
				}
			}
		})
	}
}

// laughs returns an image that doubles a shape thirty times.
func laughs() string {
	var b strings.Builder
	b.WriteString(`<svg viewBox="0 0 10 10"><g id="a0"><path d="M0 0h9v9z"/></g>`)
	for i := range 30 {
		fmt.Fprintf(&b, `<g id="a%d"><use href="#a%d"/><use href="#a%d"/></g>`, i+1, i, i)
	}
	return b.String() + `<use href="#a30"/></svg>`
}

func TestResolve_ActiveContent_IsDropped(t *testing.T) {
	d, err := resolve(t, `<svg viewBox="0 0 100 50" onload="x()" class="a"><title>Acme</title><script>x()</script><foreignObject><iframe src="//evil"></iframe></foreignObject>
		<a href="javascript:x()"><path onclick="x()" data-x="1" d="M0 0h100v50z"/></a><animate attributeName="href" to="javascript:x()"/></svg>`)
	testmust.Succeed(t, err)
	for _, residue := range []string{"onload", "script", "foreignObject", "iframe", "onclick", "data-x", "animate", "title"} {
		if strings.Contains(string(d.SVG), residue) {
			t.Errorf("%s is left in %s", residue, d.SVG)
		}
	}
}

func TestResolve_SpriteReference_IsFollowed(t *testing.T) {
	d := testmust.Get(resolve(t, `<style>header{color:#0b5fff}.logo{fill:currentColor}</style><header><svg class="logo" viewBox="0 0 100 50" width="200" height="100"><use xlink:href="/img/sprite.svg?v=2#mark"></use></svg></header>`))(t)
	s := d.Sprite
	if s == nil || s.URL.String() != "https://acme.com/img/sprite.svg?v=2" || s.ID != "mark" || s.Color != "#0b5fff" || s.Fill != "#0b5fff" || d.SVG != nil || d.Width != 200 {
		t.Errorf("sprite is %+v of %+v", s, d)
	}
	for _, ref := range []string{"file:///etc/passwd#a", "javascript:x#a", "https://user:secret@acme.com/s.svg#a", "data:image/svg+xml,x#a"} {
		if d, err := resolve(t, `<svg viewBox="0 0 1 1"><use href="`+ref+`"/></svg>`); err == nil {
			t.Errorf("%s gives %+v", ref, d.Sprite)
		}
	}
}

func TestCut_Parts_AreSeparated(t *testing.T) {
	const sprite = `<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 400"><defs><linearGradient id="paint"><stop stop-color="#0b5fff"/></linearGradient></defs>
		<symbol id="mark" viewBox="0 0 100 50"><path d="M0 0h100v50z"/></symbol><symbol id="ink" viewBox="0 0 100 50"><path fill="currentColor" d="M0 0h100v50z"/></symbol>
		<symbol id="shaded" viewBox="0 0 100 50"><path fill="url(#paint)" d="M0 0h100v50z"/></symbol><symbol id="boxless"><path d="M0 0h100v50z"/></symbol>
		<g id="group"><path d="M0 0h400v200z" fill="red"/></g><svg id="nested" viewBox="0 0 100 50"><path d="M0 0h100v50z" fill="lime"/></svg><view id="corner" viewBox="0 0 200 100"/></svg>`
	for name, c := range map[string]struct {
		part inlinesvg.Sprite
		want string
	}{
		"symbol":              {inlinesvg.Sprite{ID: "mark"}, "#000000"},
		"symbol, filled":      {inlinesvg.Sprite{ID: "mark", Fill: "#0b5fff"}, "#0b5fff"},
		"symbol, colored":     {inlinesvg.Sprite{ID: "ink", Color: "#0b5fff"}, "#0b5fff"},
		"gradient elsewhere":  {inlinesvg.Sprite{ID: "shaded"}, "#0b5fff"},
		"the page's viewBox":  {inlinesvg.Sprite{ID: "boxless", ViewBox: "0 0 100 50"}, "#000000"},
		"group":               {inlinesvg.Sprite{ID: "group"}, "#ff0000"},
		"nested":              {inlinesvg.Sprite{ID: "nested"}, "#00ff00"},
		"view of all of them": {inlinesvg.Sprite{ID: "corner"}, "#00ff00"}, // the last one drawn

	} {
		t.Run(name, func(t *testing.T) {
			svg := testmust.Get(inlinesvg.Cut([]byte(sprite), c.part))(t)
			if got := pixel(t, svg, 80, 10); got != c.want {
				t.Errorf("color is %s, want %s\n%s", got, c.want, svg)
			}
		})
	}
	for name, data := range map[string]string{"no such part": sprite, "a web page": "<html><title>Not found</title>", "nothing": "", "too large": strings.Repeat(" ", inlinesvg.MaxSprite+1)} {
		if svg, err := inlinesvg.Cut([]byte(data), inlinesvg.Sprite{ID: "gone"}); err == nil {
			t.Errorf("%s gives %s", name, svg)
		}
	}
}

func FuzzResolve(f *testing.F) {
	for _, seed := range []string{
		`<svg viewBox="0 0 100 50" fill="currentColor"><path d="M0 0h9v9z"/></svg>`,
		`<style>.a{fill:var(--x)}:root{--x:red}</style><svg width=1 height=1><g class=a><use href="#s" x=1></use></g><symbol id=s viewBox="0 0 1 1"><circle r=1 /></symbol></svg>`,
		`<svg><g id=a><use href="#a"/></g></svg>`, `<svg><path style="fill:url(#x) red;;:"/><mask id=x><rect/></mask></svg>`, laughs(), `<svg viewBox="NaN 0 1e999 -1"><text>x</text>`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		root, err := html.Parse(strings.NewReader(body))
		if err != nil {
			return
		}
		svg := find(root)
		if svg == nil {
			return
		}
		d, err := inlinesvg.NewResolver(root, home(), css.New(root, home(), nil, site.Resolve)).Resolve(svg)
		if err != nil || d.SVG == nil {
			return
		}
		check(t, d.SVG)
	})
}

func FuzzCut(f *testing.F) {
	for _, seed := range []string{
		`<svg xmlns="http://www.w3.org/2000/svg"><symbol id="a" viewBox="0 0 1 1"><path d="M0 0h1v1z"/></symbol></svg>`, `<?xml version="1.0"?><svg><g id="a"><use href="#a"/></g>`,
		`<svg id="a"><view id="a"/></svg>`, `<svg><![CDATA[<symbol id="a">]]></svg>`,
	} {
		f.Add([]byte(seed), "a", "0 0 1 1")
	}
	f.Fuzz(func(t *testing.T, sprite []byte, id, box string) {
		if svg, err := inlinesvg.Cut(sprite, inlinesvg.Sprite{ID: id, ViewBox: box}); err == nil {
			check(t, svg)
		}
	})
}

// check verifies that a result is bounded and well-formed XML for the sanitizer.
func check(t *testing.T, data []byte) {
	if len(data) > inlinesvg.MaxBytes+4096 {
		t.Errorf("the result has %d bytes, want at most %d", len(data), inlinesvg.MaxBytes+4096)
	}
	if _, _, err := svg.Sanitize(data); errors.Is(err, imaging.ErrUnknown) {
		t.Errorf("Sanitize: %v: %.500s", err, data)
	}
}
