package svg

import (
	"cmp"
	"fmt"
	"strings"

	"letterhead/internal/css"
	"letterhead/internal/imaging"
)

// bake writes the values of the style sheets to each element's own style, and drops the sheets: renderers, including
// ours, support fewer selectors and functions than browsers, and a variable of a page is missing in the file alone.
func (d *document) bake() error {
	for _, n := range d.order {
		attrs := n.attrs[:0]
		for _, a := range n.attrs {
			keep := attributes[a.name] != 0 || !properties[a.name]
			if !keep {
				if a.value, keep = d.sheets.Resolved(n.source, a.name, a.value); keep {
					a.value, keep = d.acceptable(a.name, a.value)
				}
			}
			if keep {
				attrs = append(attrs, a)
			}
		}
		n.attrs = attrs
		for _, x := range d.sheets.Declared(n.source, d.acceptable) {
			switch {
			case properties[x.Property]:
				if x.Value == css.Unset {
					x.Value = cmp.Or(initials[x.Property], "inherit")
				}
				n.inline = append(n.inline, attribute{x.Property, x.Value})
			case geometry[x.Property] && x.Value != css.Unset && n.parent != nil && sized[n.name]:
				n.set(x.Property, x.Value)
			}
		}
		if d.sheets.Exhausted() || d.styled > maxStyled {
			return fmt.Errorf("%w: style rules take too much work", imaging.ErrTooLarge)
		}
	}
	return nil
}

// acceptable returns a value of a property in the allow-list in a form that every renderer supports, or false if it is
// invalid. Then a weaker declaration applies, as in a browser.
func (d *document) acceptable(name, value string) (string, bool) {
	if d.styled += len(name) + len(value); d.styled > maxStyled {
		return "", false
	}
	if geometry[name] {
		clean, ok := cleanLengths(value)
		return clean, ok && !strings.Contains(clean, " ")
	}
	if !properties[name] || len(value) > maxValueBytes {
		return "", false
	}
	of := attribute{name, value}
	clean, known := d.accepted[of]
	if !known {
		var ok bool
		if clean, ok = cleanValue(name, lexCSS(value)); !ok {
			clean = ""
		}
		if len(d.accepted) < maxAccepted && len(value) < maxValueBytes/16 {
			d.accepted[of] = clean
		}
	}
	return clean, clean != ""
}

// geometry are attributes that are also properties of the sized elements, but not for all renderers (SVG 2, section 7).
var (
	geometry = setOf("x", "y", "width", "height", "cx", "cy", "r", "rx", "ry")
	sized    = setOf("rect", "circle", "ellipse", "image", "svg", "use")
)

const (
	maxAccepted = 10_000       // values that are remembered
	maxStyled   = 8 * MaxBytes // of the values of all elements, because a rule is written to each element that it matches
)

// cascade computes the declarations of each element: its attributes, then its own style.
func (d *document) cascade() {
	for _, n := range d.order {
		n.style = map[string]string{}
		n.urls = n.urls[:0]
		for _, a := range n.attrs {
			if properties[a.name] || a.name == "patternTransform" {
				n.declare(a)
			}
		}
		for _, x := range n.inline {
			n.declare(x)
		}
	}
}

// declare records the references of all declarations for an element, not only the strongest: a browser ignores values
// that it considers invalid, and then a weaker one applies.
func (n *node) declare(x attribute) {
	n.style[x.name] = x.value
	n.urls = append(n.urls, urlsIn(x.value)...)
}

// initials are the initial values of properties that are not inherited (SVG 2,
// property index, and the modules of CSS to which it refers).
var initials = map[string]string{
	"opacity": "1", "stop-color": "black", "stop-opacity": "1", "flood-color": "black", "flood-opacity": "1",
	"clip-path": "none", "mask": "none", "mask-type": "luminance", "filter": "none", "display": "inline",
	"overflow": "visible", "transform": "none", "transform-origin": "0 0", "transform-box": "view-box",
	"mix-blend-mode": "normal", "isolation": "auto", "vector-effect": "none", "text-decoration": "none",
	"alignment-baseline": "baseline", "baseline-shift": "0", "unicode-bidi": "normal",
}
