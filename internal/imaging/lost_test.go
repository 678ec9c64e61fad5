package imaging_test

import (
	"image"
	"image/color"
	"testing"

	"letterhead/internal/imaging"
)

func gray(v uint8) color.NRGBA { return color.NRGBA{v, v, v, 0xff} }

// Invisible ink is lost on a page, unless enough of the logo is visible, or visible ink encloses it.
func TestLostOn(t *testing.T) {
	t.Parallel()
	half := image.Rect(20, 10, 50, 40)  // of the middle
	tenth := image.Rect(20, 10, 26, 40) // of the middle
	within := image.Rect(24, 14, 76, 36)
	for _, c := range []struct {
		why    string
		ink    color.NRGBA
		part   image.Rectangle // in another color
		other  color.NRGBA
		white  bool
		onDark bool
	}{
		{"black", gray(0), image.Rectangle{}, blank, false, true},
		{"as dark as the page", gray(0x1c), image.Rectangle{}, blank, false, true},
		{"nearly as dark", gray(0x2e), image.Rectangle{}, blank, false, true},
		{"gray", gray(0x34), image.Rectangle{}, blank, false, false},
		{"navy", color.NRGBA{0, 0x22, 0x44, 0xff}, image.Rectangle{}, blank, false, true},
		{"a dark red", color.NRGBA{0x8f, 0, 0, 0xff}, image.Rectangle{}, blank, false, false},
		{"white", white, image.Rectangle{}, blank, true, false},
		{"nearly white", gray(0xe4), image.Rectangle{}, blank, true, false},
		{"light gray", gray(0xde), image.Rectangle{}, blank, false, false},
		{"lemon", color.NRGBA{0xff, 0xfc, 0, 0xff}, image.Rectangle{}, blank, true, false},
		{"yellow", color.NRGBA{0xff, 0xd4, 0x3b, 0xff}, image.Rectangle{}, blank, false, false},
		{"white that hardly covers", color.NRGBA{0xff, 0xff, 0xff, 8}, image.Rectangle{}, blank, true, true},
		{"nothing", blank, image.Rectangle{}, blank, true, true},
		{"half black, half white", gray(0), half, white, true, true},
		{"a tenth of it white", gray(0), tenth, white, false, true},
		{"a tenth of it black", white, tenth, gray(0), true, false},
		{"red letters on black", gray(0), within, red, false, false},
		{"black in a red rim", red, within, gray(0), false, false},
		{"white in a red rim", red, within, white, false, false},
	} {
		img := canvas(100, 50, blank)
		fill(img, middle, c.ink)
		fill(img, c.part, c.other)
		if got := imaging.LostOn(img, imaging.White); got != c.white {
			t.Errorf("%s: lost on white %t, want %t", c.why, got, c.white)
		}
		if got := imaging.LostOn(img, imaging.DarkPage); got != c.onDark {
			t.Errorf("%s: lost on a dark page %t, want %t", c.why, got, c.onDark)
		}
	}
}
