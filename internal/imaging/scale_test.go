package imaging_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"testing"

	"golang.org/x/image/webp"
	"pgregory.net/rapid"

	"letterhead/internal/imaging"
	"letterhead/internal/testmust"
)

// disc draws a disc with smooth edges on a background, with 8 samples per side of each pixel. Clear pixels keep the
// color of the background, as in images of other programs.
func disc(side int, ink, ground color.NRGBA) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	const samples = 8
	middle, radius := float64(side)/2, float64(side)*0.42
	for y := range side {
		for x := range side {
			in := 0
			for i := range samples * samples {
				dx := float64(x) + (float64(i%samples)+.5)/samples - middle
				dy := float64(y) + (float64(i/samples)+.5)/samples - middle
				if dx*dx+dy*dy < radius*radius {
					in++
				}
			}
			share := float64(in) / (samples * samples)
			a := share*float64(ink.A) + (1-share)*float64(ground.A)
			c := color.NRGBA{ground.R, ground.G, ground.B, uint8(math.Round(a))}
			if a > 0 {
				blend := func(p, q uint8) uint8 {
					return uint8(math.Round((share*float64(p)*float64(ink.A) + (1-share)*float64(q)*float64(ground.A)) / a))
				}
				c.R, c.G, c.B = blend(ink.R, ground.R), blend(ink.G, ground.G), blend(ink.B, ground.B)
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

// averaged is the reference: the premultiplied mean of the pixels covered by each new one.
func averaged(img *image.NRGBA, factor int) *image.NRGBA {
	w, h := img.Rect.Dx()/factor, img.Rect.Dy()/factor
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			var sum [4]float64
			for i := range factor * factor {
				p := img.NRGBAAt(x*factor+i%factor, y*factor+i/factor)
				a := float64(p.A)
				sum[0], sum[1], sum[2], sum[3] = sum[0]+float64(p.R)*a, sum[1]+float64(p.G)*a, sum[2]+float64(p.B)*a, sum[3]+a
			}
			if sum[3] == 0 {
				continue
			}
			out.SetNRGBA(x, y, color.NRGBA{uint8(math.Round(sum[0] / sum[3])), uint8(math.Round(sum[1] / sum[3])),
				uint8(math.Round(sum[2] / sum[3])), uint8(math.Round(sum[3] / float64(factor*factor)))})
		}
	}
	return out
}

// over returns the color of a pixel on a background.
func over(p color.NRGBA, ground float64) [3]float64 {
	a := float64(p.A) / 255
	return [3]float64{float64(p.R)*a + ground*(1-a), float64(p.G)*a + ground*(1-a), float64(p.B)*a + ground*(1-a)}
}

// TestScale_NoHalo compares with the reference on black and white backgrounds. A sharpening filter differs by its
// overshoot at an edge, one without premultiplication by half of the contrast.
func TestScale_NoHalo(t *testing.T) {
	t.Parallel()
	many := disc(256, red, color.NRGBA{})
	for i := range 40 { // more than two colors: the other path through Scale
		fill(many, image.Rect(100+i, 100, 101+i, 150), color.NRGBA{uint8(200 - i), uint8(5 * i), uint8(3 * i), 255})
	}
	for name, img := range map[string]*image.NRGBA{
		"red on clear black": disc(256, red, color.NRGBA{}), "red on clear white": disc(256, red, color.NRGBA{255, 255, 255, 0}),
		"white on clear black": disc(256, white, color.NRGBA{}), "navy on clear white": disc(256, navy, color.NRGBA{255, 255, 255, 0}),
		"white on red": disc(256, white, red), "half clear on clear": disc(256, color.NRGBA{200, 30, 90, 128}, color.NRGBA{}), "many": many,
	} {
		for _, factor := range []int{2, 4, 8} {
			got, want := imaging.Scale(img, 256/factor), averaged(img, factor)
			worst, sum := 0.0, 0.0
			for i := range got.Rect.Dx() * got.Rect.Dy() {
				x, y := i%got.Rect.Dx(), i/got.Rect.Dx()
				for _, ground := range []float64{0, 255} {
					g, w := over(got.NRGBAAt(x, y), ground), over(want.NRGBAAt(x, y), ground)
					for c := range 3 {
						d := math.Abs(g[c] - w[c])
						worst, sum = math.Max(worst, d), sum+d*d
					}
				}
			}
			rms := math.Sqrt(sum / float64(6*got.Rect.Dx()*got.Rect.Dy()))
			if worst > 40 || rms > 4 {
				t.Errorf("%s, 1:%d: off by %.1f at worst and %.2f in the mean; want at most 40 and at most 4", name, factor, worst, rms)
			}
		}
	}
}

// With one ink on a clear background, every visible pixel has its exact color.
func TestScale_KeepsInk(t *testing.T) {
	t.Parallel()
	ink := color.NRGBA{0x11, 0x93, 0xc8, 0xff}
	small := imaging.Scale(disc(256, ink, color.NRGBA{}), 100)
	for i := 0; i < len(small.Pix); i += 4 {
		a := int(small.Pix[i+3])
		for c, want := range [3]uint8{ink.R, ink.G, ink.B} {
			// The precision of 8 bits of a premultiplied color.
			if off := int(small.Pix[i+c]) - int(want); a > 0 && max(off, -off)*a > 255 {
				t.Fatalf("pixel %d is %v", i/4, small.Pix[i:i+4])
			}
		}
	}
}

// A third color, however small its area, is not lost.
func TestScale_ThirdColor_IsKept(t *testing.T) {
	t.Parallel()
	for _, third := range []color.NRGBA{{0, 255, 0, 255}, {255, 0, 0, 255}, {0, 60, 0, 255}, {0, 0, 200, 128}, {255, 245, 255, 255}} {
		img := disc(256, white, color.NRGBA{})
		fill(img, image.Rect(122, 121, 138, 137), third) // between the rows that are sampled, and across them
		got := imaging.Scale(img, 64).NRGBAAt(32, 32)
		if absDiff(got.R, third.R) > 6 || absDiff(got.G, third.G) > 6 || absDiff(got.B, third.B) > 6 || absDiff(got.A, third.A) > 6 {
			t.Errorf("%v became %v", third, got)
		}
	}
}

// Images of few colors take another path through both encoders.
func TestEncoders_FewColors(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 3, 15, 16, 17, 18, 100, 255, 256, 257}).Draw(t, "colors")
		w, h := rapid.IntRange(18, 40).Draw(t, "w"), rapid.IntRange(18, 40).Draw(t, "h")
		random := rapid.Uint64().Draw(t, "seed")
		next := func() uint64 { random = random*6364136223846793005 + 1442695040888963407; return random >> 33 }
		colors := make([]color.NRGBA, n)
		for i := range colors {
			v := next()
			colors[i] = color.NRGBA{uint8(v), uint8(v >> 8), uint8(v >> 16), uint8(next())}
			if i%3 == 0 {
				colors[i].A = uint8(i % 7) // faint ones lose most in other color models
			}
		}
		img := image.NewNRGBA(image.Rect(0, 0, w, h))
		for i := range w * h {
			c := colors[i%n]
			if i >= n {
				c = colors[next()%uint64(n)]
			}
			img.SetNRGBA(i%w, i/w, c)
		}
		data, err := imaging.EncodePNG(img)
		testmust.Succeed(t, err)
		if back, _, err := imaging.Decode(data, imaging.Limits{}); err != nil || !bytes.Equal(back.Pix, img.Pix) {
			t.Fatalf("png of %d colors: %v", n, err)
		}
		if data, err = imaging.EncodeWebP(img); err != nil {
			t.Fatal(err)
		}
		back, err := webp.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("webp of %d colors: %v", n, err)
		}
		for i := range w * h {
			got, want := color.NRGBAModel.Convert(back.At(i%w, i/w)).(color.NRGBA), img.NRGBAAt(i%w, i/w)
			if got != want && (got.A != 0 || want.A != 0) {
				t.Fatalf("webp of %d colors: %v, want %v", n, got, want)
			}
		}
	})
}

