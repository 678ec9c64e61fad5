// Package query reads parameters out of the query of a request, as every endpoint reads them.
package query

import (
	"fmt"
	"net/url"
	"strings"
)

// InvalidError says in a sentence what is wrong with a parameter.
type InvalidError struct{ Sentence string }

func (e *InvalidError) Error() string { return e.Sentence }

// Value returns the one value of a parameter, and whether it is there. Other parameters are not looked at, so that a
// broken one of somebody else's (a campaign tag, say) breaks nothing.
//
// It returns an *InvalidError for a parameter that stands twice or cannot be decoded.
func Value(rawQuery, name string) (value string, present bool, err error) {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(rawKey)
		if err != nil || key != name {
			continue
		}
		if present {
			return "", true, &InvalidError{fmt.Sprintf("The parameter %s is given more than once. Send it once.", name)}
		}
		if value, err = url.QueryUnescape(rawValue); err != nil {
			return "", true, &InvalidError{fmt.Sprintf("The parameter %s is not percent-encoded correctly.", name)}
		}
		present = true
	}
	return value, present, nil
}
