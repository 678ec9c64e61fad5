package sqlstore

import (
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

type metrics struct {
	normal, durable prometheus.Observer
	walFrames       prometheus.Gauge
	repeats         *prometheus.CounterVec
	leading         *prometheus.GaugeVec
	clockOffset     prometheus.Gauge
	clockFailures   prometheus.Counter
	all             []prometheus.Collector
}

// writeBuckets range from a live batch to the index of a large table, in seconds.
var writeBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

func newMetrics() *metrics {
	seconds := telemetry.Histograms("letterhead_database_write_seconds",
		"Time a write transaction of the database took: on SQLite without the wait for its turn, on PostgreSQL with "+
			"its repeats.",
		writeBuckets, "durability")
	frames := telemetry.Gauge("letterhead_database_wal_frames",
		"Pages in the write-ahead log that the last checkpoint could not copy.")
	repeats := telemetry.Counters("letterhead_database_repeats_total",
		"Transactions that ran again, because another changed the same rows (conflict) or the connection was lost.", "reason")
	leading := telemetry.Gauges("letterhead_leading",
		"1 while this process holds the leadership of this name, else 0.", "name")
	offset := telemetry.Gauge("letterhead_clock_offset_seconds",
		"How far the database's clock is ahead of this machine's.")
	clockFailures := telemetry.Counter("letterhead_clock_failures_total",
		"Measurements of the database's clock that failed. While they do, the last offset stays in force.")
	return &metrics{
		normal: seconds.WithLabelValues("normal"), durable: seconds.WithLabelValues("full"), walFrames: frames,
		repeats: repeats, leading: leading, clockOffset: offset,
		clockFailures: clockFailures,
		all:           []prometheus.Collector{seconds, frames, repeats, leading, offset, clockFailures},
	}
}
