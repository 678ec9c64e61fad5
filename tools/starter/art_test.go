package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// tracer records the movements of a pen.
type tracer struct{ b strings.Builder }

func (p *tracer) moveTo(x, y float64) { fmt.Fprintf(&p.b, "M%.4g,%.4g ", x, y) }
func (p *tracer) lineTo(x, y float64) { fmt.Fprintf(&p.b, "L%.4g,%.4g ", x, y) }
func (p *tracer) cubicTo(a, b, c, d, x, y float64) {
	fmt.Fprintf(&p.b, "C%.4g,%.4g,%.4g,%.4g,%.4g,%.4g ", a, b, c, d, x, y)
}
func (p *tracer) close() { p.b.WriteString("Z ") }

func TestDrawPath(t *testing.T) {
	for d, want := range map[string]string{
		"":                         "",
		"M1 2 3 4":                 "M1,2 L3,4",
		"m1 2 3 4":                 "M1,2 L4,6",
		"M1,2H5V6h-1v-1z":          "M1,2 L5,2 L5,6 L4,6 L4,5 Z",
		"M0 0C1 2 3 4 5 6S9 9 8 8": "M0,0 C1,2,3,4,5,6 C7,8,9,9,8,8",
		"M0 0s1 1 2 2":             "M0,0 C0,0,1,1,2,2",
		"M0 0Q3 3 6 0T12 0":        "M0,0 C2,2,4,2,6,0 C8,-2,10,-2,12,0",
		"M1.5.5-.5-1e1":            "M1.5,0.5 L-0.5,-10",
		"M0 0zl1 1":                "M0,0 Z L1,1",
		"M0 0A1 1 0 012 0":         "M0,0 C-1.344e-16,-0.5523,0.4477,-1,1,-1 C1.552,-1,2,-0.5523,2,0",
		"M0 0A0 5 0 0 1 3 4":       "M0,0 L3,4",
	} {
		p := &tracer{}
		if err := drawPath(d, p); err != nil {
			t.Errorf("%s: %v", d, err)
		}
		got := strings.ReplaceAll(strings.TrimSpace(p.b.String()), "-1.344e-16", "0")
		if got != strings.ReplaceAll(want, "-1.344e-16", "0") && !near(got, want) {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
	for _, d := range []string{"1 2", "M", "M1", "M0 0A1 1 0 2 0 1 1", "Mx", "M0 0L1", "M0 0 L.", "z1"} {
		if err := drawPath(d, &tracer{}); err == nil {
			t.Errorf("%s: no error", d)
		}
	}
}

// near compares two traces up to rounding.
func near(a, b string) bool {
	x := strings.FieldsFunc(a, func(r rune) bool { return strings.ContainsRune("MLCZ, ", r) })
	y := strings.FieldsFunc(b, func(r rune) bool { return strings.ContainsRune("MLCZ, ", r) })
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		var p, q float64
		if _, err := fmt.Sscan(x[i]+" "+y[i], &p, &q); err != nil || math.Abs(p-q) > 1e-3 {
			return false
		}
	}
	return true
}

// seen paints a drawing on a square of 64 pixels and analyzes it.
func seen(t *testing.T, body string) look {
	t.Helper()
	c, err := paintSVG(`<svg xmlns="http://www.w3.org/2000/svg">`+body+`</svg>`, 0, 0, 64, 64)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.look()
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return l
}

func colorsOf(l look) string {
	var out []string
	for _, s := range l.palette {
		out = append(out, s.color.hex())
	}
	return strings.Join(out, " ")
}

func TestPaintedColors(t *testing.T) {
	for body, want := range map[string]string{
		`<path fill="#f00" d="M0 0h64v64H0z"/>`:                                                                                                                      "#ff0000",
		`<path d="M0 0h64v64H0z"/>`:                                                                                                                                  "#000000",
		`<g fill="#00f"><rect width="64" height="64" rx="8"/></g>`:                                                                                                   "#0000ff",
		`<path fill="#f00" d="M0 0h64v64H0z"/><path fill="#fff" d="M0 0h64v32H0z"/>`:                                                                                 "#ff0000 #ffffff",
		`<path fill="#f00" d="M0 0h64v64H0z"/><path fill="#fff" d="M0 0h64v64H0z"/>`:                                                                                 "#ffffff",
		`<path fill="#f00" d="M0 0h64v64H0z"/><path fill="none" d="M0 0h64v64H0z"/>`:                                                                                 "#ff0000",
		`<path fill="#f00" d="M0 0h64v64H0z"/><path fill="#fff" opacity=".1" d="M0 0h64v64H0z"/>`:                                                                    "#ff0000",
		`<path fill="#f00" d="M0 0h64v64H0z"/><circle cx="5" cy="5" r="3" fill="#0f0"/>`:                                                                             "#ff0000",
		`<path fill="#f00" d="M0 0h64v64H0z"/><path fill="#fe0101" d="M0 0h64v32H0z"/>`:                                                                              "#fe0101",
		`<path style="fill:#0a0;opacity:1" d="M0 0h64v64H0z"/>`:                                                                                                      "#00aa00",
		`<defs><path id="a" d="M0 0h9v9H0z"/></defs><use href="#a" fill="#f0f"/>`:                                                                                    "#ff00ff",
		`<g transform="translate(32 32) scale(2) rotate(90)"><path fill="#ff0" d="M0 0h9v9H0z"/></g>`:                                                                "#ffff00",
		`<defs><linearGradient id="g"><stop stop-color="#f00"/><stop offset="1" stop-color="#00f"/></linearGradient></defs><path fill="url(#g)" d="M0 0h64v64H0z"/>`: "#0000ff #ff0000",
		`<defs><linearGradient id="g"><stop stop-color="#f00"/></linearGradient><linearGradient id="h" href="#g"/></defs><path fill="url(#h)" d="M0 0h64v64H0z"/>`:   "#ff0000",
		`<mask id="m"><path fill="#fff" d="M0 0h32v64H0z"/></mask><path fill="#0f0" d="M0 0h64v64H0z"/><path mask="url(#m)" fill="#f00" d="M0 0h64v64H0z"/>`:         "#00ff00 #ff0000",
		`<polygon fill="#123456" points="0,0 64,0 64,64"/>`:                                                                                                          "#123456",
		`<ellipse cx="32" cy="32" rx="9" ry="5" fill="red"/>`:                                                                                                        "#ff0000",
	} {
		if got := colorsOf(seen(t, body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestPaintedShapes(t *testing.T) {
	for _, c := range []struct {
		why, body           string
		opaque, transparent bool
		aspect              float64
	}{
		{"square", `<path d="M0 0h64v64H0z"/>`, true, false, 1},
		{"square with round corners", `<rect width="64" height="64" rx="14"/>`, true, true, 1},
		{"circle", `<circle cx="32" cy="32" r="32"/>`, false, true, 1},
		{"strip", `<path d="M0 24h64v8H0z"/>`, false, true, 8},
	} {
		l := seen(t, c.body)
		if l.opaque != c.opaque || l.transparent != c.transparent || math.Abs(l.aspect-c.aspect) > 0.05 {
			t.Errorf("%s: %+v", c.why, l)
		}
	}
	if c, err := paintSVG(`<svg><path fill="none" d="M0 0h9v9z"/></svg>`, 0, 0, 64, 64); err != nil {
		t.Error(err)
	} else if _, err := c.look(); err == nil {
		t.Error("look of an empty drawing succeeded")
	}
}

func TestArt(t *testing.T) {
	wide := `<path fill="#fff" d="M0 0h64v8H0z"/>`
	tall := `<path fill="#000" d="M8 0h48v64H8z"/>`
	box := `<path fill="#00f" d="M0 0h64v64H0z"/>`
	on := `<path fill="#fff" d="M20 20h24v24H20z"/>`
	e := testRenderer(t)
	for _, c := range []struct {
		why, body, kind, theme string
		siblings               []drawing
	}{
		{"a wide drawing is a wordmark", wide, "logo", "light", nil},
		{"a tall drawing is a symbol", tall, "symbol", "dark", nil},
		{"a filled square is an icon", box + on, "icon", "", nil},
		{"one ink is not a background, even in a square", box, "icon", "dark", nil},
		{"yellow is bright and visible on white", strings.ReplaceAll(tall, "#000", "#ffd43b"), "symbol", "dark", nil},
		{"lemon is invisible on white", strings.ReplaceAll(tall, "#000", "#fffc00"), "symbol", "light", nil},
		{"colors including light ink", tall + on, "symbol", "dark", nil},
		{"a drawing with an icon variant is a wordmark", tall, "logo", "dark", []drawing{{Name: "acme-icon"}}},
	} {
		a, err := e.drawing(drawing{Name: "acme", Body: c.body, Width: 64, Height: 64}, c.siblings)
		if err != nil {
			t.Fatal(err)
		}
		theme := ""
		if a.logo.Theme != nil {
			theme = *a.logo.Theme
		}
		if a.logo.Type != c.kind || theme != c.theme {
			t.Errorf("%s: %s %q, want %s %q", c.why, a.logo.Type, theme, c.kind, c.theme)
		}
	}
	if _, err := e.drawing(drawing{Name: "big", Body: strings.Repeat(tall, 2000), Width: 64, Height: 64}, nil); err == nil {
		t.Error("a drawing past the size limit was accepted")
	}
}

func TestShortIDs(t *testing.T) {
	const in = `<path id="SVGabc"/><g id="SVGab"/><use href="#SVGab"/><path fill="url(#SVGabc)"/>`
	const want = `<path id="i0"/><g id="i1"/><use href="#i1"/><path fill="url(#i0)"/>`
	if got := shortIDs(in); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestColorDistance(t *testing.T) {
	// Values that the published formula gives for these sRGB colors under D65.
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"#000000", "#ffffff", 100}, {"#ff0000", "#00ff00", 86.61}, {"#ff0000", "#0000ff", 52.88},
		{"#123456", "#123456", 0}, {"#00ff00", "#0000ff", 83.19},
	} {
		a, _ := parseColor(c.a)
		b, _ := parseColor(c.b)
		if got := distance(a, b); math.Abs(got-c.want) > 0.05 || math.Abs(got-distance(b, a)) > 1e-9 {
			t.Errorf("%s to %s: %.2f, want %.2f", c.a, c.b, got, c.want)
		}
	}
}

func TestBrandColors(t *testing.T) {
	show := func(declared string, palette ...string) string {
		var d *rgb
		if declared != "" {
			c, _ := parseColor(declared)
			d = &c
		}
		var shares []share
		for i, p := range palette {
			c, _ := parseColor(p)
			shares = append(shares, share{c, 1 / float64(i+2)})
		}
		var out []string
		for _, c := range brandColors(d, shares) {
			out = append(out, c.Type+c.Hex)
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct{ got, want string }{
		{show("#ff0000"), "accent#ff0000"},
		{show("#ff0000", "#fe0101", "#ffffff"), "accent#ff0000 light#ffffff"},
		{show("", "#222222", "#ffffff", "#0055ff", "#00aa55"), "accent#0055ff dark#222222 light#ffffff brand#00aa55"},
		{show("", "#222222"), "accent#222222"},
		{show("", "#ffffff", "#111111", "#333333"), "accent#ffffff dark#111111 brand#333333"},
		{show(""), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func FuzzDrawPath(f *testing.F) {
	for _, s := range []string{"M0 0h1v1z", "M0 0A1 1 0 0110 0", "M1e9-1e-9", "M0 0c1 1", "m.5.5.5.5", "A", "M0 0A1 1 0 0 1 NaN 0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, d string) { _ = drawPath(d, &tracer{}) })
}

func FuzzPaint(f *testing.F) {
	f.Add(`<svg><path d="M0 0h9v9z" fill="url(#a)"/></svg>`)
	f.Add(`<svg><use id="a" href="#a"/><g mask="url(#m)"/><mask id="m"><g mask="url(#m)"/></mask></svg>`)
	f.Add(`<svg><linearGradient id="a" href="#b"/><linearGradient id="b" href="#a"/><rect fill="url(#a)" width="9" height="9"/></svg>`)
	f.Fuzz(func(t *testing.T, svg string) {
		if len(svg) > 2000 {
			return
		}
		if c, err := paintSVG(svg, 0, 0, 64, 64); err == nil {
			_, _ = c.look()
		}
	})
}
