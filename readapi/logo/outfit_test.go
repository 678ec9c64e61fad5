package logo_test

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"
	"strconv"
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

// twoInks is a bar whose halves have two inks, so that it is not turned.
func twoInks(width, height int, left, right color.NRGBA) *image.NRGBA {
	img := bar(width, height, left)
	draw.Draw(img, image.Rect(width/2, height/4, width, 3*height/4), image.NewUniform(right), image.Point{}, draw.Src)
	draw.Draw(img, image.Rect(0, 0, 2, height), image.NewUniform(left), image.Point{}, draw.Src) // no wide margins
	return img
}

func TestDraw_OnBackground_RasterGetsAPlateAtItsSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.raster(twoInks(66, 40, black, color.NRGBA{0, 0, 0x90, 0xff}))))
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
			if ink, edge := img.NRGBAAt(c.want.X/3, c.want.Y/2), img.NRGBAAt(c.want.X/2, 1); !alike(ink, black) || !alike(edge, white) {
				t.Errorf("%s %d %s: %v on %v", c.kind, c.size, format, ink, edge)
			}
		}
	}
}

// A plate has the gray with the highest minimum contrast over all inks: computed here with WCAG's formula.
func TestDraw_OnBackground_PlateSuitsAllInks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blue := imaging.RGB{R: 0x0b, G: 0x5f, B: 0xff}
	for _, c := range []struct {
		why         string
		left, right color.NRGBA
		page        imaging.RGB
	}{
		{"two dark inks", black, color.NRGBA{0, 0, 0x90, 0xff}, nearBlack},
		{"black and navy", black, color.NRGBA{0, 0, 0x80, 0xff}, imaging.Black},
		{"two light inks", white, color.NRGBA{0xff, 0xff, 0x80, 0xff}, imaging.White},
		{"cream and white", color.NRGBA{0xff, 0xf0, 0x90, 0xff}, white, imaging.White},
		{"red and blue on blue", color.NRGBA{0xe0, 0, 0x20, 0xff}, color.NRGBA{0, 0x60, 0xe0, 0xff}, blue},
		{"green and blue on blue", color.NRGBA{0, 0x88, 0x40, 0xff}, color.NRGBA{0, 0x50, 0xe0, 0xff}, blue},
		{"black and white on black", black, white, imaging.Black},
		{"black and yellow on black", black, color.NRGBA{0xff, 0xd0, 0, 0xff}, imaging.Black},
		{"two grays on gray", color.NRGBA{0x70, 0x70, 0x70, 0xff}, color.NRGBA{0xa0, 0xa0, 0xa0, 0xff}, imaging.RGB{R: 0x88, G: 0x88, B: 0x88}},
	} {
		o := onPage(logo.Full, c.page, 100, imaging.PNG)
		img := pixels(t, w.draw(brandOf(iconOf("", w.raster(twoInks(90, 40, c.left, c.right)))), o))
		edge := img.NRGBAAt(img.Rect.Dx()/2, 1)
		if edge.A != 0xff {
			t.Errorf("%s: no plate", c.why)
			continue
		}
		least := func(gray color.NRGBA) float64 {
			return min(wcag(gray, c.left), wcag(gray, c.right))
		}
		for v := 0x1c; v <= 0xff; v++ {
			other := color.NRGBA{uint8(v), uint8(v), uint8(v), 0xff}
			if least(other) > least(edge)+0.1 {
				t.Errorf("%s: the plate %v has a contrast of %.2f, and %v has %.2f", c.why, edge, least(edge), other, least(other))
				break
			}
		}
	}
}

// wcag is the contrast ratio of WCAG 2.2.
func wcag(a, b color.NRGBA) float64 {
	light := func(c color.NRGBA) float64 {
		linear := func(v uint8) float64 {
			if s := float64(v) / 255; s > 0.04045 {
				return math.Pow((s+0.055)/1.055, 2.4)
			} else {
				return s / 12.92
			}
		}
		return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B) + 0.05
	}
	return max(light(a)/light(b), light(b)/light(a))
}

