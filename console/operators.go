package console

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"letterhead/adminapi"
	domain "letterhead/domain/operator"
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
	return x.list("/admin/tokens", query, &v, func() error {
		return x.show(http.StatusOK, "operators", view{Title: "Operators", Section: "Operators", Page: v})
	})
}

func (x *exchange) issueToken() error {
	in := map[string]any{"name": x.Form.Get("name"), "scope": x.Form.Get("scope")}
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

func (x *exchange) revokeToken() error {
	return x.act("revoke", func() error {
		return x.call(http.MethodDelete, "/admin/tokens/"+url.PathEscape(x.Request.PathValue("id")), nil, nil)
	}, "/operators", "token", x.showOperators)
}

// actionsView is the data of the page of what operators have done.
type actionsView struct {
	Actions    []adminapi.Action `json:"actions"`
	NextCursor string            `json:"next_cursor"`
	Query      url.Values
}

// Page returns the page of the subject of a stream; empty if it has none.
func (actionsView) Page(stream string) string {
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
	v := actionsView{Query: x.filter("actor", "stream", "cursor")}
	return x.list("/admin/actions", v.Query, &v, func() error {
		return x.show(http.StatusOK, "actions", view{Title: "Actions", Section: "Actions", Page: v})
	})
}
