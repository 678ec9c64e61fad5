package svg

import (
	"bytes"
	"cmp"
	"fmt"
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
