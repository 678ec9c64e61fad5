package monogram

import (
	"math"
	"strconv"

	"golang.org/x/image/vector"
)

// outline is the path of both the image and the SVG. Contours do not overlap.
type outline []segment

// segment is one step of a path, with the letters of SVG: M and L with one point, Q with two, C with
// three, Z with none. The last point is its end.
type segment struct {
	op     byte
	points [3]point
}

type point struct{ x, y float64 }

// count returns the number of points of the step.
func (s segment) count() int {
	switch s.op {
	case 'M', 'L':
		return 1
	case 'Q':
		return 2
	case 'C':
		return 3
	}
	return 0
}

type box struct{ min, max point }

func (b box) width() float64  { return b.max.x - b.min.x }
func (b box) height() float64 { return b.max.y - b.min.y }

// moved returns the outline scaled and then translated.
func (o outline) moved(scaleX, scaleY, x, y float64) outline {
	return o.mapped(func(p point) point { return point{p.x*scaleX + x, p.y*scaleY + y} })
}

func (o outline) mapped(to func(point) point) outline {
	out := make(outline, len(o))
	for i, s := range o {
		for j, p := range s.points {
			s.points[j] = to(p)
		}
		out[i] = s
	}
	return out
}

// bounds returns the box of the ink, which is smaller than the box of the points if a curve does not
// reach its control points. All cubic curves are quarters of circles, whose extremes are their ends.
func (o outline) bounds() box {
	b := box{point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}}
	add := func(p point) {
		b.min = point{min(b.min.x, p.x), min(b.min.y, p.y)}
		b.max = point{max(b.max.x, p.x), max(b.max.y, p.y)}
	}
	var pen point
	for _, s := range o {
		n := s.count()
		if n == 0 {
			continue
		}
		end := s.points[n-1]
		if s.op == 'Q' {
			c := s.points[0]
			add(point{furthest(pen.x, c.x, end.x), furthest(pen.y, c.y, end.y)})
		}
		add(end)
		pen = end
	}
	return b
}

// furthest returns the extreme of a quadratic curve on one axis, or its end if it has none.
func furthest(from, control, to float64) float64 {
	t := (from - control) / (from - 2*control + to)
	if !(t > 0 && t < 1) { // also false for NaN, for a straight line
		return to
	}
	return (1-t)*(1-t)*from + 2*t*(1-t)*control + t*t*to
}

func (o outline) fill(z *vector.Rasterizer) {
	for _, s := range o {
		var p [3][2]float32
		for i, at := range s.points {
			p[i] = [2]float32{float32(at.x), float32(at.y)}
		}
		switch s.op {
		case 'M':
			z.MoveTo(p[0][0], p[0][1])
		case 'L':
			z.LineTo(p[0][0], p[0][1])
		case 'Q':
			z.QuadTo(p[0][0], p[0][1], p[1][0], p[1][1])
		case 'C':
			z.CubeTo(p[0][0], p[0][1], p[1][0], p[1][1], p[2][0], p[2][1])
		case 'Z':
			z.ClosePath()
		}
	}
}

// appendData appends the outline as the data of an SVG path, with two decimals.
func (o outline) appendData(to []byte) []byte {
	for _, s := range o {
		to = append(to, s.op)
		for i, p := range s.points[:s.count()] {
			if i > 0 {
				to = append(to, ' ')
			}
			to = appendNumber(to, p.x)
			to = append(to, ' ')
			to = appendNumber(to, p.y)
		}
	}
	return to
}

func appendNumber(to []byte, v float64) []byte {
	v = math.Round(v*100)/100 + 0 // + 0 turns a negative zero into a positive one
	return strconv.AppendFloat(to, v, 'f', -1, 64)
}

// arc is the distance of the control points of a quarter of a circle from its ends, for a radius of 1
// (https://spencermortensen.com/articles/bezier-circle/).
const arc = 0.551915

// pen draws outlines of lines and quarters of circles.
type pen struct {
	done outline
	at   point
}

func (p *pen) move(x, y float64) *pen {
	p.at = point{x, y}
	p.done = append(p.done, segment{op: 'M', points: [3]point{p.at}})
	return p
}

func (p *pen) line(x, y float64) *pen {
	p.at = point{x, y}
	p.done = append(p.done, segment{op: 'L', points: [3]point{p.at}})
	return p
}

// quarter draws a quarter of a circle, or of an ellipse, which starts vertically or horizontally.
func (p *pen) quarter(upright bool, x, y float64) *pen {
	dx, dy := x-p.at.x, y-p.at.y
	one, two := point{p.at.x + arc*dx, p.at.y}, point{x, y - arc*dy}
	if upright {
		one, two = point{p.at.x, p.at.y + arc*dy}, point{x - arc*dx, y}
	}
	p.at = point{x, y}
	p.done = append(p.done, segment{op: 'C', points: [3]point{one, two, p.at}})
	return p
}

func (p *pen) close() *pen {
	p.done = append(p.done, segment{op: 'Z'})
	return p
}

// disc draws a circle, in the opposite direction for a hole.
func (p *pen) disc(x, y, r float64, hole bool) *pen {
	if hole {
		return p.move(x, y-r).quarter(false, x-r, y).quarter(true, x, y+r).quarter(false, x+r,
			y).quarter(true, x, y-r).close()
	}
	return p.move(x, y-r).quarter(false, x+r, y).quarter(true, x, y+r).quarter(false, x-r,
		y).quarter(true, x, y-r).close()
}

func (p *pen) block(x, y, width, height float64) *pen {
	return p.move(x, y).line(x+width, y).line(x+width, y+height).line(x, y+height).close()
}

func (p *pen) rounded(side, r float64) *pen {
	return p.move(r, 0).line(side-r, 0).quarter(false, side, r).
		line(side, side-r).quarter(true, side-r, side).
		line(r, side).quarter(false, 0, side-r).
		line(0, r).quarter(true, r, 0).close()
}
