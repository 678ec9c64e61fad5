package adminapi_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/adminapi"
	"letterhead/domain/operator"
	"letterhead/internal/apikey"
	"letterhead/operations"
	"letterhead/projections/engine"
	"letterhead/projections/operators"
)

// fill replaces the parameters of a path by values of things that do not exist.
func fill(path string) string {
	return strings.NewReplacer("{id}", "missing", "{domain}", "missing.example", "{field}", "name", "{month}", "2026-10", "{name}", "missing").Replace(path)
}

// Every operation is called with a token of each scope: only those of the description reach it.
func TestScopes_EveryOperation_FollowTheDescription(t *testing.T) {
	s := start(t)
	for _, o := range adminapi.AllOperations() {
		path, method := o.Path, o.Method
		described := s.doc.Paths.Value(path)
		if described == nil || described.GetOperation(method) == nil {
			t.Errorf("%s %s is not described", method, path)
			continue
		}
		scopes, ok := described.GetOperation(method).Extensions["x-scopes"].([]any)
		if !ok {
			t.Fatalf("%s %s has no x-scopes", method, path)
		}
		if described.GetOperation(method).OperationID != o.Name {
			t.Errorf("%s %s is %s, described as %s", method, path, o.Name, described.GetOperation(method).OperationID)
		}
		for _, scope := range operator.Scopes {
			token := s.tok[scope]
			if o.Name == "revokeOwnToken" { // later operations need that of the test
				issued, err := s.node.Operations.Tokens.Issue(t.Context(), s.node.Operator(), "test", scope, noEnd)
				s.must(err)
				token = issued.Token
			}
			a := s.send(request{method: method, path: fill(path), token: token})
			allowed := slices.Contains(scopes, any(string(scope)))
			if forbidden := a.status == http.StatusForbidden; forbidden == allowed {
				t.Errorf("%s %s with scope %s: status %d, but described for %v", method, path, scope, a.status, scopes)
			}
			if a.status == http.StatusForbidden && !strings.Contains(a.text, "needs a token with the scope") {
				t.Errorf("%s %s: %s", method, path, a.text)
			}
		}
		for _, token := range []string{"-", "lh_op_0000", "lh_sk_" + strings.Repeat("0", 38)} {
			if a := s.send(request{method: method, path: fill(path), token: token}); a.status != http.StatusUnauthorized && a.status != http.StatusTooManyRequests {
				t.Errorf("%s %s with the token %q: status %d", method, path, token, a.status)
			}
		}
	}
}

func TestDescription_EveryPath_IsRouted(t *testing.T) {
	s := start(t)
	routed := map[string]bool{"GET /admin/openapi.yaml": true, "GET /metrics": true}
	for _, o := range adminapi.AllOperations() {
		routed[o.Method+" "+o.Path] = true
	}
	for path, item := range s.doc.Paths.Map() {
		for method := range item.Operations() {
			if !routed[method+" "+path] {
				t.Errorf("%s %s is described, but not routed", method, path)
			}
		}
	}
}

// Rule 9.
func TestToken_RevokedOrExpired_NextRequestIsRejected(t *testing.T) {
	s := start(t)
	var token struct{ ID, Token string }
	s.post("/admin/tokens", `{"name":"ci","scope":"read"}`).want(http.StatusCreated, &token)
	list := request{method: "GET", path: "/admin/accounts", token: token.Token}
	s.send(list).want(http.StatusOK, nil)
	s.send(request{method: "DELETE", path: "/admin/tokens/" + token.ID}).want(http.StatusOK, nil)
	s.send(list).rejected(http.StatusUnauthorized, "revoked")
	s.post("/admin/tokens", `{"name":"ci","scope":"read","expires_at":"2020-01-01T00:00:00Z"}`).rejected(http.StatusBadRequest, "in the past")
	s.post("/admin/tokens", `{"name":"ci","scope":"owner"}`).rejected(http.StatusBadRequest, "scope")
	s.send(request{method: "DELETE", path: "/admin/tokens/missing"}).rejected(http.StatusNotFound, "such token")
	type tokens struct {
		Tokens []struct{ ID, Name, State, Token string }
		Next   string `json:"next_cursor"`
	}
	var all, ended, first, second tokens
	s.get("/admin/tokens").want(http.StatusOK, &all)
	if newest := all.Tokens[0]; newest.ID != token.ID || newest.State != "revoked" || newest.Name != "ci" || newest.Token != "" || all.Next != "" {
		t.Errorf("listed: %+v", all)
	}
	s.get("/admin/tokens?state=ended").want(http.StatusOK, &ended)
	if len(ended.Tokens) != 1 || ended.Tokens[0].ID != token.ID {
		t.Errorf("ended: %+v", ended)
	}
	s.get("/admin/tokens?state=active&limit=1").want(http.StatusOK, &first)
	s.get("/admin/tokens?state=active&limit=1&cursor="+first.Next).want(http.StatusOK, &second)
	if len(first.Tokens) != 1 || len(second.Tokens) != 1 || first.Tokens[0].ID != all.Tokens[1].ID || second.Tokens[0].ID != all.Tokens[2].ID {
		t.Errorf("two pages of one: %+v, %+v", first, second)
	}
	s.send(request{method: "DELETE", path: "/admin/tokens/" + token.ID + "?erase_name=true"}).want(http.StatusOK, nil)
	s.get("/admin/tokens?state=ended&scope=read").want(http.StatusOK, &ended)
	if len(ended.Tokens) != 1 || ended.Tokens[0].Name != "" {
		t.Errorf("after its name was erased: %+v", ended)
	}
	s.get("/admin/tokens?cursor=lost").rejected(http.StatusBadRequest, "next_cursor")
	s.get("/admin/tokens?state=lost").rejected(http.StatusBadRequest, "state")
	s.get("/admin/tokens?limit=501").rejected(http.StatusBadRequest, "from 1 to 500")
}

