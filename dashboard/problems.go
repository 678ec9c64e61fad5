package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/dashboard/audit"
	"letterhead/dashboard/site"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/internal/sqlstore"
	"letterhead/projections/accounts"
)

// problem is an error as a page shows it.
type problem struct {
	Status int
	Title  string
	Text   string
	cause  error // for the log
}

func (p *problem) Error() string { return fmt.Sprintf("%d %s", p.Status, p.Title) }

func (p *problem) Unwrap() error { return p.cause }

var (
	errNoPage    = &problem{http.StatusNotFound, "This page does not exist", "The dashboard has nothing at this URL.", nil}
	errOtherSite = &problem{http.StatusForbidden, "The form comes from another site", "The dashboard takes forms from its own pages only. Nothing was changed.", nil}
	errTooMany   = &problem{http.StatusServiceUnavailable, "Too many pages are being loaded", "Wait a moment, then load this one again.", nil}
	errSignedOut = &problem{http.StatusUnauthorized, "You are not signed in", "A session ends by itself after some days, or when you sign out.", nil}
)

// problemOf is the table from errors of other parts to pages.
func problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, ErrNoSession):
		return errSignedOut
	case errors.Is(err, account.ErrNotFound), errors.Is(err, accounts.ErrNotFound):
		return &problem{http.StatusNotFound, "The account was not found", "It may have been opened a moment ago. Load the page again.", err}
	case errors.As(err, new(*streamwriter.LoadingError)):
		return &problem{http.StatusServiceUnavailable, "The account is still being loaded", "Its history is long, and the service was restarted. Load the page again in a minute.", err}
	case errors.Is(err, ratelimit.ErrUnavailable):
		return &problem{http.StatusServiceUnavailable, "The limits of requests cannot be checked", "Load the page again in a moment.", err}
	case isOne(err, eventlog.ErrFull, sqlstore.ErrFull):
		return &problem{http.StatusServiceUnavailable, "The service has no storage left",
			"Nothing can be changed until there is room. Balances, logos of known brands and the documentation are still served. Look-ups answer 503, which costs nothing.", err}
	case isOne(err, eventlog.ErrUnavailable, eventlog.ErrAmbiguous, eventlog.ErrClosed):
		return &problem{http.StatusServiceUnavailable, "The event log cannot be reached",
			"Credits and keys can neither be read nor changed until it is back. Logos of known brands and the documentation are still served. Look-ups and searches answer 503, which costs nothing.", err}
	case errors.Is(err, commands.ErrBusy):
		return &problem{http.StatusServiceUnavailable, "The account is busy", "It has more running requests than can be settled in time. Load the page again.", err}
	case isOne(err, sqlstore.ErrUnavailable, sqlstore.ErrClosed):
		return &problem{http.StatusServiceUnavailable, "The database cannot be reached",
			"The dashboard can show nothing until it is back; you stay signed in. The documentation and stored images are still served. Requests with an API key may answer 503, which costs nothing.", err}
	case audit.NotReady(err):
		return &problem{http.StatusServiceUnavailable, "This part of the dashboard is being prepared", "Its tables cannot be read yet. Look-ups, searches and logos are served as usual.", err}
	case errors.Is(err, eventschemas.ErrNotYet):
		return &problem{http.StatusServiceUnavailable, "The service is being upgraded", "This can be done when the operator has finished the upgrade. Look-ups, searches and logos are served as usual.", err}
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{http.StatusServiceUnavailable, "This took too long", "A part of the service did not answer in time. Load the page again.", err}
	}
	return &problem{http.StatusInternalServerError, "Something failed on our side", "Load the page again. If that keeps failing, report the request id to the operator of the service.", err}
}

func isOne(err error, of ...error) bool {
	for _, target := range of {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// fail answers with the page of an error.
func (x *exchange) fail(err error) {
	if x.r.Context().Err() != nil { // the client has left, or has only closed its sending side and would read an empty 200
		panic(http.ErrAbortHandler)
	}
	p := problemOf(err)
	h := x.w.Header()
	x.log(p)
	switch p.Status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "5")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Cookie realm="dashboard"`) // required by RFC 9110, section 15.5.2; browsers ignore it
		if x.r.Header.Get("HX-Request") != "" {
			h.Set("HX-Refresh", "true") // shows the page instead of a part of it
		}
	}
	if err := x.show(p.Status, "problem", view{Title: p.Title, Page: p}); err != nil {
		x.Logger.ErrorContext(x.ctx, "render the page of a problem", "request_id", x.requestID(), "error", err)
		site.Send(x.w, http.StatusInternalServerError, "text/plain; charset=utf-8", []byte(p.Title+". "+p.Text+"\n"))
	}
}

// log logs the cause of a problem.
func (x *exchange) log(p *problem) {
	switch {
	case p.cause == nil:
	case p.Status == http.StatusInternalServerError:
		x.Logger.ErrorContext(x.ctx, "dashboard", "request_id", x.requestID(), "account", x.session.AccountID, "error", p.cause)
	default:
		x.Logger.WarnContext(x.ctx, "dashboard", "request_id", x.requestID(), "account", x.session.AccountID, "error", p.cause)
	}
}

// requestID returns the id of the request, which the server that passes it on has chosen.
func (x *exchange) requestID() string { return x.w.Header().Get("X-Request-Id") }
