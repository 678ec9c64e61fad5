package readapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gorilla/mux"

	"letterhead/domain/books"
	"letterhead/domain/statement"
	"letterhead/internal/accept"
	"letterhead/internal/web"
)

// statementForm is a form in which a statement is served.
type statementForm struct {
	name, mediaType string
	contentType     []string
	render          func(*statement.Page, *statement.Statement) ([]byte, error)
}

// statementForms are all forms; the first is the default.
var statementForms = []statementForm{
	{"json", "application/json", web.JSON,
		func(_ *statement.Page, s *statement.Statement) ([]byte, error) { return s.JSON() }},
	{"csv", "text/csv", []string{"text/csv; charset=utf-8"},
		func(_ *statement.Page, s *statement.Statement) ([]byte, error) { return s.CSV() }},
	{"html", "text/html", web.HTML, (*statement.Page).Render},
}

func (x *exchange) serveStatement() error {
	form, negotiated, problem := x.statementForm()
	if problem != nil {
		return problem
	}
	text, err := url.PathUnescape(mux.Vars(x.request)["month"])
	month, invalid := time.Parse(books.MonthLayout, text)
	if err != nil || invalid != nil {
		return web.Invalid("The path ends with a month like 2026-11.")
	}
	now := x.api.Now()
	after, problem := parseAsOf(x.request.URL.RawQuery, now)
	if problem != nil {
		return problem
	}
	var s *statement.Statement
	err = x.readLedger(func(ctx context.Context) (err error) {
		if after.IsZero() || after.After(now) {
			s, err = x.api.Ledger.Statement(ctx, x.caller.AccountID, month, now)
		} else {
			s, err = x.api.Ledger.StatementBefore(ctx, x.caller.AccountID, month, after)
		}
		return err
	})
	if err != nil {
		return err
	}
	body, err := form.render(x.api.pages.statement, s)
	if err != nil {
		return err
	}
	h := x.Header()
	h["Cache-Control"] = cacheNever
	if negotiated {
		h["Vary"] = varyAccept
	}
	if form.name == "html" {
		h["Content-Security-Policy"] = []string{x.api.pages.statement.Policy}
	}
	x.send(http.StatusOK, form.contentType, body)
	return nil
}

// statementForm returns the form that ?format names, or else the Accept header; then negotiated is true.
func (x *exchange) statementForm() (form statementForm, negotiated bool, problem *Problem) {
	name, present, problem := web.QueryValue(x.request.URL.RawQuery, "format")
	if problem != nil {
		return form, false, problem
	}
	var types []string
	for _, f := range statementForms {
		if present && f.name == name {
			return f, false, nil
		}
		types = append(types, f.mediaType)
	}
	if present {
		return form, false, web.Invalid("The parameter format is json, csv or html.")
	}
	weights := accept.Weights(x.request.Header["Accept"], types...)
	return statementForms[slices.Index(weights, slices.Max(weights))], true, nil
}
