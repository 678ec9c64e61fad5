package svg

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// adaptiveStyle shows one of the two drawings of an adaptive SVG. A renderer without style sheets draws both, so such an
// SVG is for browsers only.
const adaptiveStyle = "<style>.d{display:none}@media(prefers-color-scheme:dark){.l{display:none}.d{display:inline}}</style>"

// Adaptive rebuilds two SVGs as Sanitize does, and joins them to one that shows light, or dark where prefers-color-scheme
// is dark, in the size of light. If one of them has no size, it returns light. Errors: those of Sanitize.
func Adaptive(light, dark []byte) ([]byte, error) {
	var b bytes.Buffer
	for i, data := range [][]byte{light, dark} {
		d, _, err := rebuilt(data, false)
		if err != nil {
			return nil, fmt.Errorf("svg for both color schemes: %w", err)
		}
		view, ok := parseViewBox(d.root.attr("viewBox"))
		if !ok {
			return light, nil
		}
		if i == 0 {
			w, h := cmp.Or(d.root.attr("width"), formatNumber(view.w)), cmp.Or(d.root.attr("height"), formatNumber(view.h))
			fmt.Fprintf(&b, `<svg xmlns="%s" width="%s" height="%s" viewBox="0 0 %s %s">%s`, svgNamespace, w, h, w, h, adaptiveStyle)
		}
		class := []string{"l", "d"}[i]
		d.prefixNames(class + "-")
		d.root.drop("width") // so that it fills the whole
		d.root.drop("height")
		fmt.Fprintf(&b, `<g class="%s">%s</g>`, class, d.write())
	}
	b.WriteString("</svg>")
	return b.Bytes(), nil
}

// prefixNames puts a prefix before all ids, so that those of several SVGs differ.
func (d *document) prefixNames(prefix string) {
	prefixed := func(value string) string { return urlReference.ReplaceAllString(value, "url(#"+prefix+"$1)") }
	for _, n := range d.order {
		if n.id != "" {
			n.id = prefix + n.id
		}
		if n.href != "" && n.name != "image" {
			n.href = prefix + n.href
		}
		for i := range n.attrs {
			n.attrs[i].value = prefixed(n.attrs[i].value)
		}
		for i := range n.inline {
			n.inline[i].value = prefixed(n.inline[i].value)
		}
	}
}

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

// Renderers, including ours, support less of CSS than browsers. Values that they would read differently are rewritten
// here in a common form, once the cascade is known. If that is impossible the file is unchanged.

// plain rewrites the values of each element. It returns true if the cascade must be computed again.
func (d *document) plain() bool {
	changed := false
	for _, n := range d.order {
		if kind, set := n.style["mask-type"]; set && n.name == "mask" && n.attr("mask-type") != kind {
			n.set("mask-type", kind) // supported only as an attribute
			changed = true
		}
	}
	return d.moveTransforms() || changed
}

// transformed are the elements that have the attribute transform.
var transformed = setOf("g", "switch", "use", "image", "path", "rect", "circle", "ellipse", "line", "polyline",
	"polygon", "text")

// moveTransforms converts the property transform, whose numbers have units, to the attribute.
func (d *document) moveTransforms() bool {
	isTransform := func(x declaration) bool { return x.name == "transform" }
	if !slices.ContainsFunc(d.order, func(n *node) bool { return slices.ContainsFunc(n.inline, isTransform) }) {
		return false
	}
	values := map[*node]string{}
	for _, n := range d.order {
		value, set := n.style["transform"]
		if !set {
			continue
		}
		plain, ok := plainTransform(value)
		if !ok || !transformed[n.name] {
			return false
		}
		values[n] = plain
	}
	for n, value := range values {
		n.drop("transform")
		if value != "" {
			n.set("transform", value)
		}
	}
	for _, n := range d.order {
		n.inline = slices.DeleteFunc(n.inline, isTransform)
	}
	return true
}

var cssTransforms = strings.NewReplacer("px", "", "deg", "", "skewx(", "skewX(", "skewy(", "skewY(")

// plainTransform converts a property's value to the attribute's, or returns "".
func plainTransform(value string) (string, bool) {
	if value == "none" {
		return "", true
	}
	return cleanTransform(cssTransforms.Replace(value))
}
