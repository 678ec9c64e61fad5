package imaging_test

import (
	"testing"

	"letterhead/internal/imaging"
)

// TestParseColor_Halves_RoundUp checks components between two bytes, where the order of the arithmetic matters.
func TestParseColor_Halves_RoundUp(t *testing.T) {
	for css, want := range map[string]string{
		"rgb(50%, 90%, 10%)":   "#80e61a",
		"hsl(-20, 20%, 25%)":   "#4d333b",
		"hsl(340, 20%, 25%)":   "#4d333b",
		"hsl(700, 20%, 25%)":   "#4d333b",
		"hsl(-12, 100%, 25%)":  "#80001a",
		"hsl(-372, 100%, 25%)": "#80001a",
	} {
		if c, _, ok := imaging.ParseColor(css); !ok || c.Hex() != want {
			t.Errorf("%s is %s, %v, want %s", css, c.Hex(), ok, want)
		}
	}
}
