package main

import (
	"fmt"
	"math"
	"strconv"
)

// matrix maps (x, y) to (ax+cy+e, bx+dy+f), as in SVG.
type matrix struct{ a, b, c, d, e, f float64 }

var identity = matrix{a: 1, d: 1}

func (m matrix) apply(x, y float64) (float64, float64) {
	return m.a*x + m.c*y + m.e, m.b*x + m.d*y + m.f
}

// then returns the matrix that applies n first and m after it.
func (m matrix) then(n matrix) matrix {
	return matrix{
		m.a*n.a + m.c*n.b, m.b*n.a + m.d*n.b,
		m.a*n.c + m.c*n.d, m.b*n.c + m.d*n.d,
		m.a*n.e + m.c*n.f + m.e, m.b*n.e + m.d*n.f + m.f,
	}
}

// pen receives an outline of lines and cubic curves.
type pen interface {
	moveTo(x, y float64)
	cubicTo(x1, y1, x2, y2, x, y float64)
	lineTo(x, y float64)
	close()
}

// pathReader parses path data.
type pathReader struct {
	d    string
	pos  int
	pen  pen
	x, y float64 // current point
	sx   float64 // start of the subpath
	sy   float64
	cx   float64 // last control point, for S and T
	cy   float64
	last byte // previous command, in upper case
}

// drawPath sends path data to a pen. All curves are converted to cubic ones.
func drawPath(d string, p pen) error {
	r := &pathReader{d: d, pen: p}
	var cmd byte
	for {
		r.skip()
		if r.pos >= len(r.d) {
			return nil
		}
		if c := r.d[r.pos]; isCommand(c) {
			cmd = c
			r.pos++
		} else if cmd == 0 {
			return fmt.Errorf("path data begins with %q", c)
		}
		if err := r.step(cmd); err != nil {
			return err
		}
		switch cmd { // the command for further numbers
		case 'M':
			cmd = 'L'
		case 'm':
			cmd = 'l'
		case 'Z', 'z':
			cmd = 0
		}
	}
}

func isCommand(c byte) bool {
	switch c | 0x20 {
	case 'm', 'l', 'h', 'v', 'c', 's', 'q', 't', 'a', 'z':
		return true
	}
	return false
}

