package imaging

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// opaqueShare of the picture must be filled for it to have a background: rounded corners are none.
	opaqueShare = 1 - minClearShare
	// minWeight keeps lines and dots in the palette.
	minWeight = 1e-6
	// letterArea is the ink of a letter as a share of the font size squared, about.
	letterArea      = 0.3
	defaultFontSize = 16
)

// pen is what is inherited on the way to a shape.
type pen struct {
	fill, stroke               string
	fillOpacity, strokeOpacity float64
	opacity                    float64
	strokeWidth, fontSize      float64
	color                      string
	hidden                     bool
	m                          matrix
}

// painter walks what would be drawn and notes colors and areas.
type painter struct {
	doc      *document
	visits   int
	info     SVGInfo
	colors   []weighted
	textSum  float64 // area of letters
	shapeSum float64 // area of the rest, without what fills the whole picture
}

// paint tells what the document shows. Areas are estimates: what covers what is not looked at.
func (d *document) paint() (SVGInfo, error) {
	p := &painter{doc: d, info: SVGInfo{Width: d.width, Height: d.height}}
	start := pen{
		fill: "black", stroke: "none", fillOpacity: 1, strokeOpacity: 1, opacity: 1, strokeWidth: 1,
		fontSize: defaultFontSize, color: "black", m: identity,
	}
	if err := p.draw(d.root, start); err != nil {
		return SVGInfo{}, err
	}
	p.info.Text = p.info.HasText && p.textSum >= p.shapeSum
	p.info.Colors = mergePalette(p.colors)
	return p.info, nil
}

