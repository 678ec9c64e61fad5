package elastic

import (
	"fmt"
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
			Name: "letterhead_elasticsearch_request_seconds", Help: "Duration of requests to Elasticsearch, per attempt.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), // 1 ms to 8 s
		}, []string{"operation", "outcome"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "letterhead_elasticsearch_retries_total", Help: "Retried requests to Elasticsearch, including partial retries.",
		}),
	}
}

// register registers all metrics, or none of them; the registry may be nil.
func (m *metrics) register(reg prometheus.Registerer) error {
	if err := telemetry.Register(reg, m.seconds, m.retries); err != nil {
		return fmt.Errorf("search index metrics: %w", err)
	}
	return nil
}

func (m *metrics) observe(op string, err error, took time.Duration) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.seconds.WithLabelValues(op, outcome).Observe(took.Seconds())
}
