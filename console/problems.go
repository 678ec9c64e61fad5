package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"letterhead/faults"
	"letterhead/internal/web"
)

type problem = web.Problem

var (
	errNoPage = web.NewProblem(http.StatusNotFound, "This page does not exist", "There is nothing at this URL.",
		nil)
	errOtherSite = web.NewProblem(http.StatusForbidden, "The form comes from another site",
		"Forms are accepted from the pages of this site only. Nothing was changed.", nil)
	errTooMany = web.NewProblem(http.StatusServiceUnavailable, "Too many pages are being loaded",
		"Wait a moment, then load this one again.", nil)
	errSignedOut = web.NewProblem(http.StatusUnauthorized, "You are not signed in",
		"A session ends by itself after some hours, when you sign out, or when its token is revoked.", nil)
	errTooManyFailures = web.NewProblem(http.StatusTooManyRequests, "Too many failed sign-ins came from your address",
		"The link is not known: copy all of it, or open a new one.", nil)
)

// wrongInput returns the problem of a form with a wrong field.
func wrongInput(field, text string) *problem {
	return &problem{Status: http.StatusBadRequest, Title: "The form was rejected", Text: text, Field: field}
}

// problems is the table from errors of other parts to pages.
var problems = []web.Row{
	web.NewRow(faults.Full, http.StatusServiceUnavailable, "The disk is full",
		"Nothing can be changed, and signing in is not possible. Make room on the disk of the data folder, then load the page again."),
	web.NewRow(faults.Log, http.StatusServiceUnavailable, "The event log cannot be reached",
		"This page needs it. Load the page again when it is back; pages of accounts, payments and brands need only the database."),
	web.NewRow(faults.Database, http.StatusServiceUnavailable, "The database cannot be reached",
		"This page needs it. Load the page again when it is back."),
	web.NewRow(faults.NotReady, http.StatusServiceUnavailable, "The read models are being built",
		"Load the page again in a moment; the page of health shows the progress."),
	web.NewRow(faults.OneOf(context.DeadlineExceeded), http.StatusServiceUnavailable, "This took too long",
		"A part of the service did not answer in time. Load the page again."),
	web.NewRow(web.Any, http.StatusInternalServerError, "Something failed on our side",
		"Load the page again. If that keeps failing, look for the request id in the log."),
}

// visitorProblems is the table for visitors who are not signed in.
var visitorProblems = slices.Concat(problems[:1], []web.Row{
	web.NewRow(faults.Log, http.StatusServiceUnavailable, "The event log cannot be reached",
		"You can sign in when it is back. The next attempt says whether the link was used up."),
	web.NewRow(faults.Database, http.StatusServiceUnavailable, "The database cannot be reached",
		"You can sign in when it is back. Links can be used for 15 minutes."),
}, problems[3:])

// fail answers with the page of a problem.
func (x *exchange) fail(err error) {
	if x.Left() {
		panic(http.ErrAbortHandler)
	}
	rows := problems
	if x.me.Token.ID == "" {
		rows = visitorProblems
	}
	p := web.ProblemOf(err, rows)
	if p.Status == http.StatusInternalServerError && p.Cause != nil {
		x.Logger.ErrorContext(x.Ctx, "console", "request_id", x.ID, "error", p.Cause)
	}
	if p.Status == http.StatusUnauthorized {
		if x.Token != "" {
			cookieOf(x.Request).Set(x, "", x.Now())
		}
		x.me = operator{}
	}
	x.rejected = ""
	v := problemView{problem: p, ID: x.ID}
	if p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests {
		v.ID = cmp.Or(x.apiID, x.ID)
		v.Again = x.again()
	}
	x.Fail(p, "operators", x.Logger, func() error { return x.show(p.Status, "problem", view{Title: p.Title, Page: v}) })
}

// problemView is the data of the page of a problem.
type problemView struct {
	*problem
	ID    string  // of the request in the log
	Again []field // of the form that was sent; its outcome may be unknown, and sending it again does nothing twice
}

type field struct{ Name, Value string }

// again returns the fields of the form that was sent; nil if none was.
func (x *exchange) again() (fields []field) {
	for name, values := range x.Form {
		for _, value := range values {
			fields = append(fields, field{name, value})
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}
