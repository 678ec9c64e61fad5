package sweep

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

const (
	whatHold  = "hold"
	whatCrawl = "crawl"
)

type metrics struct {
	swept *prometheus.CounterVec
	open  *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) (metrics, error) {
	m := metrics{
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "letterhead_sweep_ended_total",
			Help: "Overdue holds that the sweeper released, and overdue crawls that it ended.",
		}, []string{"what"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "letterhead_sweep_open",
			Help: "Holds and crawls that have not ended, as far as the sweeper has read the log.",
		}, []string{"what"}),
	}
	if err := telemetry.Register(registerer, m.swept, m.open); err != nil {
		return m, fmt.Errorf("register metrics of the sweeper: %w", err)
	}
	return m, nil
}

func (m metrics) note(o open) {
	m.open.WithLabelValues(whatHold).Set(float64(len(o.Holds)))
	m.open.WithLabelValues(whatCrawl).Set(float64(len(o.Crawls)))
}
