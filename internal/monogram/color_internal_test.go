package monogram

import (
	"fmt"
	"math"
	"testing"

	"letterhead/internal/imaging"
)

func TestTiles_ContrastWithInk(t *testing.T) {
	t.Parallel()
	black, white := imaging.RGB{R: 0x11, G: 0x11, B: 0x11}, imaging.White
	if c := imaging.Contrast(imaging.RGB{R: 0x76, G: 0x76, B: 0x76}, white); math.Abs(c-4.54) > 0.01 {
		t.Fatalf("contrast of #767676 with white = %v, want 4.54 as in WCAG", c)
	}
	const domains = 20_000
	seen := map[imaging.RGB]int{}
	var before imaging.RGB
	alike := 0
	for i := range domains {
		domain := fmt.Sprintf("shop%d.com", i)
		tile := digestOf(domain).tile()
		if c := imaging.Contrast(tile, ink); c < 4.5 {
			t.Errorf("%s: the letters have a contrast of %.2f with %v", domain, c, tile)
		}
		if onLight, onDark := imaging.Contrast(tile, white), imaging.Contrast(tile, black); min(onLight, onDark) < 3 {
			t.Errorf("%s: %v has a contrast of %.2f with a light and of %.2f with a dark page", domain, tile, onLight, onDark)
		}
		seen[tile]++
		if imaging.DeltaE(tile, before) < 5 {
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
