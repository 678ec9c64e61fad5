package svg

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"math"
	"slices"
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// paints are the properties whose colors Recolor replaces. The colors of shadows (flood-color) stay.
var paints = setOf("fill", "stroke", "stop-color", "color")

// Recolor rebuilds an SVG as Sanitize does, and replaces the colors of its fills, strokes and gradients, also the black
// of shapes without a color. Opacities, embedded rasters, filters and the content of masks stay. Errors: as Sanitize.
func Recolor(data []byte, replace func(imaging.RGB) imaging.RGB) ([]byte, error) {
	d, _, err := rebuilt(data, false)
	if err != nil {
		return nil, fmt.Errorf("recolor svg: %w", err)
	}
	r := recoloring{replace: replace, black: replace(imaging.Black)}
	r.recolor(d.root, initialInk)
	if r.black != imaging.Black {
		for _, name := range []string{"fill", "color"} {
			if _, set := d.root.own(name); !set {
				d.root.set(name, r.black.Hex())
			}
		}
	}
	return d.write(), nil
}

// initialInk is the initial value of fill.
const initialInk = "black"

type recoloring struct {
	replace func(imaging.RGB) imaging.RGB
	black   imaging.RGB // the replacement of black
}

// recolor replaces the colors of an element and its children. fill is the original value that the element inherits. The
// recursion is at most maxDepth deep.
func (r recoloring) recolor(n *node, fill string) {
	if own, set := n.own("fill"); set {
		fill = own
	}
	if n.name == "mask" {
		n.set("fill", fill) // not the replacement that an ancestor has now
		return
	}
	for x := range n.values() {
		x.value = r.value(x.name, x.value)
	}
	if _, set := n.own("stop-color"); n.name == "stop" && !set && r.black != imaging.Black {
		n.set("stop-color", r.black.Hex())
	}
	for _, c := range n.children {
		if c.name != "" {
			r.recolor(c, fill)
		}
	}
}

func (r recoloring) value(name, value string) string {
	if !paints[name] {
		return value
	}
	c, alpha, ok := imaging.ParseColor(value)
	if !ok || alpha == 0 {
		return value
	}
	to := r.replace(c)
	if to == c {
		return value
	}
	if alpha < 1 {
		return fmt.Sprintf("rgba(%d,%d,%d,%.3g)", to.R, to.G, to.B, alpha)
	}
	return to.Hex()
}

// own returns the value of a property in an element's style or attributes.
func (n *node) own(name string) (value string, set bool) {
	for _, d := range n.inline {
		if d.name == name {
			value, set = d.value, true
		}
	}
	if !set {
		value = n.attr(name)
		set = value != ""
	}
	return value, set
}

// Frame describes the canvas that an SVG is put on.
type Frame struct {
	Square bool
	Margin float64      // on each side, as a share of the longest side of the result
	Plate  *imaging.RGB // color of a rounded tile behind the drawing; nil for none
	// Off measures how far the middle of the ink is from the middle of the SVG, as shares of its width
	// and height. It is called only for an SVG that gets a canvas; nil means that the middles agree.
	Off func() (x, y float64, err error)
}

// Framed rebuilds an SVG as Sanitize does and puts it on a canvas with its ink in the middle. An SVG without a size is
// returned without a canvas. Errors: those of Sanitize and of Frame.Off.
func Framed(data []byte, f Frame) ([]byte, error) {
	d, _, err := rebuilt(data, false)
	if err != nil {
		return nil, fmt.Errorf("frame svg: %w", err)
	}
	view, ok := parseViewBox(d.root.attr("viewBox"))
	if !ok {
		return d.write(), nil
	}
	width, hasWidth := pixels(d.root.attr("width"))
	height, hasHeight := pixels(d.root.attr("height"))
	if !hasWidth || !hasHeight {
		width, height = view.w, view.h
	}
	longest := max(width, height) / (1 - 2*f.Margin)
	margin := f.Margin * longest
	canvas := box{w: width + 2*margin, h: height + 2*margin}
	if f.Square {
		canvas.w, canvas.h = longest, longest
	}
	if f.Plate == nil && canvas.w == width && canvas.h == height {
		return d.write(), nil
	}
	x, y := (canvas.w-width)/2, (canvas.h-height)/2
	if f.Off != nil {
		offX, offY, err := f.Off()
		if err != nil {
			return nil, err
		}
		x, y = x-offX*width, y-offY*height
	}
	outer := &node{name: "svg"}
	outer.set("viewBox", "0 0 "+shortNumber(canvas.w)+" "+shortNumber(canvas.h))
	if hasWidth && hasHeight {
		outer.set("width", shortNumber(canvas.w))
		outer.set("height", shortNumber(canvas.h))
	}
	if f.Plate != nil {
		plate := &node{name: "rect", parent: outer}
		plate.set("width", shortNumber(canvas.w))
		plate.set("height", shortNumber(canvas.h))
		plate.set("rx", shortNumber(imaging.PlateRadius*min(canvas.w, canvas.h)))
		plate.inline = []attribute{{name: "fill", value: f.Plate.Hex()}}
		outer.children = append(outer.children, plate)
	}
	inner := d.root
	inner.parent = outer
	inner.set("x", shortNumber(x))
	inner.set("y", shortNumber(y))
	inner.set("width", shortNumber(width))
	inner.set("height", shortNumber(height))
	outer.children = append(outer.children, inner)
	d.root = outer
	return d.write(), nil
}

// Cropped rebuilds an SVG as Sanitize does, and shows only a box of it, given in pixels of a drawing of some size.
// An SVG without a size, or whose width and height have another ratio than its view box, is not cropped. Errors: as
// Sanitize.
func Cropped(data []byte, to image.Rectangle, drawn image.Point) ([]byte, error) {
	d, _, err := rebuilt(data, false)
	if err != nil {
		return nil, fmt.Errorf("crop svg: %w", err)
	}
	view, ok := parseViewBox(d.root.attr("viewBox"))
	x, y := float64(drawn.X), float64(drawn.Y)
	if !ok || math.Abs(view.w*y-view.h*x) > max(view.w, view.h) { // within a pixel, or the drawing has other margins
		return d.write(), nil
	}
	d.root.set("viewBox", shortNumber(view.x+view.w*float64(to.Min.X)/x)+" "+shortNumber(view.y+view.h*float64(to.Min.Y)/y)+
		" "+shortNumber(view.w*float64(to.Dx())/x)+" "+shortNumber(view.h*float64(to.Dy())/y))
	for name, share := range map[string]float64{"width": float64(to.Dx()) / x, "height": float64(to.Dy()) / y} {
		if length, ok := pixels(d.root.attr(name)); ok {
			d.root.set(name, shortNumber(share*length))
		}
	}
	return d.write(), nil
}

// shortNumber formats a number with six digits, a hundredth of a pixel of the largest image.
func shortNumber(v float64) string {
	if short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64); err == nil {
		v = short
	}
	return formatNumber(v)
}

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
		d.rename(func(id string) string { return class + "-" + id }) // so that those of both differ
		d.root.drop("width")                                         // so that it fills the whole
		d.root.drop("height")
		fmt.Fprintf(&b, `<g class="%s">%s</g>`, class, d.write())
	}
	b.WriteString("</svg>")
	return b.Bytes(), nil
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
	isTransform := func(x attribute) bool { return x.name == "transform" }
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
