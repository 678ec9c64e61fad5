package brands

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

type metrics struct{ hits, misses prometheus.Counter }

func newMetrics(reg prometheus.Registerer, c *cache) (*metrics, error) {
	lookups := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "letterhead_brand_cache_lookups_total",
		Help: "Brands asked for, by whether the cache had the answer.",
	}, []string{"result"})
	bytes := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "letterhead_brand_cache_bytes",
		Help: "Memory that the cached answers take.",
	}, func() float64 { return float64(c.entries.WeightedSize()) })
	m := &metrics{hits: lookups.WithLabelValues("hit"), misses: lookups.WithLabelValues("miss")}
	if err := telemetry.Register(reg, lookups, bytes); err != nil {
		return nil, fmt.Errorf("register metrics of the brands: %w", err)
	}
	return m, nil
}
