package streamwriter

import (
	"cmp"
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

func (c Config) withDefaults(encoder Encoder) Config {
	c.MaxQueue = cmp.Or(c.MaxQueue, DefaultMaxQueue)
	c.MaxLive = cmp.Or(c.MaxLive, DefaultMaxLive)
	c.IdleAfter = cmp.Or(c.IdleAfter, DefaultIdleAfter)
	c.ResolveWithin = cmp.Or(c.ResolveWithin, DefaultResolveWithin)
	c.KnowWithin = cmp.Or(c.KnowWithin, DefaultKnowWithin)
	c.AppendWithin = cmp.Or(c.AppendWithin, DefaultAppendWithin)
	c.LoadWithin = cmp.Or(c.LoadWithin, DefaultLoadWithin)
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, DefaultSnapshotEvery)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Encoder == nil {
		c.Encoder = encoder
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
