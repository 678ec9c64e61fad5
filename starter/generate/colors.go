package main

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"letterhead/eventschemas"
)

// rgb is an sRGB color.
type rgb struct{ r, g, b uint8 }

func (c rgb) hex() string { return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b) }

// luma is Rec.709 on the sRGB bytes, 0 to 255, as the API's brightness.
func (c rgb) luma() float64 { return 0.2126*float64(c.r) + 0.7152*float64(c.g) + 0.0722*float64(c.b) }

// chromatic says whether a color is more than a shade of gray.
func (c rgb) chromatic() bool {
	return int(max(c.r, c.g, c.b))-int(min(c.r, c.g, c.b)) >= minChroma
}

// Thresholds of the extraction rules that a crawl uses as well.
const (
	minChroma   = 40  // distance of the largest and smallest channel from which a color is chromatic
	darkBelow   = 80  // luma
	lightAbove  = 200 // luma
	lightInk    = 128 // mean luma above which ink is light
	mergeWithin = 8   // CIEDE2000 below which two colors are one
	minShare    = 0.04
	maxColors   = 6
)

var namedColors = map[string]rgb{
	"black": {}, "white": {255, 255, 255}, "red": {255, 0, 0}, "gray": {128, 128, 128}, "silver": {192, 192, 192},
	"navy": {0, 0, 128}, "blue": {0, 0, 255}, "green": {0, 128, 0}, "teal": {0, 128, 128}, "tan": {210, 180, 140},
	"tomato": {255, 99, 71}, "orange": {255, 165, 0}, "gold": {255, 215, 0}, "purple": {128, 0, 128},
	"maroon": {128, 0, 0}, "olive": {128, 128, 0}, "snow": {255, 250, 250}, "coral": {255, 127, 80},
	"indigo": {75, 0, 130}, "pink": {255, 192, 203}, "azure": {240, 255, 255}, "linen": {250, 240, 230},
	"currentColor": {},
}

// parseColor reads what the drawings use: hex digits and a few names.
func parseColor(s string) (rgb, bool) {
	s = strings.TrimSpace(s)
	if c, ok := namedColors[s]; ok {
		return c, true
	}
	digits, ok := strings.CutPrefix(s, "#")
	if !ok {
		return rgb{}, false
	}
	if len(digits) == 3 || len(digits) == 4 {
		digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
	}
	if len(digits) < 6 {
		return rgb{}, false
	}
	v, err := strconv.ParseUint(digits[:6], 16, 32)
	if err != nil {
		return rgb{}, false
	}
	return rgb{uint8(v >> 16), uint8(v >> 8), uint8(v)}, true
}

// share is a color and how much of the ink it covers, 0 to 1.
type share struct {
	color rgb
	part  float64
}

// mainColors merges near colors and leaves out the small ones, the largest first.
func mainColors(in []share) []share {
	sorted := append([]share(nil), in...)
	sort.Slice(sorted, func(i, j int) bool {
		if sorted[i].part != sorted[j].part {
			return sorted[i].part > sorted[j].part
		}
		return sorted[i].color.hex() < sorted[j].color.hex()
	})
	var out []share
merging:
	for _, s := range sorted {
		for i := range out {
			if distance(out[i].color, s.color) < mergeWithin {
				out[i].part += s.part
				continue merging
			}
		}
		out = append(out, s)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].part > out[j].part })
	for i, s := range out {
		if s.part < minShare {
			return out[:i]
		}
	}
	return out
}

