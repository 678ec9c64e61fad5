package imaging

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/colornames"
)

// ParseColor parses a CSS color: a name, hex, rgb(), hsl(), hwb(), lab(), lch(), oklab(), oklch(), color() in sRGB, or
// color-mix() in some spaces, with its alpha, 0 to 1. Colors outside sRGB are clipped. currentcolor, none, var() and
// the like are not colors.
func ParseColor(css string) (c RGB, alpha float64, ok bool) {
	const longest = 512
	css = strings.ToLower(strings.TrimSpace(css))
	if css == "" || len(css) > longest {
		return RGB{}, 0, false
	}
	if css == "transparent" {
		return RGB{}, 0, true
	}
	if hex, found := strings.CutPrefix(css, "#"); found {
		return parseHex(hex)
	}
	if named, found := colornames.Map[css]; found {
		return RGB{named.R, named.G, named.B}, 1, true
	}
	if css == "rebeccapurple" { // newer than the list
		return RGB{0x66, 0x33, 0x99}, 1, true
	}
	// Art in display-p3 is meant to look like its fallback in sRGB.
	if rest, found := strings.CutPrefix(css, "color(display-p3"); found {
		css = "color(srgb" + rest
	}
	name, inside, found := strings.Cut(css, "(")
	if !found || !strings.HasSuffix(inside, ")") {
		return RGB{}, 0, false
	}
	if inside = strings.TrimSuffix(inside, ")"); name == "color-mix" {
		return mixColors(inside)
	}
	return colorFunction(name, inside)
}

func parseHex(hex string) (RGB, float64, bool) {
	if len(hex) == 3 || len(hex) == 4 {
		var b strings.Builder
		for i := range len(hex) {
			b.WriteByte(hex[i])
			b.WriteByte(hex[i])
		}
		hex = b.String()
	}
	if len(hex) == 6 {
		hex += "ff"
	}
	v, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || len(hex) != 8 {
		return RGB{}, 0, false
	}
	return RGB{uint8(v >> 24), uint8(v >> 16), uint8(v >> 8)}, float64(v&0xff) / 255, true
}

// colorFunction parses both syntaxes: with commas, and with spaces and a slash.
func colorFunction(name, inside string) (RGB, float64, bool) {
	args := strings.FieldsFunc(inside,
		func(r rune) bool { return r == ',' || r == '/' || r == ' ' || r == '\t' || r == '\n' })
	if name == "color" {
		if len(args) < 4 || args[0] != "srgb" {
			return RGB{}, 0, false
		}
		args = args[1:]
	}
	if len(args) != 3 && len(args) != 4 {
		return RGB{}, 0, false
	}
	alpha := 1.0
	if len(args) == 4 {
		a, ok := component(args[3], 1)
		if !ok {
			return RGB{}, 0, false
		}
		alpha = math.Min(math.Max(a, 0), 1)
	}
	scales, known := componentScales[name]
	if !known {
		return RGB{}, 0, false
	}
	var v [3]float64
	for i := range v {
		var ok bool
		if scales[i] == hueScale {
			v[i], ok = hue(args[i])
		} else {
			v[i], ok = component(args[i], scales[i])
		}
		if !ok {
			return RGB{}, 0, false
		}
	}
	return colorSpaces[name](v), alpha, true
}

const hueScale = -1

// componentScales is the value of 100 % for each component (CSS Color 4).
var componentScales = map[string][3]float64{
	"rgb": {255, 255, 255}, "rgba": {255, 255, 255}, "color": {1, 1, 1},
	"hsl": {hueScale, 100, 100}, "hsla": {hueScale, 100, 100}, "hwb": {hueScale, 100, 100},
	"lab": {100, 125, 125}, "lch": {100, 150, hueScale},
	"oklab": {1, 0.4, 0.4}, "oklch": {1, 0.4, hueScale},
}

var colorSpaces = map[string]func([3]float64) RGB{
	"rgb":   func(v [3]float64) RGB { return fromUnit(v[0]/255, v[1]/255, v[2]/255) },
	"rgba":  func(v [3]float64) RGB { return fromUnit(v[0]/255, v[1]/255, v[2]/255) },
	"color": func(v [3]float64) RGB { return fromUnit(v[0], v[1], v[2]) },
	"hsl":   func(v [3]float64) RGB { return fromHSL(v[0], v[1]/100, v[2]/100) },
	"hsla":  func(v [3]float64) RGB { return fromHSL(v[0], v[1]/100, v[2]/100) },
	"hwb":   func(v [3]float64) RGB { return fromHWB(v[0], v[1]/100, v[2]/100) },
	"lab":   func(v [3]float64) RGB { return fromLab(v[0], v[1], v[2]) },
	"lch":   func(v [3]float64) RGB { return fromLab(polar(v)) },
	"oklab": func(v [3]float64) RGB { return FromLinear(OKLabToLinear(v[0], v[1], v[2])) },
	"oklch": func(v [3]float64) RGB { return FromLinear(OKLabToLinear(polar(v))) },
}

