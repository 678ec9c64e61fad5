package projections

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults and limits.
const (
	// DefaultBatchEvents is what a lane that is behind folds in one transaction. More makes each changed
	// row rarer to write but holds the writer longer, at most some 150 ms at this size.
	DefaultBatchEvents = 20_000
	maxBatchEvents     = 1_000_000
	// maxBatchBytes ends a batch early when its events are large.
	maxBatchBytes = 32 << 20
	// pageEvents is what one read of the log returns at most.
	pageEvents = 4096
	// pagesAhead is how many pages are read and decoded while one batch is being folded and another written:
	// those of the next batch, so that neither processor waits for the other.
	pagesAhead = 6
	// levelEvents is the most that a chase lane folds while it holds the main lane up.
	levelEvents = 2000
	// liveGather is the pause after a small batch of the main lane, in which the next one gathers. Under load
	// each transaction then carries many events; committing them as they come cost a third of the processor
	// time of a metered look-up (BenchmarkLookupHit). An event that comes after a quiet moment is folded at
	// once, and WaitFor ends the pause; all others are seen this much later at most.
	liveGather = 100 * time.Millisecond
	// DefaultRetryFirst and DefaultRetryLast bound the pause before a set-aside read model, or a database
	// that failed, is tried again; it doubles in between.
	DefaultRetryFirst = 250 * time.Millisecond
	DefaultRetryLast  = time.Minute
	// scrapeTimeout bounds the reads of the log for the gauges.
	scrapeTimeout = time.Second
	// maxFailureBytes bounds the error text that the registry keeps.
	maxFailureBytes = 2000
)

// Config of a Runner. The zero value is complete.
type Config struct {
	// BatchEvents is the most events of one transaction. Default: DefaultBatchEvents.
	BatchEvents int
	// RetryFirst and RetryLast bound the pauses between attempts. Defaults: DefaultRetryFirst, DefaultRetryLast.
	RetryFirst, RetryLast time.Duration
	Logger                *slog.Logger
	Registerer            prometheus.Registerer
	Now                   func() time.Time
}

func (c Config) withDefaults() Config {
	if c.BatchEvents == 0 {
		c.BatchEvents = DefaultBatchEvents
	}
	if c.RetryFirst == 0 {
		c.RetryFirst = DefaultRetryFirst
	}
	if c.RetryLast == 0 {
		c.RetryLast = max(DefaultRetryLast, c.RetryFirst)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.BatchEvents < 0 || c.BatchEvents > maxBatchEvents {
		errs = append(errs, fmt.Errorf("batch of %d events; it is 0 (default) to %d", c.BatchEvents, maxBatchEvents))
	}
	if c.RetryFirst < 0 || c.RetryLast < 0 {
		errs = append(errs, errors.New("a pause between attempts is negative"))
	}
	if c.RetryLast != 0 && c.RetryLast < c.RetryFirst {
		errs = append(errs, fmt.Errorf("the last pause (%s) is shorter than the first (%s)", c.RetryLast, c.RetryFirst))
	}
	return errors.Join(errs...)
}

// backoff counts pauses that double.
type backoff struct{ next, last time.Duration }

func (c *Config) backoff() backoff { return backoff{next: c.RetryFirst, last: c.RetryLast} }

func (b *backoff) pause() time.Duration {
	d := b.next
	b.next = min(2*b.next, b.last)
	return d
}
