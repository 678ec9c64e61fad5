package imaging

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// RGB is an sRGB color.
type RGB struct{ R, G, B uint8 }

// White and Black are backgrounds for flattening.
var (
	White = RGB{0xff, 0xff, 0xff}
	Black = RGB{}
)

// Hex returns the color as #rrggbb in lower case.
func (c RGB) Hex() string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// Luma returns the Rec. 709 luma of the sRGB bytes, 0 to 255.
func (c RGB) Luma() float64 {
	return 0.2126*float64(c.R) + 0.7152*float64(c.G) + 0.0722*float64(c.B)
}

// Brightness returns Luma, rounded.
func (c RGB) Brightness() int { return int(math.Round(c.Luma())) }

// Chroma returns the difference of the largest and the smallest channel, from 0 for greys to 255.
func (c RGB) Chroma() int {
	return int(max(c.R, c.G, c.B)) - int(min(c.R, c.G, c.B))
}

type lab struct{ l, a, b float64 }

// toLab converts through linear sRGB and CIE XYZ at D65 (IEC 61966-2-1, CIE 15).
func (c RGB) toLab() lab {
	r, g, b := linearLight[c.R], linearLight[c.G], linearLight[c.B]
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124564*r + 0.3575761*g + 0.1804375*b) / 0.95047)
	y := f(0.2126729*r + 0.7151522*g + 0.0721750*b)
	z := f((0.0193339*r + 0.1191920*g + 0.9503041*b) / 1.08883)
	return lab{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// DeltaE returns the perceptual difference of two colors: CIEDE2000, where 1 is just visible and 100 is black to white.
func DeltaE(a, b RGB) float64 { return ciede2000(a.toLab(), b.toLab()) }

// ciede2000 follows Sharma, Wu, Dalal: The CIEDE2000 Color-Difference Formula, 2005, with all weights 1.
func ciede2000(p, q lab) float64 {
	const pow25to7 = 6103515625.0
	meanC := (math.Hypot(p.a, p.b) + math.Hypot(q.a, q.b)) / 2
	c7 := math.Pow(meanC, 7)
	g := 0.5 * (1 - math.Sqrt(c7/(c7+pow25to7)))
	a1, a2 := (1+g)*p.a, (1+g)*q.a
	c1, c2 := math.Hypot(a1, p.b), math.Hypot(a2, q.b)
	h1, h2 := hueAngle(a1, p.b), hueAngle(a2, q.b)

	dL, dC := q.l-p.l, c2-c1
	dh, meanH := 0.0, h1+h2
	if c1*c2 != 0 {
		dh = h2 - h1
		switch {
		case dh > 180:
			dh -= 360
		case dh < -180:
			dh += 360
		}
		switch {
		case math.Abs(h1-h2) <= 180:
			meanH = (h1 + h2) / 2
		case h1+h2 < 360:
			meanH = (h1 + h2 + 360) / 2
		default:
			meanH = (h1 + h2 - 360) / 2
		}
	}
	dH := 2 * math.Sqrt(c1*c2) * math.Sin(radians(dh/2))

	meanL, meanC2 := (p.l+q.l)/2, (c1+c2)/2
	t := 1 - 0.17*math.Cos(radians(meanH-30)) + 0.24*math.Cos(radians(2*meanH)) +
		0.32*math.Cos(radians(3*meanH+6)) - 0.20*math.Cos(radians(4*meanH-63))
	c7 = math.Pow(meanC2, 7)
	rotation := -2 * math.Sqrt(c7/(c7+pow25to7)) * math.Sin(radians(60*math.Exp(-math.Pow((meanH-275)/25, 2))))
	l50 := (meanL - 50) * (meanL - 50)
	sL, sC, sH := 1+0.015*l50/math.Sqrt(20+l50), 1+0.045*meanC2, 1+0.015*meanC2*t
	l, c, h := dL/sL, dC/sC, dH/sH
	return math.Sqrt(l*l + c*c + h*h + rotation*c*h)
}

func hueAngle(a, b float64) float64 {
	if a == 0 && b == 0 {
		return 0
	}
	h := math.Atan2(b, a) * 180 / math.Pi
	if h < 0 {
		h += 360
	}
	return h
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }

// Swatch is one color of an image and its share of the ink.
type Swatch struct {
	Color RGB
	Share float64 // of all ink, 0 to 1
}

const (
	// mergeDeltaE is the distance below which two colors count as one brand color.
	mergeDeltaE = 8
	// minShare drops remains of anti-aliasing and JPEG noise.
	minShare = 0.005
	// maxSwatches limits a palette. A photo has thousands of colors, a brand has few.
	maxSwatches = 12
	// maxMerged limits the colors that are compared: the heaviest ones decide.
	maxMerged = 512
)

// weighted is a color with its weight.
type weighted struct {
	color  RGB
	weight float64
}

// mergePalette merges similar colors into the heaviest of them and returns the
// palette, largest share first. It does not depend on the order of its input.
func mergePalette(colors []weighted) []Swatch {
	total := 0.0
	for _, c := range colors {
		total += c.weight
	}
	if total <= 0 {
		return nil
	}
	slices.SortFunc(colors, func(a, b weighted) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), rank(a.color)-rank(b.color))
	})
	var merged []weighted
	var labs []lab
	for _, c := range colors[:min(len(colors), maxMerged)] {
		cl := c.color.toLab()
		if i := slices.IndexFunc(labs, func(l lab) bool { return ciede2000(l, cl) < mergeDeltaE }); i >= 0 {
			merged[i].weight += c.weight
			continue
		}
		merged, labs = append(merged, c), append(labs, cl)
	}
	var palette []Swatch
	for _, m := range merged {
		if share := m.weight / total; share >= minShare {
			palette = append(palette, Swatch{m.color, share})
		}
	}
	slices.SortFunc(palette, func(a, b Swatch) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), rank(a.Color)-rank(b.Color))
	})
	return palette[:min(len(palette), maxSwatches)]
}

