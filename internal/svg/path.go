package svg

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// maxCoordinate limits every number of a document. Drawings in thousandths of
// an inch stay below it; larger ones could keep a renderer busy endlessly.
const maxCoordinate = 1e6

// maxFactor limits the numbers of transforms, where drawing programs compensate one large number by another.
const maxFactor = 1e12

// scanner parses the numbers of SVG attributes, in which separators are optional if unambiguous: "1-2.5.5".
type scanner struct {
	s    string
	at   int
	most float64 // largest absolute value allowed; 0 means maxCoordinate
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

// one skips one of some characters, and reports whether there is one.
func (s *scanner) one(of string) bool {
	is := !s.done() && strings.IndexByte(of, s.s[s.at]) >= 0
	if is {
		s.at++
	}
	return is
}

// all skips all of some characters, and returns how many there are.
func (s *scanner) all(of string) (count int) {
	for s.one(of) {
		count++
	}
	return count
}

func (s *scanner) skipSpace() { s.all(" \t\n\r\f") }

// skipSeparator skips white space with at most one comma.
func (s *scanner) skipSeparator() {
	s.skipSpace()
	if s.one(",") {
		s.skipSpace()
	}
}

const digits = "0123456789"

// number parses one number within the limit.
func (s *scanner) number() (float64, bool) {
	from := s.at
	s.one("+-")
	count := s.all(digits)
	if s.one(".") {
		count += s.all(digits)
	}
	if count == 0 {
		s.at = from
		return 0, false
	}
	s.exponent()
	v, err := strconv.ParseFloat(s.s[from:s.at], 64)
	if err != nil || math.Abs(v) > cmp.Or(s.most, maxCoordinate) {
		s.at = from
		return 0, false
	}
	return v, true
}

// numbers parses numbers up to the first mistake.
func (s *scanner) numbers() (out []float64) {
	for !s.done() {
		v, ok := s.number()
		if !ok {
			break
		}
		out = append(out, v)
		s.skipSeparator()
	}
	return out
}

// exponent parses e±digits, unless the e begins a unit (2em).
func (s *scanner) exponent() {
	from := s.at
	if !s.one("eE") {
		return
	}
	if s.one("+-"); s.all(digits) == 0 {
		s.at = from
	}
}

// flag parses a 0 or 1 of an arc, which may directly precede the next number.
func (s *scanner) flag() (set, ok bool) {
	set = s.one("1")
	return set, set || s.one("0")
}

func (s *scanner) done() bool { return s.at >= len(s.s) }

// parseNumbers parses a list of only numbers, none beyond most.
func parseNumbers(text string, most float64) ([]float64, bool) {
	s := &scanner{s: strings.TrimSpace(text), most: most}
	out := s.numbers()
	return out, s.done() && len(out) > 0
}

// formatNumber formats a number in the shortest form that parses to the same
// value, without an exponent. Invisibly small values are 0.
func formatNumber(v float64) string {
	if math.Abs(v) < 1e-9 {
		return "0"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func joinNumbers(n []float64) string {
	parts := make([]string, len(n))
	for i, v := range n {
		parts[i] = formatNumber(v)
	}
	return strings.Join(parts, " ")
}

func cleanNumbers(text string, most float64) (string, bool) {
	n, ok := parseNumbers(text, most)
	return joinNumbers(n), ok
}

// cleanPoints keeps complete pairs up to the first mistake, as renderers do.
func cleanPoints(text string) (string, bool) {
	s := &scanner{s: text}
	s.skipSpace()
	n := s.numbers()
	n = n[:len(n)/2*2]
	return joinNumbers(n), len(n) > 0
}

// units is the size of units of length in pixels (CSS Values 4, absolute lengths).
var units = map[string]float64{
	"": 1, "px": 1, "pt": 4.0 / 3, "pc": 16, "in": 96, "cm": 96 / 2.54, "mm": 96 / 25.4, "Q": 96 / 101.6,
}

// relativeUnits depend on a font or on the context.
var relativeUnits = setOf("%", "em", "ex", "rem", "ch")

type length struct {
	value float64
	unit  string
}

func parseLengths(text string) ([]length, bool) {
	s := &scanner{s: strings.TrimSpace(text)}
	var out []length
	for !s.done() {
		v, ok := s.number()
		if !ok {
			return nil, false
		}
		from := s.at
		for !s.done() && !isSpace(s.s[s.at]) && s.s[s.at] != ',' {
			s.at++
		}
		unit := s.s[from:s.at]
		if _, absolute := units[unit]; !absolute && !relativeUnits[unit] {
			return nil, false
		}
		out = append(out, length{v, unit})
		s.skipSeparator()
	}
	return out, len(out) > 0
}

func cleanLengths(text string) (string, bool) {
	list, ok := parseLengths(text)
	if !ok {
		return "", false
	}
	parts := make([]string, len(list))
	for i, l := range list {
		parts[i] = formatNumber(l.value) + l.unit
	}
	return strings.Join(parts, " "), true
}

// pixels returns a single length in pixels; it returns false for other values and for relative ones.
func pixels(text string) (float64, bool) {
	list, ok := parseLengths(text)
	if !ok || len(list) != 1 {
		return 0, false
	}
	factor, absolute := units[list[0].unit]
	return list[0].value * factor, absolute
}

// cleanPath keeps path data up to the first mistake, as renderers do.
func cleanPath(text string) (string, bool) {
	_, end := measurePath(text)
	text = strings.Join(strings.Fields(text[:end]), " ")
	return text, text != ""
}

// outline measures a shape: its length, and its bounding box.
type outline struct {
	length                 float64
	minX, minY, maxX, maxY float64
	points                 int
	startX, startY, x, y   float64
	controlX, controlY     float64 // of the last curve, for smooth ones
	last                   byte    // command, in lower case
}

func (o *outline) width() float64  { return o.maxX - o.minX }
func (o *outline) height() float64 { return o.maxY - o.minY }

func (o *outline) include(x, y float64) {
	if o.points == 0 {
		o.minX, o.minY, o.maxX, o.maxY = x, y, x, y
	}
	o.points++
	o.minX, o.minY = math.Min(o.minX, x), math.Min(o.minY, y)
	o.maxX, o.maxY = math.Max(o.maxX, x), math.Max(o.maxY, y)
}

func (o *outline) move(x, y float64) {
	o.startX, o.startY, o.x, o.y = x, y, x, y
}

func (o *outline) line(x, y float64) {
	if o.points == 0 || o.x == o.startX && o.y == o.startY {
		o.include(o.x, o.y)
	}
	o.include(x, y)
	o.length += math.Hypot(x-o.x, y-o.y)
	o.x, o.y = x, y
}

// close returns to the start; the length of the closing line is negligible.
func (o *outline) close() {
	o.x, o.y = o.startX, o.startY
}

// The number of lines that approximate a curve.
const (
	curveSteps = 6
	arcSteps   = 8
)

func (o *outline) cubic(x1, y1, x2, y2, x, y float64) {
	x0, y0 := o.x, o.y
	for i := 1; i <= curveSteps; i++ {
		t := float64(i) / curveSteps
		a, b, c, d := (1-t)*(1-t)*(1-t), 3*t*(1-t)*(1-t), 3*t*t*(1-t), t*t*t
		o.line(a*x0+b*x1+c*x2+d*x, a*y0+b*y1+c*y2+d*y)
	}
	o.controlX, o.controlY = x2, y2
}

func (o *outline) quadratic(x1, y1, x, y float64) {
	o.cubic(o.x+(x1-o.x)*2/3, o.y+(y1-o.y)*2/3, x+(x1-x)*2/3, y+(y1-y)*2/3, x, y)
	o.controlX, o.controlY = x1, y1
}

// arc follows the conversion to a center in SVG 1.1, appendix F.6.
func (o *outline) arc(rx, ry, degrees float64, large, sweep bool, x, y float64) {
	rx, ry = math.Abs(rx), math.Abs(ry)
	x0, y0 := o.x, o.y
	if rx == 0 || ry == 0 || x0 == x && y0 == y {
		o.line(x, y)
		return
	}
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	hx, hy := (x0-x)/2, (y0-y)/2
	px, py := cos*hx+sin*hy, -sin*hx+cos*hy
	if scale := px*px/(rx*rx) + py*py/(ry*ry); scale > 1 {
		rx, ry = rx*math.Sqrt(scale), ry*math.Sqrt(scale)
	}
	square := (rx*rx*ry*ry - rx*rx*py*py - ry*ry*px*px) / (rx*rx*py*py + ry*ry*px*px)
	factor := math.Sqrt(math.Max(0, square))
	if large == sweep {
		factor = -factor
	}
	cxp, cyp := factor*rx*py/ry, -factor*ry*px/rx
	cx, cy := cos*cxp-sin*cyp+(x0+x)/2, sin*cxp+cos*cyp+(y0+y)/2
	from := math.Atan2((py-cyp)/ry, (px-cxp)/rx)
	turn := math.Atan2((-py-cyp)/ry, (-px-cxp)/rx) - from
	switch {
	case sweep && turn < 0:
		turn += 2 * math.Pi
	case !sweep && turn > 0:
		turn -= 2 * math.Pi
	}
	for i := 1; i < arcSteps; i++ {
		s, c := math.Sincos(from + turn*float64(i)/arcSteps)
		o.line(cx+rx*c*cos-ry*s*sin, cy+rx*c*sin+ry*s*cos)
	}
	o.line(x, y)
}

// argumentCount of each command, in lower case.
var argumentCount = map[byte]int{'m': 2, 'l': 2, 'h': 1, 'v': 1, 'c': 6, 's': 4, 'q': 4, 't': 2, 'a': 7, 'z': 0}

// measurePath parses path data and returns the shape, and the end of the valid data.
func measurePath(text string) (outline, int) {
	s := &scanner{s: text}
	var o outline
	end := 0
	command := byte(0)
	s.skipSpace()
	for !s.done() {
		c := s.s[s.at]
		if _, isCommand := argumentCount[c|0x20]; isCommand && c > '@' {
			if end == 0 && c|0x20 != 'm' {
				break // a path begins with a move
			}
			command = c
			s.at++
			s.skipSpace()
		} else if command == 0 || command|0x20 == 'z' {
			break
		}
		args, ok := readArguments(s, command)
		if !ok {
			break
		}
		o.do(command, args)
		switch command { // further pairs after a move are lines
		case 'm':
			command = 'l'
		case 'M':
			command = 'L'
		}
		end = s.at
		s.skipSeparator()
	}
	o.close()
	return o, end
}

func readArguments(s *scanner, command byte) (args [7]float64, ok bool) {
	isArc := command|0x20 == 'a'
	for i := range argumentCount[command|0x20] {
		if i > 0 {
			s.skipSeparator()
		}
		if isArc && (i == 3 || i == 4) {
			set, ok := s.flag()
			if !ok {
				return args, false
			}
			if set {
				args[i] = 1
			}
			continue
		}
		if args[i], ok = s.number(); !ok {
			return args, false
		}
	}
	return args, true
}

func (o *outline) do(command byte, a [7]float64) {
	x, y := 0.0, 0.0 // origin of relative coordinates
	if command >= 'a' {
		x, y = o.x, o.y
	}
	lower := command | 0x20
	controlX, controlY := o.x, o.y
	if lower == o.last || lower == 's' && o.last == 'c' || lower == 't' && o.last == 'q' {
		controlX, controlY = 2*o.x-o.controlX, 2*o.y-o.controlY
	}
	o.last = lower
	switch lower {
	case 'm':
		o.move(x+a[0], y+a[1])
	case 'z':
		o.close()
	case 'l':
		o.line(x+a[0], y+a[1])
	case 'h':
		o.line(x+a[0], o.y)
	case 'v':
		o.line(o.x, y+a[0])
	case 'c':
		o.cubic(x+a[0], y+a[1], x+a[2], y+a[3], x+a[4], y+a[5])
	case 's':
		o.cubic(controlX, controlY, x+a[0], y+a[1], x+a[2], y+a[3])
	case 'q':
		o.quadratic(x+a[0], y+a[1], x+a[2], y+a[3])
	case 't':
		o.quadratic(controlX, controlY, x+a[0], y+a[1])
	case 'a':
		o.arc(a[0], a[1], a[2], a[3] == 1, a[4] == 1, x+a[5], y+a[6])
	}
}

// matrix is an affine transform: x' = a x + c y + e, y' = b x + d y + f.
type matrix struct{ a, b, c, d, e, f float64 }

var identity = matrix{a: 1, d: 1}

// times returns the transform that applies n first and then m.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m.a*n.a + m.c*n.b, m.b*n.a + m.d*n.b,
		m.a*n.c + m.c*n.d, m.b*n.c + m.d*n.d,
		m.a*n.e + m.c*n.f + m.e, m.b*n.e + m.d*n.f + m.f,
	}
}

// transformArguments lists the numbers of arguments of a function, zero-terminated.
var transformArguments = map[string][3]int{
	"matrix": {6}, "translate": {1, 2}, "scale": {1, 2}, "rotate": {1, 3}, "skewX": {1}, "skewY": {1},
}

// maxTransforms limits the functions of one list.
const maxTransforms = 64

// cleanTransform rebuilds a list of transforms.
func cleanTransform(text string) (string, bool) {
	_, clean, ok := parseTransform(text)
	return clean, ok
}

func parseTransform(text string) (m matrix, clean string, ok bool) {
	m = identity
	var parts []string
	rest := strings.TrimSpace(text)
	for rest != "" && len(parts) < maxTransforms {
		name, after, found := strings.Cut(rest, "(")
		inside, tail, closed := strings.Cut(after, ")")
		name = strings.TrimSpace(name)
		numbers, valid := parseNumbers(inside, maxFactor)
		counts, known := transformArguments[name]
		if !found || !closed || !valid || !known || len(numbers) != counts[0] && len(numbers) != counts[1] {
			return identity, "", false
		}
		m = m.times(transformOf(name, numbers))
		parts = append(parts, name+"("+joinNumbers(numbers)+")")
		rest = strings.TrimLeft(tail, " \t\r\n\f,")
	}
	return m, strings.Join(parts, " "), len(parts) > 0 && rest == ""
}

func transformOf(name string, n []float64) matrix {
	switch name {
	case "matrix":
		return matrix{n[0], n[1], n[2], n[3], n[4], n[5]}
	case "translate":
		m := identity
		m.e = n[0]
		if len(n) > 1 {
			m.f = n[1]
		}
		return m
	case "scale":
		return matrix{a: n[0], d: n[len(n)-1]}
	case "skewX":
		return matrix{a: 1, c: math.Tan(n[0] * math.Pi / 180), d: 1}
	case "skewY":
		return matrix{a: 1, b: math.Tan(n[0] * math.Pi / 180), d: 1}
	}
	sin, cos := math.Sincos(n[0] * math.Pi / 180)
	r := matrix{cos, sin, -sin, cos, 0, 0}
	if len(n) == 3 {
		return matrix{1, 0, 0, 1, n[1], n[2]}.times(r).times(matrix{1, 0, 0, 1, -n[1], -n[2]})
	}
	return r
}
