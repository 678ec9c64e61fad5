package adminapi_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections/engine"
)

// signIn signs an operator in on this node with a new link, and returns the text of the token and the token of the link.
func (s *service) signIn(name string, scope operator.Scope) (token, link string) {
	s.t.Helper()
	issued, err := s.node.Operations.Tokens.IssueLink(s.t.Context(), s.node.Operator(), name, scope)
	s.must(err)
	u, err := url.Parse(issued.URL)
	s.must(err)
	link = u.Query().Get("token")
	token, _, err = s.node.Operations.Tokens.Enter(s.t.Context(), link)
	s.must(err)
	return token, link
}

type ownToken struct {
	Token struct {
		ID, Name, Scope, Last4, State, Token string
		IssuedAt                             time.Time `json:"issued_at"`
		ExpiresAt                            time.Time `json:"expires_at"`
		IssuedBy                             string    `json:"issued_by"`
	}
	Permissions []string
}

func TestLoginLinks_OfOperators_AreInTheAnswerOnce(t *testing.T) {
	s := start(t)
	issue := request{method: "POST", path: "/admin/login-links", body: `{"operator":"Jane Doe","scope":"support"}`, key: "link"}
	var first, repeat struct{ URL string }
	s.send(issue).want(http.StatusCreated, &first)
	s.send(issue).want(http.StatusCreated, &repeat)
	if !strings.Contains(first.URL, "/sign-in?token=") || repeat.URL != "" {
		t.Errorf("the link leads to %.30s, that of the repeat to %.30s", first.URL, repeat.URL)
	}
	for body, part := range map[string]string{`{"operator":" ","scope":"read"}`: "field operator takes", `{"operator":"Jane","scope":"owner"}`: "field scope is"} {
		s.post("/admin/login-links", body).rejected(http.StatusBadRequest, part)
	}
}

// Rule 9.
func TestMe_SignedInOperator_IsShownUntilSignedOut(t *testing.T) {
	s := start(t)
	token, _ := s.signIn("Jane Doe", operator.Finance)
	var me ownToken
	a := s.send(request{method: "GET", path: "/admin/me", token: token}).want(http.StatusOK, &me)
	got := me.Token
	if got.ID == "" || got.Name != "Jane Doe" || got.Scope != "finance" || got.State != "active" || !strings.HasSuffix(token, got.Last4) || got.ExpiresAt.Sub(got.IssuedAt) != operator.SessionLifetime {
		t.Errorf("the token is %+v", got)
	}
	if want := []string{"read", "finance"}; !slices.Equal(me.Permissions, want) {
		t.Errorf("the token has the permissions %v, want %v", me.Permissions, want)
	}
	if strings.Contains(a.text, token) || got.Token != "" || got.IssuedBy != "" {
		t.Errorf("the answer has too much: %s", strings.ReplaceAll(a.text, token, "TOKEN"))
	}
	s.send(request{method: "DELETE", path: "/admin/me", body: `{"id":"other"}`, token: token}).rejected(http.StatusBadRequest, "id")
	var revoked struct {
		ID       string
		Repeated bool
	}
	if a := s.send(request{method: "DELETE", path: "/admin/me", token: token, key: "out"}).want(http.StatusOK, &revoked); revoked.ID != got.ID || revoked.Repeated || a.header.Get("X-Unconfirmed") != "" {
		t.Errorf("revoked %+v, unconfirmed %q", revoked, a.header.Get("X-Unconfirmed"))
	}
	for _, method := range []string{"GET", "DELETE"} {
		s.send(request{method: method, path: "/admin/me", token: token, key: "out"}).rejected(http.StatusUnauthorized, "revoked")
	}
	s.get("/admin/me?name=x").rejected(http.StatusBadRequest, "name")
}

