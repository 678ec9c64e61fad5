package dashboard

import (
	"context"
	"log/slog"
	"net/http"

	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/faults"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
	"letterhead/projections/accounts"
	"letterhead/projections/sessions"
)

type exchange struct {
	web.Page
	*Dashboard
	session signin.Session
	account *accounts.Account // of the session; nil before it is known
	name    string            // of the account's holder; empty if it was erased
}

// cookie returns the cookie of sessions. Over plain http the browser sends it to the dashboard only.
func (d *Dashboard) cookie() web.Cookie { return d.cookieOf("letterhead_session") }

func (d *Dashboard) cookieOf(name string) web.Cookie {
	return web.Cookie{Name: name, Path: d.base + "/dashboard", TLS: d.secure}
}

// ServeHTTP implements http.Handler. It answers the paths /dashboard, below it, and /static/dashboard/.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Protect(w.Header())
	if !web.Clean(w, r) {
		d.router.ServeHTTP(w, r)
	}
}

// page is a page of the dashboard, or a form that it sends.
type page struct {
	method, path string
	open         bool // it needs no session
	serve        func(*exchange) error
}

func (d *Dashboard) route() {
	var routes []web.Route
	for _, p := range []page{
		{"GET", "/dashboard/sign-in", true, (*exchange).showSignIn},
		{"POST", "/dashboard/sign-in", true, (*exchange).signIn},
		{"POST", "/dashboard/sign-in/mail", true, (*exchange).mailLink},
		{"GET", "/dashboard/sign-out", false, (*exchange).showSignOut},
		{"POST", "/dashboard/sign-out", false, (*exchange).signOut},
		{"GET", "/dashboard", false, (*exchange).showOverview},
		{"GET", "/dashboard/usage", false, (*exchange).showUsage},
		{"GET", "/dashboard/keys", false, (*exchange).showKeys},
		{"POST", "/dashboard/keys", false, (*exchange).issueKey},
		{"GET", "/dashboard/keys/{id}/revoke", false, (*exchange).showRevoke},
		{"POST", "/dashboard/keys/{id}/revoke", false, (*exchange).revokeKey},
		{"POST", "/dashboard/keys/{id}/limit", false, (*exchange).limitKey},
		{"GET", "/dashboard/ledger", false, (*exchange).showLedger},
		{"GET", "/dashboard/ledger/{request_id}", false, (*exchange).showRequest},
		{"GET", "/dashboard/replay", false, (*exchange).showReplay},
		{"GET", "/dashboard/statements", false, (*exchange).showStatements},
		{"GET", "/dashboard/statements/{month}", false, (*exchange).showStatement},
		{"GET", "/dashboard/statements/{month}/proof", false, (*exchange).downloadProof},
		{"GET", "/dashboard/credits", false, (*exchange).showCredits},
		{"POST", "/dashboard/credits", false, (*exchange).buy},
		{"POST", "/dashboard/credits/subscription", false, (*exchange).manageSubscription},
		{"GET", "/dashboard/playground", false, (*exchange).showPlayground},
		{"POST", "/dashboard/playground", false, (*exchange).lookUp},
		{"GET", "/dashboard/notices", false, (*exchange).showNotices},
		{"POST", "/dashboard/notices", false, (*exchange).setNotices},
		{"POST", "/dashboard/notices/{id}/retry", false, (*exchange).retryNotice},
	} {
		routes = append(routes, web.Route{Method: p.method, Path: p.path, Serve: d.handler(p)})
	}
	other := d.handler(page{open: true, serve: func(x *exchange) error {
		return web.NewProblem(http.StatusMethodNotAllowed, "This page cannot do that",
			"This URL answers "+x.Header().Get("Allow")+" only.", nil)
	}})
	r := web.NewRouter(routes, other, d.handler(page{open: true, serve: func(*exchange) error { return errNoPage }}))
	for name, file := range d.static.Files() {
		r.Handle("/static/dashboard/"+name, file).Methods(http.MethodGet, http.MethodHead)
	}
	overview := http.RedirectHandler(d.base+"/dashboard", http.StatusMovedPermanently)
	r.Handle("/dashboard/", overview).Methods(http.MethodGet, http.MethodHead)
	d.router = r
}

// handler passes a request through its checks to a page. The id of the request is that of the server in front.
func (d *Dashboard) handler(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		x := &exchange{Dashboard: d}
		x.Page = web.Page{Request: r, Ctx: ctx, Token: d.cookie().Token(r), Protection: d.protection}
		x.ResponseWriter, x.ID = w, w.Header().Get("X-Request-Id")
		if err := x.run(p); err != nil {
			x.fail(err)
		}
	}
}

