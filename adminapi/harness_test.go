package adminapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"letterhead/adminapi"
	"letterhead/commands/streamwriter"
	"letterhead/domain/operator"
	"letterhead/internal/config"
	"letterhead/internal/repeats"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/node"
	"letterhead/node/datafolder"
	"letterhead/workers/billing"
)

// noEnd is the end of a token that does not expire.
var noEnd time.Time

// service is a node whose admin API the test calls over HTTP. Each answer is compared with openapi.yaml.
type service struct {
	t    *testing.T
	url  string
	node *node.Node
	tok  map[operator.Scope]string
	doc  *openapi3.T
	ids  int
	// ahead is how much later than the machine's clock the node's clock is, in nanoseconds.
	ahead atomic.Int64
	past  atomic.Int64 // how much later than the node's clock the API's clock is, in nanoseconds
}

var description = sync.OnceValues(func() (*openapi3.T, error) {
	raw, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func start(t *testing.T) *service {
	t.Helper()
	return startWith(t, nil)
}

// startWith starts a node with these settings, and issues a token of each scope.
func startWith(t *testing.T, settings map[string]string) *service {
	t.Helper()
	s := serve(t, settings)
	for _, scope := range operator.Scopes {
		issued, err := s.node.Operations.Tokens.Issue(t.Context(), s.node.Operator(), "test", scope, noEnd)
		s.must(err)
		s.tok[scope] = issued.Token
	}
	return s
}

// serve starts a node with these settings in addition to those of every test.
func serve(t *testing.T, settings map[string]string) *service {
	t.Helper()
	doc := testmust.Get(description())(t)
	s := &service{t: t, doc: doc, tok: map[operator.Scope]string{}}
	all := map[string]string{
		"LETTERHEAD_DATA": t.TempDir(), "LETTERHEAD_STARTER": "off", "LETTERHEAD_BASE_URL": "https://brands.example.com", "LETTERHEAD_ADMIN_HOSTS": "admin.example.com, 203.0.113.7,[2001:db8::1],2001:db8:0::2",
	}
	maps.Copy(all, settings)
	cfg, err := config.Load(func(string) (string, bool) { return "", false }, all)
	s.must(err)
	lock, err := datafolder.Acquire(cfg.Data, datafolder.MayBeNew, "test")
	s.must(err)
	s.node, err = node.Open(t.Context(), cfg, lock, node.Options{Release: "test", Logs: t.Output(), LogLevel: "error", Parts: node.Parts{Writers: streamwriter.Config{AppendWithin: testwait.Timeout, KnowWithin: testwait.Timeout}, Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }}})
	s.must(err)
	t.Cleanup(func() {
		if err := s.node.Close(); err != nil {
			t.Errorf("close the node: %v", err)
		}
	})
	s.must(s.node.Runner.CatchUp(t.Context()))
	apiConfig, deps, err := s.node.AdminAPI(t.Context())
	s.must(err)
	apiConfig.Now = func() time.Time { return s.node.Now().Add(time.Duration(s.past.Load())) }
	s.listen(apiConfig, deps)
	return s
}

// listen starts the API at a new address.
func (s *service) listen(cfg adminapi.Config, deps adminapi.Deps) {
	s.t.Helper()
	api, err := adminapi.New(cfg, deps)
	s.must(err)
	server := httptest.NewServer(api.Handler())
	s.t.Cleanup(server.Close)
	s.url = server.URL
}

// fixed returns what New needs for an API whose clock only the test moves, because limits are those of whole minutes.
func (s *service) fixed() (adminapi.Config, adminapi.Deps) {
	s.t.Helper()
	cfg, deps, err := s.node.AdminAPI(s.t.Context())
	s.must(err)
	now := s.node.Now()
	cfg.Registerer = nil // the first API has registered its metrics
	cfg.Now = func() time.Time { return now.Add(time.Duration(s.past.Load())) }
	return cfg, deps
}

// forget lets the time pass for which answers are remembered.
func (s *service) forget() { s.past.Add(int64(repeats.Window + time.Second)) }

// applyReports starts the worker that applies the reports of payment processors.
func (s *service) applyReports() {
	s.t.Helper()
	worker, err := billing.New(billing.Config{}, s.node.Stores.Log, s.node.Writers.Accounts, s.node.Writers.Notices, s.node.Writers.Billing)
	s.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("apply reports: %v", err)
		}
	})
}

