package variants

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

type metrics struct {
	memory, made, joined       prometheus.Counter // of asked
	asked                      *prometheus.CounterVec
	failed, refused, abandoned prometheus.Counter
	seconds                    prometheus.Histogram
}

func newMetrics() *metrics {
	m := &metrics{
		asked: telemetry.Counters("letterhead_logo_variants_asked_total",
			"Requests for drawn logos, by source: memory, made, or joined to the making of another request.", "from"),
		failed: telemetry.Counter("letterhead_logo_variants_failed_total", "Logos that were begun and could not be made."),
		refused: telemetry.Counter("letterhead_logo_variants_refused_total",
			"Logos that were not begun because too many were being made."),
		abandoned: telemetry.Counter("letterhead_logo_variants_abandoned_total",
			"Logos that were not begun because all who waited had left."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "letterhead_logo_variants_make_seconds",
			Help:    "Duration of making a logo, excluding the wait for its turn.",
			Buckets: []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5},
		}),
	}
	m.memory, m.made, m.joined = m.asked.WithLabelValues("memory"), m.asked.WithLabelValues("made"),
		m.asked.WithLabelValues("joined")
	return m
}

func (m *metrics) register(to prometheus.Registerer, memory *memory) error {
	if to == nil {
		return nil
	}
	labels := prometheus.Labels{"level": "memory"}
	all := []prometheus.Collector{m.asked, m.failed, m.refused, m.abandoned, m.seconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "letterhead_logo_variants_entries", Help: "Cached drawn logos.", ConstLabels: labels,
		}, func() float64 { return float64(memory.entries.EstimatedSize()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "letterhead_logo_variants_bytes", Help: "Bytes of the cached logos.", ConstLabels: labels,
		}, func() float64 { return float64(memory.entries.WeightedSize()) }),
	}
	if err := telemetry.Register(to, all...); err != nil {
		return fmt.Errorf("register metrics of drawn logos: %w", err)
	}
	return nil
}
