package sqlstore

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	normal, durable prometheus.Observer
	walFrames       prometheus.Gauge
}

// writeBuckets reach from a live batch to the index of a large table, in seconds.
var writeBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "letterhead_database_write_seconds",
		Help:    "Time a write transaction of the database took, without the wait for its turn.",
		Buckets: writeBuckets,
	}, []string{"durability"})
	frames := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "letterhead_database_wal_frames",
		Help: "Pages in the write-ahead log that the last checkpoint could not copy.",
	})
	m := &metrics{normal: seconds.WithLabelValues("normal"), durable: seconds.WithLabelValues("full"), walFrames: frames}
	if reg == nil {
		return m, nil
	}
	if err := errors.Join(reg.Register(seconds), reg.Register(frames)); err != nil {
		return nil, fmt.Errorf("register metrics of the database: %w", err)
	}
	return m, nil
}
