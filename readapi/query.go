package readapi

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"unicode/utf8"

	"letterhead/internal/web"
)

// Limits of the parameters, as in the OpenAPI description.
const (
	maxSearchRunes     = 100
	minLimit           = 1
	maxSearchLimit     = 20
	defaultSearchLimit = 10
)

// parseRefresh reads ?refresh of a look-up; absent is false.
func parseRefresh(rawQuery string) (bool, *Problem) {
	value, present, problem := web.QueryValue(rawQuery, "refresh")
	if problem != nil || !present {
		return false, problem
	}
	switch value {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, web.Invalid("The parameter refresh is either true or false.")
	}
}

// parseSearch reads ?q and ?limit of a search.
func parseSearch(rawQuery string) (q string, limit int, problem *Problem) {
	q, present, problem := web.QueryValue(rawQuery, "q")
	switch {
	case problem != nil:
		return "", 0, problem
	case !present || q == "":
		return "", 0, web.Invalid("The parameter q is missing. Send a company name or domain, for example ?q=acme.")
	}
	if problem = checkSearchText("The parameter q", q); problem == nil {
		limit, problem = parseLimit(rawQuery, defaultSearchLimit, maxSearchLimit)
	}
	return q, limit, problem
}

// checkSearchText checks a search text; where names its parameter in rejections.
func checkSearchText(where, text string) *Problem {
	switch {
	case !utf8.ValidString(text):
		return web.Invalid("%s is not UTF-8 text.", where)
	case utf8.RuneCountInString(text) > maxSearchRunes:
		return web.Invalid("%s has more than %d characters.", where, maxSearchRunes)
	}
	return nil
}

// parseLimit reads ?limit, which is at least 1.
func parseLimit(rawQuery string, byDefault, most int) (int, *Problem) {
	value, present, problem := web.QueryValue(rawQuery, "limit")
	if problem != nil || !present {
		return byDefault, problem
	}
	limit, ok := plainInteger(value)
	if !ok || limit < minLimit || limit > most {
		return 0, web.Invalid("The parameter limit is a whole number from %d to %d.", minLimit, most)
	}
	return limit, nil
}

// plainInteger reads digits and nothing else: no sign, space, exponent or underscore.
func plainInteger(s string) (int, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// headerIdempotencyKey makes a charged answer repeatable: if the same request is repeated within
// account.IdempotencyWindow, it gets the same record and is not charged again.
const headerIdempotencyKey = "Idempotency-Key"

// maxIdempotencyKey limits the header's value: a UUID has 36 characters, and keys composed of a
// client's own ids need some more.
const maxIdempotencyKey = 255

// idempotencyKey reads the header. It returns the hash of its value, and whether it is present.
func (x *exchange) idempotencyKey() (key [sha256.Size]byte, present bool, problem *Problem) {
	values := x.request.Header[headerIdempotencyKey]
	if len(values) == 0 {
		return key, false, nil
	}
	if len(values) > 1 {
		return key, true, web.Invalid("The header %s is given more than once. Send it once.", headerIdempotencyKey)
	}
	value := strings.Trim(values[0], " \t")
	hidden := func(r rune) bool { return r < '!' || r > '~' }
	if value == "" || len(value) > maxIdempotencyKey || strings.ContainsFunc(value, hidden) {
		return key, true, web.Invalid("The header %s takes 1 to %d visible ASCII characters without spaces. A new random UUID for each request is best.",
			headerIdempotencyKey, maxIdempotencyKey)
	}
	return sha256.Sum256([]byte(value)), true, nil
}
