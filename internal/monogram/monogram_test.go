package monogram_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/monogram"
	"letterhead/internal/resvg"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/svg"
	"letterhead/internal/testmust"
)

func TestDraw(t *testing.T) {
	t.Parallel()
	for _, m := range []monogram.Monogram{{Domain: "acme.com"}, {Domain: "acme.com", Name: "Goldman Sachs"}, {Domain: "baidu.com", Name: "百度"}, {}} {
		for _, side := range []int{1, 2, 15, 16, 17, 31, 32, 63, 64, 65, 128, 511, 512, 513, 1024} {
			img := m.Draw(side)
			if img.Rect != image.Rect(0, 0, side, side) {
				t.Fatalf("%+v at %d pixels is %v", m, side, img.Rect)
			}
			if side < 16 {
				continue
			}
			if a := img.NRGBAAt(0, 0).A; a > 60 {
				t.Errorf("%+v at %d pixels has a corner with an alpha of %d", m, side, a)
			}
			tile := img.NRGBAAt(side/2, 0)
			white := 0.0
			for y := range side {
				for x := range side {
					c := img.NRGBAAt(x, y)
					white += inkAt(c, tile)
					if c.A < 0xff && (c.R != tile.R || c.G != tile.G || c.B != tile.B) {
						t.Fatalf("%+v at %d pixels: the edge at %d,%d is %v, not of the tile's %v", m, side, x, y, c, tile)
					}
				}
			}
			if share := white / float64(side*side); share < 0.08 || share > 0.5 {
				t.Errorf("%+v at %d pixels is %.0f%% ink", m, side, 100*share)
			}
		}
	}
	if side := (monogram.Monogram{}).Draw(1 << 30).Rect.Dx(); side != monogram.MaxSide {
		t.Errorf("a huge image has %d pixels", side)
	}
	if side := (monogram.Monogram{}).Draw(-5).Rect.Dx(); side != 1 {
		t.Errorf("an image of less than nothing has %d pixels, want 1", side)
	}
}

// At every size the free columns to the left and right of the ink differ by no more than one pixel, and so do
// the rows; at 16 pixels the ink begins and ends on whole rows.
func TestInk_IsCentered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Acme", "Quora", "Javelin", "Walmart", "IKEA", "Éclair", "Щит", "HP", "Goldman Sachs", "Will Mason", "A1"} {
		for _, side := range []int{16, 17, 20, 24, 31, 32, 48, 63, 64, 100, 128} {
			ink := inkOf(monogram.Monogram{Domain: "acme.com", Name: name}.Draw(side), 0.3)
			if d := ink.Min.X - (side - ink.Max.X); d < -1 || d > 1 {
				t.Errorf("%s at %d pixels has %d free on the left and %d on the right", name, side, ink.Min.X, side-ink.Max.X)
			}
			if d := ink.Min.Y - (side - ink.Max.Y); d < -1 || d > 1 || side == 16 && d != 0 {
				t.Errorf("%s at %d pixels has %d free above and %d below", name, side, ink.Min.Y, side-ink.Max.Y)
			}
		}
	}
	// Flat letters are aligned to whole pixels: there are no gray pixels above and below them.
	for _, name := range []string{"Hotel", "Igloo", "Echo", "Zulu", "Lima", "Шапка"} {
		img := monogram.Monogram{Domain: "acme.com", Name: name}.Draw(16)
		if faint, plain := inkOf(img, 0.05), inkOf(img, 0.9); faint.Min.Y != plain.Min.Y || faint.Max.Y != plain.Max.Y {
			t.Errorf("%s at 16 pixels has gray rows: its ink is %v, what is plainly white of it %v", name, faint, plain)
		}
	}
}

