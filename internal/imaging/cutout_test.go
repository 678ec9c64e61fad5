package imaging_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"letterhead/internal/imaging"
	"letterhead/internal/testmust"
)

var cutoutFolder = flag.String("cutouts", "", "draw the pictures of the tests of CutOut, before and after, into this folder")

// A stroke paints on a picture.
type stroke func(t *testing.T, img *image.NRGBA)

// text writes a word with antialiased edges.
func text(ttf []byte, size float64, x, y int, ink color.NRGBA, word string) stroke {
	return func(t *testing.T, img *image.NRGBA) {
		face := testmust.Get(opentype.NewFace(testmust.Get(opentype.Parse(ttf))(t), &opentype.FaceOptions{Size: size, DPI: 72}))(t)
		d := font.Drawer{Dst: img, Src: image.NewUniform(ink), Face: face, Dot: fixed.P(x, y)}
		d.DrawString(word)
	}
}

// shape fills the points at which a signed distance is negative, with antialiased edges.
func shape(ink color.NRGBA, distance func(x, y float64) float64) stroke {
	return func(_ *testing.T, img *image.NRGBA) {
		mask := image.NewAlpha(img.Rect)
		for y := range img.Rect.Dy() {
			for x := range img.Rect.Dx() {
				mask.Pix[y*mask.Stride+x] = uint8(math.Round(255 * min(max(0.5-distance(float64(x)+0.5, float64(y)+0.5), 0), 1)))
			}
		}
		draw.DrawMask(img, img.Rect, image.NewUniform(ink), image.Point{}, mask, image.Point{}, draw.Over)
	}
}

func round(x, y, radius float64) func(x, y float64) float64 {
	return func(px, py float64) float64 { return math.Hypot(px-x, py-y) - radius }
}

// box has round corners.
func box(x0, y0, x1, y1, radius float64) func(x, y float64) float64 {
	return func(px, py float64) float64 {
		dx, dy := math.Abs(px-(x0+x1)/2)-(x1-x0)/2+radius, math.Abs(py-(y0+y1)/2)-(y1-y0)/2+radius
		return math.Hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0) - radius
	}
}

// ring is the part of a distance that is as wide as a line around the outline.
func ring(width float64, distance func(x, y float64) float64) func(x, y float64) float64 {
	return func(x, y float64) float64 { return math.Abs(distance(x, y)) - width/2 }
}

// each paints a color for each pixel.
func each(colorOf func(x, y int) color.NRGBA) stroke {
	return func(_ *testing.T, img *image.NRGBA) {
		for y := range img.Rect.Dy() {
			for x := range img.Rect.Dx() {
				if c := colorOf(x, y); c.A > 0 {
					img.SetNRGBA(x, y, c)
				}
			}
		}
	}
}

// noise is a picture like a photograph, within a rectangle.
func noise(within image.Rectangle) stroke {
	random := rand.New(rand.NewPCG(1, 2))
	return each(func(x, y int) color.NRGBA {
		if !image.Pt(x, y).In(within) {
			return blank
		}
		v := uint8(60 + 60*math.Sin(float64(x)/9)*math.Cos(float64(y)/13) + 60*random.Float64())
		return color.NRGBA{v, v / 2, 200 - v, 0xff}
	})
}

// starAt is a star with five points.
func starAt(x, y, radius float64) func(x, y float64) float64 {
	return func(px, py float64) float64 {
		angle := math.Mod(math.Atan2(px-x, y-py)+2*math.Pi, 2*math.Pi/5) - math.Pi/5
		return math.Hypot(px-x, py-y) - radius*(0.5+0.5*math.Abs(angle)/(math.Pi/5))
	}
}

var (
	navyInk  = color.NRGBA{16, 32, 96, 0xff}
	greenInk = color.NRGBA{0x1d, 0xb9, 0x54, 0xff}
	orange   = color.NRGBA{0xff, 0x8a, 0, 0xff}
)

