package commands

import (
	"sync"

	"letterhead/domain/usage"
)

// maxAllotments limits the accounts whose allotments a quota writer remembers: about 20 MB. Beyond it an
// arbitrary one is forgotten, and its remaining allotted requests are lost to that account.
const maxAllotments = 100_000

// allotmentOf identifies an account's month.
type allotmentOf struct {
	account string
	month   usage.Month
}

// allotment is a quota writer's knowledge about one month. Requests of a month are numbered in the order in
// which they are allotted.
type allotment struct {
	last int64 // the last number known to be allotted, to any quota writer
	held int64 // how many this writer may still use; they are assumed to be the last ones, which is never too low
	size int64 // the most that this writer was allotted in one event, for the request and ahead
}

// allotments are the months that a quota writer remembers. They are separate from the states, which are
// evicted when unused.
type allotments struct {
	mu sync.Mutex
	of map[allotmentOf]allotment
}

// take takes one of the held requests. If there is none, it returns how many may be allotted ahead: each time about
// twice as many as before, so that a kill never costs an account more than it has used since the start.
func (h *allotments) take(of allotmentOf, limit int64) (taken bool, ahead int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.of[of]
	// A number above the limit exists after the limit was lowered.
	if usage.Exhausted(a.last-a.held, limit) {
		return false, 0, &usage.QuotaExceededError{What: "logos", Month: of.month, Used: a.last, Limit: limit}
	}
	if a.held == 0 {
		return false, min(usage.MaxLogosAhead, max(0, 2*a.size-1)), nil
	}
	a.held--
	h.of[of] = a
	return true, 0, nil
}

// note records that numbers up to last are allotted, and that held of them belong to this writer; size
// is 0 if they were not allotted to this writer just now.
func (h *allotments) note(of allotmentOf, last, held, size int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, known := h.of[of]
	if !known && len(h.of) >= maxAllotments {
		for any := range h.of {
			delete(h.of, any)
			break
		}
	}
	a.last = max(a.last, last)
	a.held += held
	a.size = max(a.size, size)
	if h.of == nil {
		h.of = map[allotmentOf]allotment{}
	}
	h.of[of] = a
}

// putBack returns a taken request.
func (h *allotments) putBack(of allotmentOf) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, known := h.of[of]; known {
		a.held++
		h.of[of] = a
	}
}
