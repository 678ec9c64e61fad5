package dashboard

import (
	"context"
	"log/slog"
	"net/http"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/faults"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
	"letterhead/projections/accounts"
	"letterhead/projections/sessions"
)

type problem = web.Problem

var (
	errNoPage = web.NewProblem(http.StatusNotFound, "This page does not exist",
		"The dashboard has nothing at this URL.", nil)
	errOtherSite = web.NewProblem(http.StatusForbidden, "The form comes from another site",
		"The dashboard takes forms from its own pages only. Nothing was changed.", nil)
	errTooMany = web.NewProblem(http.StatusServiceUnavailable, "Too many pages are being loaded",
		"Wait a moment, then load this one again.", nil)
)

func row(when func(error) bool, status int, title, text string) web.Row {
	return web.Row{When: when, Problem: problem{Status: status, Title: title, Text: text},
		Expected: status == http.StatusUnauthorized}
}

// problems is the table from errors of other parts to pages.
var problems = []web.Row{
	row(faults.OneOf(sessions.ErrNotFound), http.StatusUnauthorized, "You are not signed in",
		"A session ends by itself after some days, or when you sign out."),
	row(faults.OneOf(account.ErrNotFound, accounts.ErrNotFound), http.StatusNotFound, "The account was not found",
		"It may have been opened a moment ago. Load the page again."),
	row(faults.Loading, http.StatusServiceUnavailable, "The account is still being loaded",
		"Its history is long, and the service was restarted. Load the page again in a minute."),
	row(faults.OneOf(ratelimit.ErrUnavailable), http.StatusServiceUnavailable,
		"The limits of requests cannot be checked", "Load the page again in a moment."),
	row(faults.Full, http.StatusServiceUnavailable, "The service has no storage left",
		"Nothing can be changed until there is room. Balances, logos of known brands and the documentation are still served. Look-ups answer 503, which costs nothing."),
	row(faults.Log, http.StatusServiceUnavailable, "The event log cannot be reached",
		"Credits and keys can neither be read nor changed until it is back. Logos of known brands and the documentation are still served. Look-ups and searches answer 503, which costs nothing."),
	row(faults.Busy, http.StatusServiceUnavailable, "The account is busy",
		"It has more running requests than can be settled in time. Load the page again."),
	row(faults.Database, http.StatusServiceUnavailable, "The database cannot be reached",
		"The dashboard can show nothing until it is back; you stay signed in. The documentation and stored images are still served. Requests with an API key may answer 503, which costs nothing."),
	row(faults.NotReady, http.StatusServiceUnavailable, "This part of the dashboard is being prepared",
		"Its tables cannot be read yet. Look-ups, searches and logos are served as usual."),
	row(faults.OneOf(eventschemas.ErrNotYet), http.StatusServiceUnavailable, "The service is being upgraded",
		"This can be done when the operator has finished the upgrade. Look-ups, searches and logos are served as usual."),
	row(faults.OneOf(context.DeadlineExceeded), http.StatusServiceUnavailable, "This took too long",
		"A part of the service did not answer in time. Load the page again."),
	row(web.Any, http.StatusInternalServerError, "Something failed on our side",
		"Load the page again. If that keeps failing, report the request id to the operator of the service."),
}

func problemOf(err error) *problem { return web.ProblemOf(err, problems) }

// fail answers with the page of an error.
func (x *exchange) fail(err error) {
	if x.Left() {
		panic(http.ErrAbortHandler)
	}
	p := problemOf(err)
	x.log(p)
	x.Fail(p, "dashboard", x.Logger, func() error { return x.show(p.Status, "problem", view{Title: p.Title, Page: p}) })
}

func (x *exchange) log(p *problem) {
	level := slog.LevelWarn
	if p.Status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	if p.Cause != nil {
		x.Logger.Log(x.Ctx, level, "dashboard", "request_id", x.ID, "account", x.session.AccountID, "error", p.Cause)
	}
}