// cutCase is a picture: strokes on a ground.
type cutCase struct {
	name    string
	w, h    int
	ground  color.NRGBA
	strokes []stroke
	quality int // of a JPEG; 0 for a lossless picture
}

func (c cutCase) draw(t *testing.T, ground color.NRGBA) *image.NRGBA {
	img := canvas(c.w, c.h, ground)
	for _, s := range c.strokes {
		s(t, img)
	}
	return img
}

func (c cutCase) picture(t *testing.T) *image.NRGBA {
	img := c.draw(t, c.ground)
	if c.quality == 0 {
		return img
	}
	var buf bytes.Buffer
	testmust.Succeed(t, jpeg.Encode(&buf, img, &jpeg.Options{Quality: c.quality}))
	img, _, err := imaging.Decode(buf.Bytes(), imaging.Limits{})
	testmust.Succeed(t, err)
	return img
}

func onPage(img *image.NRGBA, page imaging.RGB) *image.NRGBA {
	out := canvas(img.Rect.Dx(), img.Rect.Dy(), color.NRGBA{page.R, page.G, page.B, 0xff})
	draw.Draw(out, out.Rect, img, image.Point{}, draw.Over)
	return out
}

// A cut-out looks like the same strokes without a ground, on every page.
func TestCutOut_FlatGround_LeavesTheInk(t *testing.T) {
	t.Parallel()
	for _, c := range []cutCase{
		{"word", 300, 90, white, []stroke{text(goregular.TTF, 60, 20, 65, gray(0), "Bodega")}, 0},
		{"bold word", 300, 90, white, []stroke{text(gobold.TTF, 60, 20, 65, navyInk, "ABPROe8")}, 0},
		{"thin small word", 90, 24, white, []stroke{text(goregular.TTF, 14, 6, 17, gray(0), "Bodega aego")}, 0},
		{"word as JPEG", 300, 90, white, []stroke{text(goregular.TTF, 60, 20, 65, gray(0), "Bodega")}, 85},
		{"noisy JPEG", 400, 120, white, []stroke{text(gobold.TTF, 80, 20, 90, red, "Bodega")}, 50},
		{"disc with a white letter", 128, 128, white, []stroke{shape(navyInk, round(64, 64, 56)), text(gobold.TTF, 80, 44, 92, white, "f")}, 0},
		{"box with white letters", 200, 100, white, []stroke{shape(red, box(10, 10, 190, 90, 12)), text(gobold.TTF, 50, 36, 68, white, "ACME")}, 0},
		{"box with white letters as JPEG", 200, 100, white, []stroke{shape(red, box(10, 10, 190, 90, 12)), text(gobold.TTF, 50, 36, 68, white, "ACME")}, 80},
		{"box with a white I", 128, 128, white, []stroke{shape(navyInk, box(10, 10, 118, 118, 20)), text(gobold.TTF, 70, 54, 90, white, "I")}, 0},
		{"star with a white letter", 160, 160, white, []stroke{shape(orange, starAt(80, 84, 76)), text(gobold.TTF, 44, 64, 100, white, "K")}, 0},
		{"player with a triangle", 200, 140, white, []stroke{shape(red, box(4, 4, 196, 136, 30)), shape(white, func(x, y float64) float64 { return max(80-x, math.Abs(y-70)-(130-x)*0.58) })}, 0},
		{"mark beside a word", 400, 100, white, []stroke{shape(red, round(50, 50, 42)), text(gobold.TTF, 60, 34, 72, white, "p"), text(gobold.TTF, 60, 110, 72, gray(0), "ODBOpo")}, 0},
		{"three boxes with letters", 330, 110, white, []stroke{shape(gray(0), box(5, 5, 105, 105, 0)), text(gobold.TTF, 80, 26, 84, white, "B"), shape(gray(0), box(115, 5, 215, 105, 0)),
			text(gobold.TTF, 80, 136, 84, white, "B"), shape(gray(0), box(225, 5, 325, 105, 0)), text(gobold.TTF, 80, 246, 84, white, "C")}, 0},
		{"ring", 120, 120, white, []stroke{shape(greenInk, ring(16, round(60, 60, 44)))}, 0},
		{"thin outline of a house", 140, 140, white, []stroke{shape(gray(0), ring(5, func(x, y float64) float64 {
			return max(math.Abs(x-70)-math.Min(50, y-10), y-125, 15-y, min(30-math.Abs(x-70), 1e9)*0+math.Min(20-math.Abs(x-70), y-80))
		}))}, 0},
		{"two colors", 240, 80, white, []stroke{shape(red, round(40, 40, 30)), text(gobold.TTF, 44, 84, 56, gray(0), "Acme")}, 0},
		{"light gray ground", 240, 80, gray(0xee), []stroke{text(gobold.TTF, 44, 24, 56, navyInk, "Bodega")}, 0},
		{"cream ground", 240, 80, color.NRGBA{0xff, 0xfb, 0xf0, 0xff}, []stroke{text(gobold.TTF, 44, 24, 56, navyInk, "Bodega")}, 0},
		{"wide black ground", 300, 90, gray(0), []stroke{text(goregular.TTF, 60, 20, 65, white, "Bodega")}, 0},
		{"tiny", 16, 16, white, []stroke{shape(red, round(8, 8, 6))}, 0},
		{"huge", 1024, 1024, white, []stroke{shape(greenInk, round(512, 512, 400)), text(gobold.TTF, 500, 350, 700, white, "S")}, 0},
		{"gradient", 200, 200, white, []stroke{shape(gray(0), box(30, 30, 170, 170, 40)), each(func(x, y int) color.NRGBA {
			if box(33, 33, 167, 167, 38)(float64(x), float64(y)) > 0 {
				return blank
			}
			return color.NRGBA{uint8(40 + x), uint8(y), 160, 0xff}
		})}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			picture, want := c.picture(t), c.draw(t, blank)
			got, ok := imaging.CutOut(picture)
			showCutOut(t, c.name, picture, got)
			if !ok {
				t.Fatal("the ground was kept")
			}
			for _, page := range []imaging.RGB{imaging.Black, imaging.White, blue} {
				a, b := onPage(got, page), onPage(want, page)
				far, sum := 0, 0
				for i := range a.Pix {
					d := max(int(a.Pix[i])-int(b.Pix[i]), int(b.Pix[i])-int(a.Pix[i]))
					if sum += d; d > 64 {
						far++
					}
				}
				slack := 1.0 // percent
				if c.quality > 0 {
					slack = 5
				}
				if share := 100 * float64(far) / float64(len(a.Pix)); share > slack || float64(sum)/float64(len(a.Pix)) > 3*slack {
					t.Errorf("on %s %.2f %% of the channels differ, all by %.1f on average", page.Hex(), share, float64(sum)/float64(len(a.Pix)))
				}
			}
			if again, ok := imaging.CutOut(picture); !ok || !bytes.Equal(again.Pix, got.Pix) {
				t.Error("the second time gives another picture")
			}
		})
	}
}

