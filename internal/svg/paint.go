package svg

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"letterhead/internal/imaging"
)

const (
	// leastLost is the share of the image that text must cover so that its loss matters.
	leastLost = 0.01
	// letterArea is the approximate ink of a letter as a share of the font size squared.
	letterArea      = 0.3
	defaultFontSize = 16
)

// pen is the inherited state of a shape.
type pen struct {
	fill, stroke               string
	fillOpacity, strokeOpacity float64
	opacity                    float64
	strokeWidth, fontSize      float64
	color                      string
	hidden                     bool
	m                          matrix
}

var firstPen = pen{
	fill: "black", stroke: "none", fillOpacity: 1, strokeOpacity: 1, opacity: 1, strokeWidth: 1,
	fontSize: defaultFontSize, color: "black", m: identity,
}

// painter walks the visible elements and estimates the area of the text.
type painter struct {
	doc      *document
	draws    bool // anything
	hasText  bool
	textSum  float64        // area of letters
	patterns map[*node]bool // whether a pattern draws anything, false for one in progress
}

// paint reports whether the document draws anything, and whether text that is left is a visible part of it. It needs no
// limit of its own: checkCost has counted every element that it visits and rejected cycles, except through the paint
// that a pattern inherits; each pattern is visited once.
func (d *document) paint() (draws, isText bool) {
	p := &painter{doc: d, patterns: map[*node]bool{}}
	p.draw(d.root, firstPen)
	return p.draws, p.hasText && p.textSum >= leastLost*d.view.w*d.view.h
}

// inherit returns the pen for an element with these styles, and whether the element is drawn.
func (k pen) inherit(style map[string]string) (pen, bool) {
	get := func(name string) (string, bool) {
		v := style[name]
		return v, v != "inherit" && v != ""
	}
	for name, to := range map[string]*string{"color": &k.color, "fill": &k.fill, "stroke": &k.stroke} {
		if v, set := get(name); set {
			*to = v
		}
	}
	for name, to := range map[string]*float64{"fill-opacity": &k.fillOpacity, "stroke-opacity": &k.strokeOpacity} {
		if v, set := get(name); set {
			*to = opacity(v)
		}
	}
	if v, set := get("opacity"); set {
		k.opacity *= opacity(v)
	}
	for name, to := range map[string]*float64{"stroke-width": &k.strokeWidth, "font-size": &k.fontSize} {
		if v, set := get(name); set {
			if px, ok := pixels(v); ok && px >= 0 {
				*to = px
			}
		}
	}
	if v, set := get("visibility"); set {
		k.hidden = v == "hidden" || v == "collapse"
	}
	if v, set := get("transform"); set {
		if m, _, ok := parseTransform(strings.ReplaceAll(strings.ReplaceAll(v, "px", ""), "deg", "")); ok {
			k.m = k.m.times(m)
		}
	}
	v, _ := get("display")
	return k, v != "none"
}

func opacity(s string) float64 {
	v, ok := proportion(s)
	if !ok {
		return 1
	}
	return math.Min(math.Max(v, 0), 1)
}

// proportion parses a number, or a percentage as a part of 1.
func proportion(s string) (float64, bool) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	if percent {
		v /= 100
	}
	return v, true
}

// draw measures an element and its children. Its recursion is no deeper than that of checkCost.
func (p *painter) draw(n *node, k pen) {
	k, drawn := k.inherit(n.style)
	if !drawn {
		return
	}
	switch n.name {
	case "svg", "g", "symbol":
		k.m = k.m.times(p.viewport(n))
	case "switch": // shows only its first child
		for _, c := range n.children {
			if !unpainted[c.name] {
				p.draw(c, k)
				return
			}
		}
		return
	case "use":
		p.drawUse(n, k)
		return
	case "text", "tspan", "textPath":
		p.text(n, k)
	case "image":
		p.draws = p.draws || !k.hidden && k.opacity > 0
		return
	default:
		if _, ok := outlineOf(n); ok && !k.hidden {
			p.draws = p.draws || k.opacity*k.fillOpacity > 0 && p.paints(k.fill, k) ||
				k.opacity*k.strokeOpacity > 0 && k.strokeWidth > 0 && p.paints(k.stroke, k)
		}
		return
	}
	for _, c := range n.children {
		if c.name != "" && !unpainted[c.name] {
			p.draw(c, k)
		}
	}
}

func (p *painter) drawUse(n *node, k pen) {
	target := p.doc.byID[n.href]
	if target == nil {
		return
	}
	switch target.name {
	case "symbol", "svg", "g", "switch", "use", "text", "image", "path", "rect", "circle", "ellipse", "line",
		"polyline", "polygon":
		x, _ := pixels(n.attr("x"))
		y, _ := pixels(n.attr("y"))
		k.m = k.m.times(matrix{1, 0, 0, 1, x, y})
		p.draw(target, k)
	}
}

// viewport returns the transform of a nested svg or symbol: its position, and its viewBox fitted into its size.
func (p *painter) viewport(n *node) matrix {
	if n == p.doc.root || n.name == "g" {
		return identity
	}
	x, _ := pixels(n.attr("x"))
	y, _ := pixels(n.attr("y"))
	m := matrix{1, 0, 0, 1, x, y}
	view, hasView := parseViewBox(n.attr("viewBox"))
	w, hasWidth := pixels(n.attr("width"))
	h, hasHeight := pixels(n.attr("height"))
	if hasView && hasWidth && hasHeight {
		s := math.Min(w/view.w, h/view.h)
		m = m.times(matrix{a: s, d: s}).times(matrix{1, 0, 0, 1, -view.x, -view.y})
	}
	return m
}

