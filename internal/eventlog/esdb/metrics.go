package esdb

import (
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

type metrics struct {
	latency    prometheus.Histogram
	reconnects prometheus.Counter
	resumes    prometheus.Counter
	calls      prometheus.GaugeFunc

	unregister func()
}

// newMetrics creates the metrics; underWay counts the calls. All adapters use the name of the first metric.
func newMetrics(r prometheus.Registerer, underWay func() int) (*metrics, error) {
	m := &metrics{
		latency: telemetry.Histogram("letterhead_eventlog_append_duration_seconds",
			"Time from the call of an append until it was durable.",
			prometheus.ExponentialBuckets(50e-6, 2, 16)), // 50 µs to 1.6 s
		reconnects: telemetry.Counter("letterhead_eventlog_reconnects_total",
			"Number of new connections to the event store after the first."),
		resumes: telemetry.Counter("letterhead_eventlog_subscription_resumes_total",
			"How often a subscription fell behind or was ended by the event store or the connection, and continued where "+
				"it was."),
		calls: telemetry.GaugeFunc("letterhead_eventlog_calls",
			"Running calls to the event store.", func() float64 { return float64(underWay()) }),
	}
	all := []prometheus.Collector{m.latency, m.reconnects, m.resumes, m.calls}
	m.unregister = func() { telemetry.Unregister(r, all...) }
	if err := telemetry.Register(r, all...); err != nil {
		return nil, err
	}
	return m, nil
}
