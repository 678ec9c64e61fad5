package search

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/eventlog"
	"letterhead/internal/telemetry"
)

type metrics struct {
	indexed, failures, searchFailures prometheus.Counter
	seconds                           prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, position func() eventlog.Position) (*metrics, error) {
	m := &metrics{
		indexed: telemetry.Counter("letterhead_search_indexed_total",
			"Changes of brands that were written to the search index."),
		failures: telemetry.Counter("letterhead_search_feed_failures_total",
			"Attempts to feed the search index that failed."),
		searchFailures: telemetry.Counter("letterhead_search_failures_total", "Searches that failed."),
		seconds: telemetry.Histogram("letterhead_search_seconds",
			"Time of searches in the index.", prometheus.ExponentialBuckets(0.0001, 2, 14)), // 0.1 ms to 0.8 s
	}
	at := telemetry.GaugeFunc("letterhead_search_position",
		"Log position up to which all changes of brands are found.", func() float64 { return float64(position()) })
	if err := telemetry.Register(reg, m.indexed, m.failures, m.searchFailures, m.seconds, at); err != nil {
		return nil, fmt.Errorf("search metrics: %w", err)
	}
	return m, nil
}