func component(s string, whole float64) (float64, bool) {
	if s == "none" {
		return 0, true
	}
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	if percent {
		v = v / 100 * whole // in this order 50 % of 255 is 127.5, which rounds up
	}
	return v, true
}

// hue returns a hue in degrees.
func hue(s string) (float64, bool) {
	for _, u := range []struct {
		suffix string
		factor float64
	}{{"deg", 1}, {"grad", 0.9}, {"rad", 180 / math.Pi}, {"turn", 360}} {
		if number, found := strings.CutSuffix(s, u.suffix); found {
			v, ok := component(number, 1)
			return v * u.factor, ok
		}
	}
	return component(s, 360)
}

func polar(v [3]float64) (l, a, b float64) {
	sin, cos := math.Sincos(v[2] * math.Pi / 180)
	return v[0], v[1] * cos, v[1] * sin
}

func fromUnit(r, g, b float64) RGB {
	to8 := func(v float64) uint8 { return uint8(math.Round(255 * math.Min(math.Max(v, 0), 1))) }
	return RGB{to8(r), to8(g), to8(b)}
}

// fromHSL follows CSS Color 4, section 7.1.
func fromHSL(h, s, l float64) RGB {
	if h = math.Mod(h, 360); h < 0 {
		h += 360 // before rounding, so that -20° is 340°
	}
	s, l = math.Min(math.Max(s, 0), 1), math.Min(math.Max(l, 0), 1)
	f := func(n float64) float64 {
		k := math.Mod(n+h/30, 12)
		return l - s*math.Min(l, 1-l)*math.Max(-1, math.Min(k-3, math.Min(9-k, 1)))
	}
	return fromUnit(f(0), f(8), f(4))
}

// fromHWB follows CSS Color 4, section 8.1.
func fromHWB(h, white, black float64) RGB {
	if white+black >= 1 {
		grey := white / (white + black)
		return fromUnit(grey, grey, grey)
	}
	c := fromHSL(h, 1, 0.5)
	mix := func(v uint8) float64 { return float64(v)/255*(1-white-black) + white }
	return fromUnit(mix(c.R), mix(c.G), mix(c.B))
}

// fromLab converts CIE Lab at D50 over XYZ at D65 (Bradford) to sRGB, as CSS Color 4 does.
func fromLab(l, a, b float64) RGB {
	const kappa, epsilon = 24389.0 / 27, 216.0 / 24389
	fy := (l + 16) / 116
	fx, fz := fy+a/500, fy-b/200
	inverse := func(t float64) float64 {
		if cube := t * t * t; cube > epsilon {
			return cube
		}
		return (116*t - 16) / kappa
	}
	x, y, z := 0.9642956764*inverse(fx), inverse(fy), 0.8251046025*inverse(fz)
	x, y, z = 0.9554734527*x-0.0230985368*y+0.0632593086*z,
		-0.0283697069*x+1.0099954580*y+0.0210413990*z,
		0.0123140016*x-0.0205076964*y+1.3303659366*z
	return FromLinear(
		3.2409699419*x-1.5373831776*y-0.4986107603*z,
		-0.9692436363*x+1.8759675015*y+0.0415550574*z,
		0.0556300797*x-0.2039769589*y+1.0569715142*z)
}

// OKLabToLinear converts a color to linear-light sRGB, whose channels are 0 to 1 if it can be displayed (Ottosson, A
// perceptual color space for image processing, 2020).
func OKLabToLinear(l, a, b float64) (red, green, blue float64) {
	cube := func(v float64) float64 { return v * v * v }
	x := cube(l + 0.3963377774*a + 0.2158037573*b)
	y := cube(l - 0.1055613458*a - 0.0638541728*b)
	z := cube(l - 0.0894841775*a - 1.2914855480*b)
	return 4.0767416621*x - 3.3077115913*y + 0.2309699292*z,
		-1.2684380046*x + 2.6097574011*y - 0.3413193965*z,
		-0.0041960863*x - 0.7034186147*y + 1.7076147010*z
}

// FromLinear converts a color from linear-light sRGB. Channels are clipped to 0 to 1.
func FromLinear(r, g, b float64) RGB {
	gamma := func(v float64) float64 {
		if v <= 0.0031308 {
			return 12.92 * v
		}
		return 1.055*math.Pow(v, 1/2.4) - 0.055
	}
	return fromUnit(gamma(r), gamma(g), gamma(b))
}
