// Package accept reads the Accept headers of requests.
package accept

import (
	"strconv"
	"strings"
)

// maxRanges is how many media ranges of Accept headers are read. Browsers send about ten.
const maxRanges = 100

// Weights returns the highest q-value of each media type (RFC 9110, section 12.4.2) in a request's Accept headers; 0
// without one. A type must be named: ranges such as */* do not count. Malformed elements are ignored.
func Weights(headers []string, types ...string) []float64 {
	weights := make([]float64, len(types))
	looked := 0
	for _, header := range headers {
		for header != "" && looked < maxRanges {
			var element string
			element, header = cutUnquoted(header, ',')
			mediaType, q, ok := mediaRange(element)
			looked++
			for i, name := range types {
				if ok && strings.EqualFold(mediaType, name) {
					weights[i] = max(weights[i], q)
				}
			}
		}
	}
	return weights
}

// mediaRange parses one element of an Accept header. Parameters other than q are ignored. ok is false if q is not a number from 0 to 1.
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

// weight parses a q-value: digits and a point, with more digits than the three that the grammar
// allows.
func weight(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.") != "" { // no sign, exponent or underscore, which ParseFloat would accept
		return 0, false
	}
	q, err := strconv.ParseFloat(s, 64)
	return q, err == nil && q <= 1
}

// trimmed returns a text without the optional white space of HTTP around it.
func trimmed(s string) string { return strings.Trim(s, " \t") }

// cutUnquoted cuts at the first separator outside of quoted strings.
func cutUnquoted(s string, separator byte) (before, after string) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case quoted && s[i] == '\\':
			i++ // the next byte belongs to the string
		case !quoted && s[i] == separator:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
