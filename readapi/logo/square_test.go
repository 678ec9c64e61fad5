package logo_test

import (
	"bytes"
	"fmt"
	"image"
	"image/draw"
	"math"
	"testing"

	"pgregory.net/rapid"

	"letterhead/internal/imaging"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
	"letterhead/readapi/logo"
)

// dot returns a clear image with a rectangle of ink.
func dot(width, height int, ink image.Rectangle) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.Draw(img, ink, image.NewUniform(black), image.Point{}, draw.Src)
	return img
}

// An icon is square at every size and in every format, whatever the file's ratio, and the file keeps its own ratio and
// is not enlarged. Symbols and wordmarks keep the ratio of the file.
func TestDraw_Icon_IsSquare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(1, 400).Draw(t, "width"), rapid.IntRange(1, 400).Draw(t, "height")
		size := rapid.IntRange(logo.MinSize, 500).Draw(t, "size")
		format := rapid.SampledFrom([]imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG, imaging.SVG}).Draw(t, "format")
		b := brandOf(iconOf("dark", w.raster(dot(width, height, image.Rect(0, 0, width, height)))))
		img := pixels(w.t, w.draw(b, request(size, format)))
		side := min(size, max(width, height))
		if img.Rect.Max != image.Pt(side, side) {
			t.Fatalf("a file of %d x %d as %s is %v, want %d", width, height, format, img.Rect.Max, side)
		}
		symbol := pixels(w.t, w.draw(b, asSymbol(size, imaging.PNG)))
		if ink := imaging.Ink(img); format != imaging.JPEG && ink.Size() != symbol.Rect.Size() {
			t.Fatalf("the drawing is %v in the icon and %v in the symbol", ink, symbol.Rect)
		}
	})
}

// The box of the ink is in the middle, whatever room the file leaves around it, and the room does not grow.
func TestDraw_IconWithUnevenRoom_IsCentered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("dark", w.raster(dot(120, 60, image.Rect(4, 6, 44, 36)))))
	for size, want := range map[int]image.Rectangle{120: image.Rect(40, 45, 80, 75), 1000: image.Rect(40, 45, 80, 75), 60: image.Rect(20, 22, 40, 38)} {
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP} {
			ink := imaging.Ink(pixels(t, w.draw(b, request(size, format))))
			if ink.Min.Sub(want.Min).X > 1 || ink.Min.Sub(want.Min).X < -1 || ink.Min.Sub(want.Min).Y > 1 || ink.Min.Sub(want.Min).Y < -1 {
				t.Errorf("%d %s: the ink is at %v, want %v", size, format, ink, want)
			}
		}
	}
	square := dot(60, 60, image.Rect(4, 6, 44, 36))
	if img := pixels(t, w.draw(brandOf(iconOf("dark", w.raster(square))), request(60, imaging.PNG))); !bytes.Equal(img.Pix, square.Pix) {
		t.Error("a square file was changed")
	}
}

