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
	m := &metrics{
		outcomes: telemetry.Counters("letterhead_crawls_total",
			"Completed crawls, by priority (label lane) and outcome.", "lane", "outcome"),
		skipped: telemetry.Counters("letterhead_crawls_skipped_total",
			"Skipped crawl requests, by priority (label lane) and reason: ended, overdue, begun (before, by a process that "+
				"may be gone).", "lane", "reason"),
		duration: telemetry.Histograms("letterhead_crawl_duration_seconds", "Duration of a crawl, outcome appended.",
			[]float64{0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 20, 30}, "lane"),
		bytes: telemetry.Histograms("letterhead_crawl_bytes", "Bytes of bodies fetched by a crawl, decompressed.",
			prometheus.ExponentialBuckets(1<<12, 4, 8), "lane"),
		requests: telemetry.Histograms("letterhead_crawl_requests", "Fetches of a crawl.",
			[]float64{1, 2, 4, 8, 12, 16, 24, 32}, "lane"),
		busy: telemetry.Gauges("letterhead_crawl_pool_busy", "Running crawls, by priority (label lane).", "lane"),
		queued: telemetry.Gauges("letterhead_crawl_pool_queued",
			"Delivered crawls waiting for a free worker, by priority (label lane).", "lane"),
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
