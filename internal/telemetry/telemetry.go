// Package telemetry sets up structured logs and Prometheus metrics.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewLogger returns a structured logger. Level is debug, info, warn or error; format is text or json.
// Its errors list the allowed values.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("log format %q is neither text nor json", format)
	}
}

// Metrics is a registry that includes the metrics of the process.
type Metrics struct{ *prometheus.Registry }

// NewMetrics returns a registry with the metrics of the Go runtime, the process and the build.
func NewMetrics(version string) Metrics {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "letterhead_build_info", Help: "Always 1; the label is the version of the build.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return Metrics{r}
}

// Handler serves the registry in Prometheus' text format.
func (m Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{})
}

// Counter returns a counter.
func Counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters returns counters with labels.
func Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge returns a gauge.
func Gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges returns gauges with labels.
func Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// GaugeFunc returns a gauge that calls value at each scrape.
func GaugeFunc(name, help string, value func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// Histogram returns a histogram with the upper bounds of its buckets.
func Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// Histograms returns histograms with labels, and the upper bounds of their buckets.
func Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Register registers all collectors. If it fails it registers none, so the caller may retry. A nil registry is ignored.
func Register(to prometheus.Registerer, all ...prometheus.Collector) error {
	if to == nil {
		return nil
	}
	for i, c := range all {
		if err := to.Register(c); err != nil {
			Unregister(to, all[:i]...)
			return err
		}
	}
	return nil
}

// Unregister removes the collectors from the registry. A nil registry is ignored.
func Unregister(from prometheus.Registerer, all ...prometheus.Collector) {
	if from == nil {
		return
	}
	for _, c := range all {
		from.Unregister(c)
	}
}
