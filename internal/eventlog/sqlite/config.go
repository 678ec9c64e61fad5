package sqlite

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// Defaults of Config.
const (
	defaultQueueLength     = 4096
	defaultGroupEvents     = 4096
	defaultHeadCache       = 1 << 17
	defaultReaders         = 4
	defaultTailEvents      = 8192
	defaultCheckpointPages = 2048
	defaultVerifyBytes     = 16 << 20
	defaultScrubBytes      = 8 << 20
	defaultScrubEvery      = 6 * time.Hour
)

// Config configures a Log. Zero values take the defaults.
type Config struct {
	// Path of the database file; its folder must exist. The files Path-wal, Path-shm, Path.lock and
	// MarkerPath appear next to it.
	Path string
	// QueueLength bounds the appends that wait for the writer; the next one waits for room.
	QueueLength int
	// GroupEvents bounds the events of one commit.
	GroupEvents int
	// HeadCache bounds the streams whose last revision is cached.
	HeadCache int
	// Readers is the number of connections that read.
	Readers int
	// TailEvents bounds the last events that are kept in memory for live subscriptions.
	TailEvents int
	// CheckpointPages is how many pages (of 4 KiB) may be written to the WAL before a checkpoint begins.
	CheckpointPages int
	// VerifyBytes is the log size up to which Open verifies every event. Of a larger log Open verifies only
	// the end, and Scrub verifies the rest.
	VerifyBytes int
	// ScrubBytes bounds the bytes of events that Scrub reads per second.
	ScrubBytes int
	// ScrubEvery is the pause between two passes of Scrub.
	ScrubEvery time.Duration
	// AcceptLoss makes Open continue with the intact beginning of a log that has lost events.
	// The previous files are kept next to it.
	AcceptLoss bool
	// KeepFormat makes Open leave the file in its format, for the release that wrote it.
	KeepFormat bool
	// Pace, if it is not nil, is called before each read of a log that OpenReadOnly opened. It may wait; its errors are
	// those of the read.
	Pace func(context.Context) error
	// Logger receives faults of the store; nil discards them.
	Logger *slog.Logger
	// Registerer receives the metrics; nil means none.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.QueueLength = cmp.Or(c.QueueLength, defaultQueueLength)
	c.GroupEvents = cmp.Or(c.GroupEvents, defaultGroupEvents)
	c.HeadCache = cmp.Or(c.HeadCache, defaultHeadCache)
	c.Readers = cmp.Or(c.Readers, defaultReaders)
	c.TailEvents = cmp.Or(c.TailEvents, defaultTailEvents)
	c.CheckpointPages = cmp.Or(c.CheckpointPages, defaultCheckpointPages)
	c.VerifyBytes = cmp.Or(c.VerifyBytes, defaultVerifyBytes)
	c.ScrubBytes = cmp.Or(c.ScrubBytes, defaultScrubBytes)
	c.ScrubEvery = cmp.Or(c.ScrubEvery, defaultScrubEvery)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

type metrics struct {
	latency prometheus.Histogram
	group   prometheus.Histogram
	head    prometheus.Gauge

	markerErrors       prometheus.Counter
	scrubbed           prometheus.Counter
	scrubDone, damaged prometheus.Gauge

	unregister func()
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		latency: telemetry.Histogram("letterhead_eventlog_append_duration_seconds",
			"Time from the call of an append until it was durable.",
			prometheus.ExponentialBuckets(50e-6, 2, 16)), // 50 µs to 1.6 s
		group: telemetry.Histogram("letterhead_eventlog_group_events",
			"Events written by one commit.", prometheus.ExponentialBuckets(1, 2, 13)), // 1 to 4096
		head: telemetry.Gauge("letterhead_eventlog_head_position", "Position of the last event."),
		markerErrors: telemetry.Counter("letterhead_eventlog_marker_errors_total",
			"Failed writes and flushes of the head marker."),
		scrubbed: telemetry.Counter("letterhead_eventlog_scrubbed_events_total", "Events that the scrub has verified."),
		scrubDone: telemetry.Gauge("letterhead_eventlog_scrub_last_complete_timestamp_seconds",
			"When the last whole scrub of this process ended; 0 before the first."),
		damaged: telemetry.Gauge("letterhead_eventlog_damaged_events", "Damaged events that the last whole scrub found."),
	}
	all := []prometheus.Collector{m.latency, m.group, m.head, m.markerErrors, m.scrubbed, m.scrubDone, m.damaged}
	m.unregister = func() { telemetry.Unregister(r, all...) }
	if err := telemetry.Register(r, all...); err != nil {
		return nil, err
	}
	return m, nil
}