// inkOf returns the box of the pixels with at least that share of ink.
func inkOf(img *image.NRGBA, share float64) image.Rectangle {
	var ink image.Rectangle
	tile := img.NRGBAAt(img.Rect.Dx()/2, 0)
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			if inkAt(img.NRGBAAt(x, y), tile) >= share {
				ink = ink.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return ink
}

// inkAt returns the share of ink in a pixel, between that of the tile and white.
func inkAt(c, tile color.NRGBA) float64 {
	from := float64(min(tile.R, tile.G, tile.B))
	return (float64(min(c.R, c.G, c.B)) - from) / (255 - from)
}

func TestColor_DependsOnDomain(t *testing.T) {
	t.Parallel()
	at := func(m monogram.Monogram) color.NRGBA { return m.Draw(32).NRGBAAt(16, 1) }
	if a, b := at(monogram.Monogram{Domain: "acme.com"}), at(monogram.Monogram{Domain: "acme.com", Name: "Something Else"}); a != b {
		t.Errorf("the name changed the color from %v to %v", a, b)
	}
	if a, b := at(monogram.Monogram{Domain: "acme.com"}), at(monogram.Monogram{Domain: "acme.org"}); a == b {
		t.Errorf("two domains have the color %v", a)
	}
}

// various are monograms of all kinds.
var various = func() []monogram.Monogram {
	var out []monogram.Monogram
	for _, name := range []string{"Acme", "Quora", "Walmart", "Éclair", "Щит", "Ωmega", "Ľudia", "3M", "Will Mason", "Goldman Sachs", "Ελλάδα Ώρα", "<svg> & \"x\"", ""} {
		out = append(out, monogram.Monogram{Domain: "acme.com", Name: name})
	}
	for _, domain := range markDomains() {
		out = append(out, monogram.Monogram{Domain: domain, Name: "東京"})
	}
	return out
}()

func TestSVG_IsSanitizedAndSmall(t *testing.T) {
	t.Parallel()
	for _, m := range various {
		drawn := m.SVG()
		clean, _, err := svg.Sanitize(drawn)
		if err != nil {
			t.Fatalf("%+v: %v\n%s", m, err, drawn)
		}
		if !bytes.Equal(clean, drawn) {
			t.Errorf("%+v: the sanitizer changes\n%s\ninto\n%s", m, drawn, clean)
		}
		if bytes.Contains(drawn, []byte("<text")) || bytes.Contains(drawn, []byte("<image")) || bytes.Count(drawn, []byte("<rect"))+bytes.Count(drawn, []byte("<path")) != 2 {
			t.Errorf("%+v: other than a plate and a path of letters: %s", m, drawn)
		}
		if len(drawn) > 2500 {
			t.Errorf("%+v: an SVG of %d bytes", m, len(drawn))
		}
	}
}

// TestSVG_MatchesDraw compares Draw with resvg's rendering of the SVG.
func TestSVG_MatchesDraw(t *testing.T) {
	t.Parallel()
	renderer := testmust.Get(resvg.New(t.Context(), resvg.Config{CacheDir: resvgtest.Folder()}))(t)
	t.Cleanup(func() { renderer.Close(context.Background()) })
	for _, m := range various {
		for _, c := range []struct {
			side       int
			most, mean float64 // differences of a channel, on black
		}{
			// resvg has four levels of coverage in a row and Draw has all of them, so single pixels of an edge may differ.
			{64, 96, 2}, {128, 96, 1},
			{48, 255, 12}, // fitted to the pixels, which moves edges by up to one pixel
		} {
			want := testmust.Get(renderer.Render(t.Context(), m.SVG(), c.side))(t)
			most, mean := difference(m.Draw(c.side), want)
			if most > c.most || mean > c.mean {
				t.Errorf("%+v at %d pixels differs from its SVG by up to %.0f, by %.2f on average", m, c.side, most, mean)
			}
		}
	}
}

// difference compares two images on black, and their alpha.
func difference(a, b *image.NRGBA) (most, mean float64) {
	for i := 0; i < len(a.Pix); i += 4 {
		alphaA, alphaB := float64(a.Pix[i+3]), float64(b.Pix[i+3])
		d := max(alphaA-alphaB, alphaB-alphaA)
		for j := range 3 {
			x, y := float64(a.Pix[i+j])*alphaA/255, float64(b.Pix[i+j])*alphaB/255
			d = max(d, x-y, y-x)
		}
		most, mean = max(most, d), mean+d
	}
	return most, mean / float64(len(a.Pix)/4)
}

// TestDraw_Concurrent_SameImage draws the same from many goroutines, the first of which parse the font.
func TestDraw_Concurrent_SameImage(t *testing.T) {
	t.Parallel()
	const callers = 8
	images, svgs := make([][]byte, callers), make([][]byte, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for _, m := range various {
				images[i] = append(images[i], m.Draw(40).Pix...)
				svgs[i] = append(svgs[i], m.SVG()...)
			}
		})
	}
	wg.Wait()
	for i := range callers {
		if !bytes.Equal(images[i], images[0]) || !bytes.Equal(svgs[i], svgs[0]) {
			t.Errorf("caller %d has other images than caller 0", i)
		}
	}
}

func TestDraw_AnyText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat
	for _, text := range []string{
		"", "\x00", "\xff\xfe\xfd", long("a", 10<<10), long("é", 10<<10), "e" + long("\u0301", 10<<10), long("\u0301", 10<<10), long("🔥", 3000),
		long(".", 10<<10), long("a.", 5000), long("ﷺ", 5000), long("Inc ", 3000), long("\u202e", 5000), "a" + long("\u200d", 600) + "b", long("ß", 999),
	} {
		for _, m := range []monogram.Monogram{{Name: text}, {Domain: text}, {Domain: "xn--" + text, Name: text}} {
			if inkOf(m.Draw(32), 0.5).Empty() {
				t.Errorf("%.40q is drawn as nothing", fmt.Sprint(m))
			}
		}
	}
}

func FuzzMonogram(f *testing.F) {
	for _, m := range various {
		f.Add(m.Domain, m.Name, 16)
	}
	f.Add("xn--bcher-kva.de", "", 128)
	f.Add("xn--\xff", "e\u0301\u0301\u0301", -1)
	f.Add("", "ŉ ǆ ﬃ ﷺ", 1<<30)
	f.Fuzz(func(t *testing.T, domain, name string, side int) {
		m := monogram.Monogram{Domain: domain, Name: name}
		side = min(side, 256) // a larger one takes long and adds nothing
		img := m.Draw(side)
		if side >= 16 && inkOf(img, 0.5).Empty() {
			t.Errorf("%+v at %d pixels has no ink", m, side)
		}
		if !bytes.Equal(img.Pix, m.Draw(side).Pix) {
			t.Errorf("%+v at %d pixels is another image the second time", m, side)
		}
		drawn := m.SVG()
		clean, _, err := svg.Sanitize(drawn)
		if err != nil || !bytes.Equal(clean, drawn) {
			t.Errorf("%+v: the SVG is not clean (%v):\n%s", m, err, drawn)
		}
	})
}

func BenchmarkDraw(b *testing.B) {
	for _, side := range []int{16, 128, 512} {
		for _, m := range []monogram.Monogram{{Domain: "acme.com", Name: "Goldman Sachs"}, {Domain: "aa.jp", Name: "東京"}} {
			b.Run(fmt.Sprintf("%s/%d", map[bool]string{true: "mark", false: "letters"}[m.Domain == "aa.jp"], side), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					m.Draw(side)
				}
			})
		}
	}
}
