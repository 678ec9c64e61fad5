package console

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"letterhead/adminapi"
	"letterhead/domain/books"
)

// booksView is the data of the page of the books.
type booksView struct {
	Complete    bool                   `json:"complete"` // All has open months, too
	All         []adminapi.MonthTotals `json:"rows"`     // in all currencies
	Currencies  []string
	Currency    string                 // the chosen one
	Decimals    int                    // of it
	Rows        []adminapi.MonthTotals // of it, the newest first
	Total       adminapi.MonthTotals   // of the rows, and what was left at the end
	Months      []adminapi.Month       `json:"months"`
	Outstanding struct {
		Credits int64                  `json:"credits"`
		Rows    []adminapi.Outstanding `json:"rows"`
	}
	Top   []adminapi.Account // that spent the most, the most first
	NoTop string             // why Top cannot be shown; empty if it can
}

const (
	// monthsShown limits the months on the page of the books.
	monthsShown = 20
	// summedAfter is the number of seconds after which the page of the books looks for sums again that were not complete.
	summedAfter = 3
	// promotional is the choice of the credits that have no currency.
	promotional = "none"
)

// choose selects the rows of a currency, by default of the first one.
func (v *booksView) choose(currency string) {
	for _, t := range v.All {
		if name := cmp.Or(t.Currency, promotional); !slices.Contains(v.Currencies, name) {
			v.Currencies = append(v.Currencies, name)
		}
	}
	slices.Sort(v.Currencies) // codes, which are capitals, come first
	if v.Currency = currency; currency == "" && len(v.Currencies) > 0 {
		v.Currency = v.Currencies[0]
	}
	for _, t := range slices.Backward(v.All) {
		if cmp.Or(t.Currency, promotional) != v.Currency || len(v.Rows) == monthsShown {
			continue
		}
		if len(v.Rows) == 0 { // what was left at the end
			v.Total = adminapi.MonthTotals{Currency: t.Currency, Deferred: t.Deferred}
			if v.Complete {
				v.Total.Summed = &adminapi.Summed{Credits: t.Credits}
			}
		}
		v.Rows = append(v.Rows, t)
		if v.Total.Revenue += t.Revenue; v.Complete {
			v.Total.Received += t.Received
			v.Total.Refunded += t.Refunded
		}
	}
	v.Decimals = books.Decimals(v.Total.Currency)
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
	for path, out := range map[string]any{"/admin/books/months": &v, "/admin/books/overview": &v,
		"/admin/books/outstanding": &v.Outstanding} {
		if err := x.get(path, nil, out); err != nil {
			return err
		}
	}
	v.choose(x.Request.URL.Query().Get("currency"))
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
	page := view{Title: "Books", Section: "Books", Page: v}
	if !v.Complete {
		page.Refresh = summedAfter
	}
	return x.show(http.StatusOK, "books", page)
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
	Currencies []string
}

// Total returns the sums of the rows on the page.
func (v *revenueView) Total() (sum revenueRow) {
	for _, r := range v.Rows {
		sum.Received, sum.Tax, sum.Refunded = sum.Received+r.Received, sum.Tax+r.Tax, sum.Refunded+r.Refunded
		sum.Recognized, sum.Breakage, sum.Fees = sum.Recognized+r.Recognized, sum.Breakage+r.Breakage, sum.Fees+r.Fees
		sum.Opening, sum.Closing = sum.Opening+r.Opening, sum.Closing+r.Closing
	}
	if len(v.Rows) > 0 && v.By == "month" { // each opens with what the one before left
		sum.Opening, sum.Closing = v.Rows[0].Opening, v.Rows[len(v.Rows)-1].Closing
	}
	return sum
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

// showRevenue answers GET /books/revenue, in one currency. A report by account reads the whole log.
func (x *exchange) showRevenue() error {
	v := revenueView{Query: x.filter("by", "from", "to", "currency", "cursor")}
	v.By = cmp.Or(v.Query.Get("by"), "month")
	var whole revenueView
	if err := x.get("/admin/books/revenue", nil, &whole); err != nil {
		return err
	}
	for _, r := range whole.Rows {
		if !slices.Contains(v.Currencies, r.Currency) {
			v.Currencies = append(v.Currencies, r.Currency)
		}
	}
	if len(v.Currencies) > 0 && !v.Query.Has("currency") {
		v.Query.Set("currency", slices.Min(v.Currencies))
	}
	query := maps.Clone(v.Query)
	query.Set("limit", strconv.Itoa(revenueRows))
	return x.list("/admin/books/revenue", query, "revenue", view{Title: "Revenue", Section: "Books", Page: &v})
}
