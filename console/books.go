package console

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"letterhead/adminapi"
)

// booksView is the data of the page of the books.
type booksView struct {
	Months      []adminapi.Month `json:"months"`
	Outstanding struct {
		Credits int64                  `json:"credits"`
		Rows    []adminapi.Outstanding `json:"rows"`
	}
	Top   []adminapi.Account // that spent the most, the most first
	NoTop string             // why Top cannot be shown; empty if it can
}

// topAccounts is the number of accounts on the page of the books.
const topAccounts = 10

// Closable reports whether a month is the first one that is open, so that it may be closed.
func (v booksView) Closable(month string) bool {
	for _, m := range v.Months {
		if m.State == "open" {
			return m.Month == month
		}
	}
	return false
}

func (x *exchange) showBooks() error {
	var v booksView
	if err := x.get("/admin/books/months", nil, &v); err != nil {
		return err
	}
	if err := x.get("/admin/books/outstanding", nil, &v.Outstanding); err != nil {
		return err
	}
	var top accountsView
	err := x.get("/admin/accounts", url.Values{"sort": {"-spend"}, "limit": {strconv.Itoa(topAccounts)}}, &top)
	if p := (*problem)(nil); errors.As(err, &p) && p.Status == http.StatusServiceUnavailable { // not ready yet
		v.NoTop = p.Text
	} else if err != nil {
		return err
	}
	for _, a := range top.Accounts {
		if a.Spent != nil {
			v.Top = append(v.Top, a)
		}
	}
	return x.show(http.StatusOK, "books", view{Title: "Books", Section: "Books", Page: v})
}

func (x *exchange) closeMonth() error {
	month := x.Request.PathValue("month")
	about := func(q *question) error {
		var v revenueView
		q.Subject = month
		err := x.get("/admin/books/revenue", url.Values{"from": {month}, "to": {month}}, &v)
		q.Totals = v.Rows
		return err
	}
	if asked, err := x.ask("month", about, x.showBooks); asked {
		return err
	}
	return x.act("month", func() error {
		return x.call(http.MethodPost, "/admin/books/"+url.PathEscape(month)+"/close", nil, nil)
	}, "/books", "month", x.showBooks)
}

// revenueRows is the number of rows on a page of the report of revenue.
const revenueRows = 200

// revenueView is the data of the report of revenue.
type revenueView struct {
	By         string
	NextCursor string       `json:"next_cursor"`
	Rows       []revenueRow `json:"rows"`
	Query      url.Values
}

// revenueRow is a row of the report of revenue.
type revenueRow struct {
	Month       string `json:"month"`
	Plan        string `json:"plan"`
	Account     string `json:"account"`
	Currency    string `json:"currency"`
	Opening     int64  `json:"opening_deferred"`
	Received    int64  `json:"received"`
	Tax         int64  `json:"tax"`
	Refunded    int64  `json:"refunded"`
	Recognized  int64  `json:"recognized"`
	Breakage    int64  `json:"breakage"`
	Fees        int64  `json:"fees"`
	Closing     int64  `json:"closing_deferred"`
	Provisional bool   `json:"provisional"`
}

// showRevenue answers GET /books/revenue. The report reads the whole log.
func (x *exchange) showRevenue() error {
	v := revenueView{Query: x.filter("by", "from", "to", "cursor")}
	v.By = cmp.Or(v.Query.Get("by"), "month")
	query := maps.Clone(v.Query)
	query.Set("limit", strconv.Itoa(revenueRows))
	return x.list("/admin/books/revenue", query, "revenue", view{Title: "Revenue", Section: "Books", Page: &v})
}
