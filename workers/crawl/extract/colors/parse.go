package colors

import (
	"regexp"
	"strings"

	"letterhead/internal/imaging"
)

// minAlpha is below which a color is too faint to count.
const minAlpha = 0.5

var (
	// bareHex is a color without its number sign, which pages write in meta elements.
	bareHex = regexp.MustCompile(`^[0-9A-Fa-f]{6}$`)
	// newer is what CSS Color 4 added. Declarations are judged by level 3: hex, rgb(), hsl() and its names.
	newer = regexp.MustCompile(`(?i)^(rebeccapurple$|(hwb|lab|lch|oklab|oklch|color)\()`)
)

// Parse reads a color as pages declare it: hex, with or without its number sign, rgb(), hsl() or a
// name. ok is false for anything else and for what is more than half transparent.
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
