package monogram

import (
	"fmt"
	"image/color"
	"math"
	"testing"

	"letterhead/internal/imaging"
)

// contrast is the contrast ratio of WCAG, computed from the bytes and not from their source.
func contrast(a, b color.NRGBA) float64 { return imaging.Contrast(rgb(a), rgb(b)) }

func rgb(c color.NRGBA) imaging.RGB { return imaging.RGB{R: c.R, G: c.G, B: c.B} }

func TestTiles_ContrastWithInk(t *testing.T) {
	t.Parallel()
	black, white := color.NRGBA{0x11, 0x11, 0x11, 0xff}, color.NRGBA{0xff, 0xff, 0xff, 0xff}
	if c := contrast(color.NRGBA{0x76, 0x76, 0x76, 0xff}, white); math.Abs(c-4.54) > 0.01 {
		t.Fatalf("contrast of #767676 with white = %v, want 4.54 as in WCAG", c)
	}
	const domains = 20_000
	seen := map[color.NRGBA]int{}
	var before color.NRGBA
	alike := 0
	for i := range domains {
		domain := fmt.Sprintf("shop%d.com", i)
		tile := digestOf(domain).tile()
		if tile.A != 0xff {
			t.Fatalf("%s: %v is not opaque", domain, tile)
		}
		if c := contrast(tile, ink); c < 4.5 {
			t.Errorf("%s: the letters have a contrast of %.2f with %v", domain, c, tile)
		}
		if onLight, onDark := contrast(tile, white), contrast(tile, black); min(onLight, onDark) < 3 {
			t.Errorf("%s: %v has a contrast of %.2f with a light and of %.2f with a dark page", domain, tile, onLight, onDark)
		}
		seen[tile]++
		if imaging.DeltaE(rgb(tile), rgb(before)) < 5 {
			alike++
		}
		before = tile
	}
	// Two random colors from the circle of hues are sometimes similar; neighbors are no more so than others.
	if share := float64(alike) / domains; share > 0.07 {
		t.Errorf("%.1f%% of neighboring domains look alike", 100*share)
	}
	if len(seen) < 500 {
		t.Errorf("%d domains have no more than %d colors", domains, len(seen))
	}
	for tile, n := range seen {
		if n > domains/100 {
			t.Errorf("%v is the color of %d domains of %d", tile, n, domains)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range marks {
		for turn := range 4 {
			d := digest{3: byte(i), 4: byte(turn)}
			o := markOf(d, 16)
			b := o.bounds()
			if b.min.x < 2 || b.min.y < 2 || b.max.x > 14 || b.max.y > 14 {
				t.Errorf("mark %d extends to %v, near the edge", i, b)
			}
			if x, y := (b.min.x+b.max.x)/2, (b.min.y+b.max.y)/2; math.Abs(x-8) > 0.01 || math.Abs(y-8) > 0.01 {
				t.Errorf("mark %d is centered at %v,%v", i, x, y)
			}
			share := 0
			img := mask(o, 16)
			for _, a := range img.Pix {
				share += int(a)
			}
			if share := float64(share) / 255 / 256; share < 0.15 || share > 0.45 {
				t.Errorf("mark %d covers %.0f%% of its tile", i, 100*share)
			}
			seen[string(img.Pix)] = true
		}
	}
	if len(seen) < 2*len(marks) {
		t.Errorf("%d marks look like %d", len(marks), len(seen))
	}
}