func (x *exchange) run(p page) error {
	// The body is read before the request takes a place, which a slow client must not keep.
	if err := x.ReadForm(maxForm); err != nil {
		return err
	}
	if x.Request.Method == http.MethodPost && !p.open && !x.FromOwnPage() {
		return errOtherSite
	}
	if !x.running.TryAcquire(1) {
		return errTooMany
	}
	defer x.running.Release(1)
	if p.open {
		return p.serve(x)
	}
	if err := x.authenticate(); err != nil {
		return err
	}
	leave, ok := x.accounts.Enter(x.session.AccountID)
	if !ok {
		return errTooMany
	}
	defer leave()
	return p.serve(x)
}

// authenticate finds the session of the cookie, and its account.
func (x *exchange) authenticate() error {
	if x.Token == "" {
		return sessions.ErrNotFound
	}
	session, err := x.Sessions.Session(x.Ctx, x.Token)
	if err != nil {
		return err
	}
	x.session = *session
	a, err := x.Accounts.Get(x.Ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	names, err := x.Names.Names(x.Ctx, a.Holder)
	if err != nil {
		return err
	}
	x.account, x.name = a, names[a.Holder]
	return nil
}

// redirect leads the browser to a page of the dashboard, given below /dashboard, with GET.
func (x *exchange) redirect(page string) error { return x.Redirect(x.base + "/dashboard" + page) }

type problem = web.Problem

var (
	errNoPage = web.NewProblem(http.StatusNotFound, "This page does not exist",
		"The dashboard has nothing at this URL.", nil)
	errOtherSite = web.NewProblem(http.StatusForbidden, "The form comes from another site",
		"The dashboard takes forms from its own pages only. Nothing was changed.", nil)
	errTooMany = web.NewProblem(http.StatusServiceUnavailable, "Too many pages are being loaded",
		"Wait a moment, then load this one again.", nil)
)

// problems is the table from errors of other parts to pages.
var problems = []web.Row{
	web.NewRow(faults.OneOf(sessions.ErrNotFound), http.StatusUnauthorized, "You are not signed in",
		"A session ends by itself after some days, or when you sign out."),
	web.NewRow(faults.OneOf(account.ErrNotFound, accounts.ErrNotFound), http.StatusNotFound, "The account was not found",
		"It may have been opened a moment ago. Load the page again."),
	web.NewRow(faults.Loading, http.StatusServiceUnavailable, "The account is still being loaded",
		"Its history is long, and the service was restarted. Load the page again in a minute."),
	web.NewRow(faults.OneOf(ratelimit.ErrUnavailable), http.StatusServiceUnavailable,
		"The limits of requests cannot be checked", "Load the page again in a moment."),
	web.NewRow(faults.Full, http.StatusServiceUnavailable, "The service has no storage left",
		"Nothing can be changed until there is room. Balances, logos of known brands and the documentation are still served. Look-ups answer 503, which costs nothing."),
	web.NewRow(faults.Log, http.StatusServiceUnavailable, "The event log cannot be reached",
		"Credits and keys can neither be read nor changed until it is back. Logos of known brands and the documentation are still served. Look-ups and searches answer 503, which costs nothing."),
	web.NewRow(faults.Busy, http.StatusServiceUnavailable, "The account is busy",
		"It has more running requests than can be settled in time. Load the page again."),
	web.NewRow(faults.Database, http.StatusServiceUnavailable, "The database cannot be reached",
		"The dashboard can show nothing until it is back; you stay signed in. The documentation and stored images are still served. Requests with an API key may answer 503, which costs nothing."),
	web.NewRow(faults.NotReady, http.StatusServiceUnavailable, "This part of the dashboard is being prepared",
		"Its tables cannot be read yet. Look-ups, searches and logos are served as usual."),
	web.NewRow(faults.OneOf(eventschemas.ErrNotYet), http.StatusServiceUnavailable, "The service is being upgraded",
		"This can be done when the operator has finished the upgrade. Look-ups, searches and logos are served as usual."),
	web.NewRow(faults.OneOf(context.DeadlineExceeded), http.StatusServiceUnavailable, "This took too long",
		"A part of the service did not answer in time. Load the page again."),
	web.NewRow(web.Any, http.StatusInternalServerError, "Something failed on our side",
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
	x.Fail(p, "dashboard", x.Logger, func() error {
		if p.Status == http.StatusUnauthorized {
			return x.showSignInFor(p)
		}
		return x.show(p.Status, "problem", view{Title: p.Title, Page: p})
	})
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
