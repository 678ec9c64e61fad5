package sqlite

import (
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

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
