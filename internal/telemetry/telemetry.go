// Package telemetry sets up what a node says about itself: structured logs and Prometheus metrics.
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

// NewLogger returns a logger of events with fields. Level is debug, info, warn or error; format is text
// or json. It returns an error that names what is allowed.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q is none of debug, info, warn, error", level)
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

// Metrics is a registry with the process's own figures in it.
type Metrics struct{ *prometheus.Registry }

// NewMetrics returns a registry that already holds the Go runtime, the process and the build.
func NewMetrics(version string) Metrics {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "letterhead_build_info", Help: "Always 1; the label says which build runs.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return Metrics{r}
}

// Handler serves the registry in Prometheus' text format.
func (m Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{})
}

// Register gives all collectors to a registry, nil for none, or with an error none of them: who tries again
// finds them free.
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

// Unregister takes them back out of the registry, nil for none.
func Unregister(from prometheus.Registerer, all ...prometheus.Collector) {
	if from == nil {
		return
	}
	for _, c := range all {
		from.Unregister(c)
	}
}