// outlineOf measures a basic shape in its own coordinates; it returns false for
// other elements, and for shapes without extent.
func outlineOf(n *node) (outline, bool) {
	if n.shape == nil {
		o := measure(n)
		n.shape = &o
	}
	return *n.shape, n.shape.points > 0
}

func measure(n *node) outline {
	at := func(name string) float64 {
		text := n.attr(name)
		v, ok := pixels(text)
		if share, of := strings.CutSuffix(strings.TrimSpace(text), "%"); of && !ok {
			list, _ := parseNumbers(share, maxCoordinate)
			if len(list) == 1 {
				v = list[0] / 100 * n.extent(name)
			}
		}
		return v
	}
	var o outline
	switch n.name {
	case "path":
		o, _ = measurePath(n.attr("d"))
	case "polygon", "polyline":
		o, _ = measurePath("M" + n.attr("points"))
	case "line":
		o.move(at("x1"), at("y1"))
		o.line(at("x2"), at("y2"))
	case "rect":
		o = rectOutline(at)
	case "circle":
		o = ellipseOutline(at("cx"), at("cy"), at("r"), at("r"))
	case "ellipse":
		o = ellipseOutline(at("cx"), at("cy"), at("rx"), at("ry"))
	}
	return o
}

// extent returns the reference length of a percentage: a side of the nearest
// viewBox, or their mean for values without a direction (SVG 2, section 8.9).
func (n *node) extent(name string) float64 {
	for up := n.parent; up != nil; up = up.parent {
		view, ok := parseViewBox(up.attr("viewBox"))
		if !ok {
			continue
		}
		switch name {
		case "x", "x1", "x2", "cx", "rx", "width":
			return view.w
		case "y", "y1", "y2", "cy", "ry", "height":
			return view.h
		}
		return math.Hypot(view.w, view.h) / math.Sqrt2
	}
	return 0
}

func rectOutline(at func(string) float64) outline {
	w, h := at("width"), at("height")
	if w <= 0 || h <= 0 {
		return outline{}
	}
	x, y := at("x"), at("y")
	var o outline
	o.move(x, y)
	o.line(x+w, y)
	o.line(x+w, y+h)
	o.line(x, y+h)
	return o
}

func ellipseOutline(cx, cy, rx, ry float64) outline {
	if rx <= 0 || ry <= 0 {
		return outline{}
	}
	var o outline
	o.move(cx-rx, cy)
	o.arc(rx, ry, 0, true, true, cx+rx, cy)
	o.arc(rx, ry, 0, true, true, cx-rx, cy)
	o.include(cx-rx, cy-ry)
	o.include(cx+rx, cy+ry)
	return o
}

func (p *painter) text(n *node, k pen) {
	letters := 0
	for _, c := range n.children {
		letters += utf8.RuneCountInString(strings.TrimSpace(c.text))
	}
	if letters == 0 || k.hidden || k.opacity == 0 || !p.paints(k.fill, k) {
		return
	}
	p.draws, p.hasText = true, true
	p.textSum += float64(letters) * letterArea * k.fontSize * k.fontSize * math.Abs(k.m.a*k.m.d-k.m.b*k.m.c)
}

// paints reports whether a paint leaves any ink: a color, a gradient with a stop, or a pattern with a filled element.
func (p *painter) paints(paint string, k pen) bool {
	paint = strings.TrimSpace(paint)
	if m := urlReference.FindStringSubmatch(paint); m != nil {
		target := p.doc.byID[m[1]]
		if target != nil && target.name == "pattern" {
			return p.fillsPattern(target)
		}
		if target != nil && p.hasStops(target) {
			return true
		}
		paint = strings.TrimSpace(urlReference.ReplaceAllString(paint, ""))
	}
	if strings.EqualFold(paint, "currentcolor") {
		paint = k.color
	}
	_, alpha, ok := imaging.ParseColor(paint)
	return ok && alpha != 0
}

// fillsPattern reports whether the content of a pattern, or of the one to which it refers, draws anything. It inherits
// from the ancestors of the pattern.
func (p *painter) fillsPattern(pattern *node) bool {
	for len(pattern.children) == 0 {
		if pattern = p.doc.byID[pattern.href]; pattern == nil {
			return false
		}
	}
	if fills, known := p.patterns[pattern]; known {
		return fills
	}
	p.patterns[pattern] = false
	k := firstPen
	for _, n := range pattern.lineage() {
		k, _ = k.inherit(n.style)
	}
	k.opacity = 1 // of the ancestors, which does not apply to the pattern
	tile := &painter{doc: p.doc, patterns: p.patterns}
	for _, c := range pattern.children {
		if c.name != "" && !unpainted[c.name] {
			tile.draw(c, k)
		}
	}
	p.patterns[pattern] = tile.draws
	return tile.draws
}

// hasStops reports whether a gradient, or the one it refers to, has a stop with a color.
func (p *painter) hasStops(gradient *node) bool {
	for _, c := range gradient.children {
		value := cmp.Or(c.style["stop-color"], "black")
		if strings.EqualFold(value, "currentcolor") && c.style["color"] != "" {
			value = c.style["color"]
		}
		if _, _, ok := imaging.ParseColor(value); ok && c.name == "stop" {
			return true
		}
	}
	target := p.doc.byID[gradient.href]
	return target != nil && p.hasStops(target)
}
