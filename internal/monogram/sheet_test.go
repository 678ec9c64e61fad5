package monogram_test

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/monogram"
	"letterhead/internal/testmust"
)

// The sheet is for visual inspection: after a change of how monograms are drawn, run the test with
// -update and inspect testdata/sheet.png before committing it.
var update = flag.Bool("update", false, "redraw testdata/sheet.png")

// sheetSides are the columns of the sheet, each for a light and a dark page.
var sheetSides = []int{16, 24, 32}

// drawSheet draws letters, accents, wide and narrow ones, pairs, and all marks.
func drawSheet() *image.NRGBA {
	names := []string{
		"Acme", "Microsoft", "Walmart", "Quora", "IKEA", "Éclair", "Ångström", "Škoda", "Жизнь", "Щит", "Ωmega", "Ľudia",
		"3M", "HP", "Will Mason", "Martha Willow", "Goldman Sachs", "Coca-Cola", "23andMe", "Юлия Щукина", "Ελλάδα Ώρα", "Illy Ice",
	}
	var all []monogram.Monogram
	for _, name := range names {
		all = append(all, monogram.Monogram{Domain: name + ".example", Name: name})
	}
	for _, domain := range markDomains() {
		all = append(all, monogram.Monogram{Domain: domain, Name: "東京"})
	}
	const gap = 6
	width := gap
	for _, side := range sheetSides {
		width += side + gap
	}
	columns := (len(all) + 15) / 16
	height := gap + 16*(32+gap)
	sheet := image.NewNRGBA(image.Rect(0, 0, 2*columns*width, height))
	for i, m := range all {
		for j, page := range []color.NRGBA{{0xff, 0xff, 0xff, 0xff}, {0x11, 0x11, 0x11, 0xff}} {
			x, y := (2*(i/16)+j)*width, i%16*(32+gap)
			draw.Draw(sheet, image.Rect(x, y, x+width, height), image.NewUniform(page), image.Point{}, draw.Src)
			x, y = x+gap, y+gap
			for _, side := range sheetSides {
				draw.Draw(sheet, image.Rect(x, y, x+side, y+side), m.Draw(side), image.Point{}, draw.Over)
				x += side + gap
			}
		}
	}
	return sheet
}

func TestSheet(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "sheet.png")
	got := drawSheet()
	if *update {
		var buf bytes.Buffer
		testmust.Succeed(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&buf, got))
		testmust.Succeed(t, os.WriteFile(file, buf.Bytes(), 0o644))
	}
	data := testmust.Get(os.ReadFile(file))(t)
	want := testmust.Get(png.Decode(bytes.NewReader(data)))(t)
	if want.Bounds() != got.Bounds() {
		t.Fatalf("the sheet is %v, not %v", got.Bounds(), want.Bounds())
	}
	// Other processors round the last bit of a curve differently.
	const most = 3
	for y := range got.Rect.Dy() {
		for x := range got.Rect.Dx() {
			w := color.NRGBAModel.Convert(want.At(x, y)).(color.NRGBA)
			if g := got.NRGBAAt(x, y); distance(g, w) > most {
				t.Fatalf("at %d,%d the sheet has %v, not %v; look at it after -update", x, y, g, w)
			}
		}
	}
}

// distance returns the largest difference of a channel.
func distance(a, b color.NRGBA) int {
	of := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	return max(of(a.R, b.R), of(a.G, b.G), of(a.B, b.B), of(a.A, b.A))
}

// markDomains returns domains that together have all marks.
func markDomains() []string {
	return []string{"aa.jp", "ab.jp", "ac.jp", "ad.jp", "ae.jp", "af.jp", "ag.jp", "ai.jp", "ar.jp", "bb.jp"}
}
