package css

import (
	"slices"
	"strconv"
	"strings"
)

// The screen of the page, in CSS pixels.
const (
	screenWidth  = 1280
	screenHeight = 800
	remPixels    = 16
)

// Limits of a media query.
const (
	maxMediaBytes = 2000
	maxMediaDepth = 8
)

// Applies reports whether a list of media queries matches our screen. An empty list does.
func Applies(query string) bool {
	query = strings.ToLower(strings.TrimSpace(query))
	if query == "" {
		return true
	}
	if len(query) > maxMediaBytes {
		return false
	}
	for part := range Split(query, ',') {
		if mediaQuery(strings.TrimSpace(part), 0) {
			return true
		}
	}
	return false
}

// containerApplies evaluates a container query as if the container were as wide as the screen. Its name is ignored.
func containerApplies(query string) bool {
	i := strings.IndexByte(query, '(')
	if i < 0 || len(query) > maxMediaBytes {
		return false
	}
	return mediaQuery(strings.ToLower(query[i:]), 0)
}

// mediaQuery evaluates one query: conditions joined by and or by or, one of which may be a media type.
func mediaQuery(query string, depth int) bool {
	if depth > maxMediaDepth {
		return false
	}
	all, some, joined := true, false, "and"
	negate, negateAll := false, false
	words := mediaWords(query)
	for i, word := range words {
		switch word {
		case "and", "or":
			joined = word
			continue
		case "only":
			continue
		case "not":
			// Before a media type it negates the whole query, before a condition only that.
			negate = true
			negateAll = negateAll || i+1 < len(words) && !strings.HasPrefix(words[i+1], "(")
			continue
		}
		holds := mediaCondition(word, depth)
		if negate && !negateAll {
			holds = !holds
			negate = false
		}
		all, some = all && holds, some || holds
	}
	result := all
	if joined == "or" {
		result = some
	}
	return result != negateAll
}

// mediaWords splits a query into words and parenthesized parts.
func mediaWords(query string) []string {
	var out []string
	for query = strings.TrimSpace(query); query != ""; query = strings.TrimSpace(query) {
		end := strings.IndexAny(query, " \t\n\r\f(")
		switch {
		case query[0] == '(':
			end = min(closing(query, 0)+1, len(query))
		case end < 0:
			end = len(query)
		case query[end] == '(' && end > 0: // and(min-width:1px), or a function
		}
		out = append(out, query[:end])
		query = query[end:]
	}
	return out
}

func mediaCondition(word string, depth int) bool {
	inner, ok := strings.CutPrefix(word, "(")
	if !ok {
		return word == "all" || word == "screen"
	}
	inner = strings.TrimSpace(strings.TrimSuffix(inner, ")"))
	if strings.HasPrefix(inner, "(") || strings.HasPrefix(inner, "not ") || strings.HasPrefix(inner, "not(") {
		return mediaQuery(inner, depth+1)
	}
	if name, value, ok := strings.Cut(inner, ":"); ok {
		return mediaFeature(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	if strings.ContainsAny(inner, "<>=") {
		return mediaRange(inner)
	}
	return slices.Contains([]string{"hover", "any-hover", "pointer", "any-pointer", "color", "width", "height",
		"scripting", "prefers-color-scheme"}, inner)
}

// features are the discrete features of our screen.
var features = map[string]string{
	"orientation": "landscape", "hover": "hover", "any-hover": "hover", "pointer": "fine", "any-pointer": "fine",
	"prefers-color-scheme": "light", "prefers-reduced-motion": "no-preference", "prefers-contrast": "no-preference",
	"prefers-reduced-transparency": "no-preference", "prefers-reduced-data": "no-preference", "forced-colors": "none",
	"inverted-colors": "none", "scripting": "enabled", "display-mode": "browser", "update": "fast",
	"color-gamut": "srgb", "dynamic-range": "standard", "grid": "0", "monochrome": "0",
}

func mediaFeature(name, value string) bool {
	if want, ok := features[name]; ok {
		return value == want
	}
	name = strings.TrimPrefix(name, "device-")
	bound := ""
	for _, prefix := range []string{"min-", "max-"} {
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "-webkit-"), prefix); ok {
			bound, name = prefix, strings.TrimPrefix(rest, "device-")
		}
	}
	have, wanted, ok := measure(name, value)
	switch {
	case !ok:
		return false
	case bound == "min-":
		return have >= wanted
	case bound == "max-":
		return have <= wanted
	}
	return have == wanted
}

// measure returns the size of our screen for a feature and the value in a query.
func measure(name, value string) (have, wanted float64, ok bool) {
	switch name {
	case "width", "inline-size":
		have = screenWidth
	case "height", "block-size":
		have = screenHeight
	case "aspect-ratio":
		have = float64(screenWidth) / screenHeight
		wide, high, ratio := strings.Cut(value, "/")
		w, err := strconv.ParseFloat(strings.TrimSpace(wide), 64)
		if !ratio || err != nil {
			return have, w, err == nil
		}
		h, err := strconv.ParseFloat(strings.TrimSpace(high), 64)
		return have, w / h, err == nil && h > 0
	case "pixel-ratio", "resolution", "color":
		have = map[string]float64{"pixel-ratio": 1, "resolution": 1, "color": 8}[name]
		for _, unit := range []struct {
			suffix string
			size   float64
		}{{"dppx", 1}, {"dpi", 1.0 / 96}, {"dpcm", 2.54 / 96}, {"x", 1}, {"", 1}} {
			if number, found := strings.CutSuffix(value, unit.suffix); found {
				v, err := strconv.ParseFloat(number, 64)
				return have, v * unit.size, err == nil
			}
		}
	default:
		return 0, 0, false
	}
	wanted, ok = pixels(value)
	return have, wanted, ok
}

// pixels parses a length in a media query.
func pixels(value string) (float64, bool) {
	for _, unit := range []struct {
		suffix string
		size   float64
	}{{"px", 1}, {"rem", remPixels}, {"em", remPixels}, {"in", 96}, {"cm", 96 / 2.54}, {"pt", 96.0 / 72}} {
		if number, ok := strings.CutSuffix(value, unit.suffix); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			return v * unit.size, err == nil
		}
	}
	return 0, value == "0"
}

// mediaRange evaluates a comparison: width >= 600px, or 600px <= width < 900px.
func mediaRange(text string) bool {
	var parts, signs []string
	rest := text
	for rest != "" && len(signs) < 3 {
		i := strings.IndexAny(rest, "<>=")
		if i < 0 {
			break
		}
		sign := rest[i : i+1]
		if sign != "=" && i+1 < len(rest) && rest[i+1] == '=' {
			sign = rest[i : i+2]
		}
		parts, signs = append(parts, strings.TrimSpace(rest[:i])), append(signs, sign)
		rest = rest[i+len(sign):]
	}
	parts = append(parts, strings.TrimSpace(rest))
	for i, sign := range signs {
		left, ok1 := rangeSide(parts[i])
		if right, ok2 := rangeSide(parts[i+1]); !ok1 || !ok2 || !compares(left, sign, right) {
			return false
		}
	}
	return len(signs) > 0 && len(signs) < 3
}

func rangeSide(text string) (float64, bool) {
	switch text {
	case "width", "device-width", "inline-size":
		return screenWidth, true
	case "height", "device-height", "block-size":
		return screenHeight, true
	}
	return pixels(text)
}

func compares(a float64, sign string, b float64) bool {
	return map[string]bool{"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "=": a == b}[sign]
}
