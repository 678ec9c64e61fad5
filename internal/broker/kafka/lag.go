package kafka

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// lagGauge exposes the last measured lag. If it queried the cluster during a scrape, a hanging cluster
// would block Prometheus.
type lagGauge struct {
	description *prometheus.Desc

	mu       sync.Mutex
	followed []subscription
	lags     []GroupLag
}

var _ prometheus.Collector = (*lagGauge)(nil)

func newLagGauge() *lagGauge {
	return &lagGauge{description: prometheus.NewDesc("letterhead_broker_lag",
		"Messages of a topic that a group still has to handle. Absent while it cannot be measured.",
		[]string{"lane", "group"}, nil)}
}

// Describe implements prometheus.Collector.
func (g *lagGauge) Describe(to chan<- *prometheus.Desc) { to <- g.description }

// Collect implements prometheus.Collector.
func (g *lagGauge) Collect(to chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.lags {
		to <- prometheus.MustNewConstMetric(g.description, prometheus.GaugeValue, float64(l.Messages), l.Topic, l.Group)
	}
}

func (g *lagGauge) follow(topic, group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := (subscription{topic, group}); !slices.Contains(g.followed, s) {
		g.followed = append(g.followed, s)
	}
}

func (g *lagGauge) subscriptions() []subscription {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.followed)
}

func (g *lagGauge) set(lags []GroupLag) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lags = lags
}
