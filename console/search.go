package console

import (
	"net/http"

	"letterhead/adminapi"
)

// searchView is the data of the page of a search.
type searchView struct {
	Hits []adminapi.Hit `json:"hits"`
	More bool           `json:"more"`
}

// showSearch answers GET /search. A single hit leads to its page.
func (x *exchange) showSearch() error {
	var v searchView
	show := func() error { return x.show(http.StatusOK, "search", view{Title: "Search", Page: &v}) }
	if err := x.get("/admin/search", x.filter("q"), &v); err != nil {
		return x.reject("filter", err, show)
	}
	if len(v.Hits) == 1 && !v.More {
		return x.redirect(v.Hits[0].Path, "")
	}
	return show()
}
