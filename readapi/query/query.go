// Package query reads parameters from the query of a URL, in the same way for every endpoint.
package query

import (
	"fmt"
	"net/url"
	"strings"
)

// InvalidError reports an invalid parameter. Sentence is for the client.
type InvalidError struct{ Sentence string }

func (e *InvalidError) Error() string { return e.Sentence }

// Value returns the only value of a parameter, and whether it is present. It ignores all others, so that
// an invalid one that another party added (a campaign tag, for example) does no harm.
//
// It returns an *InvalidError for a parameter that is repeated or cannot be decoded.
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
