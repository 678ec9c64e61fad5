package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"letterhead/dashboard/site"
	"letterhead/domain/books"
	"letterhead/domain/statement"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// monthRow is a month in the list of statements.
type monthRow struct {
	Month  time.Time
	State  string // as statement.Statement.State
	Counts usage.Counts
}

// showStatements answers GET /dashboard/statements: the months since the account was opened, the latest first.
func (x *exchange) showStatements() error {
	notice := x.fresh(ledger.Name, usage.Name)
	ended, err := x.Ledger.Periods(x.ctx)
	if err != nil {
		return err
	}
	used, err := x.Usage.List(x.ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	counts := map[string]usage.Counts{}
	for _, c := range used {
		counts[c.Month] = c
	}
	var months []monthRow
	now := books.MonthOf(x.Now())
	for month := now; !month.Before(books.MonthOf(x.account.OpenedAt)) && len(months) < usage.MaxMonths; month = month.AddDate(0, -1, 0) {
		s := statement.Statement{Provisional: month.Equal(now)}
		if period := ended.Find(month); period != nil {
			s.Closed = period.Closed()
		}
		months = append(months, monthRow{month, s.State(), counts[month.Format(books.MonthLayout)]})
	}
	return x.show(http.StatusOK, "statements", view{Title: "Statements", Section: "Statements", Notice: notice, Page: months})
}

// showStatement answers GET /dashboard/statements/{month}, with ?format=csv and ?format=json as a file.
func (x *exchange) showStatement() error {
	missing := func(text string) error {
		return &problem{http.StatusNotFound, "There is no such statement", text, nil}
	}
	month, err := time.Parse(books.MonthLayout, x.r.PathValue("month"))
	if err != nil {
		return missing("The URL ends with a month, like 2026-11.")
	}
	if notice := x.fresh(ledger.Name); notice != "" { // a statement may be kept, so it must not lack entries
		return &problem{http.StatusServiceUnavailable, "The statement cannot be made now", "The latest entries of the ledger cannot be read. Load the page again in a moment.", nil}
	}
	var s *statement.Statement
	err = x.readLedger(func(ctx context.Context) (err error) {
		s, err = x.Ledger.Statement(ctx, x.session.AccountID, month, x.Now())
		return err
	})
	switch {
	case errors.Is(err, statement.ErrNotBegun):
		return missing("The month has not begun.")
	case errors.Is(err, statement.ErrNoEvents), errors.Is(err, ledger.ErrNotFound):
		return missing("The account was opened after that month.")
	case err != nil:
		return err
	}
	format := x.r.URL.Query().Get("format")
	var body []byte
	contentType := "text/html; charset=utf-8"
	switch format {
	case "":
		x.w.Header().Set("Content-Security-Policy", x.statements.Policy)
		body, err = x.statements.Render(s)
	case "csv":
		contentType = "text/csv; charset=utf-8"
		body, err = s.CSV()
	case "json":
		contentType = "application/json; charset=utf-8"
		body, err = s.JSON()
	default:
		return missing("Statements are shown as a page, or downloaded as csv or json.")
	}
	if err != nil {
		return err
	}
	if format != "" {
		x.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="statement-%s.%s"`, s.Month, format))
	}
	site.Send(x.w, http.StatusOK, contentType, body)
	return nil
}