func TestFailedAttempts_ManyFromOneAddress_AreLimitedButNotValidTokens(t *testing.T) {
	s := start(t)
	limited := false
	for range 50 {
		a := s.send(request{method: "GET", path: "/admin/accounts", token: "-"})
		if limited = a.status == http.StatusTooManyRequests; limited {
			if a.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			break
		}
		a.rejected(http.StatusUnauthorized, "Authorization: Bearer")
	}
	if !limited {
		t.Error("50 attempts were answered with 401")
	}
	s.get("/admin/accounts").want(http.StatusOK, nil)
}

// Anyone who reaches the address can send unknown tokens, also from the address of an operator.
func TestUnknownTokens_ManyFromOneAddress_DoNotCountForValidOnes(t *testing.T) {
	s := start(t)
	cfg, deps := s.fixed()
	s.listen(cfg, deps)
	list := request{method: "GET", path: "/admin/accounts"}
	answers := map[int]int{}
	for range 150 {
		text, err := apikey.Generate(apikey.Operator, rand.Reader)
		s.must(err)
		list.token = text
		a := s.send(list)
		if answers[a.status]++; a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if answers[http.StatusUnauthorized] == 0 || answers[http.StatusTooManyRequests] == 0 || len(answers) != 2 {
		t.Errorf("unknown tokens were answered with %v", answers)
	}
	list.token = s.tok[operator.Read] // not used yet
	s.send(list).want(http.StatusOK, nil)
}

// A look-up that fails shows nothing about the token.
func TestTokens_LookUpFails_AreNotCounted(t *testing.T) {
	s := start(t)
	cfg, deps := s.fixed()
	deps.Operators = operators.New(s.node.Stores.Database) // cannot be read before a Runner starts it
	s.listen(cfg, deps)
	for range 150 {
		if a := s.get("/admin/accounts"); a.status != http.StatusServiceUnavailable {
			t.Fatalf("status %d, want 503: %s", a.status, a.text)
		}
	}
}

func TestHead_EveryRead_AnswersAsGet(t *testing.T) {
	s := start(t)
	id := s.open("Acme").Account.ID
	paths := map[string]string{"/admin/openapi.yaml": "openapi"}
	for _, o := range adminapi.AllOperations() {
		if o.Method == http.MethodGet {
			paths[strings.Replace(fill(strings.Replace(o.Path, "accounts/{id}", "accounts/"+id, 1)), "2026-10", s.node.Now().Format("2006-01"), 1)] = o.Name
		}
	}
	for path, name := range paths {
		for _, scope := range []operator.Scope{operator.Read, operator.Admin} {
			get := s.send(request{method: "GET", path: path, token: s.tok[scope]})
			head := s.send(request{method: "HEAD", path: path, token: s.tok[scope]})
			if head.status != get.status || head.text != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") || head.header.Get("Content-Length") == "" {
				t.Errorf("%s with scope %s: HEAD %d %v %q, GET %d %v", name, scope, head.status, head.header, head.text, get.status, get.header)
			}
		}
	}
	if a := s.send(request{method: "HEAD", path: "/admin/accounts", token: "-"}); a.status != http.StatusUnauthorized {
		t.Errorf("HEAD without a token: status %d", a.status)
	}
	if a := s.send(request{method: "HEAD", path: "/admin/accounts/" + id + "/close"}); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "POST" {
		t.Errorf("HEAD of an action: status %d, Allow %q", a.status, a.header.Get("Allow"))
	}
}

