package streamwriter

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Config.
const (
	DefaultMaxQueue      = 4096
	DefaultMaxLive       = 20_000
	DefaultIdleAfter     = 10 * time.Minute
	DefaultResolveWithin = 2 * time.Second
	DefaultKnowWithin    = 5 * time.Second
	DefaultAppendWithin  = 5 * time.Second
	DefaultLoadWithin    = 3 * time.Second // less than the deadline of a request, so that its answer gives the reason
	DefaultSnapshotEvery = 4096
)

// Config sets the limits of a set of actors. Zero values take the defaults.
type Config struct {
	// MaxQueue limits the commands that wait for one stream; further ones get ErrBusy.
	MaxQueue int
	// MaxLive limits the streams in memory; at the limit an idle one is evicted.
	MaxLive int
	// IdleAfter is how long, up to twice the value, a stream stays in memory without a command.
	IdleAfter time.Duration
	// ResolveWithin limits the time of retries after conflicts.
	ResolveWithin time.Duration
	// KnowWithin limits the time of repeating an append whose outcome is unknown.
	KnowWithin time.Duration
	// AppendWithin limits one call of the log's Append or ReadStream.
	AppendWithin time.Duration
	// LoadWithin is how long commands wait for a stream to load. A stream that takes longer continues
	// to load in the background, and its commands get a *LoadingError in the meantime.
	LoadWithin time.Duration
	// SnapshotEvery is the minimum number of events between two snapshots of a stream.
	SnapshotEvery int
	// Shared is set if other nodes append to the same streams: a busy stream then lets them append now and then.
	Shared bool
	// Encoder encodes events in the versions that every node in service reads. Default: that of the Kind.
	Encoder Encoder
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Logger logs faults; nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics; nil means none.
	Registerer prometheus.Registerer
}

// Validate reports all errors of the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, s := range c.numbers() {
		if s.value() < 0 {
			errs = append(errs, fmt.Errorf("%s is negative", s.name))
		}
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults(encoder Encoder) Config {
	for _, s := range c.numbers() {
		if s.value() == 0 {
			s.set(s.usual)
		}
	}
	if c.Encoder == nil {
		c.Encoder = encoder
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// numbers lists the settings that are counts or durations, with their defaults.
func (c *Config) numbers() []setting {
	return []setting{
		{"MaxQueue", &c.MaxQueue, nil, DefaultMaxQueue},
		{"MaxLive", &c.MaxLive, nil, DefaultMaxLive},
		{"SnapshotEvery", &c.SnapshotEvery, nil, DefaultSnapshotEvery},
		{"IdleAfter", nil, &c.IdleAfter, int64(DefaultIdleAfter)},
		{"ResolveWithin", nil, &c.ResolveWithin, int64(DefaultResolveWithin)},
		{"KnowWithin", nil, &c.KnowWithin, int64(DefaultKnowWithin)},
		{"AppendWithin", nil, &c.AppendWithin, int64(DefaultAppendWithin)},
		{"LoadWithin", nil, &c.LoadWithin, int64(DefaultLoadWithin)},
	}
}

// setting is a count or a duration.
type setting struct {
	name     string
	count    *int
	duration *time.Duration
	usual    int64
}

func (s setting) value() int64 {
	if s.count != nil {
		return int64(*s.count)
	}
	return int64(*s.duration)
}

func (s setting) set(v int64) {
	if s.count != nil {
		*s.count = int(v)
		return
	}
	*s.duration = time.Duration(v)
}
