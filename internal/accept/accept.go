// Package accept reads the Accept headers of requests.
package accept

import (
	"iter"
	"strconv"
	"strings"
)

// maxElements is how many elements of Accept headers are read. Browsers send about ten.
const maxElements = 100

// Weights returns the highest q-value of each media type (RFC 9110, section 12.4.2) in a request's Accept headers; 0
// without one. A type must be named: ranges such as */* do not count. Malformed elements are ignored.
func Weights(headers []string, types ...string) []float64 {
	weights := make([]float64, len(types))
	for mediaType, q := range Elements(headers) {
		for i, name := range types {
			if strings.EqualFold(mediaType, name) {
				weights[i] = max(weights[i], q)
			}
		}
	}
	return weights
}

// Elements returns the names and q-values in Accept or Accept-Encoding headers. Malformed elements are left out.
func Elements(headers []string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		looked := 0
		for _, header := range headers {
			for header != "" && looked < maxElements {
				var element string
				element, header = cutUnquoted(header, ',')
				looked++
				if name, q, ok := parse(element); ok && !yield(name, q) {
					return
				}
			}
		}
	}
}

// parse parses one element. Parameters other than q are ignored. ok is false if q is not a number from 0 to 1.
func parse(element string) (name string, q float64, ok bool) {
	name, parameters := cutUnquoted(element, ';')
	q = 1
	for parameters != "" {
		var parameter string
		parameter, parameters = cutUnquoted(parameters, ';')
		key, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(trimmed(key), "q") {
			continue
		}
		if q, ok = weight(trimmed(value)); !ok {
			return "", 0, false
		}
	}
	return trimmed(name), q, true
}

// weight parses a q-value: digits and a point, with more digits than the three that the grammar allows.
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