// rank orders colors of equal weight, so that a palette does not depend on map order.
func rank(c RGB) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }

// mixSpace is a color space of color-mix(): the coordinates of a color, in the units of back, and the index of its hue
// among them, or -1.
type mixSpace struct {
	to   func(RGB) [3]float64
	back func([3]float64) RGB
	hue  int
}

// mixSpaces are the spaces of color-mix() that are supported. All XYZ spaces mix as linear light.
var mixSpaces = func() map[string]mixSpace {
	linear := mixSpace{RGB.linear, func(v [3]float64) RGB { return FromLinear(v[0], v[1], v[2]) }, -1}
	return map[string]mixSpace{
		"srgb": {func(c RGB) [3]float64 { return [3]float64{float64(c.R), float64(c.G), float64(c.B)} },
			colorSpaces["rgb"], -1},
		"srgb-linear": linear, "xyz": linear, "xyz-d50": linear, "xyz-d65": linear,
		"oklab": {RGB.oklab, colorSpaces["oklab"], -1},
		"oklch": {func(c RGB) [3]float64 {
			lightness, chroma, hue := c.OKLCH()
			return [3]float64{lightness, chroma, hue}
		}, colorSpaces["oklch"], 2},
		"hsl": {func(c RGB) [3]float64 {
			hue, saturation, lightness := c.hsl()
			return [3]float64{hue, 100 * saturation, 100 * lightness}
		}, colorSpaces["hsl"], 0},
	}
}()

