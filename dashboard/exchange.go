package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"letterhead/dashboard/site"
	"letterhead/projections/accounts"
)

// exchange is a request and its answer.
type exchange struct {
	*Dashboard
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context
	token   string // of the session in the cookie; empty if there is none
	session Session
	account *accounts.Account // of the session; nil before it is known
	name    string            // of the account's holder; empty if it was erased
	form    url.Values        // of a POST
}

// cookie returns the cookie of sessions. Over plain http the browser sends it to the dashboard only.
func (d *Dashboard) cookie() site.Cookie {
	return site.Cookie{Name: "letterhead_session", Path: d.base + "/dashboard", TLS: d.secure}
}

// serve answers a request.
func (d *Dashboard) serve(w http.ResponseWriter, r *http.Request) {
	site.Protect(w.Header())
	d.mux.ServeHTTP(w, r)
}

// page is a page of the dashboard, or a form that it sends.
type page struct {
	method, path string // of net/http
	open         bool   // it needs no session
	serve        func(*exchange) error
}

func (d *Dashboard) route() {
	d.mux = http.NewServeMux()
	allowed := map[string][]string{}
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
		d.mux.Handle(p.method+" "+p.path, d.handler(p))
		if allowed[p.path] = append(allowed[p.path], p.method); p.method == http.MethodGet {
			allowed[p.path] = append(allowed[p.path], http.MethodHead)
		}
	}
	for path, all := range allowed {
		methods := strings.Join(all, ", ")
		d.mux.Handle(path, d.handler(page{open: true, serve: func(x *exchange) error { // any other method
			x.w.Header().Set("Allow", methods)
			return &problem{http.StatusMethodNotAllowed, "This page cannot do that", "This URL answers " + methods + " only.", nil}
		}}))
	}
	d.mux.Handle("/dashboard/", d.handler(page{open: true, serve: func(*exchange) error { return errNoPage }}))
	d.mux.Handle("GET /dashboard/{$}", http.RedirectHandler(d.base+"/dashboard", http.StatusMovedPermanently))
	for name, file := range d.pages.static.Files() {
		d.mux.Handle("GET /static/dashboard/"+name, file)
	}
	d.mux.Handle("/static/dashboard/", d.handler(page{open: true, serve: func(*exchange) error { return errNoPage }}))
}

// handler passes a request through its checks to a page.
func (d *Dashboard) handler(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		x := &exchange{Dashboard: d, w: w, r: r, ctx: ctx, token: d.cookie().Token(r)}
		if err := x.run(p); err != nil {
			x.fail(err)
		}
	})
}

func (x *exchange) run(p page) error {
	if x.r.Method == http.MethodPost {
		// The body is read before the request takes a place, which a slow client must not keep.
		if err := x.readForm(); err != nil {
			return err
		}
		if !p.open {
			if err := x.checkOrigin(); err != nil {
				return err
			}
		}
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
	if x.token == "" {
		return ErrNoSession
	}
	var err error
	if x.session, err = x.Sessions.Session(x.ctx, x.token); err != nil {
		return err
	}
	a, err := x.Accounts.Get(x.ctx, x.session.AccountID)
	if err != nil {
		return err
	}
	names, err := x.Names.Names(x.ctx, a.Holder)
	if err != nil {
		return err
	}
	x.account, x.name = a, names[a.Holder]
	return nil
}

func (x *exchange) readForm() error {
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxForm)
	err := x.r.ParseForm()
	x.form = x.r.PostForm
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return &problem{http.StatusRequestEntityTooLarge, "The form is too large", "It may have " + strconv.Itoa(maxForm>>10) + " KiB. Go back and shorten what you typed.", nil}
	case err != nil:
		return &problem{http.StatusBadRequest, "The form did not arrive", "It was cut off or is not encoded correctly. Go back and send it again.", nil}
	}
	return nil
}

// checkOrigin rejects forms that pages of other sites send.
func (x *exchange) checkOrigin() error {
	if site.FromOwnPage(x.r, x.protection, x.token, x.form) {
		return nil
	}
	return errOtherSite
}

// redirect leads the browser to a page of the dashboard, given below /dashboard, with GET.
func (x *exchange) redirect(page string) error {
	x.w.Header().Set("Location", x.base+"/dashboard"+page)
	x.w.WriteHeader(http.StatusSeeOther)
	return nil
}
