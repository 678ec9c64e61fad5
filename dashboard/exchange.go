package dashboard

import (
	"context"
	"net/http"

	"letterhead/domain/signin"
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
func (d *Dashboard) cookie() web.Cookie {
	return web.Cookie{Name: "letterhead_session", Path: d.base + "/dashboard", TLS: d.secure}
}

func (d *Dashboard) serve(w http.ResponseWriter, r *http.Request) {
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
	for name, file := range d.pages.static.Files() {
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
