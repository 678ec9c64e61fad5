package sqlite

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	latency prometheus.Histogram
	group   prometheus.Histogram
	head    prometheus.Gauge

	unregister func()
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "letterhead_eventlog_append_duration_seconds",
			Help:    "Time from the call of an append until it was durable.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16), // 50 µs to 1.6 s
		}),
		group: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "letterhead_eventlog_group_events",
			Help:    "Events written by one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13), // 1 to 4096
		}),
		head: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "letterhead_eventlog_head_position",
			Help: "Position of the last event.",
		}),
		unregister: func() {},
	}
	if r == nil {
		return m, nil
	}
	all := []prometheus.Collector{m.latency, m.group, m.head}
	m.unregister = func() {
		for _, c := range all {
			r.Unregister(c)
		}
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}
