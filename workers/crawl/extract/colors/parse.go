package colors

import (
	"strings"

	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
)

const minAlpha = 0.5 // the opacity below which a color does not count

var (
	bareHex = lazyregexp.New(`^[0-9A-Fa-f]{6}$`) // matches a color without its number sign, as in meta elements
	// newer matches additions of CSS Color 4. Declarations follow level 3: hex, rgb(), hsl() and its names.
	newer = lazyregexp.New(`(?i)^(rebeccapurple$|(hwb|lab|lch|oklab|oklch|color|color-mix)\()`)
)

// Parse parses a color declared by a page: hex, with or without its number sign, rgb(), hsl() or a name. ok is false
// for anything else and for a color that is more than half transparent.
func Parse(text string) (c imaging.RGB, ok bool) {
	text = strings.TrimSpace(text)
	if newer.MatchString(text) {
		return imaging.RGB{}, false
	}
	if bareHex.MatchString(text) {
		text = "#" + text
	}
	c, alpha, ok := imaging.ParseColor(text)
	if !ok || alpha < minAlpha {
		return imaging.RGB{}, false
	}
	return c, true
}