// TestEncoders_FewColors_AreIndexed checks the size of images of few colors.
func TestEncoders_FewColors_AreIndexed(t *testing.T) {
	t.Parallel()
	data, err := imaging.EncodePNG(disc(128, red, color.NRGBA{}))
	testmust.Succeed(t, err)
	config, err := png.DecodeConfig(bytes.NewReader(data))
	testmust.Succeed(t, err)
	if _, ok := config.ColorModel.(color.Palette); !ok {
		t.Errorf("a disc of one color has no palette")
	}
}

// TestDecodeSmaller_EqualsDecodeThenScale compares the pixels of the fast path with those of the slow one.
func TestDecodeSmaller_EqualsDecodeThenScale(t *testing.T) {
	t.Parallel()
	blue, clear := color.NRGBA{11, 95, 255, 255}, color.NRGBA{}
	sources := map[string]image.Image{
		"two colors": disc(200, blue, clear), "two colors on a background": disc(201, blue, color.NRGBA{250, 240, 230, 255}),
		"half clear ink": disc(200, color.NRGBA{200, 30, 30, 128}, clear), "hardly a contrast": disc(200, blue, color.NRGBA{20, 100, 250, 255}),
	}
	many, opaque, deep, gray := disc(256, red, clear), disc(256, red, color.NRGBA{255, 255, 255, 255}), image.NewNRGBA64(image.Rect(0, 0, 150, 90)), image.NewGray(image.Rect(0, 0, 90, 150))
	for i := 0; i < len(many.Pix); i += 4 {
		many.Pix[i], opaque.Pix[i+1] = uint8(i/4), uint8(i/1024)
	}
	for i := range deep.Pix {
		deep.Pix[i] = uint8(i * i >> 5)
	}
	for i := range gray.Pix {
		gray.Pix[i] = uint8(i * i >> 5)
	}
	sources["many colors"], sources["many, opaque"], sources["16 bits"], sources["gray"] = many, opaque, deep, gray
	// A palette of two colors, their mixes and a third one, unused or used.
	unused := image.NewPaletted(image.Rect(0, 0, 130, 200), color.Palette{clear, color.NRGBA{11, 95, 255, 80}, blue, color.NRGBA{255, 0, 0, 255}})
	for i := range unused.Pix {
		unused.Pix[i] = uint8(i / 7 % 3)
	}
	third := image.NewPaletted(unused.Rect, unused.Palette)
	copy(third.Pix, unused.Pix)
	third.Pix[130*100+50] = 3
	sources["third color unused"], sources["third color"] = unused, third
	for name, img := range sources {
		files := map[string][]byte{}
		var b bytes.Buffer
		testmust.Succeed(t, png.Encode(&b, img))
		files["png"] = b.Bytes()
		full, _, err := imaging.Decode(files["png"], imaging.Limits{})
		testmust.Succeed(t, err)
		for format, encode := range map[string]func() ([]byte, error){
			"our png": func() ([]byte, error) { return imaging.EncodePNG(full) }, "webp": func() ([]byte, error) { return imaging.EncodeWebP(full) },
			"jpeg": func() ([]byte, error) { return imaging.EncodeJPEG(full, imaging.White) },
		} {
			if files[format], err = encode(); err != nil {
				t.Fatal(err)
			}
		}
		for format, data := range files {
			full, info, err := imaging.Decode(data, imaging.Limits{})
			testmust.Succeed(t, err)
			for _, longest := range []int{0, 16, 77, 128, 199, 256} {
				want := imaging.Scale(full, longest)
				got, gotInfo, err := imaging.DecodeSmaller(data, imaging.Limits{}, longest)
				if err != nil || gotInfo != info || got.Rect != want.Rect || !bytes.Equal(got.Pix, want.Pix) {
					t.Errorf("%s as %s to %d: %v %+v, %v, want %v", name, format, longest, got.Rect, gotInfo, err, want.Rect)
				}
			}
		}
	}
	if _, _, err := imaging.DecodeSmaller([]byte("GIF89a"), imaging.Limits{}, 64); err == nil {
		t.Error("an unreadable file was decoded")
	}
}
