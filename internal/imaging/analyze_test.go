package imaging_test

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"
	"testing"

	"golang.org/x/image/webp"
	"pgregory.net/rapid"

	"letterhead/internal/imaging"
	"letterhead/internal/testmust"
)

// canvas returns an image of one color to draw on.
func canvas(w, h int, c color.NRGBA) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, w, h))
	fill(img, img.Rect, c)
	return img
}

func fill(img *image.NRGBA, r image.Rectangle, c color.NRGBA) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			img.SetNRGBA(x, y, c)
		}
	}
}

var (
	blank  = color.NRGBA{}
	red    = color.NRGBA{220, 20, 30, 255}
	navy   = color.NRGBA{10, 20, 90, 255}
	white  = color.NRGBA{255, 255, 255, 255}
	cream  = color.NRGBA{250, 245, 230, 255}
	middle = image.Rect(20, 10, 80, 40)
)

func hexes(palette []imaging.Swatch) []string {
	var out []string
	for _, s := range palette {
		out = append(out, s.Color.Hex())
	}
	return out
}

func TestAnalyze_TransparentLogo(t *testing.T) {
	img := canvas(100, 50, blank)
	fill(img, middle, navy)
	fill(img, image.Rect(20, 10, 40, 40), red)
	a := imaging.Analyze(img)
	if !a.Transparent || a.Blank || a.Ink != middle || a.Theme() != "dark" {
		t.Errorf("%+v, theme %q", a, a.Theme())
	}
	if got := hexes(a.Palette); !slices.Equal(got, []string{"#0a145a", "#dc141e"}) {
		t.Errorf("palette %v", got)
	}
	if math.Abs(a.Palette[0].Share-2.0/3) > 0.001 || math.Abs(a.Palette[1].Share-1.0/3) > 0.001 {
		t.Errorf("shares %v", a.Palette)
	}
	want := (2*imaging.RGB{R: 10, G: 20, B: 90}.Luma() + imaging.RGB{R: 220, G: 20, B: 30}.Luma()) / 3
	if math.Abs(a.Luma-want) > 0.01 {
		t.Errorf("luma %v, want %v", a.Luma, want)
	}
	fill(img, middle, white)
	if a := imaging.Analyze(img); a.Theme() != "light" || a.Blank {
		t.Errorf("white logo: %+v", a)
	}
}

func TestAnalyze_OpaqueIcon(t *testing.T) {
	img := canvas(100, 50, cream)
	fill(img, middle, red)
	a := imaging.Analyze(img)
	if a.Transparent || a.Blank || a.Ink != middle || a.Theme() != "" {
		t.Errorf("%+v, theme %q", a, a.Theme())
	}
	if got := hexes(a.Palette); !slices.Equal(got, []string{"#faf5e6", "#dc141e"}) {
		t.Errorf("palette %v", got)
	}
}

