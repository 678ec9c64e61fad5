package judge

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/image/colornames"

	"letterhead/internal/imaging"
)

// maxColorText bounds the text of a CSS color, in bytes.
const maxColorText = 100

// minAlpha is below which a color is too faint to count.
const minAlpha = 0.5

var (
	hexColor = regexp.MustCompile(`^#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})$`)
	// bareHex is a color without its number sign, which pages write in meta elements.
	bareHex  = regexp.MustCompile(`^[0-9a-f]{6}$`)
	function = regexp.MustCompile(`^(rgba?|hsla?)\(([^()]*)\)$`)
)

// ParseColor reads a CSS color: hex, rgb(), hsl() or a name. ok is false for anything else and for what
// is more than half transparent.
func ParseColor(text string) (c imaging.RGB, ok bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if len(text) > maxColorText {
		return c, false
	}
	if bareHex.MatchString(text) {
		text = "#" + text
	}
	if hexColor.MatchString(text) {
		return parseHex(text[1:])
	}
	if m := function.FindStringSubmatch(text); m != nil {
		return parseFunction(m[1], m[2])
	}
	named, ok := colornames.Map[text]
	return imaging.RGB{R: named.R, G: named.G, B: named.B}, ok
}

func parseHex(digits string) (imaging.RGB, bool) {
	if len(digits) <= 4 {
		var wide strings.Builder
		for i := range len(digits) {
			wide.WriteByte(digits[i])
			wide.WriteByte(digits[i])
		}
		digits = wide.String()
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return imaging.RGB{}, false
	}
	if len(digits) == 8 {
		if float64(v&0xff)/255 < minAlpha {
			return imaging.RGB{}, false
		}
		v >>= 8
	}
	return imaging.RGB{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v)}, true
}

func parseFunction(name, arguments string) (imaging.RGB, bool) {
	parts := strings.FieldsFunc(arguments, func(r rune) bool { return r == ',' || r == '/' || r == ' ' || r == '\t' })
	if len(parts) != 3 && len(parts) != 4 {
		return imaging.RGB{}, false
	}
	if len(parts) == 4 {
		if alpha, ok := share(parts[3], 1); !ok || alpha < minAlpha {
			return imaging.RGB{}, false
		}
	}
	var v [3]float64
	for i, p := range parts[:3] {
		full := 255.0
		if strings.HasPrefix(name, "hsl") {
			full = 1
			if i == 0 {
				full = 0 // degrees
			}
		}
		var ok bool
		if v[i], ok = share(p, full); !ok {
			return imaging.RGB{}, false
		}
	}
	if strings.HasPrefix(name, "hsl") {
		return fromHSL(v[0], v[1], v[2]), true
	}
	return imaging.RGB{R: channel(v[0]), G: channel(v[1]), B: channel(v[2])}, true
}

// share reads a number or a percentage of full; 0 as full reads degrees.
func share(text string, full float64) (float64, bool) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSuffix(number, "deg"), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, false
	}
	if percent {
		v = v / 100 * full
	}
	return v, true
}

func channel(v float64) uint8 { return uint8(math.Round(min(max(v, 0), 255))) }

// fromHSL converts hue in degrees, saturation and lightness from 0 to 1. Source: CSS Color 4, 7.1.
func fromHSL(h, s, l float64) imaging.RGB {
	h = math.Mod(math.Mod(h, 360)+360, 360)
	s, l = min(max(s, 0), 1), min(max(l, 0), 1)
	f := func(n float64) uint8 {
		k := math.Mod(n+h/30, 12)
		return channel(255 * (l - s*min(l, 1-l)*max(-1, min(k-3, 9-k, 1))))
	}
	return imaging.RGB{R: f(0), G: f(8), B: f(4)}
}
