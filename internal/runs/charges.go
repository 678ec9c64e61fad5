package runs

import (
	"maps"
	"slices"
	"sync"
	"time"

	"letterhead/internal/eventlog"
)

// maxOpen bounds the requests of an Answered, and with them the row of a run. Beyond it the position alone counts,
// which is then lower.
const maxOpen = 512

// Answered says which charges of a run were answered: all up to a position, except charges of some requests.
type Answered struct {
	UpTo eventlog.Position
	// Except are the ids of requests that had charged, or might have, and were not answered yet.
	Except []string
}

// Covers reports whether a charge was answered, or reversed.
func (a Answered) Covers(position eventlog.Position, requestID string) bool {
	return position <= a.UpTo && !slices.Contains(a.Except, requestID)
}

// Charges knows which charges of a process have no answer yet. A charge is open from before its append until it was
// answered, reversed or turned out not to exist. It is safe for concurrent use; each call takes well below a
// microsecond. Calls of a nil Charges do nothing.
type Charges struct {
	now  func() time.Time
	mu   sync.Mutex
	last eventlog.Position // of the charges that were reported
	open map[string]*openRequest
}

// openRequest is a request with charges that are not answered.
type openRequest struct {
	after   eventlog.Position // all its charges are behind it
	since   time.Time         // when its first append began
	pending int               // appends and reversals whose outcome is not known
	holds   bool              // the request has charges to answer
}

// NewCharges returns a Charges without charges.
func NewCharges(now func() time.Time) *Charges {
	return &Charges{now: now, open: make(map[string]*openRequest)}
}

// Forget forgets requests whose first append began longer ago than age. An append whose outcome was never learned would
// otherwise keep its request open until the process ends. The age must exceed the time from an append to the end of an
// answer: charges that old are outside of every UncertainPeriod.
func (c *Charges) Forget(age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.now().Add(-age)
	maps.DeleteFunc(c.open, func(_ string, r *openRequest) bool { return r.since.Before(before) })
}

// Begin notes that a charge of a request may be appended from now on, or that a charge is reversed without a caller.
// Charged or Ended must follow, unless the outcome stays unknown.
func (c *Charges) Begin(requestID string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.open[requestID]
	if r == nil {
		r = &openRequest{after: c.last, since: c.now()}
		c.open[requestID] = r
	}
	r.pending++
}

// Charged notes that the request has a durable charge, which it will answer or reverse.
func (c *Charges) Charged(requestID string, at eventlog.Position) {
	c.change(requestID, func(r *openRequest) {
		c.last = max(c.last, at)
		r.pending--
		r.holds = true
	})
}

// Ended notes that an append or a reversal has ended without a charge that needs an answer: nothing was appended, or
// the charge was reversed.
func (c *Charges) Ended(requestID string) {
	c.change(requestID, func(r *openRequest) { r.pending-- })
}

// Answered notes that the request has ended: its answer was sent, or its charges are being reversed (see Begin).
func (c *Charges) Answered(requestID string) {
	c.change(requestID, func(r *openRequest) { r.holds = false })
}

// change changes a request that is open, and closes it if nothing is left to wait for.
func (c *Charges) change(requestID string, by func(*openRequest)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.open[requestID]
	if r == nil {
		return
	}
	if by(r); r.pending <= 0 && !r.holds {
		delete(c.open, requestID)
	}
}

// State returns which of the charges up to now were answered.
func (c *Charges) State() Answered {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := Answered{UpTo: c.last}
	if len(c.open) > maxOpen {
		for _, r := range c.open {
			state.UpTo = min(state.UpTo, r.after)
		}
		return state
	}
	for id := range c.open {
		state.Except = append(state.Except, id)
	}
	slices.Sort(state.Except)
	return state
}
