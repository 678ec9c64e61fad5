package svg

import (
	"fmt"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// paintWords are the keywords of a paint.
var paintWords = setOf("none", "inherit", "initial", "currentcolor", "context-fill", "context-stroke")

// fits reports whether a value is valid for a property, checking only colors, paints and references.
func fits(name, value string) bool {
	if urlProperties[name] && !colorProperties[name] {
		return strings.Contains(value, "url(") || paintWords[strings.ToLower(value)]
	}
	if !colorProperties[name] || strings.Contains(value, "url(") || paintWords[strings.ToLower(value)] {
		return true
	}
	_, _, ok := imaging.ParseColor(value)
	return ok
}

// colorProperties are the properties with a color, or a paint.
var colorProperties = setOf("fill", "stroke", "color", "stop-color", "flood-color")

// plainColor rewrites a color of a newer form (oklch(), rgb() with spaces, …) in a form that every renderer supports.
// Other values, and colors of the old form with commas, are unchanged.
func plainColor(value string) string {
	switch strings.ToLower(value) { // names that not every renderer supports, or not in this form
	case "currentcolor":
		return "currentColor"
	case "rebeccapurple":
		return "#663399"
	}
	name, _, isFunction := strings.Cut(value, "(")
	if !isFunction || strings.Contains(value, ",") && name != "color-mix" || name == "url" {
		return value
	}
	c, alpha, ok := imaging.ParseColor(value)
	switch {
	case !ok:
		return value
	case alpha >= 1:
		return c.Hex()
	}
	return fmt.Sprintf("rgba(%d,%d,%d,%s)", c.R, c.G, c.B, strconv.FormatFloat(alpha, 'f', -1, 32))
}
