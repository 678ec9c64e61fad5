package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Invalid returns a 400 of an API, whose text names the required change.
func Invalid(format string, args ...any) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: "invalid_request", Text: fmt.Sprintf(format, args...)}
}

// IsText reports whether a value can be part of a query of the database or of an event: PostgreSQL rejects other texts.
func IsText(value string) bool { return utf8.ValidString(value) && !strings.Contains(value, "\x00") }

// QueryValue returns the only value of a parameter, and whether it is present. It ignores all others, so that an
// invalid one that another party added (a campaign tag, for example) does no harm. The problem is about a parameter
// that is repeated or cannot be decoded.
func QueryValue(rawQuery, name string) (value string, present bool, problem *Problem) {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(rawKey)
		if err != nil || key != name {
			continue
		}
		if present {
			return "", true, Invalid("The parameter %s is given more than once. Send it once.", name)
		}
		if value, err = url.QueryUnescape(rawValue); err != nil {
			return "", true, Invalid("The parameter %s is not percent-encoded correctly.", name)
		}
		present = true
	}
	return value, present, nil
}
