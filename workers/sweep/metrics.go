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
		swept: telemetry.Counters("letterhead_sweep_ended_total",
			"Overdue holds that the sweeper released, and overdue crawls that it ended.", "what"),
		open: telemetry.Gauges("letterhead_sweep_open",
			"Holds and crawls that have not ended, as far as the sweeper has read the log.", "what"),
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