func TestAnalyze_Backgrounds(t *testing.T) {
	for name, c := range map[string]struct {
		corners []image.Rectangle
		want    bool
	}{
		"two corners":           {[]image.Rectangle{image.Rect(0, 0, 10, 50), image.Rect(0, 0, 1, 1)}, false},
		"three corners":         {[]image.Rectangle{image.Rect(0, 0, 10, 50), image.Rect(90, 0, 100, 10)}, true},
		"four tiny corners":     {[]image.Rectangle{image.Rect(0, 0, 3, 3), image.Rect(97, 0, 100, 3), image.Rect(0, 47, 3, 50), image.Rect(97, 47, 100, 50)}, false}, // 0.7 %
		"clear in the middle":   {[]image.Rectangle{middle}, false},
		"rounded, four corners": {[]image.Rectangle{image.Rect(0, 0, 6, 6), image.Rect(94, 0, 100, 6), image.Rect(0, 44, 6, 50), image.Rect(94, 44, 100, 50)}, true}, // 2.9 %
	} {
		img := canvas(100, 50, navy)
		for _, r := range c.corners {
			fill(img, r, color.NRGBA{255, 255, 255, 7}) // alpha 7 is still clear
		}
		if got := imaging.Analyze(img).Transparent; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAnalyze_BlankImage(t *testing.T) {
	for name, img := range map[string]*image.NRGBA{
		"clear":          canvas(20, 20, blank),
		"white":          canvas(20, 20, white),
		"one pixel":      canvas(1, 1, color.NRGBA{0, 0, 0, 0}),
		"white on white": func() *image.NRGBA { i := canvas(20, 20, white); fill(i, image.Rect(5, 5, 9, 9), cream); return i }(),
		"almost clear":   canvas(20, 20, color.NRGBA{200, 0, 0, 5}),
	} {
		a := imaging.Analyze(img)
		if !a.Blank || a.Theme() != "" || !a.Ink.Empty() || a.Hash != 0 {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestPalette_MergesSimilarColors(t *testing.T) {
	img := canvas(100, 50, blank)
	for y := range 50 {
		for x := range 100 {
			img.SetNRGBA(x, y, color.NRGBA{220, uint8(20 + x%5), uint8(30 + y%5), 255}) // noise
		}
	}
	fill(img, image.Rect(0, 0, 100, 2), color.NRGBA{0, 0, 255, 100}) // too faint for ink
	img.SetNRGBA(50, 40, navy)                                       // one pixel of 5,000
	a := imaging.Analyze(img)
	if len(a.Palette) != 1 || imaging.DeltaE(a.Palette[0].Color, imaging.RGB{R: 220, G: 22, B: 32}) > 2 {
		t.Errorf("palette %v", a.Palette)
	}
}

func TestHash_SameImage(t *testing.T) {
	draw1 := func(scale int, ink color.NRGBA, margin int) *image.NRGBA {
		img := canvas(60*scale+2*margin, 40*scale+2*margin, blank)
		box := func(x1, y1, x2, y2 int) image.Rectangle {
			return image.Rect(x1*scale, y1*scale, x2*scale, y2*scale).Add(image.Pt(margin, margin))
		}
		fill(img, box(0, 0, 20, 40), ink)
		fill(img, box(25, 0, 60, 15), ink)
		fill(img, box(40, 20, 60, 40), ink)
		return img
	}
	base := imaging.Analyze(draw1(4, navy, 0)).Hash
	for name, img := range map[string]*image.NRGBA{
		"twice the size": draw1(8, navy, 0), "with a margin": draw1(4, navy, 30), "another dark ink": draw1(4, color.NRGBA{0, 60, 0, 255}, 0), "scaled": imaging.Scale(draw1(8, navy, 0), 100),
	} {
		if d := imaging.HashDistance(base, imaging.Analyze(img).Hash); d > 4 {
			t.Errorf("%s: distance %d, want at most 4", name, d)
		}
	}
	other := canvas(240, 160, blank)
	fill(other, image.Rect(100, 0, 140, 160), navy)
	fill(other, image.Rect(0, 60, 240, 100), navy)
	for name, img := range map[string]*image.NRGBA{"a light version": draw1(4, white, 0), "another drawing": other} {
		if d := imaging.HashDistance(base, imaging.Analyze(img).Hash); d < 12 {
			t.Errorf("%s: distance %d, want at least 12", name, d)
		}
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct{ w, h, longest, wantW, wantH int }{
		{512, 256, 128, 128, 64}, {256, 512, 128, 64, 128}, {100, 100, 100, 100, 100}, {50, 20, 128, 50, 20}, {3000, 1, 100, 100, 1},
		{1, 3000, 100, 1, 100}, {7, 7, 1, 1, 1}, {7, 7, 0, 1, 1}, {333, 100, 128, 128, 38}, {1, 1, 1, 1, 1},
	} {
		got := imaging.Scale(canvas(c.w, c.h, red), c.longest)
		if got.Rect != image.Rect(0, 0, c.wantW, c.wantH) {
			t.Errorf("%d×%d to %d: %v", c.w, c.h, c.longest, got.Rect)
		}
		if p := got.NRGBAAt(0, 0); p != red {
			t.Errorf("%d×%d to %d: color %v, want %v", c.w, c.h, c.longest, p, red)
		}
	}
}

// Premultiplied pixels that are treated as straight ones leave a dark rim.
func TestScale_KeepsColorsAtEdges(t *testing.T) {
	img := canvas(200, 200, blank)
	fill(img, image.Rect(33, 33, 167, 167), white)
	small := imaging.Scale(img, 31)
	for i := 0; i < len(small.Pix); i += 4 {
		if a := small.Pix[i+3]; a > 16 && (small.Pix[i] < 240 || small.Pix[i+1] < 240 || small.Pix[i+2] < 240) {
			t.Fatalf("pixel %d is %v", i/4, small.Pix[i:i+4])
		}
	}
	if small.NRGBAAt(15, 15) != white || small.NRGBAAt(0, 0).A != 0 {
		t.Errorf("middle %v, corner %v", small.NRGBAAt(15, 15), small.NRGBAAt(0, 0))
	}
}

func TestEncoders_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, h := rapid.IntRange(1, 24).Draw(t, "w"), rapid.IntRange(1, 24).Draw(t, "h")
		img := image.NewNRGBA(image.Rect(0, 0, w, h))
		opaque := rapid.Bool().Draw(t, "opaque")
		colors := rapid.SliceOfN(rapid.Uint32(), 1, 6).Draw(t, "colors")
		for i := 0; i < len(img.Pix); i += 4 {
			c := colors[rapid.IntRange(0, len(colors)-1).Draw(t, "i")]
			img.Pix[i], img.Pix[i+1], img.Pix[i+2], img.Pix[i+3] = byte(c), byte(c>>8), byte(c>>16), byte(c>>24)
			if opaque {
				img.Pix[i+3] = 255
			}
		}
		png := testmust.Get(imaging.EncodePNG(img))(t)
		back, _, err := imaging.Decode(png, imaging.Limits{})
		if err != nil || !bytes.Equal(back.Pix, img.Pix) {
			t.Fatalf("png: %v", err)
		}
		packed, err := imaging.EncodeWebP(img)
		if errors.Is(err, imaging.ErrUnsupported) && w*h < 4 {
			return
		}
		testmust.Succeed(t, err)
		again := testmust.Get(webp.Decode(bytes.NewReader(packed)))(t)
		for y := range h {
			for x := range w {
				got, want := color.NRGBAModel.Convert(again.At(x, y)).(color.NRGBA), img.NRGBAAt(x, y)
				if got != want && (got.A != 0 || want.A != 0) {
					t.Fatalf("webp: (%d,%d) is %v, want %v", x, y, got, want)
				}
			}
		}
	})
}

func TestEncodeJPEG_Transparent_IsFlattened(t *testing.T) {
	img := canvas(16, 16, blank)
	fill(img, image.Rect(8, 0, 16, 16), color.NRGBA{0, 0, 0, 128})
	for background, want := range map[imaging.RGB][2]uint8{imaging.White: {255, 127}, {R: 100, G: 100, B: 100}: {100, 50}} {
		data := testmust.Get(imaging.EncodeJPEG(img, background))(t)
		back, info, err := imaging.Decode(data, imaging.Limits{})
		if err != nil || info.Format != imaging.JPEG {
			t.Fatalf("%+v, %v", info, err)
		}
		if l, r := back.NRGBAAt(2, 8).R, back.NRGBAAt(13, 8).R; absDiff(l, want[0]) > 3 || absDiff(r, want[1]) > 3 {
			t.Errorf("on %v: %d and %d, want %v", background, l, r, want)
		}
	}
}

func absDiff(a, b uint8) int { return int(math.Abs(float64(a) - float64(b))) }

func TestEncodeWebP_TooLarge_Fails(t *testing.T) {
	if _, err := imaging.EncodeWebP(image.NewNRGBA(image.Rect(0, 0, 16385, 1))); !errors.Is(err, imaging.ErrTooLarge) {
		t.Errorf("16385 pixels: %v, want ErrTooLarge", err)
	}
	if _, err := imaging.EncodeWebP(canvas(1, 1, color.NRGBA{0, 0, 0, 255})); err != nil {
		t.Errorf("one black pixel: %v", err)
	}
}

func TestParseColor(t *testing.T) {
	for css, want := range map[string]string{
		"#abc": "#aabbcc", "#ABCDEF": "#abcdef", "#abcf": "#aabbcc", "#12345680": "#123456", "red": "#ff0000", "RebeccaPurple": "#663399",
		"rgb(1,2,3)": "#010203", "rgb(1 2 3)": "#010203", "rgb(100%, 0%, 50%)": "#ff0080", "rgba(1,2,3,.5)": "#010203", "rgb(1 2 3 / 40%)": "#010203",
		"rgb(300,-5,0)": "#ff0000", "hsl(120,100%,25%)": "#008000", "hsl(120deg 100% 25% / 1)": "#008000", "hsl(-120 100% 50%)": "#0000ff", "hsl(0.5turn 100% 50%)": "#00ffff",
		"hwb(0 0% 0%)": "#ff0000", "hwb(90 40% 40%)": "#809966", "hwb(0 100% 100%)": "#808080", "color(srgb 1 .5 0)": "#ff8000",
		// Examples of CSS Color 4, sections 9 and 10.
		"lab(46.2775% -47.5621 48.5837)": "#008000", "lch(46.2775% 67.9892 134.3912)": "#008000",
		"oklab(51.975% -0.1403 0.10768)": "#008000", "oklch(51.975% 0.17686 142.495)": "#008000", "lab(100% 0 0)": "#ffffff", "oklch(0 0 none)": "#000000",
	} {
		c, alpha, ok := imaging.ParseColor(css)
		if !ok || alpha == 0 {
			t.Errorf("%s is no color", css)
			continue
		}
		w, _, _ := imaging.ParseColor(want)
		if absDiff(c.R, w.R) > 1 || absDiff(c.G, w.G) > 1 || absDiff(c.B, w.B) > 1 {
			t.Errorf("%s is %s, want %s", css, c.Hex(), want)
		}
	}
	for css, want := range map[string]float64{"transparent": 0, "#0000": 0, "rgba(1,2,3,.5)": .5, "rgb(1 2 3 / 40%)": .4, "hsl(0 0% 0% / 7)": 1, "#fff": 1} {
		if _, alpha, ok := imaging.ParseColor(css); !ok || math.Abs(alpha-want) > 0.001 {
			t.Errorf("%s: alpha %v, want %v", css, alpha, want)
		}
	}
	for _, css := range []string{"", "none", "currentcolor", "#ab", "#abcde", "#xyz", "rgb(1,2)", "rgb(1,2,3", "rgb(a,b,c)", "rgb(1,2,3,4,5)", "url(#a)", "var(--x)", "color(rec2020 1 0 0)", "rgb(nan,1,1)", "notacolor"} {
		if c, _, ok := imaging.ParseColor(css); ok {
			t.Errorf("%q is %s", css, c.Hex())
		}
	}
}

func FuzzParseColor(f *testing.F) {
	for _, css := range []string{"#abc", "rgb(1 2 3 / 50%)", "oklch(50% .1 200deg)", "hwb(1 1% 1%)"} {
		f.Add(css)
	}
	f.Fuzz(func(t *testing.T, css string) {
		c, alpha, ok := imaging.ParseColor(css)
		if !ok {
			return
		}
		if again, _, ok := imaging.ParseColor(c.Hex()); !ok || again != c || !(alpha >= 0 && alpha <= 1) {
			t.Errorf("%q: %v %v", css, c, alpha)
		}
	})
}

func TestBrightness(t *testing.T) {
	for hex, want := range map[string]int{"#000000": 0, "#ffffff": 255, "#ff0000": 54, "#00ff00": 182, "#0000ff": 18, "#808080": 128} {
		c, _, _ := imaging.ParseColor(hex)
		if c.Brightness() != want || c.Hex() != hex {
			t.Errorf("%s: %d %s", hex, c.Brightness(), c.Hex())
		}
	}
	if got := (imaging.RGB{R: 200, G: 20, B: 60}).Chroma(); got != 180 {
		t.Errorf("chroma %d, want 180", got)
	}
}

// BenchmarkLogoStep measures an uncached logo request: a stored 512 px PNG to a 128 px WebP.
func BenchmarkLogoStep(b *testing.B) {
	img := canvas(512, 512, blank)
	for i := range 12 {
		fill(img, image.Rect(20+i*30, 40+i*20, 120+i*30, 200+i*20), color.NRGBA{uint8(20 * i), uint8(255 - 20*i), 120, 255})
	}
	data := testmust.Get(imaging.EncodePNG(img))(b)
	b.ReportAllocs()
	for b.Loop() {
		img, _, err := imaging.Decode(data, imaging.Limits{})
		testmust.Succeed(b, err)
		testmust.Succeed(b, testmust.Err(imaging.EncodeWebP(imaging.Scale(img, 128))))
	}
}

func BenchmarkAnalyze512(b *testing.B) {
	img := canvas(512, 512, blank)
	draw.Draw(img, image.Rect(100, 100, 400, 300), image.NewUniform(navy), image.Point{}, draw.Src)
	for b.Loop() {
		imaging.Analyze(img)
	}
}

// Lines thinner than a pixel leave no pixel opaque.
func TestTheme_FaintInk(t *testing.T) {
	for _, c := range []struct {
		ink   color.NRGBA
		theme string
	}{{color.NRGBA{255, 255, 255, 90}, "light"}, {color.NRGBA{0, 0, 0, 90}, "dark"}, {color.NRGBA{255, 220, 0, 60}, "light"}, {color.NRGBA{11, 95, 255, 60}, "dark"}} {
		img := image.NewNRGBA(image.Rect(0, 0, 64, 64))
		for x := 8; x < 56; x++ {
			img.SetNRGBA(x, 20, c.ink)
			img.SetNRGBA(x, 40, c.ink)
		}
		a := imaging.Analyze(img)
		if a.Theme() != c.theme || a.Blank || len(a.Palette) != 1 || a.Palette[0].Color != (imaging.RGB{R: c.ink.R, G: c.ink.G, B: c.ink.B}) {
			t.Errorf("%v: %s, %+v", c.ink, a.Theme(), a)
		}
	}
}
