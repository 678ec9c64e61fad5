package console

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"letterhead/adminapi"
	domain "letterhead/domain/operator"
	"letterhead/faults"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
)

// operatorsView is the data of the page of operators' tokens.
type operatorsView struct {
	Tokens     []adminapi.Token `json:"tokens"` // the newest first
	NextCursor string           `json:"next_cursor"`
	State      string           // active, ended, revoked or expired
	Query      url.Values
	Scopes     []domain.Scope
}

// showOperators answers GET /operators. It shows the valid tokens unless another state is chosen: each sign-in leaves a
// token that has ended.
func (x *exchange) showOperators() error {
	v := operatorsView{Query: x.filter("state", "cursor"), Scopes: domain.Scopes}
	query := maps.Clone(v.Query)
	if !query.Has("state") {
		query.Set("state", "active")
	}
	v.State = query.Get("state")
	return x.list("/admin/tokens", query, "operators", view{Title: "Operators", Section: "Operators", Page: &v})
}

func (x *exchange) issueToken() error {
	in := x.fields("name", "scope")
	if day := x.Form.Get("expires"); day != "" {
		last, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return x.reject("token", wrongInput("expires", "Give the last day like 2026-12-31."), x.showOperators)
		}
		in["expires_at"] = last.AddDate(0, 0, 1)
	}
	var issued adminapi.Token
	if err := x.call(http.MethodPost, "/admin/tokens", in, &issued); err != nil {
		return x.reject("token", err, x.showOperators)
	}
	return x.secret(secretView{Title: "The token is issued",
		Text:    "Programs send it to the admin API. It is shown only now.",
		Secrets: []secret{{"The token", issued.Token}}, Back: "/operators", BackTo: "All tokens"})
}

func (x *exchange) operatorLink() error {
	return x.link("/admin/login-links", []string{"operator", "scope"}, "an operator in to these pages", "/operators",
		x.showOperators)
}

func (x *exchange) revokeToken() error {
	send := x.sender(http.MethodDelete, "/admin/tokens/"+url.PathEscape(x.Request.PathValue("id")))
	return x.act("revoke", send, "/operators", "token", x.showOperators)
}

// actionsView is the data of the page of what operators have done.
type actionsView struct {
	Actions    []adminapi.Action `json:"actions"`
	NextCursor string            `json:"next_cursor"`
	Query      url.Values
}

// pageOfStream returns the page of the subject of a stream; empty if it has none.
func pageOfStream(stream string) string {
	category, subject, _ := strings.Cut(stream, "-")
	switch category {
	case "account", "notices", "signins":
		return "/accounts/" + url.PathEscape(subject)
	case "brand":
		return "/brands/" + url.PathEscape(subject)
	}
	return ""
}

func (x *exchange) showActions() error {
	v := actionsView{Query: x.filter("actor", "stream", "from", "to", "cursor")}
	return x.list("/admin/actions", v.Query, "actions", view{Title: "Actions", Section: "Actions", Page: &v})
}

// signInView is the data of the page that a link leads to.
type signInView struct {
	Token     string // hidden in the form
	Problem   *problem
	SignedOut bool
}

// linkProblems are the reasons why a link does not sign in.
var linkProblems = []web.Row{
	web.NewRow(faults.OneOf(domain.ErrLinkUsed), http.StatusGone, "This link was used before",
		"Each link signs in once. If you have not used it yourself, someone else has: revoke the token of that sign-in on the page Operators."),
	web.NewRow(faults.OneOf(domain.ErrLinkExpired), http.StatusGone, "This link has expired",
		"Links can be used for some minutes only."),
	web.NewRow(faults.OneOf(domain.ErrUnknownLink), http.StatusNotFound, "This link is not known",
		"A part of it may be missing: copy all of it."),
	web.NewRow(faults.OneOf(domain.ErrTooManyTokens), http.StatusConflict, "There are too many tokens",
		"Revoke those that are not used: \"letterhead admin token revoke\". The link was not used up."),
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
	if p := web.ProblemOf(err, linkProblems); p != nil {
		return x.show(p.Status, "signin", view{Title: p.Title, Page: signInView{Problem: p}})
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
