package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/signin"
	"letterhead/faults"
	"letterhead/internal/web"
)

// signInView is the data of the page that a link leads to.
type signInView struct {
	AccountID, Token string // hidden in the form
	Problem          *problem
	SignedOut        bool
	Continue         bool // there is a session already
	Back             bool // signing in leads to the page that was asked for
	Mails            bool // links are sent by e-mail
	Mail             mailForm
}

// mailForm is the form that asks for a link by e-mail.
type mailForm struct {
	Email, Problem string
	Sent           bool
}

// linkProblems are the reasons why a link does not sign in.
var linkProblems = []web.Row{
	web.NewRow(faults.OneOf(signin.ErrLinkUsed), http.StatusGone, "This link was used before",
		"Each link signs in once. If you have not used it yourself, someone else has: tell the operator of the service."),
	web.NewRow(faults.OneOf(signin.ErrLinkExpired), http.StatusGone, "This link has expired",
		"Links can be used for some minutes only."),
	web.NewRow(faults.OneOf(signin.ErrUnknownLink), http.StatusNotFound, "This link is not known",
		"A part of it may be missing: copy all of it. Old links are forgotten."),
	web.NewRow(faults.OneOf(account.ErrClosed), http.StatusGone, "This account is closed",
		"It no longer accepts sign-ins. The operator of the service has its ledger and statements."),
	web.NewRow(faults.OneOf(signin.ErrTooManySessions), http.StatusConflict, "Too many people are signed in",
		"The account has as many sessions as it may have. Sign out everywhere in one of them, or wait until one has ended. The link was not used up."),
}

// showSignIn answers GET /dashboard/sign-in. It neither uses the link up nor checks it, because programs that preview
// mails open links, too.
func (x *exchange) showSignIn() error {
	q := x.Request.URL.Query()
	v := signInView{AccountID: q.Get("account"), Token: q.Get("token"), SignedOut: q.Has("signed_out"),
		Mails: x.Sessions.MailsLinks(), Mail: mailForm{Sent: q.Has("sent")}}
	return x.show(http.StatusOK, "signin", view{Title: "Sign in", Page: v})
}

func (x *exchange) signIn() error {
	if x.FromOtherSite() {
		return errOtherSite
	}
	v := signInView{AccountID: x.Form.Get("account"), Token: x.Form.Get("token"), Mails: x.Sessions.MailsLinks()}
	err := error(signin.ErrUnknownLink)
	var session string
	var expires time.Time
	if len(v.AccountID) <= web.MaxToken && v.AccountID != "" && len(v.Token) <= web.MaxToken && v.Token != "" {
		session, expires, err = x.Sessions.Enter(x.Ctx, v.AccountID, v.Token)
	}
	if err == nil || session != "" && errors.Is(err, commands.ErrNotSeen) {
		x.cookie().Set(x, session, expires)
		page := x.wanted()
		if page != "" {
			x.want("")
		}
		return x.redirect(page)
	}
	p := web.ProblemOf(err, linkProblems)
	if p == nil {
		return err
	}
	v.Problem, v.Token = p, ""
	if x.Token != "" {
		current, err := x.Sessions.Session(x.Ctx, x.Token)
		v.Continue = err == nil && current.AccountID == v.AccountID
	}
	return x.show(p.Status, "signin", view{Title: p.Title, Page: v})
}

// wantedFor is how long a browser remembers the page that a person asked for before signing in: longer than it takes to
// get a link.
const wantedFor = time.Hour

// wantedCookie returns the cookie with the page that a person asked for before signing in. The link to sign in comes
// from elsewhere, so that only the browser can remember the page.
func (d *Dashboard) wantedCookie() web.Cookie { return d.cookieOf("letterhead_page") }

// want makes the browser remember a page, given below /dashboard; without one it forgets that of before. It reports
// whether the page is remembered.
func (x *exchange) want(page string) bool {
	page = url.QueryEscape(page)
	if len(page) > web.MaxToken {
		page = ""
	}
	x.wantedCookie().Set(x, page, x.Now().Add(wantedFor))
	return page != ""
}

// wanted returns the page that the browser remembers, below /dashboard: no cookie leads anywhere else.
func (x *exchange) wanted() string {
	page, err := url.QueryUnescape(x.wantedCookie().Token(x.Request))
	u, parsed := url.ParseRequestURI(page)
	if err != nil || parsed != nil || u.Host != "" || u.Scheme != "" || path.Clean("/"+u.Path) != u.Path {
		return ""
	}
	return u.RequestURI()
}

// showSignInFor answers a request of a page that needs a session with how to get one.
func (x *exchange) showSignInFor(p *problem) error {
	v := signInView{Problem: p, Mails: x.Sessions.MailsLinks()}
	last := path.Base(x.Request.URL.Path) // a proof is a download
	if x.Request.Method == http.MethodGet && x.Request.Header.Get("HX-Request") == "" && last != "sign-out" && last != "proof" {
		v.Back = x.want(strings.TrimPrefix(x.Request.URL.RequestURI(), "/dashboard"))
	}
	return x.show(p.Status, "signin", view{Title: p.Title, Page: v})
}

// mailLink answers POST /dashboard/sign-in/mail. The answer does not reveal whether an account has the address.
func (x *exchange) mailLink() error {
	if x.FromOtherSite() {
		return errOtherSite
	}
	f := mailForm{Email: strings.TrimSpace(x.Form.Get("email"))}
	if f.Email == "" || commands.CheckEmail(f.Email) != nil {
		f.Problem = "Enter the e-mail address of your account, such as ann@example.com."
		shown := view{Title: "Sign in", Page: signInView{Mails: true, Mail: f}}
		return x.show(http.StatusUnprocessableEntity, "signin", shown)
	}
	err := x.Sessions.MailLink(x.Ctx, f.Email, x.Visitor(x.Request))
	switch {
	case errors.Is(err, ErrNoMail):
		return web.NewProblem(http.StatusNotFound, "This service sends no links by e-mail",
			"Ask its operator for a link.", nil)
	case err != nil:
		return err
	}
	return x.redirect("/sign-in?sent=1")
}

func (x *exchange) showSignOut() error {
	return x.show(http.StatusOK, "signout", view{Title: "Sign out"})
}

func (x *exchange) signOut() error {
	end := x.Sessions.SignOut
	if x.Form.Get("everywhere") != "" {
		end = x.Sessions.SignOutEverywhere
	}
	err := end(x.Ctx, x.session)
	if err != nil && !errors.Is(err, commands.ErrNotSeen) {
		return err
	}
	x.cookie().Set(x, "", time.Time{})
	if err != nil {
		x.account = nil
		return web.NewProblem(http.StatusServiceUnavailable, "You have signed out, but not everywhere yet",
			"Not every part of the service has confirmed it in time, so the session may still be accepted for a moment.", err)
	}
	return x.redirect("/sign-in?signed_out=1")
}