// A raster whose page would swallow it is turned if its parts have one ink.
func TestDraw_OnBackground_RasterOfOneInkIsTurned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	navy, yellow := color.NRGBA{0, 0, 0x80, 0xff}, color.NRGBA{0xff, 0xc7, 0x2c, 0xff}
	blue, gray := imaging.RGB{R: 0x0b, G: 0x5f, B: 0xff}, imaging.RGB{R: 0x80, G: 0x80, B: 0x80}
	apart := func(left, right color.NRGBA) *image.NRGBA {
		img := twoInks(90, 40, left, right)
		draw.Draw(img, image.Rect(40, 0, 50, 40), image.Transparent, image.Point{}, draw.Src)
		return img
	}
	boxed := func(ground color.NRGBA) *image.NRGBA {
		img := image.NewNRGBA(image.Rect(0, 0, 90, 40))
		draw.Draw(img, img.Rect, image.NewUniform(ground), image.Point{}, draw.Src)
		draw.Draw(img, image.Rect(6, 4, 84, 36), image.NewUniform(black), image.Point{}, draw.Src)
		return img
	}
	for _, c := range []struct {
		why  string
		img  *image.NRGBA
		page imaging.RGB
		want color.NRGBA // of the right part; zero if only its contrast matters
	}{
		{"black on black", bar(90, 40, black), imaging.Black, white},
		{"black on a dark page", bar(90, 40, black), nearBlack, white},
		{"white on white", bar(90, 40, white), imaging.White, black},
		{"black on white", bar(90, 40, black), imaging.White, black},
		{"navy keeps its hue", bar(90, 40, navy), nearBlack, color.NRGBA{0x7f, 0x7f, 0xff, 0xff}},
		{"yellow on white gets contrast", apart(yellow, yellow), imaging.White, color.NRGBA{}},
		{"blue on blue", bar(90, 40, color.NRGBA{0x0b, 0x5f, 0xff, 0xff}), blue, color.NRGBA{}},
		{"gray on gray", bar(90, 40, color.NRGBA{0x80, 0x80, 0x80, 0xff}), gray, color.NRGBA{}},
		{"red beside black", apart(black, color.NRGBA{0xff, 0x33, 0x33, 0xff}), nearBlack, color.NRGBA{0xff, 0x33, 0x33, 0xff}},
		{"black beside red", apart(color.NRGBA{0xff, 0x33, 0x33, 0xff}, black), nearBlack, white},
		{"black on paper", boxed(white), nearBlack, white},
		{"black on gray paper", boxed(color.NRGBA{0xf0, 0xf0, 0xf0, 0xff}), nearBlack, white},
		{"translucent black", bar(90, 40, color.NRGBA{0, 0, 0, 0xc0}), nearBlack, color.NRGBA{0xff, 0xff, 0xff, 0xc0}},
	} {
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
			drawn := w.draw(brandOf(iconOf("", w.raster(c.img))), onPage(logo.Full, c.page, 90, format))
			img := pixels(t, drawn)
			got := img.NRGBAAt(img.Rect.Dx()-12, img.Rect.Dy()/2)
			page := color.NRGBA{c.page.R, c.page.G, c.page.B, 0xff}
			if c.want != (color.NRGBA{}) && !alike(got, c.want) || got.A == 0xff && wcag(got, page) < 2.95 {
				t.Errorf("%s as %s: %v, a contrast of %.2f", c.why, format, got, wcag(got, page))
			}
			if edge := img.NRGBAAt(img.Rect.Dx()/2, 0); edge.A == 0xff && alike(edge, white) && c.page != imaging.Black && img.Rect.Dy() > 33 && c.want != white {
				t.Errorf("%s as %s has a plate", c.why, format)
			}
		}
	}
}

