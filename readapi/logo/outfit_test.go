package logo_test

import (
	"bytes"
	"image"
	"image/color"
	"slices"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/readapi/logo"
)

var nearBlack = imaging.RGB{R: 0x12, G: 0x12, B: 0x12}

func vector(t testing.TB, inside string) []byte {
	t.Helper()
	data, _, err := svg.Sanitize([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 80">` + inside + `</svg>`))
	testmust.Succeed(t, err)
	return data
}

// Inks of the vectors below.
const (
	blackDisc = `<circle cx="40" cy="40" r="36"/>`
	redLetter = `<path fill="#f33" d="M36 20h8v40h-8z"/>`
)

func TestDraw_OnBackground_LegibleLogoIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dark, light := iconOf("dark", w.put(vector(t, blackDisc), "svg")), iconOf("light", w.put(vector(t, `<circle cx="40" cy="40" r="36" fill="#fff"/>`), "svg"))
	b := brandOf(dark, light)
	for page, theme := range map[imaging.RGB]logo.Theme{imaging.White: logo.Dark, imaging.Black: logo.Light, nearBlack: logo.Light, {R: 0x0b, G: 0x5f, B: 0xff}: logo.Light} {
		stored := request(64, imaging.WebP)
		stored.Theme = theme
		for _, only := range []logo.Brand{b, brandOf(light, dark)} {
			if got := w.draw(only, onPage(logo.Icon, page, 64, imaging.WebP)); got.ETag != w.draw(b, stored).ETag {
				t.Errorf("%s: not the stored logo with %s ink", page.Hex(), theme)
			}
		}
	}
	// The declared ink is wrong, and its vector merges when it is turned: the variant is shown.
	misnamed := brandOf(iconOf("light", w.put(vector(t, blackDisc), "svg")), iconOf("dark", light.Formats...))
	if img := pixels(t, w.draw(misnamed, onPage(logo.Icon, nearBlack, 64, imaging.PNG))); !alike(img.NRGBAAt(32, 32), white) {
		t.Errorf("the ink is %v", img.NRGBAAt(32, 32))
	}
}

func TestDraw_OnBackground_SwallowedInksAreTurned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		why, inside      string
		page             imaging.RGB
		outside, between color.NRGBA // in the disc, and in the letter
	}{
		{"black on a dark page", blackDisc, nearBlack, white, white},
		{"black on a page of another color", blackDisc, imaging.White, black, black},
		{"white on a light page", strings.ReplaceAll(blackDisc, "/>", ` fill="#fff"/>`), imaging.White, black, black},
		{"navy keeps its hue", strings.ReplaceAll(blackDisc, "/>", ` fill="#000080"/>`), nearBlack, color.NRGBA{0x7f, 0x7f, 0xff, 0xff}, color.NRGBA{0x7f, 0x7f, 0xff, 0xff}},
		{"red stays", blackDisc + redLetter, nearBlack, white, color.NRGBA{0xff, 0x33, 0x33, 0xff}},
	} {
		b := brandOf(iconOf("dark", w.put(vector(t, c.inside), "svg")))
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG} {
			img := pixels(t, w.draw(b, onPage(logo.Icon, c.page, 80, format)))
			if out, in := img.NRGBAAt(14, 40), img.NRGBAAt(40, 40); !alike(out, c.outside) || !alike(in, c.between) {
				t.Errorf("%s, %s: %v and %v, want %v and %v", c.why, format, out, in, c.outside, c.between)
			}
			const lossy = 8 // of CIEDE2000: a JPEG stores one hue for four pixels
			if corner := img.NRGBAAt(0, 0); format == imaging.JPEG && imaging.DeltaE(imaging.RGB{R: corner.R, G: corner.G, B: corner.B}, c.page) > lossy {
				t.Errorf("%s: a JPEG is on %v", c.why, corner)
			}
		}
		p := w.draw(b, onPage(logo.Icon, c.page, 80, imaging.SVG))
		if clean, _, err := svg.Sanitize(p.Body); err != nil || !bytes.Equal(clean, p.Body) || bytes.Contains(p.Body, []byte("<rect")) {
			t.Errorf("%s as SVG: %v %s", c.why, err, p.Body)
		}
	}
}

// A white letter on a black disc would vanish if the disc became white.
func TestDraw_OnBackground_MergingInksGetAPlate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.put(vector(t, blackDisc+`<path fill="#fff" d="M38 30h4v20h-4z"/>`), "svg")))
	o := onPage(logo.Icon, nearBlack, 100, imaging.PNG)
	img := pixels(t, w.draw(b, o))
	for at, want := range map[image.Point]color.NRGBA{{X: 0, Y: 0}: {}, {X: 50, Y: 3}: white, {X: 50, Y: 18}: white, {X: 30, Y: 50}: black, {X: 50, Y: 50}: white} {
		if got := img.NRGBAAt(at.X, at.Y); !alike(got, want) {
			t.Errorf("%v is %v, want %v", at, got, want)
		}
	}
	if img.Rect.Max != image.Pt(100, 100) {
		t.Errorf("the plate is %v", img.Rect.Max)
	}
	o.Format = imaging.SVG
	p := w.draw(b, o)
	if clean, _, err := svg.Sanitize(p.Body); err != nil || !bytes.Equal(clean, p.Body) || !bytes.Contains(p.Body, []byte(`rx="26.6667" style="fill:#ffffff"`)) {
		t.Errorf("as SVG: %v %s", err, p.Body)
	}
	o.Format, o.NoPlate = imaging.PNG, true
	stored := request(100, imaging.PNG)
	if w.draw(b, o).ETag != w.draw(b, stored).ETag {
		t.Error("without a plate it is not the stored logo")
	}
}

