package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"letterhead/domain/books"
	"letterhead/internal/web"
	"letterhead/operations"
	"letterhead/projections/ledger"
)

func (x *exchange) getLedger(id string) error {
	q := x.query("from", "to", "type", "payment_id", "request_id", "key", "order", "limit", "cursor")
	f := ledger.Filter{Type: q.oneOf("type", ledger.Types()...), PaymentID: q.text("payment_id"),
		RequestID: q.text("request_id"), KeyID: q.text("key")}
	f.From, f.Until = q.period()
	newest := q.oneOf("order", "oldest", "newest") == "newest"
	limit := q.limit()
	if text := q.text("cursor"); text != "" {
		revision, err := strconv.ParseUint(text, 10, 62)
		switch {
		case err != nil || newest && revision == 0:
			return invalid("The parameter cursor is not a next_cursor of an answer.")
		case newest:
			f.BeforeRevision = revision
		default:
			f.FromRevision = revision
		}
	}
	if err := x.read(q, ledger.Name); err != nil {
		return err
	}
	entries := []ledger.Entry{}
	out := map[string]any{}
	if newest {
		latest, next, err := x.api.Ledger.Latest(x.ctx, id, f, limit)
		if err != nil {
			return err
		}
		if next > 0 {
			out["next_cursor"] = strconv.FormatUint(next, 10)
		}
		out["entries"] = append(entries, latest...)
		return x.answer(http.StatusOK, out)
	}
	f.Limit = limit + 1 // one more shows that there are more
	for e, err := range x.api.Ledger.Entries(x.ctx, id, f) {
		if err != nil {
			return err
		}
		if len(entries) == limit {
			out["next_cursor"] = strconv.FormatUint(e.Revision, 10)
			break
		}
		entries = append(entries, e)
	}
	out["entries"] = entries
	return x.answer(http.StatusOK, out)
}

func (x *exchange) getStatement(id string) error {
	q := x.query("format")
	format := q.oneOf("format", "json", "csv")
	month, err := time.Parse(books.MonthLayout, x.request.PathValue("month"))
	if err != nil {
		return invalid("The path ends with a month like 2026-11.")
	}
	if err := x.read(q, ledger.Name); err != nil {
		return err
	}
	s, err := x.api.Ledger.Statement(x.ctx, id, month, x.api.Now())
	if err != nil {
		return err
	}
	contentType, render := web.JSON, s.JSON
	if format == "csv" {
		contentType, render = []string{"text/csv; charset=utf-8"}, s.CSV
	}
	body, err := render()
	if err == nil {
		x.send(http.StatusOK, contentType, body)
	}
	return err
}

func (x *exchange) listMonths() error {
	months, err := x.api.Operations.Books.Months(x.ctx)
	return x.reply(map[string]any{"months": append([]operations.Month{}, months...)}, err)
}

// closeMonth answers POST /admin/books/{month}/close. It reads the whole log, so few run at a time.
func (x *exchange) closeMonth() error {
	month, err := time.Parse(books.MonthLayout, x.request.PathValue("month"))
	if err != nil {
		return invalid("The path has a month like 2026-11 before /close.")
	}
	end, err := x.startReport()
	if err != nil {
		return err
	}
	defer end()
	closed, repeated, err := x.api.Operations.Books.CloseMonth(x.ctx, x.by(), month)
	if errors.Is(err, context.DeadlineExceeded) { // a repeat takes as long
		return newProblem(http.StatusServiceUnavailable, "unavailable", fmt.Sprintf(
			"The month was not closed within %d seconds. Run \"letterhead books close %s\", which has no limit.",
			requestTimeout/time.Second, month.Format(books.MonthLayout)), err)
	}
	return x.reply(struct {
		operations.Month
		Repeated bool `json:"repeated"`
	}{closed, repeated}, err)
}

var errReportRuns = newProblem(http.StatusServiceUnavailable, "unavailable",
	"Another report is being made. Send the request again when it is finished.",
	errors.New("another report is running"))

// startReport waits until no other request reads the whole log, if the request is one of the command line; others do
// not wait. end lets the next one begin.
func (x *exchange) startReport() (end func(), err error) {
	if x.local {
		err = x.api.reports.Acquire(x.ctx, 1)
	} else if !x.api.reports.TryAcquire(1) {
		err = errReportRuns
	}
	return func() { x.api.reports.Release(1) }, err
}

// getTrialBalance answers GET /admin/books/trial-balance. It folds the whole log, so few run at a time.
func (x *exchange) getTrialBalance() error {
	q := x.query("at")
	until, provisional := q.reportEnd(x.api.Now())
	if q.err != nil {
		return q.err
	}
	end, err := x.startReport()
	if err != nil {
		return err
	}
	defer end()
	balances, err := x.api.Operations.Books.Balances(x.ctx, until)
	if err != nil {
		return err
	}
	slices.SortFunc(balances, func(a, b books.Posting) int {
		return cmp.Or(strings.Compare(a.Commodity, b.Commodity), cmp.Compare(a.Account, b.Account))
	})
	lines := []map[string]any{}
	for _, b := range balances {
		lines = append(lines, map[string]any{"currency": b.Commodity, "account": books.Chart[b.Account].Name,
			"debit": max(b.Amount, 0), "credit": max(-b.Amount, 0)})
	}
	return x.answer(http.StatusOK, markRunning(map[string]any{"balances": lines}, provisional))
}