// brandColors gives the colors of a record: one accent first, then at most one dark and one light, then
// the rest. declared is the brand's own word on its color; without it the accent is the largest chromatic
// color, and for a brand without one its ink.
func brandColors(declared *rgb, palette []share) []eventschemas.Color {
	var accent rgb
	switch {
	case declared != nil:
		accent = *declared
	case len(palette) == 0:
		return []eventschemas.Color{}
	default:
		accent = palette[0].color
		for _, s := range palette {
			if s.color.chromatic() {
				accent = s.color
				break
			}
		}
	}
	out := []eventschemas.Color{colorOf(accent, "accent")}
	var rest []rgb
	for _, s := range palette {
		if distance(s.color, accent) >= mergeWithin && len(rest)+1 < maxColors {
			rest = append(rest, s.color)
		}
	}
	dark, light := -1, -1
	for i, c := range rest {
		if c.luma() < darkBelow && (dark < 0 || c.luma() < rest[dark].luma()) {
			dark = i
		}
		if c.luma() > lightAbove && (light < 0 || c.luma() > rest[light].luma()) {
			light = i
		}
	}
	if dark >= 0 {
		out = append(out, colorOf(rest[dark], "dark"))
	}
	if light >= 0 {
		out = append(out, colorOf(rest[light], "light"))
	}
	for i, c := range rest {
		if i != dark && i != light {
			out = append(out, colorOf(c, "brand"))
		}
	}
	return out
}

func colorOf(c rgb, kind string) eventschemas.Color {
	return eventschemas.Color{Hex: c.hex(), Type: kind, Brightness: int(math.Round(c.luma()))}
}

// lab converts to CIE L*a*b* under D65.
func (c rgb) lab() (l, a, b float64) {
	linear := func(v uint8) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	r, g, bl := linear(c.r), linear(c.g), linear(c.b)
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124564*r + 0.3575761*g + 0.1804375*bl) / 0.95047)
	y := f(0.2126729*r + 0.7151522*g + 0.0721750*bl)
	z := f((0.0193339*r + 0.1191920*g + 0.9503041*bl) / 1.08883)
	return 116*y - 16, 500 * (x - y), 200 * (y - z)
}

// distance is CIEDE2000 (Sharma, Wu, Dalal 2005) with all weights 1.
func distance(p, q rgb) float64 {
	l1, a1, b1 := p.lab()
	l2, a2, b2 := q.lab()
	c7 := math.Pow((math.Hypot(a1, b1)+math.Hypot(a2, b2))/2, 7)
	g := 0.5 * (1 - math.Sqrt(c7/(c7+math.Pow(25, 7))))
	a1, a2 = a1*(1+g), a2*(1+g)
	c1, c2 := math.Hypot(a1, b1), math.Hypot(a2, b2)
	h1, h2 := hue(a1, b1), hue(a2, b2)

	dh := 0.0
	hm := h1 + h2
	if c1*c2 != 0 {
		switch dh = h2 - h1; {
		case dh > 180:
			dh -= 360
		case dh < -180:
			dh += 360
		}
		switch {
		case math.Abs(h1-h2) <= 180:
			hm /= 2
		case hm < 360:
			hm = (hm + 360) / 2
		default:
			hm = (hm - 360) / 2
		}
	}
	dl, dc := l2-l1, c2-c1
	dH := 2 * math.Sqrt(c1*c2) * sinDeg(dh/2)
	lm, cm := (l1+l2)/2, (c1+c2)/2
	t := 1 - 0.17*cosDeg(hm-30) + 0.24*cosDeg(2*hm) + 0.32*cosDeg(3*hm+6) - 0.20*cosDeg(4*hm-63)
	sl := 1 + 0.015*(lm-50)*(lm-50)/math.Sqrt(20+(lm-50)*(lm-50))
	sc := 1 + 0.045*cm
	sh := 1 + 0.015*cm*t
	cm7 := math.Pow(cm, 7)
	rt := -2 * math.Sqrt(cm7/(cm7+math.Pow(25, 7))) * sinDeg(60*math.Exp(-math.Pow((hm-275)/25, 2)))
	return math.Sqrt(math.Pow(dl/sl, 2) + math.Pow(dc/sc, 2) + math.Pow(dH/sh, 2) + rt*(dc/sc)*(dH/sh))
}

func hue(a, b float64) float64 {
	if a == 0 && b == 0 {
		return 0
	}
	h := math.Atan2(b, a) * 180 / math.Pi
	if h < 0 {
		h += 360
	}
	return h
}

func sinDeg(d float64) float64 { return math.Sin(d * math.Pi / 180) }
func cosDeg(d float64) float64 { return math.Cos(d * math.Pi / 180) }
