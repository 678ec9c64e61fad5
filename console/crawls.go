package console

import (
	"net/http"
	"net/url"

	"letterhead/adminapi"
	"letterhead/domain/brand"
)

// crawlsView is the data of the page of crawls.
type crawlsView struct {
	Failures   []adminapi.Failure `json:"failures"`
	NextCursor string             `json:"next_cursor"`
	Query      url.Values
	Outcomes   []string
	Figures    counts
}

func (x *exchange) showCrawls() error {
	v := crawlsView{Query: x.filter("outcome", "cursor"), Outcomes: brand.Failures, Figures: x.counts(onCrawls)}
	return x.list("/admin/crawls/failures", v.Query, &v, func() error {
		return x.show(http.StatusOK, "crawls", view{Title: "Crawls", Section: "Crawls", Page: v})
	})
}
