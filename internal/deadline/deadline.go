// Package deadline limits the time of work that is usually over long before, such as a request.
package deadline

import (
	"context"
	"sync"
	"time"
)

// Context is like one of context.WithTimeout, but costs next to nothing until Done is called.
type Context struct {
	parent context.Context
	at     time.Time

	mu    sync.Mutex
	err   error                // why it has ended
	timed context.Context      // for those who call Done; nil until then
	atEnd []context.CancelFunc // of timed, also those of contexts within
}

// New returns a context that ends with its parent, after a time, or with End, which must be called.
func New(parent context.Context, after time.Duration) *Context {
	c := &Context{parent: parent, at: time.Now().Add(after)}
	if earlier, ok := parent.Deadline(); ok && earlier.Before(c.at) {
		c.at = earlier
	}
	return c
}

// End ends the context. Later calls do nothing.
func (c *Context) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = context.Canceled
	}
	for _, cancel := range c.atEnd {
		cancel()
	}
}

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

// Done implements context.Context. A Context in another Context uses one timer, not two.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		root := c.parent
		outer, within := root.(*Context)
		if within {
			root = outer.parent
		}
		timed, cancel := context.WithDeadline(root, c.at)
		c.timed, c.atEnd = timed, append(c.atEnd, cancel)
		if within {
			outer.endsToo(cancel)
		}
		if c.err != nil {
			cancel()
		}
	}
	return c.timed.Done()
}

func (c *Context) endsToo(cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.atEnd = append(c.atEnd, cancel); c.err != nil {
		cancel()
	}
}

func (c *Context) Deadline() (time.Time, bool) { return c.at, true }

// Value implements context.Context. Package context finds in it what Done made, to derive contexts cheaply.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	from := c.parent
	if c.timed != nil {
		from = c.timed
	}
	c.mu.Unlock()
	return from.Value(key)
}

// Bounds returns what ends a context besides End, for those who wait so often that even a Done of its own costs too
// much: a context, and a time, which is zero if there is none. The caller of End must be the one who waits.
func Bounds(ctx context.Context) (outside context.Context, at time.Time) {
	c, ok := ctx.(*Context)
	if !ok {
		return ctx, at
	}
	outside, _ = Bounds(c.parent)
	return outside, c.at // which is not after the parent's
}
