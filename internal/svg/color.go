package svg

import (
	"fmt"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// paintWords are the keywords of a paint.
var paintWords = setOf("none", "inherit", "initial", "currentcolor", "context-fill", "context-stroke")

// colorProperties are the properties with a color, or a paint.
var colorProperties = setOf("fill", "stroke", "color", "stop-color", "flood-color")

// plainColor returns a paint in a form that every renderer supports: it converts colors of newer forms, such as oklch()
// and rgb() with spaces. It reports whether the value is a paint.
func plainColor(value string) (string, bool) {
	lower := strings.ToLower(value)
	switch {
	case lower == "currentcolor":
		return "currentColor", true
	case strings.Contains(value, "url("), paintWords[lower]:
		return value, true
	}
	c, alpha, ok := imaging.ParseColor(value)
	name, _, isFunction := strings.Cut(value, "(")
	switch {
	case lower != "rebeccapurple" && (!isFunction || strings.Contains(value, ",") && name != "color-mix"):
		return value, ok
	case alpha >= 1:
		return c.Hex(), ok
	}
	return fmt.Sprintf("rgba(%d,%d,%d,%s)", c.R, c.G, c.B, strconv.FormatFloat(alpha, 'f', -1, 32)), ok
}
