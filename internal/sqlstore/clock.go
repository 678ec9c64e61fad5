package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// clockSamples is how many times the server is asked at once; the quickest answer is the most exact.
	clockSamples = 5
	// DefaultClockInterval is the time between two measurements. Quartz drifts by less than 100 µs a second,
	// so between two of them the clock goes wrong by about a millisecond.
	DefaultClockInterval = 10 * time.Second
	// minClockInterval keeps a typing error from asking without a pause.
	minClockInterval = 100 * time.Millisecond
	// measureTimeout bounds one measurement.
	measureTimeout = 5 * time.Second
	// catchUp slows the clock down while it is ahead of what was measured: it goes at 1/catchUp of its rate.
	catchUp = 2
)

// ClockConfig sets a Clock up. The zero ClockConfig is usable.
type ClockConfig struct {
	// Local is the machine's clock. Default: time.Now.
	Local func() time.Time
	// Interval is the time between two measurements. Default: DefaultClockInterval.
	Interval time.Duration
	Logger   *slog.Logger
}

// Validate reports everything that is wrong.
func (c ClockConfig) Validate() error {
	if c.Interval != 0 && c.Interval < minClockInterval {
		return fmt.Errorf("interval of the clock is %s; it is 0 (default) or at least %s", c.Interval, minClockInterval)
	}
	return nil
}

// Clock tells the time of the database, which all nodes share: the machine's own clock and a measured
// offset. With SQLite it is the machine's own clock. It never steps back: when a measurement shows that it is
// ahead, it goes at half its rate until the database's time has caught up; when it is behind, it jumps.
//
// The machine's clock counts by its monotonic reading: setting its date changes nothing. It is safe for
// concurrent use.
type Clock struct {
	store    *Store
	local    func() time.Time
	interval time.Duration
	logger   *slog.Logger

	mu        sync.Mutex
	at        time.Time     // local time of the measurement
	database  time.Time     // the database's time then
	bound     time.Duration // half the round trip: how far off the measurement may be
	told      time.Time     // the last time told
	toldLocal time.Time     // when
}

// NewClock measures the offset once. Errors: ErrUnavailable, ErrClosed, ctx.Err(), or what
// ClockConfig.Validate says.
func NewClock(ctx context.Context, store *Store, cfg ClockConfig) (*Clock, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Clock{store: store, local: cfg.Local, interval: cfg.Interval, logger: cfg.Logger}
	if c.local == nil {
		c.local = time.Now
	}
	if c.interval == 0 {
		c.interval = DefaultClockInterval
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
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
	if !c.told.IsZero() {
		since := max(0, local.Sub(c.toldLocal))
		if slow := c.told.Add(since / catchUp); now.Before(slow) {
			now = slow
		}
	}
	c.told, c.toldLocal = now, local
	return now
}

// Offset returns how far the database's clock was ahead of the machine's when it was measured last, and how
// far off that may be (half the round trip). On SQLite both are 0.
func (c *Clock) Offset() (offset, bound time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.database.Sub(c.at.Round(0)), c.bound
}

// Run measures the offset again from time to time, until ctx ends (nil). While the database is away the
// last offset stays in force.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.Measure(ctx); err != nil && ctx.Err() == nil {
			c.store.metrics.clockFailures.Inc()
			c.logger.WarnContext(ctx, "the database's clock could not be read; the last offset stays in force", slog.Any("error", err))
		}
	}
}

// sample is one answer of the database's clock.
type sample struct {
	local, database time.Time
	bound           time.Duration
}

// Measure measures the offset now; Run does it from time to time. Errors: ErrUnavailable, ErrClosed, ctx.Err();
// the last offset then stays in force.
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
	if best.database.IsZero() {
		return errors.New("measure the database's clock: it told no time")
	}
	c.mu.Lock()
	c.at, c.database, c.bound = best.local, best.database.Round(0), best.bound
	offset := c.database.Sub(c.at.Round(0))
	c.mu.Unlock()
	c.store.metrics.clockOffset.Set(offset.Seconds())
	return nil
}

// ask takes the answer to be of the middle of the round trip.
func (c *Clock) ask(ctx context.Context) (sample, error) {
	before := c.local()
	var database time.Time
	if err := c.store.Read().QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&database); err != nil {
		return sample{}, err
	}
	half := c.local().Sub(before) / 2
	return sample{local: before.Add(half), database: database, bound: half}, nil
}
