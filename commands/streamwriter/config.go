package streamwriter

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
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

// Errors of this package. Commands also return their own rejections and the errors of the event log,
// wrapped with the attempted operation.
var (
	// ErrBusy: the queue is full, a conflict could not be resolved in time, or Drain was called. Nothing
	// was written. Retry after a second, or after LoadingError.RetryAfter.
	ErrBusy = errors.New("busy, try again")
	// ErrUnknownOutcome: the log did not report in time whether the append succeeded. It is an ErrBusy.
	// Events that were stored are compensated.
	ErrUnknownOutcome = fmt.Errorf("%w: the outcome of the append is not known", ErrBusy)
	// ErrInvalidRequest: the command lacks its request id or actor.
	ErrInvalidRequest = errors.New("invalid request")
)

// metrics are the metrics of one kind of stream. They carry its label, so that several kinds can share a registerer.
type metrics struct {
	command        prometheus.Observer
	group          prometheus.Histogram
	appendTime     prometheus.Histogram
	events         prometheus.Counter
	reads          prometheus.Counter
	conflicts      prometheus.Counter
	yields         prometheus.Counter
	retries        prometheus.Counter
	rejected       *prometheus.CounterVec
	snapshots      *prometheus.CounterVec
	live           prometheus.Gauge
	loading        prometheus.Gauge
	evicted        prometheus.Counter
	compensated    prometheus.Counter
	notCompensated prometheus.Counter
}

// newMetrics creates and registers the metrics; a nil registerer registers nothing.
func newMetrics(label string, registerer prometheus.Registerer) (*metrics, error) {
	latency := prometheus.ExponentialBuckets(0.0001, 2.5, 12) // 0.1 ms to 2.4 s
	command := telemetry.Histogram("letterhead_desk_command_seconds",
		"Time from asking for a charge or count to its durable answer.", latency)
	m := &metrics{
		command: command,
		group: telemetry.Histogram("letterhead_desk_group_commands", "Commands that were decided for one append.",
			prometheus.ExponentialBuckets(1, 2, 10)),
		appendTime: telemetry.Histogram("letterhead_desk_append_seconds", "Time of one append with its repeats.", latency),
		events:     telemetry.Counter("letterhead_desk_events_total", "Events appended."),
		reads:      telemetry.Counter("letterhead_desk_reads_total", "Reads of streams, for loading and for tails."),
		conflicts:  telemetry.Counter("letterhead_desk_conflicts_total", "Appends that lost the race for their revision."),
		yields: telemetry.Counter("letterhead_desk_yields_total",
			"Pauses in which another node could append to the stream."),
		retries: telemetry.Counter("letterhead_desk_append_retries_total",
			"Repeats of appends whose outcome was unknown."),
		rejected: telemetry.Counters("letterhead_desk_busy_total",
			"Commands rejected because of load, by reason.", "reason"),
		snapshots: telemetry.Counters("letterhead_desk_snapshots_total",
			"Snapshots by result: saved, failed (to be saved), damaged, unfit (not of the stream).", "result"),
		live: telemetry.Gauge("letterhead_desk_live_streams", "Streams whose state is in memory."),
		loading: telemetry.Gauge("letterhead_desk_loading_streams",
			"Streams that are loaded in the background; their commands are rejected meanwhile."),
		evicted: telemetry.Counter("letterhead_desk_evicted_total", "Streams dropped from memory to make room."),
		compensated: telemetry.Counter("letterhead_desk_handed_back_total",
			"Charges reversed and holds released because their caller had left."),
		notCompensated: telemetry.Counter("letterhead_desk_not_handed_back_total",
			"Charges and holds that could not be reversed or released and are left to an operator."),
	}
	registerer = prometheus.WrapRegistererWith(prometheus.Labels{"desk": label}, registerer)
	return m, telemetry.Register(registerer, command, m.group, m.appendTime, m.events, m.reads, m.conflicts, m.yields,
		m.retries, m.rejected,
		m.snapshots, m.live, m.loading, m.evicted, m.compensated, m.notCompensated)
}

func (m *metrics) appended(commands, events int, took time.Duration) {
	m.group.Observe(float64(commands))
	m.events.Add(float64(events))
	m.appendTime.Observe(took.Seconds())
}
