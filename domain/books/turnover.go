package books

import (
	"errors"
	"fmt"
)

// maxTurnover limits the sum of the absolute amounts that are moved in one commodity. No sum of them can overflow.
const maxTurnover = 1 << 62

// ErrSum means that the events move more money or credits than the sums of the books can hold.
var ErrSum = errors.New("the amounts are too large to be summed up")

// Turnover is the sum of the absolute amounts that events move, by commodity. Whoever sums up their amounts adds them
// to it too, and returns its error: earlier releases did not limit amounts. The zero value is ready to use.
type Turnover struct {
	sums map[string]uint64 // at most maxTurnover
	err  error
}

// Add adds an amount that an event moves.
func (t *Turnover) Add(commodity string, amount int64, accountID string, revision uint64) {
	if amount == 0 || t.err != nil {
		return
	}
	moved := uint64(amount)
	if amount < 0 {
		moved = -moved
	}
	if moved > maxTurnover-t.sums[commodity] {
		t.err = fmt.Errorf("%s, at revision %d of account %s: %w", commodity, revision, accountID, ErrSum)
		return
	}
	if t.sums == nil {
		t.sums = map[string]uint64{}
	}
	t.sums[commodity] += moved
}

// Err returns an error that wraps ErrSum and names the event from which on sums may be wrong, or nil.
func (t *Turnover) Err() error { return t.err }
