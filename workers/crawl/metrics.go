package crawl

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// metrics of a Worker.
type metrics struct {
	outcomes *prometheus.CounterVec
	skipped  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	bytes    *prometheus.HistogramVec
	requests *prometheus.HistogramVec
	busy     *prometheus.GaugeVec
	queued   *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
			[]string{"lane"})
	}
	m := &metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_crawls_total", Help: "Completed crawls, by priority (label lane) and outcome.",
		}, []string{"lane", "outcome"}),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_crawls_skipped_total",
			Help: "Skipped crawl requests, by priority (label lane) and reason: ended, overdue, begun (before, by a process that may be gone).",
		}, []string{"lane", "reason"}),
		duration: histogram("letterhead_crawl_duration_seconds", "Duration of a crawl, outcome appended.",
			[]float64{0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 20, 30}),
		bytes: histogram("letterhead_crawl_bytes", "Bytes of bodies fetched by a crawl, decompressed.",
			prometheus.ExponentialBuckets(1<<12, 4, 8)),
		requests: histogram("letterhead_crawl_requests", "Fetches of a crawl.", []float64{1, 2, 4, 8, 12, 16, 24, 32}),
		busy: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "letterhead_crawl_pool_busy", Help: "Running crawls, by priority (label lane).",
		}, []string{"lane"}),
		queued: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "letterhead_crawl_pool_queued",
			Help: "Delivered crawls waiting for a free worker, by priority (label lane).",
		}, []string{"lane"}),
	}
	err := telemetry.Register(r, m.outcomes, m.skipped, m.duration, m.bytes, m.requests, m.busy, m.queued)
	if err != nil {
		return nil, fmt.Errorf("register crawl metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) ended(priority, outcome string, took time.Duration, s Stats) {
	m.outcomes.WithLabelValues(priority, outcome).Inc()
	m.duration.WithLabelValues(priority).Observe(took.Seconds())
	m.bytes.WithLabelValues(priority).Observe(float64(s.Bytes))
	m.requests.WithLabelValues(priority).Observe(float64(s.Requests))
}
