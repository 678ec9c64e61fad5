package console

import (
	"net/http"
	"strings"

	"letterhead/adminapi"
)

// searchView is the data of the page of a search.
type searchView struct {
	Hits []adminapi.Hit `json:"hits"`
	More bool           `json:"more"`
	// Missing are the kinds of hits that could not be searched.
	Missing []string `json:"missing"`
}

// showSearch answers GET /search. A single hit leads to its page if the text is its whole name,
// address or id.
func (x *exchange) showSearch() error {
	var v searchView
	show := func() error { return x.show(http.StatusOK, "search", view{Title: "Search", Page: &v}) }
	if err := x.get("/admin/search", x.filter("q"), &v); err != nil {
		return x.reject("filter", err, show)
	}
	text := strings.TrimSpace(x.Request.FormValue("q"))
	if len(v.Hits) == 1 && !v.More && len(v.Missing) == 0 {
		hit := v.Hits[0]
		if strings.EqualFold(hit.Title, text) || strings.EqualFold(hit.ID, text) || strings.Contains(text, "@") {
			return x.redirect(hit.Path, "")
		}
	}
	return show()
}