func (s *service) must(err error) {
	s.t.Helper()
	testmust.Succeed(s.t, err)
}

// answer is an answer whose body was read.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	text   string
}

// request is a request to send; its zero values are those of an admin without a body.
type request struct {
	method, path, body string
	key                string // Idempotency-Key
	token              string // "-" for none
	host               string
	header             map[string]string
}

func (s *service) send(r request) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), r.method, s.url+r.path, strings.NewReader(r.body))
	s.must(err)
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.token == "" {
		r.token = s.tok[operator.Admin]
	}
	if r.token != "-" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.host != "" {
		req.Host = r.host
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	s.must(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	s.must(err)
	a := answer{s.t, resp.StatusCode, resp.Header, string(body)}
	s.check(req, a)
	return a
}

// check compares an answer with the description.
func (s *service) check(req *http.Request, a answer) {
	s.t.Helper()
	if req.Method == http.MethodHead { // has the headers of GET
		return
	}
	path, item := s.described(req.URL.EscapedPath())
	if path == "" || item.GetOperation(req.Method) == nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed && a.status != http.StatusMisdirectedRequest {
			s.t.Errorf("%s %s: answered with %d, but not described", req.Method, req.URL.Path, a.status)
		}
		return
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: req, Route: &routers.Route{Spec: s.doc, Path: path, PathItem: item, Method: req.Method, Operation: item.GetOperation(req.Method)},
		},
		Status: a.status, Header: a.header, Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	in.SetBodyBytes([]byte(a.text))
	if err := openapi3filter.ValidateResponse(s.t.Context(), in); err != nil {
		s.t.Errorf("%s %s: the answer %d contradicts the description: %v\n%s", req.Method, req.URL.Path, a.status, err, a.text)
	}
}

// described returns the path of the description that matches an escaped path.
func (s *service) described(escaped string) (string, *openapi3.PathItem) {
	sent := strings.Split(escaped, "/")
	for path, item := range s.doc.Paths.Map() {
		parts := strings.Split(path, "/")
		if len(parts) != len(sent) {
			continue
		}
		same := true
		for i, p := range parts {
			same = same && (strings.HasPrefix(p, "{") || p == sent[i])
		}
		if same {
			return path, item
		}
	}
	return "", nil
}

func (s *service) get(path string) answer {
	s.t.Helper()
	return s.send(request{method: "GET", path: path})
}

// post sends a request with a new idempotency key.
func (s *service) post(path, body string) answer {
	s.t.Helper()
	s.ids++
	return s.send(request{method: "POST", path: path, body: body, key: fmt.Sprintf("key-%d", s.ids)})
}

// want checks the status, and decodes the body into out unless that is nil.
func (a answer) want(status int, out any) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.text)
	}
	if out != nil {
		if err := json.NewDecoder(bytes.NewReader([]byte(a.text))).Decode(out); err != nil {
			a.t.Fatalf("%v: %s", err, a.text)
		}
	}
	return a
}

// rejected checks the status, and that the message has a part.
func (a answer) rejected(status int, part string) {
	a.t.Helper()
	var body struct {
		Error struct{ Code, Message string }
	}
	a.want(status, &body)
	if body.Error.Code == "" || !strings.Contains(body.Error.Message, part) {
		a.t.Errorf("message %q, want %q in it", body.Error.Message, part)
	}
}

type account struct {
	Account struct{ ID, Name, Plan, Status string }
	Credits struct{ Balance int64 }
	Keys    []struct{ ID, Kind, Key, Last4 string }
}

func (s *service) open(name string) account {
	s.t.Helper()
	var a account
	s.post("/admin/accounts", `{"name":"`+name+`","plan":"growth"}`).want(http.StatusCreated, &a)
	return a
}

type movement struct {
	State    string
	Reason   string
	Balance  int64
	Repeated bool
	Refund   *struct {
		RefundID string `json:"refund_id"`
		Credits  int64
		Money    *struct{ Minor int64 }
	}
}
