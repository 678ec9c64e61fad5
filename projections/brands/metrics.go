package brands

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

type metrics struct {
	hits, misses  prometheus.Counter
	rows, changes prometheus.Counter // statements for the cache
}

func newMetrics(reg prometheus.Registerer, c *cache) (*metrics, error) {
	lookups := telemetry.Counters("letterhead_brand_cache_lookups_total",
		"Look-ups in the cache of brands, by result.", "result")
	bytes := telemetry.GaugeFunc("letterhead_brand_cache_bytes",
		"Memory that the cached answers take.", func() float64 { return float64(c.bytes()) })
	reads := telemetry.Counters("letterhead_brand_cache_reads_total",
		"Database statements of the cache of brands: for a miss, and for changes that this node has not read from the "+
			"log yet.", "for")
	m := &metrics{
		hits: lookups.WithLabelValues("hit"), misses: lookups.WithLabelValues("miss"),
		rows: reads.WithLabelValues("brand"), changes: reads.WithLabelValues("changes"),
	}
	if err := telemetry.Register(reg, lookups, bytes, reads); err != nil {
		return nil, fmt.Errorf("register metrics of the brands: %w", err)
	}
	return m, nil
}
