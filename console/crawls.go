package console

import (
	"net/http"
	"net/url"
	"time"

	"letterhead/domain/brand"
)

// crawlsView is the data of the page of crawls.
type crawlsView struct {
	Failures []struct {
		At      time.Time `json:"at"`
		Domain  string    `json:"domain"`
		Outcome string    `json:"outcome"`
		Detail  string    `json:"detail"`
	} `json:"failures"`
	NextCursor string `json:"next_cursor"`
	Query      url.Values
	Outcomes   []string
	Figures    []figures
}

// work are the metrics on the page of crawls.
var work = []metric{
	queued,
	{figures{Title: "Crawls that run, by topic", None: "This process crawls nothing."},
		"letterhead_crawl_pool_busy", "lane", nil},
	ended,
}

// showCrawls answers GET /crawls.
func (x *exchange) showCrawls() error {
	v := crawlsView{Query: x.filter("outcome", "cursor"), Outcomes: brand.Failures, Figures: x.figures(work)}
	return x.list("/admin/crawls/failures", v.Query, &v, func() error {
		return x.show(http.StatusOK, "crawls", view{Title: "Crawls", Section: "Crawls", Page: v})
	})
}
