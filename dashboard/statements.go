package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"letterhead/domain/books"
	"letterhead/domain/proof"
	"letterhead/domain/statement"
	"letterhead/internal/web"
	"letterhead/projections/checkpoints"
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
	ended, err := x.Ledger.Periods(x.Ctx)
	if err != nil {
		return err
	}
	used, err := x.Usage.List(x.Ctx, x.session.AccountID)
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
	return x.show(http.StatusOK, "statements",
		view{Title: "Statements", Section: "Statements", Notice: notice, Page: months})
}

// showStatement answers GET /dashboard/statements/{month}, with ?format=csv and ?format=json as a file.
func (x *exchange) showStatement() error {
	month, err := x.month()
	if err != nil {
		return err
	}
	if notice := x.fresh(ledger.Name); notice != "" { // a statement may be kept, so it must not lack entries
		return web.NewProblem(http.StatusServiceUnavailable, "The statement cannot be made now",
			"The latest entries of the ledger cannot be read. Load the page again in a moment.", nil)
	}
	var s *statement.Statement
	err = x.readLedger(func(ctx context.Context) (err error) {
		s, err = x.Ledger.Statement(ctx, x.session.AccountID, month, x.Now())
		return err
	})
	if err != nil {
		return noStatement(err)
	}
	format := x.Request.URL.Query().Get("format")
	var body []byte
	contentType := "text/html; charset=utf-8"
	switch format {
	case "":
		x.Header().Set("Content-Security-Policy", x.statements.Policy)
		body, err = x.statements.Render(s)
	case "csv":
		contentType = "text/csv; charset=utf-8"
		body, err = s.CSV()
	case "json":
		contentType = "application/json; charset=utf-8"
		body, err = s.JSON()
	default:
		return missingStatement("Statements are shown as a page, or downloaded as csv or json.")
	}
	if err != nil {
		return err
	}
	if format != "" {
		x.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="statement-%s.%s"`, s.Month, format))
	}
	web.SendPage(x, http.StatusOK, contentType, body)
	return nil
}

// month returns the month in the path.
func (x *exchange) month() (time.Time, error) {
	month, err := time.Parse(books.MonthLayout, x.Request.PathValue("month"))
	if err != nil {
		return month, missingStatement("The URL has a month, like 2026-11.")
	}
	return month, nil
}

func missingStatement(text string) error {
	return web.NewProblem(http.StatusNotFound, "There is no such statement", text, nil)
}

// noStatement returns why a month has no statement, if that is known, and otherwise err.
func noStatement(err error) error {
	switch {
	case errors.Is(err, statement.ErrNotBegun):
		return missingStatement("The month has not begun.")
	case errors.Is(err, statement.ErrNoEvents), errors.Is(err, ledger.ErrNotFound):
		return missingStatement("The account was opened after that month.")
	}
	return err
}

func (x *exchange) downloadProof() error {
	month, err := x.month()
	if err != nil {
		return err
	}
	noProof := func(text string) error {
		return web.NewProblem(http.StatusConflict, "The proof cannot be made", text, nil)
	}
	file, err := x.Operations.Checkpoints.Prove(x.Ctx, x.session.AccountID, month)
	switch {
	case errors.Is(err, checkpoints.ErrNone):
		return noProof("The ledger has no checkpoint yet. Ask the operator of the service.")
	case errors.Is(err, proof.ErrNotInCheckpoint), errors.Is(err, statement.ErrNotBegun) && !x.Now().Before(month):
		return noProof("The last checkpoint of the ledger is older than the account or the month. The service makes one a day; try again tomorrow.")
	case errors.Is(err, proof.ErrTooManyEvents):
		return noProof(
			"The account has too many events for a download. The operator of the service can make the proof.")
	case err != nil:
		return noStatement(err)
	}
	file.Send(x, "text/plain; charset=utf-8", "proof-"+month.Format(books.MonthLayout)+".txt")
	return file.Close()
}