// A token ends by itself, and that of an operator who has signed in after the session.
func TestMe_SessionExpired_IsRejected(t *testing.T) {
	s := start(t)
	token, _ := s.signIn("Jane Doe", operator.Read)
	me := request{method: "GET", path: "/admin/me", token: token}
	s.send(me).want(http.StatusOK, nil)
	s.past.Add(int64(operator.SessionLifetime))
	s.send(me).rejected(http.StatusUnauthorized, "expired")
}

// What an operator does after signing in has the token as its actor, and signing out is logged.
func TestSignedInOperator_Actions_HaveTheirActor(t *testing.T) {
	s := start(t)
	cfg, deps, err := s.node.AdminAPI(t.Context())
	s.must(err)
	var logged lines
	cfg.Logger, cfg.Registerer = slog.New(slog.NewTextHandler(&logged, nil)), nil
	s.listen(cfg, deps)
	token, _ := s.signIn("Jane Doe", operator.Read)
	var me ownToken
	s.send(request{method: "GET", path: "/admin/me", token: token}).want(http.StatusOK, &me)
	if logged.String() != "" {
		t.Errorf("reading is logged: %s", logged.String())
	}
	s.send(request{method: "DELETE", path: "/admin/me", token: token}).want(http.StatusOK, nil)
	if text := logged.String(); !strings.Contains(text, "route=revokeOwnToken") || !strings.Contains(text, me.Token.ID) {
		t.Errorf("the log is %q", text)
	}
	last, err := s.node.Stores.Log.ReadStream(t.Context(), eventschemas.OperatorsStream, eventlog.End, eventlog.Backward, 1)
	if err != nil || len(last) != 1 || last[0].Type != "OperatorTokenRevoked" || last[0].Metadata.Actor != "operator:"+me.Token.ID {
		t.Errorf("the last event is %+v, %v", last, err)
	}
	var all struct {
		Tokens []struct {
			ID, Name, State string
			IssuedBy        string `json:"issued_by"`
		}
	}
	s.get("/admin/tokens").want(http.StatusOK, &all)
	if listed := all.Tokens[0]; listed.ID != me.Token.ID || listed.Name != "Jane Doe" || listed.State != "revoked" || listed.IssuedBy != "operator:"+me.Token.ID {
		t.Errorf("listed: %+v", listed)
	}
}

func TestMe_SignOutNotConfirmed_SaysSo(t *testing.T) {
	s := start(t)
	cfg, deps, err := s.node.AdminAPI(t.Context())
	s.must(err)
	unseen, tokens, reads := *s.node.Operations, *s.node.Operations.Tokens, *s.node.Operations.Reads
	reads.Runner = &engine.Runner{} // without the read model that would confirm the revocation
	tokens.Reads, unseen.Tokens = &reads, &tokens
	cfg.Registerer, deps.Operations = nil, &unseen
	s.listen(cfg, deps)
	token, _ := s.signIn("Jane Doe", operator.Read)
	if a := s.send(request{method: "DELETE", path: "/admin/me", token: token}).want(http.StatusOK, nil); a.header.Get("X-Unconfirmed") != "true" {
		t.Errorf("headers %v", a.header)
	}
}

// Rule 9.
func TestNodes_OperatorSignsInAndOut_OtherFollows(t *testing.T) {
	one, other := startTwo(t)
	for range 5 {
		token, link := one.signIn("Jane Doe", operator.Read)
		me := request{method: "GET", path: "/admin/me", token: token}
		var first, second ownToken
		s := other.send(me).want(http.StatusOK, &second)
		one.send(me).want(http.StatusOK, &first)
		if first.Token != second.Token {
			t.Errorf("the nodes show %+v and %s", first, s.text)
		}
		if _, _, err := other.node.Operations.Tokens.Enter(t.Context(), link); !errors.Is(err, operator.ErrLinkUsed) {
			t.Errorf("the link on the other node: %v, want %v", err, operator.ErrLinkUsed)
		}
		other.send(request{method: "DELETE", path: "/admin/me", token: token}).want(http.StatusOK, nil)
		for _, n := range []*service{one, other} {
			n.send(me).rejected(http.StatusUnauthorized, "revoked")
		}
	}
}
