package streamwriter

import (
	"context"
	"sync"
	"time"
)

// callTicks is how many times per Config.AppendWithin a new context is made: calls of the log may take that much longer.
const callTicks = 64

// calls limits the time of calls of the log. Calls that begin at about the same time share a context, and so a timer.
type calls struct {
	within time.Duration

	mu     sync.Mutex
	since  time.Time
	ctx    context.Context
	cancel context.CancelFunc // never called: the context ends by itself, and calls may use it until then
}

// context returns a context, below a parent that is always the same, for a call that begins now.
func (c *calls) context(parent context.Context, now time.Time) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tick := c.within / callTicks; c.ctx == nil || now.Sub(c.since) > tick {
		c.since = now
		c.ctx, c.cancel = context.WithTimeout(parent, c.within+tick)
	}
	return c.ctx
}
