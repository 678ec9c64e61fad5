package safehttp

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

type metrics struct {
	fetches  *prometheus.CounterVec
	bytes    prometheus.Counter
	duration prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		fetches: telemetry.Counters("letterhead_fetches_total", "Fetches by outcome.", "outcome"),
		bytes:   telemetry.Counter("letterhead_fetch_bytes_total", "Bytes of fetched bodies after decompression."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "letterhead_fetch_duration_seconds", Help: "Duration of a fetch, including redirects.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2, 4, 8},
		}),
	}
	if err := telemetry.Register(r, m.fetches, m.bytes, m.duration); err != nil {
		return nil, fmt.Errorf("safehttp: register metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) observe(took time.Duration, bytes int, err error) {
	m.fetches.WithLabelValues(Reason(err)).Inc()
	m.bytes.Add(float64(bytes))
	m.duration.Observe(took.Seconds())
}
