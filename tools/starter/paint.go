package main

import (
	"image"
	"math"
	"strings"

	"golang.org/x/image/vector"
)

// grid is the longest side, in pixels, of a drawing for analysis. It is painted only to determine its colors and shape,
// so gradients are flat, strokes and filters are omitted, and masks cut by their outline.
const grid = 256

// faint is the opacity up to which a shape tints the shapes below it rather than covering them.
const faint = 0.2

// paint is the fill of a shape: one color, or the stops of a gradient.
type paint struct {
	stops []rgb
	alpha float64
}

// canvas records the topmost paint of each pixel.
type canvas struct {
	w, h   int
	top    []int16   // index into paints, or -1
	alpha  []float64 // total coverage
	paints []paint
	ids    map[string]*node
	drawn  *int // elements drawn so far, including masks
}

// style is the inherited style.
type style struct {
	fill    string
	opacity float64
	m       matrix
	mask    []float64 // nil or one factor per pixel
}

// paintSVG draws a whole drawing.
func paintSVG(svg string, left, top, width, height float64) (*canvas, error) {
	root, ids, err := parseTree(svg)
	if err != nil {
		return nil, err
	}
	scale := grid / math.Max(width, height)
	c := &canvas{w: max(1, int(math.Ceil(width*scale))), h: max(1, int(math.Ceil(height*scale))),
		ids: ids, drawn: new(int)}
	c.top = make([]int16, c.w*c.h)
	c.alpha = make([]float64, c.w*c.h)
	for i := range c.top {
		c.top[i] = -1
	}
	c.draw(root, style{fill: "#000", opacity: 1, m: matrix{a: scale, d: scale, e: -left * scale, f: -top * scale}}, 0)
	return c, nil
}

func (c *canvas) draw(n *node, s style, depth int) {
	if *c.drawn++; depth > maxDepth || *c.drawn > maxNodes {
		return // references that expand exponentially or have cycles
	}
	switch n.name {
	case "defs", "mask", "clipPath", "symbol", "pattern", "filter", "linearGradient",
		"radialGradient", "title", "style":
		if depth > 0 {
			return
		}
	}
	if f, ok := n.attrs["fill"]; ok {
		s.fill = f
	}
	s.opacity *= n.number("opacity", 1)
	if t, ok := n.attrs["transform"]; ok {
		s.m = s.m.then(parseTransform(t))
	}
	for _, name := range []string{"mask", "clip-path"} {
		if by := c.ids[target(n.attrs[name])]; n.attrs[name] != "" && by != nil {
			s.mask = c.cut(by, s, depth+1)
		}
	}
	if n.name == "use" {
		if to := c.ids[target(n.attrs["href"])]; to != nil {
			s.m = s.m.then(matrix{a: 1, d: 1, e: n.number("x", 0), f: n.number("y", 0)})
			c.draw(to, s, depth+1)
		}
		return
	}
	if cover := c.outline(n, s.m); cover != nil {
		c.fill(n, s, cover)
	}
	for _, k := range n.kids {
		c.draw(k, s, depth+1)
	}
}

// cut paints only the content of a mask or clip path and returns its coverage.
func (c *canvas) cut(by *node, s style, depth int) []float64 {
	under := &canvas{w: c.w, h: c.h, ids: c.ids, drawn: c.drawn, top: make([]int16, len(c.top)),
		alpha: make([]float64, len(c.alpha))}
	inner := style{fill: "#fff", opacity: 1, m: s.m, mask: s.mask}
	for _, k := range by.kids {
		under.draw(k, inner, depth+1)
	}
	return under.alpha
}

func (c *canvas) fill(n *node, s style, cover []float64) {
	p := c.paintOf(s.fill)
	p.alpha *= s.opacity * n.number("fill-opacity", 1)
	if len(p.stops) == 0 || p.alpha <= 0 {
		return
	}
	c.paints = append(c.paints, p)
	for i, a := range cover {
		if s.mask != nil {
			a *= s.mask[i]
		}
		c.alpha[i] += a * p.alpha * (1 - c.alpha[i])
		if a > 0.5 && p.alpha > faint {
			c.top[i] = int16(len(c.paints) - 1)
		}
	}
}