func TestDraw_OnBackground_RasterGetsAPlateAtItsSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.raster(bar(66, 40, black))))
	for _, c := range []struct {
		kind logo.Type
		size int
		want image.Point
	}{{logo.Icon, 100, image.Pt(100, 100)}, {logo.Icon, 512, image.Pt(100, 100)}, {logo.Icon, 50, image.Pt(50, 50)}, {logo.Full, 512, image.Pt(79, 53)}, {logo.Full, 50, image.Pt(50, 33)}} {
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG, imaging.SVG} {
			img := pixels(t, w.draw(b, onPage(c.kind, nearBlack, c.size, format)))
			if img.Rect.Max != c.want {
				t.Errorf("%s %d %s: %v, want %v", c.kind, c.size, format, img.Rect.Max, c.want)
			}
			if middle, edge := img.NRGBAAt(c.want.X/2, c.want.Y/2), img.NRGBAAt(c.want.X/2, 1); !alike(middle, black) || !alike(edge, white) {
				t.Errorf("%s %d %s: %v on %v", c.kind, c.size, format, middle, edge)
			}
		}
	}
	pale := brandOf(iconOf("light", w.raster(bar(66, 40, white))))
	if edge := pixels(t, w.draw(pale, onPage(logo.Icon, imaging.White, 100, imaging.PNG))).NRGBAAt(50, 1); !alike(edge, color.NRGBA{0x1c, 0x1c, 0x1c, 0xff}) {
		t.Errorf("a white logo on white has a plate of %v", edge)
	}
}

func TestDraw_OnBackground_IconIsInASquare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, file := range []eventschemas.Asset{w.put(barSVG(t, "#118899"), "svg"), w.raster(bar(80, 40, teal))} {
		b := brandOf(iconOf("dark", file))
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
			img := pixels(t, w.draw(b, onPage(logo.Icon, imaging.White, 64, format)))
			if img.Rect.Max != image.Pt(64, 64) || img.NRGBAAt(32, 15).A != 0 || !alike(img.NRGBAAt(32, 32), teal) || img.NRGBAAt(32, 48).A != 0 {
				t.Errorf("%s as %s: %v", file.Format, format, img.Rect.Max)
			}
			if wide := pixels(t, w.draw(b, onPage(logo.Full, imaging.White, 64, format))); wide.Rect.Max != image.Pt(64, 32) {
				t.Errorf("%s as %s: the wordmark is %v", file.Format, format, wide.Rect.Max)
			}
			if stored := pixels(t, w.draw(b, request(64, format))); !slices.Equal(stored.Pix, img.Pix) {
				t.Errorf("%s as %s without a background: %v", file.Format, format, stored.Rect.Max)
			}
		}
	}
}

// A logo on a ground of its own is legible on a page of the same color.
func TestDraw_OnBackground_GroundOfItsOwnIsNoInk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.put(vector(t, `<path d="M0 0h80v80H0z"/>`+redLetter), "svg")
	b := brandOf(eventschemas.Logo{Type: "icon", Formats: []eventschemas.Asset{file}})
	if w.draw(b, onPage(logo.Icon, imaging.Black, 64, imaging.PNG)).ETag != w.draw(b, request(64, imaging.PNG)).ETag {
		t.Error("the logo was changed")
	}
}

func TestDraw_OnBackground_FileThatCannotBeDrawnIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole := iconOf("light", w.put(vector(t, blackDisc), "svg"))
	missing := eventschemas.Asset{ID: strings.Repeat("0", 64), Format: "png"}
	b := brandOf(iconOf("light", missing), whole)
	if img := pixels(t, w.draw(b, onPage(logo.Icon, nearBlack, 64, imaging.PNG))); !alike(img.NRGBAAt(32, 32), white) {
		t.Errorf("the ink is %v", img.NRGBAAt(32, 32))
	}
	b = brandOf(iconOf("light", append([]eventschemas.Asset{missing}, whole.Formats...)...))
	if img := pixels(t, w.draw(b, onPage(logo.Icon, nearBlack, 64, imaging.PNG))); !alike(img.NRGBAAt(32, 32), white) {
		t.Errorf("the next file has ink of %v", img.NRGBAAt(32, 32))
	}
	if _, err := w.Draw(t.Context(), brandOf(iconOf("light", missing)), onPage(logo.Icon, nearBlack, 64, imaging.PNG)); err == nil {
		t.Error("a brand whose only file is missing was drawn")
	}
	if unknown := w.draw(brandOf(), onPage(logo.Icon, nearBlack, 64, imaging.JPEG)); unknown.Fallback == "" {
		t.Error("a brand without logos has no fallback")
	}
}

// A file is drawn once for all pages, and measured once for each.
func TestDraw_OnBackground_AgainDrawsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.put(vector(t, blackDisc), "svg")))
	w.draw(b, onPage(logo.Icon, imaging.White, 64, imaging.PNG))
	before := w.vectors.drawn.Load()
	w.draw(b, onPage(logo.Icon, imaging.RGB{R: 0xff, G: 0xff, B: 0xf0}, 64, imaging.PNG))
	w.draw(b, onPage(logo.Icon, imaging.White, 64, imaging.PNG))
	if got := w.vectors.drawn.Load() - before; got != 0 {
		t.Errorf("%d more drawings", got)
	}
	w.draw(b, onPage(logo.Icon, nearBlack, 64, imaging.PNG))
	before = w.vectors.drawn.Load()
	w.draw(b, onPage(logo.Icon, nearBlack, 64, imaging.PNG))
	if got := w.vectors.drawn.Load() - before; got != 0 {
		t.Errorf("%d more drawings of a turned logo", got)
	}
}
