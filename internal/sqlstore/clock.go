package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"letterhead/internal/delay"
)

const (
	// clockSamples is the number of queries of one measurement; the quickest is the most exact.
	clockSamples = 5
	// DefaultClockInterval is the interval between measurements. Quartz drifts by less than 100 µs a second, so in
	// between the clock deviates by about a millisecond.
	DefaultClockInterval = 10 * time.Second
	// measureTimeout limits one measurement.
	measureTimeout = 5 * time.Second
	// catchUp slows the clock down while it is ahead of the measured time: it runs at 1/catchUp of its rate.
	catchUp = 2
)

// ClockConfig configures a Clock. The zero ClockConfig is usable.
type ClockConfig struct {
	// Local is the machine's clock. Default: time.Now.
	Local func() time.Time
	// Interval is the interval between measurements. Default: DefaultClockInterval.
	Interval time.Duration
	Logger   *slog.Logger
}

// Clock returns the time of the database, which all nodes share: the local clock plus a measured offset. With SQLite it
// is the local clock. It never steps back: if a measurement shows that it is ahead, it runs at half its rate until the
// database's time has caught up; if it is behind, it jumps.
//
// It uses the monotonic reading of the local clock, so setting the machine's date has no effect. It is safe for
// concurrent use.
type Clock struct {
	store    *Store
	local    func() time.Time
	interval time.Duration
	logger   *slog.Logger

	mu        sync.Mutex
	at        time.Time     // local time of the measurement
	database  time.Time     // the database's time then
	bound     time.Duration // maximum error of the measurement: half the round trip
	last      time.Time     // the last result of Now
	lastLocal time.Time     // local time of that
}

// NewClock measures the offset once. Errors: ErrUnavailable, ErrClosed, ctx.Err().
func NewClock(ctx context.Context, store *Store, cfg ClockConfig) (*Clock, error) {
	c := &Clock{store: store, local: cfg.Local, interval: cfg.Interval, logger: cfg.Logger}
	if c.local == nil {
		c.local = time.Now
	}
	c.interval = cmp.Or(c.interval, DefaultClockInterval)
	c.logger = cmp.Or(c.logger, slog.New(slog.DiscardHandler))
	if err := c.Measure(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Now returns the time, in UTC.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	local := c.local()
	now := c.database.Add(local.Sub(c.at)).UTC()
	if !c.last.IsZero() {
		since := max(0, local.Sub(c.lastLocal))
		if slow := c.last.Add(since / catchUp); now.Before(slow) {
			now = slow
		}
	}
	c.last, c.lastLocal = now, local
	return now
}

// Offset returns how far the database's clock was ahead of the local one at the last measurement, and the maximum error
// of that (half the round trip). On SQLite both are 0.
func (c *Clock) Offset() (offset, bound time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.database.Sub(c.at.Round(0)), c.bound
}

// Run measures the offset periodically until ctx ends, and then returns nil. While the database is unavailable the last
// offset is used.
func (c *Clock) Run(ctx context.Context) error {
	delay.Every(ctx, c.interval, func() {
		if err := c.Measure(ctx); err != nil && ctx.Err() == nil {
			c.store.metrics.clockFailures.Inc()
			c.logger.WarnContext(ctx, "reading the database's clock failed; using the last offset",
				slog.Any("error", err))
		}
	})
	return nil
}

// sample is one reading of the database's clock.
type sample struct {
	local, database time.Time
	bound           time.Duration
}

// Measure measures the offset now; Run does so periodically. Errors: ErrUnavailable, ErrClosed, ctx.Err(); the last
// offset is then used.
func (c *Clock) Measure(ctx context.Context) error {
	best := sample{}
	if c.store.Shared() {
		ctx, cancel := context.WithTimeout(ctx, measureTimeout)
		defer cancel()
		for i := range clockSamples {
			s, err := c.ask(ctx)
			if err != nil {
				return fmt.Errorf("measure the database's clock: %w", c.store.classify(err))
			}
			if i == 0 || s.bound < best.bound {
				best = s
			}
		}
	} else {
		best.local = c.local()
		best.database = best.local
	}
	c.mu.Lock()
	c.at, c.database, c.bound = best.local, best.database.Round(0), best.bound
	offset := c.database.Sub(c.at.Round(0))
	c.mu.Unlock()
	c.store.metrics.clockOffset.Set(offset.Seconds())
	return nil
}

// ask reads the database's clock and assumes that the reading is from the middle of the round trip.
func (c *Clock) ask(ctx context.Context) (sample, error) {
	before := c.local()
	var database time.Time
	if err := c.store.Read().QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&database); err != nil {
		return sample{}, err
	}
	half := c.local().Sub(before) / 2
	return sample{local: before.Add(half), database: database, bound: half}, nil
}