// panicking is a search index that panics.
type panicking struct{}

func (panicking) Status(context.Context) (engine.Status, error) { panic("secret state") }

func (panicking) Rebuild(context.Context) error { panic("secret state") }

func TestPanic_IsAnErrorWithRequestIDAndNoStack(t *testing.T) {
	s := start(t)
	cfg, deps, err := s.node.AdminAPI(t.Context())
	s.must(err)
	broken := *s.node.Operations
	broken.Models = &operations.Models{
		Runner: s.node.Runner, Index: panicking{}, Now: func() time.Time { panic("secret state") },
	}
	deps.Operations, cfg.Registerer = &broken, nil
	var logged lines
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	s.listen(cfg, deps)
	for _, r := range []request{{method: "GET", path: "/admin/projections"}, {method: "POST", path: "/admin/projections/brands/rebuild", key: "k"}} {
		for range 2 { // also the repeat
			a := s.send(r)
			a.rejected(http.StatusInternalServerError, "X-Request-Id")
			id := a.header.Get("X-Request-Id")
			if id == "" || strings.Contains(a.text, "secret") || strings.Contains(a.text, "goroutine") || strings.Contains(a.text, ".go") {
				t.Errorf("%s: request id %q, body %s", r.path, id, a.text)
			}
			if text := logged.String(); !strings.Contains(text, id) || !strings.Contains(text, "secret state") {
				t.Errorf("%s: the log lacks the panic: %s", r.path, text)
			}
		}
	}
	s.get("/admin/accounts").want(http.StatusOK, nil)
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestHost_OfAnotherName_IsMisdirected(t *testing.T) {
	s := start(t)
	for host, want := range map[string]int{
		"localhost": 200, "localhost:1234": 200, "LOCALHOST.": 200, "127.0.0.1:9": 200, "[::1]:80": 200, "admin.example.com": 200, "Admin.Example.com:443": 200,
		"203.0.113.7": 200, "203.0.113.7:80": 200, "[2001:db8::1]:80": 200, "[2001:DB8:0::1]": 200, "[2001:db8::2]": 200, "[::ffff:203.0.113.7]:80": 200,
		"evil.example": 421, "127.0.0.1.evil.example": 421, "10.0.0.1": 421, "[2001:db8::3]:80": 421, "203.0.113.7.evil.example": 421, "203.0.113.77": 421, "admin.example.com.evil.example": 421, "localhost.evil.example:80": 421,
	} {
		if a := s.send(request{method: "GET", path: "/admin/accounts", host: host}); a.status != want {
			t.Errorf("host %s: status %d, want %d", host, a.status, want)
		}
	}
}

func TestOrigin_OfAnotherSite_IsForbidden(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"Origin", s.url, 200}, {"Origin", "https://evil.example", 403}, {"Origin", "null", 403}, {"Sec-Fetch-Site", "cross-site", 403},
		{"Sec-Fetch-Site", "same-site", 403}, {"Sec-Fetch-Site", "none", 200}, {"Sec-Fetch-Site", "same-origin", 200},
	} {
		a := s.send(request{method: "GET", path: "/admin/accounts", header: map[string]string{c.name: c.value}})
		if a.status != c.want {
			t.Errorf("%s %s: status %d, want %d", c.name, c.value, a.status, c.want)
		}
		if a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: a page may read the answer", c.name, c.value)
		}
	}
}

func TestUnknownPathOrMethod_NamesWhatExists(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/admin/nothing", "/admin//accounts", "/admin/x/../accounts", "/admin/accounts/", "/"} {
		s.get(path).rejected(http.StatusNotFound, "openapi.yaml")
	}
	a := s.send(request{method: "PATCH", path: "/admin/accounts"})
	a.rejected(http.StatusMethodNotAllowed, "Allow")
	if got := a.header.Get("Allow"); got != "GET, HEAD, POST" {
		t.Errorf("Allow is %q", got)
	}
	if a := s.send(request{method: "GET", path: "/admin/openapi.yaml", token: "-"}); a.status != http.StatusOK || !strings.Contains(a.text, "openapi: 3.1.0") {
		t.Errorf("description: status %d", a.status)
	}
}
