package svg

import (
	"fmt"
	"maps"
	"slices"
)

// maxWithin limits SVGs in the images of SVGs in images.
const maxWithin = 2

// embed reads the SVG of an image element. The content of a file that cannot be read is omitted, as an image is.
func (d *document) embed(image *node, raw []byte) {
	level := 1
	for up := d.within; up != nil; up = up.within {
		level++
	}
	text, err := readText(raw)
	if err != nil || level > maxWithin {
		return
	}
	inside, err := parseDocument(text, d)
	const added = 2 // the group and the root
	if err != nil || len(image.lineage())+added+inside.depth > maxDepth || d.elements+inside.elements > maxElements ||
		inside.fixRoot() != nil || inside.bake() != nil {
		return
	}
	d.elements += inside.elements
	d.foreign = d.foreign || inside.foreign
	inside.placeSymbols()
	inside.unfold()
	image.inside = inside
}

// unfold replaces each image of an SVG by a group with its content, whose names get a prefix.
func (d *document) unfold() {
	for at := range d.order {
		n, inside := d.order[at], d.order[at].inside
		if inside == nil {
			continue
		}
		n.name, n.inside = "g", nil
		root := inside.root
		if inside.width != nil && inside.height != nil {
			root.set("width", fmt.Sprint(*inside.width))
			root.set("height", fmt.Sprint(*inside.height))
		}
		for _, name := range []string{"x", "y", "width", "height", "preserveAspectRatio"} {
			if v := n.attr(name); v != "" {
				root.set(name, v)
			} else if name == "preserveAspectRatio" {
				root.drop(name)
			}
			n.drop(name)
		}
		for _, name := range slices.Sorted(maps.Keys(inheritedInitials)) {
			for up := n; up != nil; up = up.parent {
				if _, set := up.own(name); set {
					if _, set := root.own(name); !set {
						root.set(name, inheritedInitials[name])
					}
					break
				}
			}
		}
		root.parent, n.children = n, []*node{root}
		d.adopt(inside)
	}
}

// inheritedInitials are the initial values of the inherited properties that an image does not inherit.
var inheritedInitials = map[string]string{
	"fill": "black", "fill-opacity": "1", "fill-rule": "nonzero", "stroke": "none", "stroke-opacity": "1",
	"stroke-width": "1", "stroke-linecap": "butt", "stroke-linejoin": "miter", "stroke-miterlimit": "4",
	"stroke-dasharray": "none", "stroke-dashoffset": "0", "color": "black", "clip-rule": "nonzero",
	"font-size": "16px", "font-weight": "400", "font-style": "normal", "text-anchor": "start",
	"letter-spacing": "normal",
}

// adopt adds the elements of the SVG of an image, with new names.
func (d *document) adopt(inside *document) {
	d.adopted++
	renamed := map[string]string{}
	rename := func(id string) string {
		if renamed[id] == "" {
			renamed[id] = fmt.Sprintf("e%d.%d", d.adopted, len(renamed))
			for d.byID[renamed[id]] != nil {
				renamed[id] = "e" + renamed[id]
			}
		}
		return renamed[id]
	}
	inside.rename(rename)
	for _, n := range inside.order {
		if n.id != "" {
			d.byID[n.id] = n
		}
	}
	d.order = append(d.order, inside.order...)
}

// placeSymbols moves the position and size of each symbol to its uses, because some renderers, including ours, ignore
// them there (SVG 2, section 5.5).
func (d *document) placeSymbols() {
	sides := []string{"width", "height", "x", "y"}
	isSymbol := func(n *node) bool { return n != nil && n.name == "symbol" }
	for _, n := range d.order {
		if symbol := d.byID[n.href]; n.name == "use" && isSymbol(symbol) {
			for i, side := range sides {
				own, ours := n.attr(side), symbol.attr(side)
				offset, isLength := pixels(ours)
				from, known := pixels(own)
				switch {
				case i < 2 && own == "" && ours != "":
					n.set(side, ours)
				case i >= 2 && isLength && offset != 0 && (known || own == ""):
					n.set(side, formatNumber(from+offset))
				}
			}
		}
	}
	for _, n := range d.order {
		if isSymbol(n) {
			n.attrs = slices.DeleteFunc(n.attrs, func(a attribute) bool { return slices.Contains(sides, a.name) })
		}
	}
}
