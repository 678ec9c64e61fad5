package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/svg"
)

// sharedRenderer is shared by all tests, because the renderer starts slowly.
var sharedRenderer = sync.OnceValues(func() (*renderer, error) { return newRenderer(context.Background()) })

func testRenderer(t *testing.T) *renderer {
	t.Helper()
	e, err := sharedRenderer()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// onGrid returns a square drawing of 64 units.
func onGrid(name, body string) drawing {
	return drawing{Name: name, Body: body, Width: 64, Height: 64}
}

func logosOf(b []eventschemas.Logo) string {
	var out []string
	for _, l := range b {
		theme := "none"
		if l.Theme != nil {
			theme = *l.Theme
		}
		out = append(out, strings.Join(append([]string{l.Type, theme}, l.Tags...), " "))
	}
	return strings.Join(out, ", ")
}

// A brand gets another logo only for a page on which its own one is invisible; its own logos come first, unchanged.
func TestReversals(t *testing.T) {
	t.Parallel()
	e := testRenderer(t)
	const disk, strip = `<circle cx="32" cy="32" r="30" fill="%s"/>`, `<path d="M2 20h60v9H2z" fill="%s"/>`
	in := func(shape, ink string) string { return fmt.Sprintf(shape, ink) }
	for why, c := range map[string]struct {
		hex   string // of a mark, a diamond; "" for no mark
		icons []drawing
		want  string
	}{
		"a black mark":        {"181717", nil, "symbol dark, symbol light reversed"},
		"a navy mark":         {"002244", nil, "symbol dark, symbol light reversed"},
		"a blue mark":         {"0052cc", nil, "symbol dark"},
		"a yellow mark":       {"ffd43b", nil, "symbol dark"},
		"a lemon mark":        {"fffc00", nil, "symbol light, symbol dark reversed"},
		"a white mark":        {"ffffff", nil, "symbol light, symbol dark reversed"},
		"each type":           {"000000", []drawing{onGrid("acme", in(strip, "#111"))}, "symbol dark, logo dark, symbol light reversed, logo light reversed"},
		"one type":            {"ff0000", []drawing{onGrid("acme", in(strip, "#111"))}, "symbol dark, logo dark, logo light reversed"},
		"black and white":     {"000000", []drawing{onGrid("acme", in(disk, "#fff"))}, "symbol light, symbol dark"},
		"black before red":    {"ff0000", []drawing{onGrid("acme", in(disk, "#000"))}, "symbol dark, symbol dark, symbol light reversed"},
		"red before black":    {"000000", []drawing{onGrid("acme", in(disk, "#f00"))}, "symbol dark, symbol dark"},
		"black by default":    {"", []drawing{onGrid("acme", `<path d="M2 20h40v40z"/>`)}, "symbol dark, symbol light reversed"},
		"a black gradient":    {"", []drawing{onGrid("acme", `<defs><linearGradient id="g"><stop stop-color="#000"/><stop offset="1" stop-color="#111"/></linearGradient></defs><path fill="url(#g)" d="M2 20h40v40z"/>`)}, "symbol dark, symbol light reversed"},
		"a black line":        {"", []drawing{onGrid("acme", `<path fill="#000" d="M2 20h40v40z"/><path fill="none" stroke="#000" stroke-width="6" d="M4 8h40"/>`)}, "symbol dark, symbol light reversed"},
		"black and a red dot": {"", []drawing{onGrid("acme", in(disk, "#000")+`<circle cx="32" cy="32" r="9" fill="#f00"/>`)}, "symbol dark"},
		"a plate of one ink":  {"", []drawing{onGrid("acme", `<path fill="#000" fill-rule="evenodd" d="M0 0h64v64H0zM24 24v16h16V24z"/>`)}, "icon dark, icon light reversed"},
		"a plate of two inks": {"", []drawing{onGrid("acme", `<path fill="#000" d="M0 0h64v64H0z"/><path fill="#fff" d="M24 24h16v16H24z"/>`)}, "icon none"},
		"a mask": {"", []drawing{onGrid("acme", `<mask id="m"><path fill="#fff" d="M0 0h64v64H0z"/><path fill="#000" d="M8 8h20v20H8z"/></mask><path mask="url(#m)" fill="#000" d="M2 2h40v60z"/>`)},
			"symbol dark"}, // its mask would have no effect in white
	} {
		p := &product{Name: "Acme", Source: "test", Icons: c.icons}
		if c.hex != "" {
			p.Mark = &mark{Hex: c.hex, Path: "M12 1L23 12L12 23L1 12Z"}
		}
		b, ok := brandOf(e, owned{Domain: "acme.com", Claims: []claim{{Product: p}}}, nil, func(string, error) {})
		if got := logosOf(b.Record.Logos); !ok || got != c.want {
			t.Errorf("%s: %s, want %s", why, got, c.want)
		}
		for i, l := range b.Record.Logos {
			if !l.IsReversed() {
				continue
			}
			clean, _, err := svg.Sanitize(b.SVG[i])
			if err != nil || string(clean) != string(b.SVG[i]) || l.Formats[0].Size != int64(len(clean)) {
				t.Errorf("%s: the stored drawing is not in canonical form (%v): %s", why, err, b.SVG[i])
			}
		}
	}
}

// A reversed logo equals the original pixel by pixel, and does not change the score.
func TestReverse_SameDrawing(t *testing.T) {
	t.Parallel()
	e := testRenderer(t)
	record := func(hex string) (eventschemas.Record, [][]byte) {
		p := &product{Name: "Acme", Source: "test", Mark: &mark{Hex: hex, Path: "M12 1L23 12L12 23zM3 3h5v5z"}}
		b, _ := brandOf(e, owned{Domain: "acme.com", Claims: []claim{{Product: p}}}, nil, func(string, error) {})
		return b.Record, b.SVG
	}
	black, files := record("000000")
	red, _ := record("ff0000")
	if len(files) != 2 || black.QualityScore != red.QualityScore {
		t.Fatalf("%d logos, quality %v, and %v without the reversed one", len(files), black.QualityScore, red.QualityScore)
	}
	var alpha [][]byte
	for i, ink := range []imaging.RGB{imaging.Black, imaging.White} {
		img, err := e.vectors.Render(t.Context(), files[i], 64)
		if err != nil {
			t.Fatal(err)
		}
		var a []byte
		for p := 0; p < len(img.Pix); p += 4 {
			if a = append(a, img.Pix[p+3]); img.Pix[p+3] > 0 && (imaging.RGB{R: img.Pix[p], G: img.Pix[p+1], B: img.Pix[p+2]}) != ink {
				t.Fatalf("logo %d has a pixel %v", i, img.Pix[p:p+4])
			}
		}
		alpha = append(alpha, a)
	}
	if !slices.Equal(alpha[0], alpha[1]) {
		t.Error("the reversed logo covers other pixels than the original")
	}
}
