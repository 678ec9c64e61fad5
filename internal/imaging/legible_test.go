package imaging_test

import (
	"image"
	"image/color"
	"testing"

	"pgregory.net/rapid"

	"letterhead/internal/imaging"
)

var blue = imaging.RGB{R: 0x0b, G: 0x5f, B: 0xff}

func TestSwallowedBy_Page_TooMuch(t *testing.T) {
	t.Parallel()
	within := image.Rect(24, 14, 76, 36)
	word := image.Rect(20, 44, 80, 48) // apart from the middle
	for _, c := range []struct {
		why                  string
		ink                  color.NRGBA
		part                 image.Rectangle // in another color
		other                color.NRGBA
		white, black, onBlue bool
	}{
		{"black", gray(0), image.Rectangle{}, blank, false, true, false},
		{"white", white, image.Rectangle{}, blank, true, false, false},
		{"light gray", gray(0xd4), image.Rectangle{}, blank, true, false, false},
		{"yellow", color.NRGBA{0xff, 0xc7, 0x2c, 0xff}, image.Rectangle{}, blank, false, false, false},
		{"dark gray", gray(0x34), image.Rectangle{}, blank, false, true, false},
		{"dark red", color.NRGBA{0x8f, 0, 0, 0xff}, image.Rectangle{}, blank, false, false, false},
		{"the blue", color.NRGBA{0x0b, 0x5f, 0xff, 0xff}, image.Rectangle{}, blank, false, false, true},
		{"orange", color.NRGBA{0xf3, 0x80, 0x20, 0xff}, image.Rectangle{}, blank, false, false, false},
		{"red above a black word", red, word, gray(0), false, true, true},
		{"red above a white word", red, word, white, true, false, true},
		{"black with a white letter", gray(0), within, white, false, false, false}, // a rectangle has its own ground
		{"nothing", blank, image.Rectangle{}, blank, true, true, true},
	} {
		img := canvas(100, 50, blank)
		fill(img, middle, c.ink)
		fill(img, c.part, c.other)
		for page, want := range map[imaging.RGB]bool{imaging.White: c.white, imaging.Black: c.black, blue: c.onBlue} {
			if got := imaging.SwallowedBy(img, page); got.TooMuch() != want {
				t.Errorf("%s on %s: %+v, want too much %t", c.why, page.Hex(), got, want)
			}
		}
	}
}

func TestTurnedFor_SwallowedInk_KeepsHue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ink, page, want string }{
		{"#000000", "#000000", "#ffffff"}, {"#ffffff", "#ffffff", "#000000"}, {"#000080", "#121212", "#7f7fff"}, {"#333333", "#121212", "#cccccc"},
		{"#cc0000", "#121212", "#cc0000"}, {"#fffacd", "#ffffff", "#322d00"}, {"#ffffff", "#000000", "#ffffff"},
	} {
		ink, _, _ := imaging.ParseColor(c.ink)
		page, _, _ := imaging.ParseColor(c.page)
		if got := ink.TurnedFor(page).Hex(); got != c.want {
			t.Errorf("%s on %s is %s, want %s", c.ink, c.page, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) imaging.RGB {
			return imaging.RGB{R: rapid.Byte().Draw(t, name+" red"), G: rapid.Byte().Draw(t, name+" green"), B: rapid.Byte().Draw(t, name+" blue")}
		}
		ink, page := draw("ink"), draw("page")
		turned := ink.TurnedFor(page)
		if !turned.IsLegibleOn(page) || turned.TurnedFor(page) != turned {
			t.Fatalf("%s on %s becomes %s", ink.Hex(), page.Hex(), turned.Hex())
		}
		if ink.IsLegibleOn(page) && turned != ink {
			t.Fatalf("%s is legible on %s and becomes %s", ink.Hex(), page.Hex(), turned.Hex())
		}
	})
}

// Turned for black, a black disc with a red letter keeps the letter, and one with a white letter does not.
func TestKeepsShape_MergedInks_Fail(t *testing.T) {
	t.Parallel()
	mark := func(ground, letter color.NRGBA) *image.NRGBA {
		img := canvas(100, 50, blank)
		fill(img, middle, ground)
		fill(img, image.Rect(40, 15, 60, 35), letter)
		return img
	}
	original := mark(gray(0), white)
	if !imaging.KeepsShape(original, original) || !imaging.KeepsShape(original, mark(white, red)) {
		t.Error("an image with all edges fails")
	}
	if imaging.KeepsShape(original, mark(white, white)) {
		t.Error("a vanished letter is not detected")
	}
	if imaging.KeepsShape(original, canvas(100, 50, blank)) || imaging.KeepsShape(original, canvas(50, 50, blank)) {
		t.Error("another shape is not detected")
	}
}

func TestOnPlate_Corners_AreRound(t *testing.T) {
	t.Parallel()
	img := canvas(20, 10, red)
	got := imaging.OnPlate(img, image.Pt(50, 50), imaging.White)
	for at, want := range map[image.Point]color.NRGBA{
		{X: 0, Y: 0}: {0xff, 0xff, 0xff, 0}, {X: 25, Y: 0}: white, {X: 0, Y: 25}: white, {X: 4, Y: 4}: white,
		{X: 15, Y: 20}: red, {X: 34, Y: 29}: red, {X: 14, Y: 20}: white, {X: 25, Y: 30}: white,
	} {
		if c := got.NRGBAAt(at.X, at.Y); c != want {
			t.Errorf("%v is %v, want %v", at, c, want)
		}
	}
	centered := imaging.Centered(img, image.Pt(20, 20))
	if centered.NRGBAAt(0, 4).A != 0 || centered.NRGBAAt(0, 5) != red || centered.NRGBAAt(19, 14) != red || centered.NRGBAAt(19, 15).A != 0 {
		t.Error("the image is not in the middle")
	}
	if imaging.Centered(img, img.Rect.Max) != img {
		t.Error("an image of the size was copied")
	}
}
