package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"letterhead/dashboard/audit"
	"letterhead/dashboard/site"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// problem is an error as a page shows it.
type problem struct {
	Status int
	Title  string
	Text   string
	Field  string // of the form that it is about; empty if it is not known
}

func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Title, p.Text) }

var (
	errNoPage          = &problem{Status: http.StatusNotFound, Title: "This page does not exist", Text: "There is nothing at this URL."}
	errOtherSite       = &problem{Status: http.StatusForbidden, Title: "The form comes from another site", Text: "Forms are accepted from the pages of this site only. Nothing was changed."}
	errTooMany         = &problem{Status: http.StatusServiceUnavailable, Title: "Too many pages are being loaded", Text: "Wait a moment, then load this one again."}
	errSignedOut       = &problem{Status: http.StatusUnauthorized, Title: "You are not signed in", Text: "A session ends by itself after some hours, when you sign out, or when its token is revoked."}
	errTooManyFailures = &problem{Status: http.StatusTooManyRequests, Title: "Too many failed sign-ins came from your address",
		Text: "The link is not known: copy all of it, or open a new one."}
)

// fail answers with the page of a problem.
func (x *exchange) fail(err error) {
	if x.r.Context().Err() != nil { // the client has left, or has only closed its sending side and would read an empty 200
		panic(http.ErrAbortHandler)
	}
	var p *problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, eventlog.ErrFull), errors.Is(err, sqlstore.ErrFull):
		p = &problem{Status: http.StatusServiceUnavailable, Title: "The disk is full",
			Text: "Nothing can be changed, and signing in is not possible. " +
				"Make room on the disk of the data folder, then load the page again."}
	case errors.Is(err, eventlog.ErrUnavailable), errors.Is(err, eventlog.ErrAmbiguous), errors.Is(err, eventlog.ErrClosed):
		p = &problem{Status: http.StatusServiceUnavailable, Title: "The event log cannot be reached", Text: "You can sign in when it is back. The next attempt says whether the link was used up."}
		if x.me.Token.ID != "" {
			p.Text = "This page needs it. Load the page again when it is back; pages of accounts, payments and brands need only the database."
		}
	case errors.Is(err, sqlstore.ErrUnavailable), errors.Is(err, sqlstore.ErrClosed):
		p = &problem{Status: http.StatusServiceUnavailable, Title: "The database cannot be reached", Text: "You can sign in when it is back. Links can be used for 15 minutes."}
		if x.me.Token.ID != "" {
			p.Text = "This page needs it. Load the page again when it is back."
		}
	case audit.NotReady(err):
		p = &problem{Status: http.StatusServiceUnavailable, Title: "The read models are being built", Text: "Load the page again in a moment; the page of health shows the progress."}
	case errors.Is(err, context.DeadlineExceeded):
		p = &problem{Status: http.StatusServiceUnavailable, Title: "This took too long", Text: "A part of the service did not answer in time. Load the page again."}
	default:
		p = &problem{Status: http.StatusInternalServerError, Title: "Something failed on our side", Text: "Load the page again. If that keeps failing, look for the request id in the log."}
		x.Logger.ErrorContext(x.ctx, "console", "request_id", x.id, "error", err)
	}
	switch p.Status {
	case http.StatusServiceUnavailable:
		x.w.Header().Set("Retry-After", "5")
	case http.StatusTooManyRequests:
		x.w.Header().Set("Retry-After", "60")
	case http.StatusUnauthorized:
		if x.token != "" {
			cookieOf(x.r).Set(x.w, "", x.Now())
		}
		x.w.Header().Set("WWW-Authenticate", `Cookie realm="operators"`) // required by RFC 9110, section 15.5.2; browsers ignore it
		x.me = operator{}
		if x.r.Header.Get("HX-Request") != "" {
			x.w.Header().Set("HX-Refresh", "true") // shows the page instead of a part of it
		}
	}
	x.rejected = ""
	v := problemView{problem: p, ID: x.id}
	if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
		v.ID = cmp.Or(x.apiID, x.id)
		v.Again = x.again()
	}
	if err := x.show(p.Status, "problem", view{Title: p.Title, Page: v}); err != nil {
		x.Logger.ErrorContext(x.ctx, "render the page of a problem", "request_id", x.id, "error", err)
		site.Send(x.w, http.StatusInternalServerError, "text/plain; charset=utf-8", []byte(p.Title+". "+p.Text+"\n"))
	}
}

// problemView is the data of the page of a problem.
type problemView struct {
	*problem
	ID    string  // of the request in the log
	Again []field // of the form that was sent; its outcome may be unknown, and sending it again does nothing twice
}

// field is a field of a form.
type field struct{ Name, Value string }

// again returns the fields of the form that was sent; nil if none was.
func (x *exchange) again() (fields []field) {
	for name, values := range x.form {
		for _, value := range values {
			fields = append(fields, field{name, value})
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}
