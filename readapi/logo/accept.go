package logo

import (
	"strconv"
	"strings"

	"letterhead/internal/imaging"
)

// maxRanges is how many media ranges of Accept headers are looked at. Browsers send about ten.
const maxRanges = 100

// Negotiate chooses between WebP and PNG by a request's Accept headers. WebP needs to be named: a browser that can
// show it says so, while image/* and */* come from many that cannot. Of two that are named the q-values decide
// (RFC 9110, section 12.4.2), and WebP where they are equal. What is malformed names nothing; PNG is what
// everybody can show.
func Negotiate(accept []string) imaging.Format {
	webp, png := 0.0, 0.0 // the highest q of each
	looked := 0
	for _, header := range accept {
		for header != "" && looked < maxRanges {
			var element string
			element, header = cutUnquoted(header, ',')
			mediaType, q, ok := mediaRange(element)
			looked++
			switch {
			case !ok:
			case strings.EqualFold(mediaType, "image/webp"):
				webp = max(webp, q)
			case strings.EqualFold(mediaType, "image/png"):
				png = max(png, q)
			}
		}
	}
	if webp > 0 && webp >= png {
		return imaging.WebP
	}
	return imaging.PNG
}

// mediaRange reads one element of an Accept header. Parameters other than q are not looked at: neither of our
// formats has any. ok is false where q is no number from 0 to 1.
func mediaRange(element string) (mediaType string, q float64, ok bool) {
	mediaType, parameters := cutUnquoted(element, ';')
	q = 1
	for parameters != "" {
		var parameter string
		parameter, parameters = cutUnquoted(parameters, ';')
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(trimmed(name), "q") {
			continue
		}
		if q, ok = weight(trimmed(value)); !ok {
			return "", 0, false
		}
	}
	return trimmed(mediaType), q, true
}

// weight reads a q-value: digits and a point, more of them than the three that the grammar allows as well.
func weight(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.") != "" { // no sign, exponent or underscore, which ParseFloat would read
		return 0, false
	}
	q, err := strconv.ParseFloat(s, 64)
	return q, err == nil && q <= 1
}

// trimmed is a text without HTTP's optional white space around it.
func trimmed(s string) string { return strings.Trim(s, " \t") }

// cutUnquoted cuts at the first separator that stands in no quoted string.
func cutUnquoted(s string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case quoted && s[i] == '\\':
			i++ // whatever comes next belongs to the string
		case !quoted && s[i] == separator:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