// An SVG is square through its view box, and its ink is in the middle of it.
func TestDraw_IconAsSVG_IsSquare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		root string // attributes
		want string // view box
	}{
		{`viewBox="0 0 120 60"`, "0 0 120 120"},
		{`viewBox="-10 -20 30 90"`, "0 0 90 90"},
		{`width="48" height="24" viewBox="0 0 120 60"`, "0 0 48 48"},
		{`viewBox="0 0 80 80"`, "0 0 80 80"},
	} {
		data, _, err := svg.Sanitize(fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" %s><path d="M2 4h12v30H2z"/></svg>`, c.root))
		testmust.Succeed(t, err)
		b := brandOf(iconOf("dark", w.put(data, "svg")))
		p := w.draw(b, request(64, imaging.SVG))
		if !bytes.Contains(p.Body, []byte(`viewBox="`+c.want+`"`)) || p.ContentType != logo.ContentTypeSVG {
			t.Errorf("%s: %s %s", c.root, p.ContentType, p.Body)
		}
		if clean, _, err := svg.Sanitize(p.Body); err != nil || !bytes.Equal(clean, p.Body) {
			t.Errorf("%s: sanitizing the answer changes it: %v %s", c.root, err, p.Body)
		}
		const side = 180
		drawn := testmust.Get(w.vectors.Render(t.Context(), p.Body, side))(t)
		if drawn.Rect.Max != image.Pt(side, side) {
			t.Errorf("%s: drawn with %v", c.root, drawn.Rect.Max)
		}
		if bytes.Equal(p.Body, data) {
			continue // a square file is served unchanged
		}
		ink := imaging.Ink(drawn)
		offX, offY := math.Abs(float64(ink.Min.X+ink.Max.X-side)/2), math.Abs(float64(ink.Min.Y+ink.Max.Y-side)/2)
		if offX > side/100 || offY > side/100 {
			t.Errorf("%s: the ink is at %v of %d", c.root, ink, side)
		}
		symbol := w.draw(b, asSymbol(64, imaging.SVG))
		if !bytes.Equal(symbol.Body, data) {
			t.Errorf("%s: a symbol is %s", c.root, symbol.Body)
		}
	}
}

// A JPEG has no transparency: the square has the color that is behind the drawing.
func TestDraw_IconAsJPEG_HasOneGround(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for ink, ground := range map[string]imaging.RGB{"dark": imaging.White, "light": imaging.Black} {
		fill := black
		if ink == "light" {
			fill = white
		}
		o := request(80, imaging.JPEG)
		img := pixels(t, w.draw(brandOf(iconOf(ink, w.raster(bar(80, 40, fill)))), o))
		want := white
		if ground == imaging.Black {
			want = black
		}
		if img.Rect.Max != image.Pt(80, 80) || !alike(img.NRGBAAt(2, 2), want) || !alike(img.NRGBAAt(40, 40), fill) {
			t.Errorf("%s ink: %v, %v on %v", ink, img.Rect.Max, img.NRGBAAt(40, 40), img.NRGBAAt(2, 2))
		}
	}
}

// Monograms and clear fallbacks are square, too.
func TestDraw_Fallback_IsSquare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, fallback := range []logo.Fallback{logo.Monogram, logo.Transparent, logo.NotFound} {
		for _, format := range []imaging.Format{imaging.PNG, imaging.WebP, imaging.JPEG} {
			o := request(77, format)
			o.Fallback = fallback
			if img := pixels(t, w.draw(brandOf(), o)); img.Rect.Max != image.Pt(77, 77) {
				t.Errorf("%s as %s is %v", fallback, format, img.Rect.Max)
			}
		}
	}
}

// The file that was drawn is described, also when its image was cached.
func TestDraw_Image_DescribesItsFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := brandOf(iconOf("light", w.raster(bar(80, 40, white))), iconOf("", w.raster(bar(90, 90, teal))))
	for range 2 {
		for theme, want := range map[logo.Theme]logo.Theme{logo.Light: logo.Light, logo.Dark: logo.Any} {
			o := request(64, imaging.PNG)
			o.Theme, o.Type = theme, logo.Symbol
			if p := w.draw(b, o); p.From.Type != logo.Icon || p.From.Ink != want || p.Fallback != "" {
				t.Errorf("requested with %s ink: %+v, fallback %q", theme, p.From, p.Fallback)
			}
		}
		for fallback, want := range map[logo.Fallback]logo.Fallback{logo.Monogram: logo.Monogram, logo.Transparent: logo.Transparent, logo.NotFound: logo.Transparent} {
			o := request(64, imaging.PNG)
			o.Fallback = fallback
			if p := w.draw(brandOf(), o); p.Fallback != want || p.From != (logo.Source{}) {
				t.Errorf("%s: %+v, fallback %q", fallback, p.From, p.Fallback)
			}
		}
	}
}
