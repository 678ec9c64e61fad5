package svg_test

import (
	"encoding/base64"
	"image"
	"net/url"
	"strings"
	"testing"

	"letterhead/internal/imaging"
	"letterhead/internal/resvg"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
)

// Drawings of 100×40 units. spots are points in them with the color that a browser shows there by the standards of SVG
// and CSS, or "" for nothing. A shape that vanishes, or has another color, fails.
var looks = []struct {
	name, svg string
	spots     []spot
}{
	{"not", `<style>.k path:not(:first-child){fill:#d60}.k path{fill:#046}</style><g class="k">` + pair + `</g>`, two("#004466", "#dd6600")},
	{"nth-child counts elements that are not drawn", `<style>g path{fill:#046}g>path:nth-child(3){fill:#d60}</style><g><title>t</title>` + pair + `</g>`, two("#004466", "#dd6600")},
	{"nth-of-type", `<style>path:nth-of-type(2n){fill:#d60}path:first-of-type{fill:#046}</style>` + pair, two("#004466", "#dd6600")},
	{"last-child", `<style>path{fill:#046}path:last-child{fill:#d60}</style>` + pair, two("#004466", "#dd6600")},
	{"attribute", `<style>path:not([data-a]){fill:#d60}[data-a="X" i]{fill:#046}</style>` + strings.Replace(pair, "<path", `<path data-a="x"`, 1), two("#004466", "#dd6600")},
	{"attribute that begins so", `<style>[d^="M50"]{fill:#d60}[d*=" 0h40"]{fill:#046}</style>` + pair, two("#004466", "#dd6600")},
	{"is and where", `<style>:is(g,svg) :where(path){fill:#046}:is(path,rect)+path{fill:#d60}</style>` + pair, two("#004466", "#dd6600")},
	{"root", `<style>:root{fill:#046}:root>path~path{fill:#d60}</style>` + pair, two("#004466", "#dd6600")},
	{"layers", `<style>@layer a,b;@layer b{path{fill:#046}}@layer a{path{fill:red}path+path{fill:lime}}path+path{fill:#d60}</style>` + pair, two("#004466", "#dd6600")},
	{"nested rules", `<style>svg{path{fill:#046;&amp;+path{fill:#d60}}}</style>` + pair, two("#004466", "#dd6600")},
	{"a supported feature", `<style>@supports (fill:red){path{fill:#046}}@media screen and (min-width:1px){path+path{fill:#d60}}</style>` + pair, two("#004466", "#dd6600")},
	{"the dark scheme is another picture", `<style>path{fill:#046}path+path{fill:#d60}@media (prefers-color-scheme:dark){path{fill:#fff!important}}</style>` + pair, two("#004466", "#dd6600")},
	{"invalid values", `<style>path{fill:#046;fill:nocolor;fill:conic-gradient(red,blue)}path+path{fill:#d60;fill:$x}</style>` + pair, two("#004466", "#dd6600")},
	{"unset over a weaker rule", `<style>g{fill:#046}path{fill:red}path{fill:unset}</style><g>` + pair + `</g>`, two("#004466", "#004466")},
	{"mixed colors", `<style>path{fill:color-mix(in srgb,#f00 50%,#00f)}path+path{color:#046;fill:color-mix(in oklab,currentColor 100%,white)}</style>` + pair, two("#800080", "#004466")},
	{"light-dark", `<style>:root{color-scheme:light dark}path{fill:light-dark(#046,red)}path+path{color-scheme:dark;fill:light-dark(red,#d60)}</style>` + pair, two("#004466", "#dd6600")},
	{"light-dark in an attribute", strings.Replace(pair, "<path", `<path fill="light-dark(#046,red)"`, 1), two("#004466", "#000000")},
	{"current color", `<style>:root{color:#046}path{fill:currentColor}path+path{color:#d60}</style>` + pair, two("#004466", "#dd6600")},
	{"geometry by rules", `<style>rect{width:40px;height:40px;fill:#046}rect+circle{cx:75px;cy:20px;r:25px;fill:#d60}</style><rect/><circle r="1"/>`, two("#004466", "#dd6600")},
	{"stops by rules", `<style>stop:first-child{stop-color:#046}stop:last-child{stop-color:#046}</style><linearGradient id="l"><stop/><stop offset="1"/></linearGradient><g fill="url(#l)">` + pair + `</g>`, two("#004466", "#004466")},
	{"used shapes", `<style>defs path{fill:#046}</style><defs><path id="p" d="M0 0h40v40H0z"/></defs><use href="#p"/><use href="#p" x="50" style="fill:red"/>`, two("#004466", "#004466")},

	{"a symbol around its origin", `<symbol id="s" x="-20" y="-20" width="40" height="40" viewBox="-20 -20 40 40"><circle r="20" fill="#046"/></symbol><use href="#s" x="20" y="20"/>` + second, two("#004466", "#dd6600")},
	{"a symbol with a size", `<symbol id="s" width="40" height="40" viewBox="0 0 1 1"><rect width="1" height="1" fill="#046"/></symbol><use href="#s"/>` + second, []spot{{20, 20, "#004466"}, {38, 38, "#004466"}, {45, 20, ""}, {70, 20, "#dd6600"}}},
	{"its use has another size", `<symbol id="s" width="90" height="90" viewBox="0 0 1 1"><rect width="1" height="1" fill="#046"/></symbol><use href="#s" width="40" height="40"/>` + second, []spot{{38, 38, "#004466"}, {45, 20, ""}, {70, 20, "#dd6600"}}},

	{"a picture in a pattern", `<g fill="none"><path d="M0 0h40v40H0z" fill="url(#p)"/><defs><pattern id="p" patternContentUnits="objectBoundingBox" width="1" height="1"><use href="#i" transform="scale(.25)"/></pattern><image id="i" width="4" height="4" href="` + raster + `"/></defs></g>` + second, two("#004466", "#dd6600")},
	{"a pattern that refers to another", `<pattern id="q" width="40" height="40" patternUnits="userSpaceOnUse"><image width="40" height="40" href="` + raster + `"/></pattern><pattern id="p" href="#q"/><path d="M0 0h40v40H0z" fill="url(#p)"/>` + second, two("#004466", "#dd6600")},
	{"a pattern alone", `<pattern id="p" width="100" height="40" patternUnits="userSpaceOnUse"><image width="100" height="40" preserveAspectRatio="none" href="` + raster + `"/></pattern><path d="M0 0h100v40H0z" fill="url(#p)"/>`, two("#004466", "#004466")},
	{"a pattern of strokes", `<pattern id="p" width="10" height="10" patternUnits="userSpaceOnUse"><path d="M0 5h10" stroke-width="10" stroke="#046"/></pattern><path d="M0 0h100v40H0z" fill="url(#p)"/>`, two("#004466", "#004466")},
	{"a picture without a type", `<image width="40" height="40" href="` + strings.Replace(raster, "image/png", "application/octet-stream", 1) + `"/>` + second, two("#004466", "#dd6600")},
	{"a picture without padding", `<image width="40" height="40" href="` + strings.TrimRight(raster, "=") + `"/>` + second, two("#004466", "#dd6600")},
	{"a picture with escapes", `<image width="40" height="40" href="data:image/png;base64,` + url.QueryEscape(strings.TrimPrefix(raster, "data:image/png;base64,")) + `"/>` + second, two("#004466", "#dd6600")},

	{"an SVG in an image", `<image width="40" height="40" href="` + inBase64(inner) + `"/>` + second, two("#004466", "#dd6600")},
	{"an SVG in an escaped URL", `<image width="40" height="40" href="data:image/svg+xml,` + url.PathEscape(inner) + `"/>` + second, two("#004466", "#dd6600")},
	{"an SVG in a URL as it is", `<image width="40" height="40" href='data:image/svg+xml;utf8,` + strings.ReplaceAll(inner, "<", "&lt;") + `'/>` + second, two("#004466", "#dd6600")},
	{"an SVG inherits nothing", `<g fill="red" stroke="red" stroke-width="40"><image width="40" height="40" href="` + inBase64(strings.Replace(inner, ` fill="#046"`, "", 1)) + `"/></g>` + second, two("#000000", "#dd6600")},
	{"an SVG has rules of its own", `<style>path{fill:red!important}</style><image width="40" height="40" href="` + inBase64(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><style>path{fill:#046}</style><path d="M0 0h8v8H0z"/></svg>`) + `"/>`, []spot{{20, 20, "#004466"}}},
	{"names in both", `<linearGradient id="a"><stop stop-color="#d60"/></linearGradient><image width="40" height="40" href="` + inBase64(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><linearGradient id="a"><stop stop-color="#046"/></linearGradient><path id="b" fill="url(#a)" d="M0 0h4v8H0z"/><use href="#b" x="4"/></svg>`) + `"/><path fill="url(#a)" d="M50 0h50v40H50z"/>`, []spot{{5, 20, "#004466"}, {35, 20, "#004466"}, {70, 20, "#dd6600"}}},
	{"an SVG with its own size", `<image x="50" href="` + inBase64(`<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><path fill="#046" d="M0 0h40v40H0z"/></svg>`) + `"/>`, two("", "#004466")},
	{"a stretched SVG", `<image width="100" height="40" preserveAspectRatio="none" href="` + inBase64(inner) + `"/>`, []spot{{2, 20, "#004466"}, {98, 20, "#004466"}}},
	{"an SVG in the middle", `<image width="100" height="40" href="` + inBase64(inner) + `"/>`, []spot{{20, 20, ""}, {50, 20, "#004466"}, {80, 20, ""}}},
	{"an SVG in an SVG in an SVG", `<image width="40" height="40" href="` + inBase64(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><image width="40" height="40" href="`+inBase64(inner)+`"/></svg>`) + `"/>` + second, two("#004466", "#dd6600")},
	{"an SVG in a turned image", `<image width="40" height="40" transform="translate(50)" opacity="1" href="` + inBase64(inner) + `"/>`, two("", "#004466")},
	{"a picture in an SVG in a pattern", `<pattern id="p" width="100" height="40" patternUnits="userSpaceOnUse"><image width="40" height="40" href="` + inBase64(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><image width="40" height="40" href="`+raster+`"/></svg>`) + `"/></pattern><path d="M0 0h40v40H0z" fill="url(#p)"/>` + second, two("#004466", "#dd6600")},

	// Letters: a bar of I, or the dash between words, is where the widths of Arial, Times and Courier put it.
	{"text", `<text x="10" y="38" font-family="Arial" font-weight="bold" font-size="50" fill="#046">I</text>`, []spot{{16, 20, "#004466"}, {8, 20, ""}, {25, 20, ""}, {16, 39, ""}}},
	{"text in the middle", `<text x="50%" y="50%" text-anchor="middle" dominant-baseline="central" style="font:700 50px/1 Arial,sans-serif" fill="#046">I</text>`, []spot{{50, 20, "#004466"}, {42, 20, ""}, {57, 20, ""}}},
	{"text with its end at a place", `<text x="100" y="38" text-anchor="end" font-family="Helvetica" font-weight="800" font-size="50" fill="#046">I</text>`, []spot{{93, 20, "#004466"}, {84, 20, ""}}},
	{"text by em", `<text y=".8em" font-size="50" font-family="'Open Sans'" font-weight="bold" fill="#046">I</text>`, []spot{{7, 20, "#004466"}}},
	{"text by rules", `<style>text{font:bold 50px sans-serif;fill:#046;text-anchor:middle;text-transform:uppercase}</style><text x="50" y="38">i</text>`, []spot{{50, 6, "#004466"}, {50, 20, "#004466"}, {57, 20, ""}}},
	{"parts of text", `<text y="38" font-family="Arial" font-weight="bold" font-size="50"><tspan fill="#046">I</tspan><tspan x="60" fill="#d60">I</tspan><tspan dx="10">I</tspan></text>`, []spot{{7, 20, "#004466"}, {67, 20, "#dd6600"}, {91, 20, "#000000"}, {80, 20, ""}}},
	{"spaces of text", "<text x='0' y='38' font-family='Courier New' font-weight='bold' font-size='50' fill='#046'>\n  I\n  I\n</text>", []spot{{15, 20, "#004466"}, {45, 20, ""}, {75, 20, "#004466"}}},
	{"kept spaces of text", "<text xml:space='preserve' x='0' y='38' font-family='Courier New' font-weight='bold' font-size='50' fill='#046'>  I</text>", []spot{{15, 20, ""}, {45, 20, ""}, {75, 20, "#004466"}}},
	{"places of letters", `<text x="10 40 70" y="38" font-family="Arial" font-weight="bold" font-size="50" fill="#046">III</text>`, []spot{{16, 20, "#004466"}, {47, 20, "#004466"}, {77, 20, "#004466"}, {30, 20, ""}}},
	{"a length of text", `<text x="0" y="38" textLength="100" font-family="Arial" font-weight="bold" font-size="50" fill="#046">III</text>`, []spot{{7, 20, "#004466"}, {50, 20, "#004466"}, {93, 20, "#004466"}, {25, 20, ""}}},
	{"spaced text", `<text x="0" y="38" letter-spacing="1em" font-family="Arial" font-weight="bold" font-size="50" fill="#046">II</text>`, []spot{{7, 20, "#004466"}, {71, 20, "#004466"}, {40, 20, ""}}},
	{"a link in text", `<text x="0" y="38" font-family="Arial" font-weight="bold" font-size="50" fill="#046"><a href="/">I</a></text>`, []spot{{7, 20, "#004466"}}},
	{"text in a turned group", `<g transform="translate(100) scale(-1 1)" font-family="Arial-BoldMT" font-size="50" fill="#046"><text x="0" y="38">I</text></g>`, []spot{{93, 20, "#004466"}}},
	{"stroked text", `<text x="10" y="38" font-family="Arial" font-size="50" fill="none" stroke="#046" stroke-width="8">I</text>`, []spot{{13, 20, "#004466"}}},
	{"Cyrillic text", `<text x="0" y="38" font-family="Arial" font-weight="bold" font-size="50" fill="#046">Ы</text>`, []spot{{6, 20, "#004466"}, {41, 20, "#004466"}}},
	{"used text", `<defs><text id="t" y="38" font-family="Arial" font-weight="bold" font-size="50">I</text></defs><use href="#t" x="50" fill="#046"/>`, []spot{{57, 20, "#004466"}}},
	{"used text as a clip", `<defs><text id="t" y="38" font-family="Arial" font-weight="bold" font-size="50">I</text></defs><clipPath id="c"><use href="#t"/></clipPath><path clip-path="url(#c)" fill="#046" d="M0 0h100v40H0z"/>`, []spot{{7, 20, "#004466"}, {20, 20, ""}}},
	{"a serif after an unknown font", `<text x="0" y="38" font-family="Nonesuch, Georgia, serif" font-weight="bold" font-size="50" fill="#046">I</text>`, []spot{{2, 37, "#004466"}}},
	{"a sans-serif of weight Roman", `<text x="0" y="38" font-family="HelveticaNeueLT-Roman" font-weight="bold" font-size="50" fill="#046">I</text>`, []spot{{7, 20, "#004466"}, {2, 37, ""}}},
	{"slanted text", `<style>text{font:italic bold 50px Arial}</style><text x="20" y="38" fill="#046">I</text>`, []spot{{35, 5, "#004466"}, {23, 5, ""}}},
	{"letters in parts, and joiners", `<text x="0" y="38" font-family="Courier New" font-weight="bold" font-size="50" fill="#046">&#x200b;e&#x301;I</text>`, []spot{{45, 20, "#004466"}}},
	{"text as a clip", `<clipPath id="c"><text y="38" font-family="Arial" font-weight="bold" font-size="50">I</text></clipPath><path clip-path="url(#c)" fill="#046" d="M0 0h100v40H0z"/>`, []spot{{7, 20, "#004466"}, {20, 20, ""}}},
}

const (
	pair   = `<path d="M0 0h40v40H0z"/><path d="M50 0h50v40H50z"/>`
	second = `<path d="M50 0h50v40H50z" fill="#d60"/>`
	inner  = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" fill="#046"/></svg>`
)

// raster is a picture of one color.
var raster = func() string {
	img := image.NewNRGBA(image.Rect(0, 0, 4, 4))
	for i := range img.Pix {
		img.Pix[i] = []byte{0, 0x44, 0x66, 0xff}[i%4]
	}
	png, err := imaging.EncodePNG(img)
	if err != nil {
		panic(err)
	}
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(png)
}()

func inBase64(svg string) string {
	return "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg))
}

type spot struct {
	x, y int
	want string
}

func two(left, right string) []spot { return []spot{{20, 20, left}, {70, 20, right}} }

func renderer(t *testing.T) *resvg.Renderer {
	t.Helper()
	r := testmust.Get(resvg.New(t.Context(), resvg.Config{CacheDir: resvgtest.Folder()}))(t)
	return r
}

// A letter that the fonts lack has the place of its em box in a sketch.
func TestSketch_LettersOfOtherScripts_HaveTheirPlace(t *testing.T) {
	draw := renderer(t)
	for name, c := range map[string]struct {
		svg         string
		in, without int // places in and beside the text
	}{
		"Japanese":           {`<text y="38" font-size="40" fill="#046">電機</text>`, 60, 90},
		"in the middle":      {`<text x="50" y="38" font-size="40" text-anchor="middle" fill="#046">電</text>`, 48, 20},
		"with Latin":         {`<text y="38" font-family="Arial" font-weight="bold" font-size="50" fill="#046">I電</text>`, 30, 70},
		"Hebrew":             {`<text y="38" font-size="40" fill="#046">אב</text>`, 10, 60},
		"from right to left": {`<text x="100" y="38" font-size="40" direction="rtl" fill="#046">אב</text>`, 90, 40},
		"Devanagari":         {`<text y="38" font-size="40" fill="#046">हिन्दी</text>`, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file := []byte(open + c.svg + `</svg>`)
			clean, info, err := svg.Sanitize(file)
			testmust.Succeed(t, err)
			if !info.Text || !strings.Contains(string(clean), "<text") {
				t.Errorf("text is %t in %s", info.Text, clean)
			}
			sketch := testmust.Get(svg.Sketch(clean))(t)
			img := testmust.Get(draw.Render(t.Context(), sketch, 200))(t)
			in := img.NRGBAAt(2*c.in, 60)
			if in.A < 128 || in.R != 0 || in.B != 0x66 || c.without > 0 && img.NRGBAAt(2*c.without, 60).A > 128 {
				t.Errorf("the color at %d is %v in %s", c.in, in, sketch)
			}
		})
	}
}

// TestSanitize_Drawing_LooksAsInABrowser draws what Sanitize returns. It is the test that no element loses its ink.
func TestSanitize_Drawing_LooksAsInABrowser(t *testing.T) {
	draw := renderer(t)
	for _, c := range looks {
		t.Run(c.name, func(t *testing.T) {
			clean, info, err := svg.Sanitize([]byte(open + c.svg + `</svg>`))
			testmust.Succeed(t, err)
			checkClean(t, clean, info)
			img := testmust.Get(draw.Render(t.Context(), clean, 200))(t)
			for _, s := range c.spots {
				at := img.NRGBAAt(2*s.x, 2*s.y)
				got := imaging.RGB{R: at.R, G: at.G, B: at.B}.Hex()
				if at.A < 128 {
					got = ""
				}
				if got != s.want {
					t.Errorf("at %d,%d is %q, want %q in\n%s", s.x, s.y, got, s.want, clean)
				}
			}
		})
	}
}
