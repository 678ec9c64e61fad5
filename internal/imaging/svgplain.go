package imaging

import (
	"maps"
	"slices"
	"strings"
)

// Renderers read less of CSS than browsers do, ours included. What they would read differently is written here
// in the form that both read, once the cascade is known. Where that cannot be done the file stays as it is.

// plain writes what each element comes to. It returns true when the cascade is to be worked out again.
func (d *document) plain() bool {
	changed := false
	for _, n := range d.order {
		if kind, set := n.style["mask-type"]; set && n.name == "mask" && n.attr("mask-type") != kind {
			n.set("mask-type", kind) // which is read as an attribute only
			changed = true
		}
		changed = n.bearImportance() || changed
	}
	return d.moveTransforms() || changed
}

// bearImportance writes important declarations into an element's own style, where they win also for those who
// know no importance.
func (n *node) bearImportance() bool {
	changed := false
	for _, name := range slices.Sorted(maps.Keys(n.strong)) {
		own := func(x declaration) bool { return x.name == name }
		if slices.ContainsFunc(n.inline, func(x declaration) bool { return own(x) && x.important }) {
			continue
		}
		n.inline = append(slices.DeleteFunc(slices.Clone(n.inline), own), declaration{name, n.style[name], true})
		changed = true
	}
	return changed
}

// transformed are the elements that have the attribute transform.
var transformed = setOf("g", "switch", "use", "image", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text")

// moveTransforms turns the property transform, whose numbers have units, into the attribute.
func (d *document) moveTransforms() bool {
	isTransform := func(x declaration) bool { return x.name == "transform" }
	declared := slices.ContainsFunc(d.order, func(n *node) bool { return slices.ContainsFunc(n.inline, isTransform) }) ||
		slices.ContainsFunc(d.rules, func(r rule) bool { return slices.ContainsFunc(r.declarations, isTransform) })
	if !declared {
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
		n.inline = slices.DeleteFunc(slices.Clone(n.inline), isTransform)
		for i := range n.rules {
			n.rules[i].declarations = slices.DeleteFunc(n.rules[i].declarations, isTransform)
		}
		n.rules = slices.DeleteFunc(n.rules, func(r rule) bool { return len(r.declarations) == 0 })
	}
	return true
}

var cssTransforms = strings.NewReplacer("px", "", "deg", "", "skewx(", "skewX(", "skewy(", "skewY(")

// plainTransform is the attribute's value for a property's; "" for none.
func plainTransform(value string) (string, bool) {
	if value == "none" {
		return "", true
	}
	return cleanTransform(cssTransforms.Replace(value))
}
