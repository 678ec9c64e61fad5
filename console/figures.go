package console

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/figures"
)

// metric is a metric that a page shows, summed by a label.
type metric struct {
	Title, name, label string
	keep               func(value string) bool // nil for all
}

// The metrics that pages show.
var (
	ended  = metric{"Crawls by outcome", "letterhead_crawls_total", "outcome", nil}
	queued = metric{"Crawls that wait for a worker, by topic", "letterhead_crawl_pool_queued", "lane", nil}
	busy   = metric{"Crawls that run, by topic", "letterhead_crawl_pool_busy", "lane", nil}

	onHealth = []metric{
		ended, queued,
		{"Messages published, by topic", "letterhead_relay_messages_total", "lane", nil},
		{"Answers with an error, by status", "letterhead_http_requests_total", "status",
			func(status string) bool { return status >= "400" }},
		{"Events of payment processors that wait, by state", "letterhead_billing_open", "state", nil},
		{"Notices that wait, by state", "letterhead_notices_open", "state", nil},
	}
	onCrawls = []metric{queued, busy, ended}
)

// key returns the name of a figure of the metric.
func (m metric) key(label string) string { return m.name + " " + label }

// Count returns the figures of a process that pages show. Metrics that cannot be gathered now are missing.
func Count(metrics prometheus.Gatherer) figures.Figures {
	families, _ := metrics.Gather()
	all, known := figures.Figures{}, append(slices.Clone(onHealth), busy)
	for _, family := range families {
		at := slices.IndexFunc(known, func(m metric) bool { return m.name == family.GetName() })
		if at < 0 {
			continue
		}
		shown := known[at]
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == shown.label && (shown.keep == nil || shown.keep(l.GetValue())) {
					all[shown.key(l.GetValue())] += int64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
				}
			}
		}
	}
	return all
}

// counts are the figures of all processes on a page.
type counts struct {
	Processes int
	Of        []count
}

type count struct {
	Title string
	Rows  map[string]int64
}

// counts reads figures. The page shows the rest if they cannot be read.
func (x *exchange) counts(of []metric) counts {
	sums, processes, err := x.Figures(x.Ctx)
	if err != nil {
		x.Logger.WarnContext(x.Ctx, "read the figures of all processes", "request_id", x.ID, "error", err)
	}
	c := counts{Processes: processes}
	for _, m := range of {
		rows := map[string]int64{}
		for name, n := range sums {
			if label, ok := strings.CutPrefix(name, m.key("")); ok {
				rows[label] = n
			}
		}
		c.Of = append(c.Of, count{m.Title, rows})
	}
	return c
}
