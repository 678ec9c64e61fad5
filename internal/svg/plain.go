package svg

import (
	"slices"
	"strings"
)

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