// inherit returns the pen for an element with these styles, and whether the element is drawn.
func (k pen) inherit(style map[string]string) (pen, bool) {
	get := func(name string) (string, bool) {
		v, set := style[name]
		if !set {
			return "", false
		}
		return v, v != "inherit" && v != ""
	}
	if v, set := get("color"); set {
		k.color = v
	}
	if v, set := get("fill"); set {
		k.fill = v
	}
	if v, set := get("stroke"); set {
		k.stroke = v
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
	v, ok := component(s, 1)
	if !ok {
		return 1
	}
	return math.Min(math.Max(v, 0), 1)
}

// draw notes an element and what is in it. It recurses no deeper than checkCost did.
func (p *painter) draw(n *node, k pen) error {
	if p.visits++; p.visits > maxCost {
		return fmt.Errorf("%w: drawing it takes too long", ErrTooLarge)
	}
	k, drawn := k.inherit(n.style)
	if !drawn {
		return nil
	}
	switch n.name {
	case "svg", "g", "symbol":
		k.m = k.m.times(p.viewport(n))
	case "switch": // shows its first child only
		for _, c := range n.children {
			if !unpainted[c.name] {
				return p.draw(c, k)
			}
		}
		return nil
	case "use":
		return p.drawUse(n, k)
	case "text", "tspan", "textPath":
		p.text(n, k)
	case "image":
		if !k.hidden && k.opacity > 0 {
			p.info.HasRaster = true
			p.info.Shapes++
		}
		return nil
	default:
		if o, ok := outlineOf(n); ok && !k.hidden {
			p.shape(o, k)
		}
		return nil
	}
	for _, c := range n.children {
		if c.name != "" && !unpainted[c.name] {
			if err := p.draw(c, k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *painter) drawUse(n *node, k pen) error {
	target := p.doc.byID[n.href]
	if target == nil {
		return nil
	}
	switch target.name {
	case "symbol", "svg", "g", "switch", "use", "text", "image", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon":
	default:
		return nil
	}
	x, _ := pixels(n.attr("x"))
	y, _ := pixels(n.attr("y"))
	k.m = k.m.times(matrix{1, 0, 0, 1, x, y})
	return p.draw(target, k)
}

// viewport is the transform of a nested svg or symbol: its place, and its viewBox fitted into its size.
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

// outlineOf measures a basic shape in its own coordinates; false for an element that is none, or that has
// no extent.
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
		points := parsePoints(n.attr("points"))
		for i := 0; i+1 < len(points); i += 2 {
			if i == 0 {
				o.move(points[0], points[1])
			} else {
				o.line(points[i], points[i+1])
			}
		}
		o.close()
	case "line":
		o.move(at("x1"), at("y1"))
		o.line(at("x2"), at("y2"))
		o.close()
	case "rect":
		o = rectOutline(at)
	case "circle":
		o = ellipseOutline(at("cx"), at("cy"), at("r"), at("r"))
	case "ellipse":
		o = ellipseOutline(at("cx"), at("cy"), at("rx"), at("ry"))
	}
	return o
}

// extent is what a percentage of a coordinate or a length is taken of: the sides of the next viewBox outside, or
// for what has no direction their mean (SVG 2, section 8.9).
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
	o.close()
	rx, ry := at("rx"), at("ry")
	if rx == 0 {
		rx = ry
	}
	if ry == 0 {
		ry = rx
	}
	o.area -= (4 - math.Pi) * math.Min(rx, w/2) * math.Min(ry, h/2) // the corners
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
	o.area = math.Pi * rx * ry
	return o
}

// shape notes the fill and the stroke of one shape.
func (p *painter) shape(o outline, k pen) {
	drawn := false
	area := math.Min(math.Abs(o.area), o.width()*o.height()) // parts that overlap count once
	if alpha := k.opacity * k.fillOpacity; alpha > 0 {
		if found := p.colorsOf(k.fill, k); len(found) > 0 {
			drawn = true
			p.note(found, area*k.m.area(), alpha)
			if p.covers(o, area, k) {
				p.info.Opaque = p.info.Opaque || hides(found, alpha)
			} else {
				p.shapeSum += area * k.m.area()
			}
		}
	}
	if alpha := k.opacity * k.strokeOpacity; alpha > 0 && k.strokeWidth > 0 {
		if found := p.colorsOf(k.stroke, k); len(found) > 0 {
			drawn = true
			ink := o.length * k.strokeWidth * k.m.area()
			p.note(found, ink, alpha)
			p.shapeSum += ink
		}
	}
	if drawn {
		p.info.Shapes++
	}
}

func (p *painter) text(n *node, k pen) {
	letters := 0
	for _, c := range n.children {
		letters += utf8.RuneCountInString(strings.TrimSpace(c.text))
	}
	if letters == 0 || k.hidden || k.opacity == 0 {
		return
	}
	if found := p.colorsOf(k.fill, k); len(found) > 0 {
		p.info.HasText = true
		p.info.Shapes++
		ink := float64(letters) * letterArea * k.fontSize * k.fontSize * k.m.area()
		p.note(found, ink, k.opacity*k.fillOpacity)
		p.textSum += ink
	}
}

// tint is one color of a paint.
type tint struct {
	color RGB
	alpha float64
}

// colorsOf resolves a paint: one color, those of a gradient's stops, or the fills of what a pattern
// repeats; nothing for none.
func (p *painter) colorsOf(paint string, k pen) []tint {
	paint = strings.TrimSpace(paint)
	if m := urlReference.FindStringSubmatch(paint); m != nil {
		target := p.doc.byID[m[1]]
		if target != nil && target.name == "pattern" {
			return p.patternColors(target, k)
		}
		if target != nil {
			if stops := p.stops(target, 0); len(stops) > 0 {
				return stops
			}
		}
		paint = strings.TrimSpace(urlReference.ReplaceAllString(paint, ""))
	}
	if strings.EqualFold(paint, "currentcolor") {
		paint = k.color
	}
	c, alpha, ok := ParseColor(paint)
	if !ok || alpha == 0 {
		return nil
	}
	return []tint{{c, alpha}}
}

// patternColors takes the fills that the pattern's own elements name.
func (p *painter) patternColors(pattern *node, k pen) []tint {
	var found []tint
	for _, c := range pattern.children {
		sub, drawn := k.inherit(c.style)
		if c.name == "" || !drawn || strings.Contains(sub.fill, "url(") {
			continue
		}
		found = append(found, p.colorsOf(sub.fill, sub)...)
	}
	return found
}

// stops are the colors of a gradient, its own or those of the one it refers to.
func (p *painter) stops(gradient *node, depth int) []tint {
	var found []tint
	for _, c := range gradient.children {
		if c.name != "stop" {
			continue
		}
		value := c.style["stop-color"]
		if value == "" {
			value = "black"
		}
		if strings.EqualFold(value, "currentcolor") && c.style["color"] != "" {
			value = c.style["color"]
		}
		color, alpha, ok := ParseColor(value)
		if !ok {
			continue
		}
		if v, set := c.style["stop-opacity"]; set {
			alpha *= opacity(v)
		}
		found = append(found, tint{color, alpha})
	}
	if target := p.doc.byID[gradient.href]; len(found) == 0 && target != nil && depth < maxReferenceDepth {
		return p.stops(target, depth+1)
	}
	return found
}

// note adds the colors that cover more than they let through.
func (p *painter) note(found []tint, area, alpha float64) {
	weight := math.Max(area, minWeight) / float64(len(found))
	for _, t := range found {
		if t.alpha*alpha < 0.5 {
			continue
		}
		p.colors = append(p.colors, weighted{t.color, weight})
	}
}

// hides says whether a paint lets nothing through.
func hides(found []tint, alpha float64) bool {
	return !slices.ContainsFunc(found, func(t tint) bool { return t.alpha*alpha < opaqueShare })
}

// covers says whether a shape fills the whole picture.
func (p *painter) covers(o outline, area float64, k pen) bool {
	view := p.doc.view
	if !p.doc.hasView || k.m.b != 0 || k.m.c != 0 {
		return false
	}
	slack := (1 - opaqueShare) * math.Min(view.w, view.h)
	x1, x2 := k.m.a*o.minX+k.m.e, k.m.a*o.maxX+k.m.e
	y1, y2 := k.m.d*o.minY+k.m.f, k.m.d*o.maxY+k.m.f
	// Against its own box: a shape that is larger than the picture must be as full.
	return math.Min(x1, x2) <= view.x+slack && math.Max(x1, x2) >= view.x+view.w-slack &&
		math.Min(y1, y2) <= view.y+slack && math.Max(y1, y2) >= view.y+view.h-slack &&
		area >= opaqueShare*o.width()*o.height()
}
