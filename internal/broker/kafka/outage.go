package kafka

import (
	"log/slog"
	"sync"
	"time"
)

// settle is the number of measurements of the lag without a failed request after which Kafka works again. With
// DefaultLagEvery that is longer than the longest pause between two attempts, and clients report broken connections
// until then.
const settle = 4

// outage logs one line when requests begin to fail and one when none fails any more, not one for each attempt.
type outage struct {
	logger *slog.Logger
	quiet  time.Duration // without a failure, until Kafka works again

	mu          sync.Mutex
	since, last time.Time // of the failures; zero while there is none
}

// failed notes that a request failed.
func (o *outage) failed(msg string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last = time.Now(); !o.since.IsZero() {
		o.logger.Debug("kafka: "+msg, "error", err)
		return
	}
	o.since = o.last
	o.logger.Warn("kafka does not work; requests are retried until it does", "request", msg, "error", err)
}

// measured notes that a measurement of the lag succeeded.
func (o *outage) measured() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || time.Since(o.last) < o.quiet {
		return
	}
	o.logger.Info("kafka works again", "failed_for", o.last.Sub(o.since).Round(time.Millisecond), "until", o.last.UTC())
	o.since = time.Time{}
}