func TestCutOut_GroundThatBelongsToThePicture_IsKept(t *testing.T) {
	t.Parallel()
	letter := text(gobold.TTF, 80, 40, 92, white, "A")
	for _, c := range []cutCase{
		{"colored tile", 128, 128, navyInk, []stroke{letter}, 0},
		{"black tile", 128, 128, gray(0), []stroke{letter}, 0},
		{"colored banner", 300, 90, red, []stroke{text(gobold.TTF, 60, 20, 65, white, "Bodega")}, 0},
		{"gradient", 200, 100, white, []stroke{each(func(x, y int) color.NRGBA { return gray(uint8(150 + x/2)) }), text(gobold.TTF, 44, 24, 56, navyInk, "Bodega")}, 0},
		{"photograph", 200, 150, white, []stroke{noise(image.Rect(0, 0, 200, 150))}, 0},
		{"photograph in a frame", 200, 150, white, []stroke{noise(image.Rect(20, 20, 180, 130))}, 90},
		{"two colors at the border", 200, 100, white, []stroke{shape(navyInk, box(-10, 50, 210, 110, 0)), text(gobold.TTF, 44, 24, 40, navyInk, "Bodega")}, 0},
		{"box to the border, with round corners", 128, 128, white, []stroke{shape(red, box(0, 0, 128, 128, 24)), letter}, 0},
		{"soft shadow", 200, 200, white, []stroke{each(func(x, y int) color.NRGBA {
			return gray(uint8(255 - 200*math.Exp(-math.Pow(math.Hypot(float64(x)-100, float64(y)-100)/50, 4))))
		})}, 0},
		{"alpha already there", 128, 128, blank, []stroke{shape(white, box(4, 4, 124, 124, 24)), text(gobold.TTF, 80, 40, 92, navyInk, "A")}, 0},
		{"one clear pixel", 128, 128, white, []stroke{text(gobold.TTF, 80, 40, 92, navyInk, "A"), each(func(x, y int) color.NRGBA {
			if x == 3 && y == 3 {
				return color.NRGBA{255, 255, 255, 254}
			}
			return blank
		})}, 0},
		{"nothing", 64, 64, white, nil, 0},
		{"faint ink", 128, 128, white, []stroke{text(gobold.TTF, 80, 40, 92, gray(0xe0), "A")}, 0},
		{"larger than a crawl stores", 1200, 100, white, []stroke{letter}, 0},
		{"one pixel", 1, 1, white, nil, 0},
		{"more dots than a limit", 1024, 1024, white, []stroke{each(func(x, y int) color.NRGBA {
			if x%3 == 1 && y%3 == 1 {
				return gray(0)
			}
			return blank
		})}, 0},
		{"noise to the border", 64, 64, white, []stroke{noise(image.Rect(0, 0, 64, 64))}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			picture := c.picture(t)
			before := bytes.Clone(picture.Pix)
			got, ok := imaging.CutOut(picture)
			showCutOut(t, c.name, picture, got)
			if ok {
				t.Error("the ground was cut out")
			}
			if !bytes.Equal(before, picture.Pix) {
				t.Error("the picture was changed")
			}
		})
	}
}

