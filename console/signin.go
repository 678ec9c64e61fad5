package console

import (
	"errors"
	"net/http"

	domain "letterhead/domain/operator"
	"letterhead/internal/ratelimit"
)

// signInView is the data of the page that a link leads to.
type signInView struct {
	Token     string // hidden in the form
	Problem   *problem
	SignedOut bool
}

// linkProblems are the reasons why a link does not sign in.
var linkProblems = []struct {
	err     error
	problem problem
}{
	{domain.ErrLinkUsed, problem{Status: http.StatusGone, Title: "This link was used before",
		Text: "Each link signs in once. If you have not used it yourself, someone else has: revoke the token of that sign-in on the page Operators."}},
	{domain.ErrLinkExpired, problem{Status: http.StatusGone, Title: "This link has expired",
		Text: "Links can be used for some minutes only."}},
	{domain.ErrUnknownLink, problem{Status: http.StatusNotFound, Title: "This link is not known",
		Text: "A part of it may be missing: copy all of it."}},
	{domain.ErrTooManyTokens, problem{Status: http.StatusConflict, Title: "There are too many tokens",
		Text: "Revoke those that are not used: \"letterhead admin token revoke\". The link was not used up."}},
}

// showSignIn answers GET /sign-in. It neither uses the link up nor checks it, because programs that preview mails open
// links, too.
func (x *exchange) showSignIn() error {
	q := x.Request.URL.Query()
	return x.show(http.StatusOK, "signin",
		view{Title: "Sign in", Page: signInView{Token: q.Get("token"), SignedOut: q.Has("signed_out")}})
}

// signIn answers POST /sign-in. A form of another site would sign an operator in with a link of its maker's.
func (x *exchange) signIn() error {
	if x.FromOtherSite() {
		return errOtherSite
	}
	token, expires, err := x.SignIn(x.Ctx, x.Form.Get("token"))
	if err == nil {
		if x.Token != "" { // of an earlier sign-in in this browser
			_ = x.call(http.MethodDelete, "/admin/me", nil, nil) // it ends by itself otherwise
		}
		cookieOf(x.Request).Set(x, token, expires)
		return x.redirect("/", "")
	}
	if errors.Is(err, domain.ErrUnknownLink) { // a link that was used or has expired was not guessed
		by := ratelimit.Key{Scope: "console sign-ins", ID: x.Visitor(x.Request)}
		taken, err := x.unknownLinks.Take(x.Ctx, by, 1, maxUnknown)
		if err != nil {
			return err
		}
		if !taken.Allowed {
			return errTooManyFailures
		}
	}
	for _, known := range linkProblems {
		if errors.Is(err, known.err) {
			return x.show(known.problem.Status, "signin",
				view{Title: known.problem.Title, Page: signInView{Problem: &known.problem}})
		}
	}
	return err
}

func (x *exchange) signOut() error {
	if err := x.call(http.MethodDelete, "/admin/me", nil, nil); err != nil {
		return err
	}
	cookieOf(x.Request).Set(x, "", x.Now())
	return x.redirect("/sign-in?signed_out", "")
}