func (c *canvas) paintOf(fill string) paint {
	if strings.HasPrefix(fill, "url(") {
		return c.gradient(c.ids[target(fill)], 0)
	}
	if col, ok := parseColor(fill); ok {
		return paint{stops: []rgb{col}, alpha: 1}
	}
	return paint{}
}

// gradient returns the stops of a gradient, or of the one to which it refers.
func (c *canvas) gradient(n *node, depth int) paint {
	if n == nil || depth > maxDepth {
		return paint{}
	}
	var p paint
	for _, k := range n.kids {
		if k.name != "stop" {
			continue
		}
		col, ok := parseColor(k.attrs["stop-color"])
		if !ok {
			col = rgb{}
		}
		a := k.number("stop-opacity", 1)
		p.alpha += a
		if a > 0.5 {
			p.stops = append(p.stops, col)
		}
	}
	if p.alpha == 0 {
		return c.gradient(c.ids[target(n.attrs["href"])], depth+1)
	}
	p.alpha /= float64(len(n.kids))
	return p
}

// outline returns a shape's coverage of each pixel, or nil for other elements.
func (c *canvas) outline(n *node, m matrix) []float64 {
	r := &rasterPen{m: m, z: vector.NewRasterizer(c.w, c.h)}
	switch n.name {
	case "path":
		if err := drawPath(n.attrs["d"], r); err != nil {
			return nil
		}
	case "rect":
		x, y, w, h := n.number("x", 0), n.number("y", 0), n.number("width", 0), n.number("height", 0)
		rx := min(n.number("rx", n.number("ry", 0)), w/2)
		ry := min(n.number("ry", rx), h/2)
		roundRect(r, x, y, w, h, rx, ry)
	case "circle", "ellipse":
		rx := n.number("rx", n.number("r", 0))
		ry := n.number("ry", n.number("r", rx))
		at := matrix{a: rx, d: ry, e: n.number("cx", 0), f: n.number("cy", 0)}
		r.moveTo(at.apply(1, 0))
		ellipse(r, at, 0, 2*math.Pi)
		r.close()
	case "polygon", "polyline":
		if err := drawPath("M"+n.attrs["points"]+"z", r); err != nil {
			return nil
		}
	default:
		return nil
	}
	mask := image.NewAlpha(image.Rect(0, 0, c.w, c.h))
	r.z.Draw(mask, mask.Bounds(), image.Opaque, image.Point{})
	out := make([]float64, c.w*c.h)
	for i := range out {
		out[i] = float64(mask.Pix[i]) / 255
	}
	return out
}

func roundRect(r pen, x, y, w, h, rx, ry float64) {
	r.moveTo(x+rx, y)
	corner := func(cx, cy, from float64) {
		if rx > 0 && ry > 0 {
			ellipse(r, matrix{a: rx, d: ry, e: cx, f: cy}, from, math.Pi/2)
		}
	}
	r.lineTo(x+w-rx, y)
	corner(x+w-rx, y+ry, -math.Pi/2)
	r.lineTo(x+w, y+h-ry)
	corner(x+w-rx, y+h-ry, 0)
	r.lineTo(x+rx, y+h)
	corner(x+rx, y+h-ry, math.Pi/2)
	r.lineTo(x, y+ry)
	corner(x+rx, y+ry, math.Pi)
	r.close()
}

// rasterPen draws into a rasterizer with a matrix.
type rasterPen struct {
	m    matrix
	z    *vector.Rasterizer
	open bool
}

func (p *rasterPen) at(x, y float64) (float32, float32) {
	x, y = p.m.apply(x, y)
	return float32(x), float32(y)
}

func (p *rasterPen) moveTo(x, y float64) {
	p.close()
	px, py := p.at(x, y)
	p.z.MoveTo(px, py)
	p.open = true
}

func (p *rasterPen) lineTo(x, y float64) { p.z.LineTo(p.at(x, y)) }

func (p *rasterPen) cubicTo(x1, y1, x2, y2, x, y float64) {
	ax, ay := p.at(x1, y1)
	bx, by := p.at(x2, y2)
	cx, cy := p.at(x, y)
	p.z.CubeTo(ax, ay, bx, by, cx, cy)
}

func (p *rasterPen) close() {
	if p.open {
		p.z.ClosePath()
	}
}
