// Package ratelimit limits how often something may happen per minute: requests of an account, live crawls of
// an account, live crawls of the whole service.
//
// A window is one minute of UTC, from second 0 to second 60. It is the same for every key, so nodes agree on
// it without communication. A limit is an upper bound: however calls interleave, a call never raises the
// units of a window above its limit.
//
// Counters is the port. Memory keeps the counts in this process. Shared keeps them in a PostgreSQL database
// that all nodes use, and follows that database's clock.
package ratelimit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Window is the length of every window.
const Window = time.Minute

// Errors of Counters.
var (
	// ErrUnavailable means that the counts could not be checked, so the caller must not proceed. Memory has
	// taken nothing. A shared store that did not respond may count the units until the window ends.
	ErrUnavailable = errors.New("rate-limit counters are unavailable")
	// ErrInvalid means that units is below one or limit is negative. Nothing was taken.
	ErrInvalid = errors.New("invalid request to the rate-limit counters")
)

// Key identifies one counter.
type Key struct {
	Scope string // such as requests or crawls
	ID    string // such as an account id
}

// Decision is the result of a Take.
type Decision struct {
	Allowed   bool
	Limit     int64     // the limit of the call
	Remaining int64     // units left in the window after this Take, never negative
	Reset     time.Time // when the window ends, UTC, on a whole minute
}

// RetryAfter returns the time from now to the end of the window, rounded up to whole seconds and at least
// one second. A client that waits that long gets a new window.
func (d Decision) RetryAfter(now time.Time) time.Duration {
	wait := d.Reset.Sub(now)
	if wait <= time.Second {
		return time.Second
	}
	return (wait + time.Second - 1).Truncate(time.Second)
}

// Counters counts units of keys in minute windows.
type Counters interface {
	// Take takes units of the key's current window if all of them fit within limit, and none otherwise. Each
	// call passes the limit because plans change: a higher limit applies immediately, even within a window.
	//
	// Errors: ErrUnavailable, ErrInvalid, ctx.Err(). After an error the caller must not use any units.
	Take(ctx context.Context, key Key, units, limit int64) (Decision, error)

	// Give returns units of an allowed Take whose work was not done. It does nothing after the end of that
	// decision's window.
	//
	// Errors: ErrUnavailable, ErrInvalid, ctx.Err().
	Give(ctx context.Context, key Key, units int64, taken Decision) error
}

// Shares limits the callers inside per key, so that no key uses up the capacity of all. It is safe for concurrent use.
type Shares struct {
	limit  int
	mu     sync.Mutex
	inside map[string]int
}

// NewShares returns shares of limit callers for each key.
func NewShares(limit int) *Shares { return &Shares{limit: limit, inside: map[string]int{}} }

// Enter returns the function that leaves again, or nil and false if the key's share is used up.
func (s *Shares) Enter(key string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key] >= s.limit {
		return nil, false
	}
	s.inside[key]++
	return func() { s.leave(key) }, true
}

func (s *Shares) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside[key]--; s.inside[key] == 0 {
		delete(s.inside, key)
	}
}