// Wide clear margins, and those of a flat ground, are trimmed; others stay.
func TestDraw_OnBackground_WideMarginsAreTrimmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paper := func(width, height int, ink image.Rectangle) *image.NRGBA {
		img := image.NewNRGBA(image.Rect(0, 0, width, height))
		draw.Draw(img, img.Rect, image.NewUniform(white), image.Point{}, draw.Src)
		draw.Draw(img, ink, image.NewUniform(teal), image.Point{}, draw.Src)
		return img
	}
	clear := func(width, height int, ink image.Rectangle) *image.NRGBA {
		img := dot(width, height, ink)
		draw.Draw(img, ink, image.NewUniform(teal), image.Point{}, draw.Src)
		return img
	}
	for _, c := range []struct {
		why       string
		img       *image.NRGBA
		kind      logo.Type
		size      int
		want, ink image.Point
	}{
		{"word in a square", clear(100, 100, image.Rect(2, 40, 98, 60)), logo.Full, 96, image.Pt(96, 20), image.Pt(96, 20)},
		{"word in a square of paper", paper(100, 100, image.Rect(4, 40, 96, 60)), logo.Full, 200, image.Pt(92, 20), image.Pt(92, 20)},
		{"mark in the middle", clear(200, 200, image.Rect(60, 60, 140, 140)), logo.Icon, 80, image.Pt(80, 80), image.Pt(80, 80)},
		{"mark on paper", paper(200, 200, image.Rect(60, 60, 140, 140)), logo.Icon, 80, image.Pt(80, 80), image.Pt(80, 80)},
		{"mark in a corner", clear(200, 200, image.Rect(0, 0, 80, 80)), logo.Full, 80, image.Pt(80, 80), image.Pt(80, 80)},
		{"wide mark as an icon", clear(200, 200, image.Rect(10, 80, 190, 120)), logo.Icon, 180, image.Pt(180, 180), image.Pt(180, 40)},
		{"nothing is enlarged", clear(200, 200, image.Rect(80, 80, 120, 120)), logo.Icon, 128, image.Pt(40, 40), image.Pt(40, 40)},
		{"larger than the small form", clear(800, 800, image.Rect(200, 200, 600, 600)), logo.Icon, 200, image.Pt(200, 200), image.Pt(200, 200)},
		{"larger than the small form, at its size", clear(800, 800, image.Rect(200, 200, 600, 600)), logo.Icon, 400, image.Pt(400, 400), image.Pt(400, 400)},
		{"grid of icons", clear(96, 96, image.Rect(12, 12, 84, 84)), logo.Icon, 96, image.Pt(96, 96), image.Pt(72, 72)},
		{"narrow margins", clear(100, 50, image.Rect(5, 5, 95, 45)), logo.Full, 100, image.Pt(100, 50), image.Pt(90, 40)},
		{"no margins", clear(100, 50, image.Rect(0, 0, 100, 50)), logo.Full, 100, image.Pt(100, 50), image.Pt(100, 50)},
		{"tiny", clear(16, 16, image.Rect(6, 6, 10, 10)), logo.Icon, 16, image.Pt(4, 4), image.Pt(4, 4)},
	} {
		img := pixels(t, w.draw(brandOf(iconOf("", w.raster(c.img))), onPage(c.kind, imaging.White, c.size, imaging.PNG)))
		if ink := imaging.Ink(img).Size(); img.Rect.Max != c.want || ink != c.ink {
			t.Errorf("%s: %v with ink of %v, want %v with %v", c.why, img.Rect.Max, ink, c.want, c.ink)
		}
	}
	for _, c := range []struct{ root, want string }{
		{`viewBox="0 0 100 100"`, `viewBox="20 30 60 40"`},
		{`viewBox="0 0 100 100" width="50" height="50"`, `width="30" height="20"`},
		{`viewBox="-50 -50 150 150"`, `viewBox="20 30 60 40"`},
		{`viewBox="15 25 70 50"`, `viewBox="15 25 70 50"`},
		{`viewBox="0 0 100 100" width="100" height="50"`, `viewBox="0 0 100 100"`},
	} {
		data, _, err := svg.Sanitize([]byte(`<svg xmlns="http://www.w3.org/2000/svg" ` + c.root + `><path fill="#118899" d="M20 30h60v40H20z"/></svg>`))
		testmust.Succeed(t, err)
		p := w.draw(brandOf(iconOf("", w.put(data, "svg"))), onPage(logo.Full, imaging.White, 64, imaging.SVG))
		if !bytes.Contains(p.Body, []byte(c.want)) && !closeBox(p.Body, c.want) {
			t.Errorf("%s: %s, want %s", c.root, p.Body, c.want)
		}
		if clean, _, err := svg.Sanitize(p.Body); err != nil || !bytes.Equal(clean, p.Body) {
			t.Errorf("%s: sanitizing the answer changes it: %v %s", c.root, err, p.Body)
		}
	}
}

// closeBox reports whether the first view box or size of an SVG has nearly the wanted numbers: a drawing has pixels.
func closeBox(body []byte, want string) bool {
	name, numbers, _ := strings.Cut(want, `"`)
	_, rest, ok := strings.Cut(string(body), name+`"`)
	got := strings.Fields(strings.ReplaceAll(rest[:strings.IndexByte(rest, '"')], ",", " "))
	for i, n := range strings.Fields(strings.TrimRight(strings.SplitN(numbers, `"`, 2)[0], `"`)) {
		a, errA := strconv.ParseFloat(n, 64)
		b, errB := strconv.ParseFloat(got[i], 64)
		ok = ok && errA == nil && errB == nil && math.Abs(a-b) <= 1.2
	}
	return ok
}

func TestDraw_OnBackground_IconIsInASquare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tight := dot(80, 40, image.Rect(0, 4, 80, 36))
	draw.Draw(tight, image.Rect(0, 4, 80, 36), image.NewUniform(teal), image.Point{}, draw.Src)
	for _, file := range []eventschemas.Asset{w.put(bytes.Replace(barSVG(t, "#118899"), []byte("M0 10h80v20H0z"), []byte("M0 4h80v32H0z"), 1), "svg"), w.raster(tight)} {
		b := brandOf(iconOf("dark", file))
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
			img := pixels(t, w.draw(b, onPage(logo.Icon, imaging.White, 64, format)))
			if img.Rect.Max != image.Pt(64, 64) || img.NRGBAAt(32, 14).A != 0 || !alike(img.NRGBAAt(32, 32), teal) || img.NRGBAAt(32, 50).A != 0 {
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
