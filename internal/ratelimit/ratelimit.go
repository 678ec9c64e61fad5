// Package ratelimit counts what may be done so many times a minute: requests of an account, live crawls
// of an account, live crawls of the whole service.
//
// A window is one minute of UTC, from second 0 to second 60, the same for every key, so that several
// nodes agree on it without talking. A limit is an upper bound: whatever the interleaving, no more units
// are let through in one window than the limit of the call that asked.
//
// Counters is the port. Memory keeps the counts in this process, Shared in the PostgreSQL database that all
// nodes share, by that database's clock.
package ratelimit

import (
	"context"
	"errors"
	"time"
)

// Window is the length of every window.
const Window = time.Minute

// Errors of Counters.
var (
	// ErrUnavailable: the counts could not be checked, so nothing may run. Nothing was taken in memory; a
	// shared store that did not answer may count the units until the window ends.
	ErrUnavailable = errors.New("rate-limit counters are unavailable")
	// ErrInvalid: units below one or a limit below zero. Nothing was taken.
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
	Limit     int64     // as it was asked for
	Remaining int64     // units left in the window after this Take, never below zero
	Reset     time.Time // when the window ends, UTC, on a whole minute
}

// RetryAfter returns how long after now the window ends, in whole seconds, rounded up and at least one:
// a client that waits that long finds a new window.
func (d Decision) RetryAfter(now time.Time) time.Duration {
	wait := d.Reset.Sub(now)
	if wait <= time.Second {
		return time.Second
	}
	return (wait + time.Second - 1).Truncate(time.Second)
}

// Counters counts units of keys in minute windows.
type Counters interface {
	// Take takes units of the key's current window if all of them fit below limit, and none otherwise. The
	// limit comes with each call because plans change: a higher one counts at once, within the window too.
	//
	// Errors: ErrUnavailable, ErrInvalid, ctx.Err(). With an error the caller may use nothing.
	Take(ctx context.Context, key Key, units, limit int64) (Decision, error)

	// Give returns units that an allowed Take took for work that was not done. After the end of the window
	// of that decision Give does nothing.
	//
	// Errors: ErrUnavailable, ErrInvalid, ctx.Err().
	Give(ctx context.Context, key Key, units int64, taken Decision) error
}