// mixColors computes the arguments of color-mix(): "in oklch, red 40%, blue" (CSS Color 5, section 2).
func mixColors(arguments string) (RGB, float64, bool) {
	args := splitArguments(arguments)
	how := []string{"in", "oklab"} // the default of CSS Color 5
	if strings.HasPrefix(args[0], "in ") {
		how, args = strings.Fields(args[0]), args[1:]
	}
	space, known := mixSpaces[how[1]]
	if len(args) != 2 || !known || len(how) > 2 && how[2] != "shorter" {
		return RGB{}, 0, false
	}
	a, alphaA, shareA, okA := mixPart(args[0])
	b, alphaB, shareB, okB := mixPart(args[1])
	switch {
	case shareA < 0 && shareB < 0:
		shareA, shareB = 0.5, 0.5
	case shareA < 0:
		shareA = 1 - shareB
	case shareB < 0:
		shareB = 1 - shareA
	}
	total := shareA + shareB
	if !okA || !okB || total <= 0 {
		return RGB{}, 0, false
	}
	shareA, shareB = shareA/total, shareB/total
	alpha := alphaA*shareA + alphaB*shareB
	if alpha <= 0 {
		return RGB{}, 0, true
	}
	x, y := space.to(a), space.to(b)
	if alphaA == 0 { // its color does not count
		x = y
	} else if alphaB == 0 {
		y = x
	}
	var mixed [3]float64
	for i := range mixed {
		if i == space.hue {
			const colorless = 1e-3
			switch { // a gray has no hue
			case x[1] < colorless:
				x[i] = y[i]
			case y[1] < colorless:
				y[i] = x[i]
			}
			mixed[i] = x[i]*shareA + turned(x[i], y[i])*shareB
			continue
		}
		mixed[i] = (x[i]*alphaA*shareA + y[i]*alphaB*shareB) / alpha
	}
	return space.back(mixed), alpha * min(total, 1), true
}

// turned returns the second hue plus or minus a turn, so that the mean with the first is on the shorter arc.
func turned(from, to float64) float64 {
	switch by := to - from; {
	case by > 180:
		return to - 360
	case by < -180:
		return to + 360
	}
	return to
}

// mixPart parses a color with a percentage before or after it; the share is -1 if there is none.
func mixPart(text string) (c RGB, alpha, share float64, ok bool) {
	share = -1
	first, last := strings.IndexByte(text, ' '), strings.LastIndexByte(text, ' ')
	if first > 0 {
		if v, ok := percentage(text[:first]); ok {
			text, share = text[first:], v
		} else if v, ok := percentage(text[last+1:]); ok {
			text, share = text[:last], v
		}
	}
	c, alpha, ok = ParseColor(text)
	return c, alpha, share, ok
}

func percentage(text string) (float64, bool) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	return v / 100, percent && err == nil && v >= 0 && v <= 100
}

// splitArguments splits a text at commas outside of parentheses.
func splitArguments(text string) []string {
	var out []string
	start, depth := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(text[start:i]))
				start = i + 1
			}
		}
	}
	return append(out, strings.TrimSpace(text[start:]))
}

func (c RGB) linear() [3]float64 {
	return [3]float64{linearLight[c.R], linearLight[c.G], linearLight[c.B]}
}

// oklab is the inverse of OKLabToLinear.
func (c RGB) oklab() [3]float64 {
	v := c.linear()
	l := math.Cbrt(0.4122214708*v[0] + 0.5363325363*v[1] + 0.0514459929*v[2])
	m := math.Cbrt(0.2119034982*v[0] + 0.6806995451*v[1] + 0.1073969566*v[2])
	s := math.Cbrt(0.0883024619*v[0] + 0.2817188376*v[1] + 0.6299787005*v[2])
	return [3]float64{0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s, 0.0259040371*l + 0.7827717662*m - 0.8086757660*s}
}

// OKLCH returns the lightness, 0 to 1, the chroma, 0 to about 0.32, and the hue in degrees (Ottosson, A perceptual color
// space for image processing, 2020).
func (c RGB) OKLCH() (lightness, chroma, hue float64) {
	v := c.oklab()
	return v[0], math.Hypot(v[1], v[2]), hueAngle(v[1], v[2])
}
