package readapi

import (
	"errors"
	"sync/atomic"
)

// bulkhead bounds how many are inside something that may be stuck, so that requests which wait for it do not
// pile up without end: past the limit they are refused at once.
type bulkhead struct {
	limit  int64
	inside atomic.Int64
}

// errStuck is why a bulkhead refuses.
var errStuck = errors.New("too many requests are waiting for another part")

// enter returns what leaves again, and false, without anything to leave, when it is full.
func (b *bulkhead) enter() (leave func(), ok bool) {
	if b.inside.Add(1) > b.limit {
		b.inside.Add(-1)
		return nil, false
	}
	return b.leave, true
}

func (b *bulkhead) leave() { b.inside.Add(-1) }
