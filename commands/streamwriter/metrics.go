package streamwriter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
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
