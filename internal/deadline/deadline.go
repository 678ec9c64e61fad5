// Package deadline limits the time of work that is usually over long before, such as a request. Its contexts cost
// little memory, and a timer only while somebody waits for them.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is like one of context.WithTimeout. The zero Context must be started with Start, once, or be made by New.
type Context struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	err    error              // why it has ended
	ended  chan struct{}      // closed by End; nil until Receive waits
	timed  context.Context    // for those who call Done; nil until then
	cancel context.CancelFunc // of timed
}

// New returns a context that ends with its parent, after a time, or with End, which must be called.
func New(parent context.Context, after time.Duration) *Context {
	c := new(Context)
	c.Start(parent, after)
	return c
}

// Start does what New does, in memory of the caller.
func (c *Context) Start(parent context.Context, after time.Duration) {
	c.parent, c.at = parent, time.Now().Add(after)
	if earlier, ok := parent.Deadline(); ok && earlier.Before(c.at) {
		c.at = earlier
	}
}

// End ends the context. Later calls do nothing.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = context.Canceled
	}
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
	if c.cancel != nil {
		c.cancel()
	}
}

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		if c.err = c.parent.Err(); c.err == nil && !time.Now().Before(c.at) {
			c.err = context.DeadlineExceeded
		}
	}
	return c.err
}

// Done implements context.Context. From the first call on, the context is as expensive as one of context.WithTimeout.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.parent, c.at)
		if c.err != nil {
			c.cancel()
		}
	}
	return c.timed.Done()
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.at, true }

// Value implements context.Context. Package context finds in it what Done made, to derive contexts cheaply.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return c.parent.Value(key)
}

// ending returns a channel that End closes, or nil if the context has ended.
func (c *Context) ending() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil && c.err == nil {
		c.ended = make(chan struct{})
	}
	return c.ended
}

// Receive receives a value, or returns ctx.Err() once ctx has ended. For a Context, also one within another, it does
// not call Done.
func Receive[T any](ctx context.Context, from <-chan T) (v T, err error) {
	inner, ok := ctx.(*Context)
	if !ok {
		select {
		case v = <-from:
			return v, nil
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
	outer, parent := inner, inner.parent
	if within, ok := parent.(*Context); ok {
		outer, parent = within, within.parent
	}
	innerEnds, outerEnds := inner.ending(), outer.ending()
	if inner.Err() != nil {
		return v, inner.Err()
	}
	timer := time.NewTimer(time.Until(inner.at))
	defer timer.Stop()
	for {
		select {
		case v = <-from:
			return v, nil
		case <-timer.C:
		case <-parent.Done():
		case <-innerEnds:
		case <-outerEnds:
		}
		if err = ctx.Err(); err != nil {
			return v, err
		}
		timer.Reset(time.Until(inner.at)) // it fired a moment early
	}
}
