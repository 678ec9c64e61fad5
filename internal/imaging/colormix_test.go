package imaging_test

import (
	"math"
	"testing"

	"letterhead/internal/imaging"
)

// The values are from CSS Color 5, section 2, and the tests of browsers for it (web-platform-tests, color-mix-basic).
func TestParseColor_ColorMix_MixesInItsSpace(t *testing.T) {
	for css, want := range map[string]struct {
		hex   string
		alpha float64
	}{
		"color-mix(in srgb, red, blue)":                                       {"#800080", 1},
		"color-mix(in srgb, red 25%, blue)":                                   {"#4000bf", 1},
		"color-mix(in srgb, 25% red, blue)":                                   {"#4000bf", 1},
		"color-mix(in srgb, red 30%, blue 90%)":                               {"#4000bf", 1},
		"color-mix(in srgb, red 12.5%, blue 37.5%)":                           {"#4000bf", 0.5},
		"color-mix(in srgb, red, transparent)":                                {"#ff0000", 0.5},
		"color-mix(in srgb, rgb(255 0 0 / 20%), rgb(0 0 255 / 60%))":          {"#4000bf", 0.4},
		"color-mix(in srgb, color-mix(in srgb, red, blue), rgb(0, 0, 0) 50%)": {"#400040", 1},
		"color-mix(in srgb-linear, red, blue)":                                {"#bc00bc", 1},
		"color-mix(in xyz, red, lime)":                                        {"#bcbc00", 1},
		"color-mix(in hsl, hsl(120deg 10% 20%), hsl(30deg 30% 40%))":          {"#545c3d", 1},
		"color-mix(in hsl, hsl(120deg 10% 20%) 25%, hsl(30deg 30% 40%))":      {"#706a43", 1},
		"color-mix(in hsl, hsl(40deg 50% 50%), hsl(330deg 50% 50%))":          {"#bf4a40", 1},
		"color-mix(in oklab, red, blue)":                                      {"#8c53a2", 1},
		"color-mix(in oklab, white, black)":                                   {"#636363", 1},
		"color-mix(red, blue)":                                                {"#8c53a2", 1},
		"color-mix(in oklch, red, white 0%)":                                  {"#ff0000", 1},
	} {
		c, alpha, ok := imaging.ParseColor(css)
		if !ok || c.Hex() != want.hex || math.Abs(alpha-want.alpha) > 0.01 {
			t.Errorf("%s is %s, %.2f, %v, want %v", css, c.Hex(), alpha, ok, want)
		}
	}
	for _, css := range []string{
		"color-mix()", "color-mix(in srgb)", "color-mix(in srgb, red)", "color-mix(in srgb, red, blue, lime)", "color-mix(in foo, red, blue)",
		"color-mix(in srgb, red 0%, blue 0%)", "color-mix(in srgb, red -1%, blue)", "color-mix(in srgb, red 101%, blue)", "color-mix(in hsl longer hue, red, blue)", "color-mix(in lab, red, blue)",
		"color-mix(in , red, blue)", "color-mix(in srgb, red, nocolor)", "color-mix(in srgb, red, blue",
	} {
		if c, _, ok := imaging.ParseColor(css); ok {
			t.Errorf("%s is %s", css, c.Hex())
		}
	}
}
