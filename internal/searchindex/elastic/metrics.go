package elastic

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

type metrics struct {
	seconds *prometheus.HistogramVec
	retries prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "letterhead_elasticsearch_request_seconds",
			Help:    "Duration of requests to Elasticsearch, per attempt.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // 1 ms to 8 s
		}, []string{"operation", "outcome"}),
		retries: telemetry.Counter("letterhead_elasticsearch_retries_total",
			"Retried requests to Elasticsearch, including partial retries."),
	}
}

func (m *metrics) observe(op string, err error, took time.Duration) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.seconds.WithLabelValues(op, outcome).Observe(took.Seconds())
}
