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
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "letterhead_brand_cache_lookups_total",
		Help: "Look-ups in the cache of brands, by result.",
	}, []string{"result"})
	bytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "letterhead_brand_cache_bytes",
		Help: "Memory that the cached answers take.",
	}, func() float64 { return float64(c.bytes()) })
	reads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "letterhead_brand_cache_reads_total",
		Help: "Database statements of the cache of brands: for a miss, and for changes that this node has not read from the log yet.",
	}, []string{"for"})
	m := &metrics{
		hits: lookups.WithLabelValues("hit"), misses: lookups.WithLabelValues("miss"),
		rows: reads.WithLabelValues("brand"), changes: reads.WithLabelValues("changes"),
	}
	if err := telemetry.Register(reg, lookups, bytes, reads); err != nil {
		return nil, fmt.Errorf("register metrics of the brands: %w", err)
	}
	return m, nil
}