// showCutOut draws a picture, and its cut-out on three pages.
func showCutOut(t *testing.T, name string, before, after *image.NRGBA) {
	if *cutoutFolder == "" {
		return
	}
	if after == nil {
		after = before
	}
	w, h := before.Rect.Dx(), before.Rect.Dy()
	sheet := canvas(2*w, 2*h, gray(0x80))
	for k, img := range []*image.NRGBA{before, onPage(after, imaging.Black), onPage(after, imaging.White), onPage(after, blue)} {
		at := image.Pt(k%2*w, k/2*h)
		draw.Draw(sheet, image.Rectangle{at, at.Add(image.Pt(w, h))}, img, image.Point{}, draw.Over)
	}
	data := testmust.Get(imaging.EncodePNG(sheet))(t)
	testmust.Succeed(t, os.WriteFile(filepath.Join(*cutoutFolder, name+".png"), data, 0o644))
}

func BenchmarkCutOut(b *testing.B) {
	img := canvas(1024, 1024, white)
	for y := range 1024 {
		for x := range 1024 {
			if math.Mod(math.Hypot(float64(x)-512, float64(y)-512), 100) < 50 && x > 20 && x < 1000 && y > 20 && y < 1000 {
				img.SetNRGBA(x, y, red)
			}
		}
	}
	for b.Loop() {
		if _, ok := imaging.CutOut(img); !ok {
			b.Fatal("kept")
		}
	}
}
