package readapi

import (
	"crypto/sha256"
	"strings"

	"letterhead/internal/web"
)

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
