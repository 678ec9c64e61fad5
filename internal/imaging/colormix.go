package imaging

import (
	"math"
	"strconv"
	"strings"
)

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
