package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/adminapi"
	"letterhead/internal/figures"
)

// refreshHealth is the number of seconds after which the page of the service's health is loaded again.
const refreshHealth = 3

// healthView is the data of the page about the service's health.
type healthView struct {
	Ready       bool          `json:"ready"`
	Problems    []string      `json:"problems"`
	Position    uint64        `json:"position"`
	Events      uint64        `json:"events"` // 0 if they are not counted
	Lag         uint64        `json:"lag"`
	Behind      time.Duration `json:"behind_ns"`
	Projections []adminapi.ReadModel
	Figures     counts
	Refresh     int
	Disk        *space // nil if it cannot be read
}

// space is the disk space of the data folder.
type space struct {
	Free, Size string
	// Low reports whether rebuilds and other long-running work stop, because they must leave room for appends.
	Low     bool
	Reserve string
}

// space reads the disk space of the data folder. Without it the page shows the rest.
func (x *exchange) space() *space {
	s, err := x.Space()
	if err != nil {
		x.Logger.WarnContext(x.Ctx, "read the disk space of the data folder", "request_id", x.ID, "error", err)
		return nil
	}
	return &space{Free: gib(s.Free), Size: gib(s.Size), Low: s.Free < s.Reserve(), Reserve: gib(s.Reserve())}
}

// gib returns a number of bytes in GiB.
func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

// showHealth answers GET /. If a part of the service does not answer, the page says so and shows the rest.
func (x *exchange) showHealth() error {
	v := healthView{Refresh: refreshHealth}
	var models struct {
		Projections []adminapi.ReadModel `json:"projections"`
	}
	for _, part := range []struct {
		path string
		out  any
	}{{"/admin/health", &v}, {"/admin/projections", &models}} {
		var p *problem
		err := x.get(part.path, nil, part.out)
		if err != nil && (!errors.As(err, &p) || p.Status != http.StatusServiceUnavailable) {
			return err
		}
		if p != nil && !slices.Contains(v.Problems, p.Text) {
			v.Ready, v.Problems = false, append(v.Problems, p.Text)
		}
	}
	v.Projections, v.Figures, v.Disk = models.Projections, x.counts(onHealth), x.space()
	return x.show(http.StatusOK, "health", view{Title: "Health", Section: "Health", Page: v})
}

func (x *exchange) rebuild() error {
	page := "/projections/" + url.PathEscape(x.Request.PathValue("name"))
	return x.act("rebuild", x.sender(http.MethodPost, "/admin"+page+"/rebuild"), page, "rebuild", x.showHealth)
}

// rebuildView is the last rebuild of a read model, as the API answers it. Without one, only Name is set.
type rebuildView struct {
	adminapi.Rebuild
	Report  *rebuildReport `json:"report"`
	Refresh int            `json:"-"`
}

// rebuildReport is what differed between the live tables and the new ones.
type rebuildReport struct {
	Rebuilt  string                     `json:"rebuilt"` // live, not live
	Compared bool                       `json:"compared"`
	Same     bool                       `json:"same"`
	Position uint64                     `json:"position"`
	Error    string                     `json:"error"`
	Tables   []adminapi.TableComparison `json:"tables"`
}

func (x *exchange) showRebuild() error {
	v := rebuildView{Rebuild: adminapi.Rebuild{Name: x.Request.PathValue("name")}, Refresh: refreshHealth}
	var models []adminapi.ReadModel
	if _, err := x.rows("/admin/projections", nil, "projections", &models); err != nil {
		return err
	}
	if !slices.ContainsFunc(models, func(m adminapi.ReadModel) bool { return m.Name == v.Name }) {
		return errNoPage
	}
	if _, err := x.unknown(x.get("/admin/projections/"+url.PathEscape(v.Name)+"/rebuild", nil, &v)); err != nil {
		return err
	}
	return x.show(http.StatusOK, "rebuild", view{Title: "Rebuild", Section: "Health", Page: v})
}

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
