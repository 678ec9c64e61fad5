package engine

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

var (
	lagDesc = prometheus.NewDesc("letterhead_projection_lag_positions",
		"Positions between what a read model has folded and the head of the event log: events of a data folder, bytes of EventStoreDB.", []string{"projection"}, nil)
	behindDesc = prometheus.NewDesc("letterhead_projection_behind_seconds",
		"Age of the oldest event that a read model has not folded.", []string{"projection"}, nil)
	quarantinedDesc = prometheus.NewDesc("letterhead_projection_set_aside",
		"1 while a read model is quarantined because its fold failed.", []string{"projection"}, nil)
	scrubDoneDesc = prometheus.NewDesc("letterhead_projection_scrub_last_complete_timestamp_seconds",
		"When the last whole comparison of a read model with the event log ended, on any node; 0 before the first.",
		[]string{"projection"}, nil)
	repairedDesc = prometheus.NewDesc("letterhead_projection_scrub_repaired_rows_total",
		"Rows of a read model that were repaired because they differed from the event log, on any node.",
		[]string{"projection"}, nil)
	scrubPositionDesc = prometheus.NewDesc("letterhead_projection_scrub_position",
		"Position up to which this node has folded the event log again, to compare a read model with it. Absent while it does not.",
		[]string{"projection"}, nil)
)

type metrics struct {
	pollFailures prometheus.Counter
	scrubDiffers *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
		pollFailures: telemetry.Counter("letterhead_projection_look_failures_total",
			"Polls of the state of the read models in a shared database that failed. Until one succeeds, this node uses the state of the last one."),
		scrubDiffers: telemetry.Counters("letterhead_projection_scrub_differing_rows_total",
			"Rows of a read model that this node found to differ from the event log, whether they could be repaired or not.",
			"projection"),
	}
}

// collector asks the log at each scrape, so that a loop that hangs is visible.
type collector struct{ r *Runner }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- lagDesc
	ch <- behindDesc
	ch <- quarantinedDesc
	ch <- scrubDoneDesc
	ch <- repairedDesc
	ch <- scrubPositionDesc
	c.r.metrics.pollFailures.Describe(ch)
	c.r.metrics.scrubDiffers.Describe(ch)
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	c.r.metrics.pollFailures.Collect(ch)
	c.r.metrics.scrubDiffers.Collect(ch)
	if g := c.r.scrubbing.Load(); g != nil {
		ch <- prometheus.MustNewConstMetric(scrubPositionDesc, prometheus.GaugeValue,
			float64(g.position()), g.model.name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) // Collect has no context
	defer cancel()
	all, err := c.r.List(ctx)
	if err != nil {
		c.r.cfg.Logger.Warn("lag of the projections is unknown", slog.Any("error", err))
		return
	}
	for _, s := range all {
		aside := 0.0
		if s.State == stateQuarantined {
			aside = 1
		}
		ch <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(s.Lag), s.Name)
		ch <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, s.Behind.Seconds(), s.Name)
		ch <- prometheus.MustNewConstMetric(quarantinedDesc, prometheus.GaugeValue, aside, s.Name)
		scrub, done := cmp.Or(s.Scrub, &Scrubbed{}), 0.0
		if !scrub.Finished.IsZero() {
			done = float64(scrub.Finished.UnixMicro()) / 1e6
		}
		ch <- prometheus.MustNewConstMetric(scrubDoneDesc, prometheus.GaugeValue, done, s.Name)
		ch <- prometheus.MustNewConstMetric(repairedDesc, prometheus.CounterValue, float64(scrub.Repaired), s.Name)
	}
}
