package dashboard

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/dashboard/site"
	"letterhead/domain/account"
)

// signInView is the data of the page that a link leads to.
type signInView struct {
	AccountID, Token string // hidden in the form
	Problem          *problem
	SignedOut        bool
	Continue         bool // there is a session already
	Mails            bool // links are sent by e-mail
	Mail             mailForm
}

// mailForm is the form that asks for a link by e-mail.
type mailForm struct {
	Email, Problem string
	Sent           bool
}

// linkProblems are the reasons why a link does not sign in.
var linkProblems = []struct {
	err     error
	problem problem
}{
	{ErrLinkUsed, problem{http.StatusGone, "This link was used before", "Each link signs in once. If you have not used it yourself, someone else has: tell the operator of the service.", nil}},
	{ErrLinkExpired, problem{http.StatusGone, "This link has expired", "Links can be used for some minutes only.", nil}},
	{ErrLinkUnknown, problem{http.StatusNotFound, "This link is not known", "A part of it may be missing: copy all of it. Old links are forgotten.", nil}},
	{account.ErrClosed, problem{http.StatusGone, "This account is closed", "It no longer accepts sign-ins. The operator of the service has its ledger and statements.", nil}},
	{ErrTooManySessions, problem{http.StatusConflict, "Too many people are signed in", "The account has as many sessions as it may have. Sign out everywhere in one of them, or wait until one has ended. The link was not used up.", nil}},
}

// showSignIn answers GET /dashboard/sign-in. It neither uses the link up nor checks it, because programs that preview
// mails open links, too.
func (x *exchange) showSignIn() error {
	q := x.r.URL.Query()
	v := signInView{AccountID: q.Get("account"), Token: q.Get("token"), SignedOut: q.Has("signed_out"), Mails: x.Sessions.MailsLinks(), Mail: mailForm{Sent: q.Has("sent")}}
	return x.show(http.StatusOK, "signin", view{Title: "Sign in", Page: v})
}

// fromOtherSite reports whether a form of a visitor comes from another site. Such a form would sign the visitor in to an
// account of its maker's, in place of the visitor's own.
func (x *exchange) fromOtherSite() bool {
	return x.protection.Check(x.r) != nil && !site.OriginUnknown(x.r)
}

// signIn answers POST /dashboard/sign-in.
func (x *exchange) signIn() error {
	if x.fromOtherSite() {
		return errOtherSite
	}
	v := signInView{AccountID: x.form.Get("account"), Token: x.form.Get("token"), Mails: x.Sessions.MailsLinks()}
	err := error(ErrLinkUnknown)
	var session string
	var expires time.Time
	if len(v.AccountID) <= site.MaxToken && v.AccountID != "" && len(v.Token) <= site.MaxToken && v.Token != "" {
		session, expires, err = x.Sessions.Enter(x.ctx, v.AccountID, v.Token)
	}
	if err == nil || session != "" && errors.Is(err, commands.ErrNotSeen) {
		x.cookie().Set(x.w, session, expires)
		return x.redirect("")
	}
	for _, known := range linkProblems {
		if errors.Is(err, known.err) {
			v.Problem, v.Token = &known.problem, ""
			if x.token != "" {
				current, err := x.Sessions.Session(x.ctx, x.token)
				v.Continue = err == nil && current.AccountID == v.AccountID
			}
			return x.show(known.problem.Status, "signin", view{Title: known.problem.Title, Page: v})
		}
	}
	return err
}

// mailLink answers POST /dashboard/sign-in/mail. The answer does not reveal whether an account has the address.
func (x *exchange) mailLink() error {
	if x.fromOtherSite() {
		return errOtherSite
	}
	f := mailForm{Email: strings.TrimSpace(x.form.Get("email"))}
	if f.Email == "" || commands.CheckEmail(f.Email) != nil {
		f.Problem = "Enter the e-mail address of your account, such as ann@example.com."
		shown := view{Title: "Sign in", Page: signInView{Mails: true, Mail: f}}
		return x.show(http.StatusUnprocessableEntity, "signin", shown)
	}
	err := x.Sessions.MailLink(x.ctx, f.Email, x.Visitor(x.r))
	switch {
	case errors.Is(err, ErrNoMail):
		return &problem{http.StatusNotFound, "This service sends no links by e-mail", "Ask its operator for a link.", nil}
	case err != nil:
		return err
	}
	return x.redirect("/sign-in?sent=1")
}

// showSignOut answers GET /dashboard/sign-out.
func (x *exchange) showSignOut() error {
	return x.show(http.StatusOK, "signout", view{Title: "Sign out"})
}

// signOut answers POST /dashboard/sign-out.
func (x *exchange) signOut() error {
	end := x.Sessions.SignOut
	if x.form.Get("everywhere") != "" {
		end = x.Sessions.SignOutEverywhere
	}
	err := end(x.ctx, x.session)
	if err != nil && !errors.Is(err, commands.ErrNotSeen) {
		return err
	}
	x.cookie().Set(x.w, "", time.Time{})
	if err != nil {
		x.account = nil
		return &problem{http.StatusServiceUnavailable, "You have signed out, but not everywhere yet",
			"Not every part of the service has confirmed it in time, so the session may still be accepted for a moment.", err}
	}
	return x.redirect("/sign-in?signed_out=1")
}