func (r *pathReader) skip() {
	for r.pos < len(r.d) {
		switch r.d[r.pos] {
		case ' ', ',', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

func (r *pathReader) number() (float64, error) {
	r.skip()
	start, dot, exp := r.pos, false, false
	for r.pos < len(r.d) {
		c := r.d[r.pos]
		switch {
		case c >= '0' && c <= '9':
		case c == '.' && !dot && !exp:
			dot = true
		case (c == 'e' || c == 'E') && !exp && r.pos > start:
			exp = true
		case (c == '-' || c == '+') && (r.pos == start || r.d[r.pos-1]|0x20 == 'e'):
		default:
			return r.parse(start)
		}
		r.pos++
	}
	return r.parse(start)
}

func (r *pathReader) parse(start int) (float64, error) {
	v, err := strconv.ParseFloat(r.d[start:r.pos], 64)
	if err != nil {
		return 0, fmt.Errorf("path data at %d: %w", start, err)
	}
	return v, nil
}

// flag parses one of the two flags of an arc, which need no space after it.
func (r *pathReader) flag() (bool, error) {
	r.skip()
	if r.pos < len(r.d) && (r.d[r.pos] == '0' || r.d[r.pos] == '1') {
		r.pos++
		return r.d[r.pos-1] == '1', nil
	}
	return false, fmt.Errorf("path data at %d: no arc flag", r.pos)
}

func (r *pathReader) numbers(into ...*float64) error {
	for _, p := range into {
		v, err := r.number()
		if err != nil {
			return err
		}
		*p = v
	}
	return nil
}

func (r *pathReader) step(cmd byte) error {
	ox, oy := 0.0, 0.0
	if cmd >= 'a' {
		ox, oy = r.x, r.y
	}
	upper := cmd &^ 0x20
	var x1, y1, x2, y2, x, y float64
	var err error
	switch upper {
	case 'M', 'L', 'T':
		err = r.numbers(&x, &y)
	case 'H':
		err = r.numbers(&x)
		y = r.y - oy
	case 'V':
		err = r.numbers(&y)
		x = r.x - ox
	case 'C':
		err = r.numbers(&x1, &y1, &x2, &y2, &x, &y)
	case 'S':
		err = r.numbers(&x2, &y2, &x, &y)
	case 'Q':
		err = r.numbers(&x1, &y1, &x, &y)
	case 'A':
		return r.arc(ox, oy)
	case 'Z':
		r.pen.close()
		r.x, r.y, r.last = r.sx, r.sy, 'Z'
		return nil
	}
	if err != nil {
		return err
	}
	x, y = x+ox, y+oy
	switch upper {
	case 'M':
		r.pen.moveTo(x, y)
		r.sx, r.sy = x, y
	case 'L', 'H', 'V':
		r.pen.lineTo(x, y)
	case 'C':
		r.cubic(x1+ox, y1+oy, x2+ox, y2+oy, x, y)
	case 'S':
		x1, y1 = r.mirrored('C', 'S')
		r.cubic(x1, y1, x2+ox, y2+oy, x, y)
	case 'Q':
		r.quadratic(x1+ox, y1+oy, x, y)
	case 'T':
		x1, y1 = r.mirrored('Q', 'T')
		r.quadratic(x1, y1, x, y)
	}
	r.x, r.y, r.last = x, y, upper
	return nil
}

// mirrored returns the first control point of a smooth curve.
func (r *pathReader) mirrored(a, b byte) (float64, float64) {
	if r.last != a && r.last != b {
		return r.x, r.y
	}
	return 2*r.x - r.cx, 2*r.y - r.cy
}

func (r *pathReader) cubic(x1, y1, x2, y2, x, y float64) {
	r.cx, r.cy = x2, y2
	r.pen.cubicTo(x1, y1, x2, y2, x, y)
}

func (r *pathReader) quadratic(x1, y1, x, y float64) {
	r.cx, r.cy = x1, y1
	r.pen.cubicTo(r.x+2*(x1-r.x)/3, r.y+2*(y1-r.y)/3, x+2*(x1-x)/3, y+2*(y1-y)/3, x, y)
}

// arc follows the notes on elliptical arcs of the SVG specification (appendix B.2).
func (r *pathReader) arc(ox, oy float64) error {
	var rx, ry, turn, x, y float64
	if err := r.numbers(&rx, &ry, &turn); err != nil {
		return err
	}
	large, err := r.flag()
	if err != nil {
		return err
	}
	sweep, err := r.flag()
	if err != nil {
		return err
	}
	if err := r.numbers(&x, &y); err != nil {
		return err
	}
	x, y = x+ox, y+oy
	r.arcTo(math.Abs(rx), math.Abs(ry), turn*math.Pi/180, large, sweep, x, y)
	r.x, r.y, r.last = x, y, 'A'
	return nil
}

func (r *pathReader) arcTo(rx, ry, turn float64, large, sweep bool, x, y float64) {
	if rx == 0 || ry == 0 || (x == r.x && y == r.y) {
		r.pen.lineTo(x, y)
		return
	}
	sin, cos := math.Sincos(turn)
	dx, dy := (r.x-x)/2, (r.y-y)/2
	px, py := cos*dx+sin*dy, -sin*dx+cos*dy
	if grow := px*px/(rx*rx) + py*py/(ry*ry); grow > 1 {
		rx, ry = rx*math.Sqrt(grow), ry*math.Sqrt(grow)
	}
	k := math.Sqrt(math.Max(0, (rx*rx*ry*ry-rx*rx*py*py-ry*ry*px*px)/(rx*rx*py*py+ry*ry*px*px)))
	if large == sweep {
		k = -k
	}
	mx, my := k*rx*py/ry, -k*ry*px/rx
	center := matrix{cos * rx, sin * rx, -sin * ry, cos * ry, cos*mx - sin*my + (r.x+x)/2, sin*mx + cos*my + (r.y+y)/2}
	from := math.Atan2((py-my)/ry, (px-mx)/rx)
	delta := math.Atan2((-py-my)/ry, (-px-mx)/rx) - from
	switch {
	case sweep && delta < 0:
		delta += 2 * math.Pi
	case !sweep && delta > 0:
		delta -= 2 * math.Pi
	}
	ellipse(r.pen, center, from, delta)
}

// ellipse draws a part of the unit circle with a matrix, in pieces of at most a quarter turn.
func ellipse(p pen, m matrix, from, delta float64) {
	n := int(math.Ceil(math.Abs(delta) / (math.Pi/2 + 1e-9)))
	step := delta / float64(n)
	h := 4.0 / 3 * math.Tan(step/4) // length of the handles of a cubic that approximates an arc
	for i := range n {
		a := from + float64(i)*step
		s0, c0 := math.Sincos(a)
		s1, c1 := math.Sincos(a + step)
		x1, y1 := m.apply(c0-h*s0, s0+h*c0)
		x2, y2 := m.apply(c1+h*s1, s1-h*c1)
		x, y := m.apply(c1, s1)
		p.cubicTo(x1, y1, x2, y2, x, y)
	}
}
