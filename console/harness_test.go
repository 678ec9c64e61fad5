package console_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/html"

	"letterhead/adminapi"
	"letterhead/commands/streamwriter"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/operator"
	"letterhead/domain/plan"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/node"
	"letterhead/node/datafolder"
)

// service is a node with its admin API and the pages for operators.
type service struct {
	t     *testing.T
	url   string
	node  *node.Node
	ahead atomic.Int64 // how much later than the machine's clock the node's clock is, in nanoseconds
	away  atomic.Bool  // the event log cannot be reached
	last  atomic.Bool  // the next append is made, its outcome is not known, and the log is away from then on
}

// away is an event log that can be away from those who read streams or append. What follows the log in the background
// reads on.
type away struct {
	eventlog.Log
	s *service
}

func (l away) Head(ctx context.Context) (eventlog.Position, error) {
	if l.s.away.Load() {
		return 0, eventlog.ErrUnavailable
	}
	return l.Log.Head(ctx)
}

func (l away) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if l.s.away.Load() {
		return nil, eventlog.ErrUnavailable
	}
	return l.Log.ReadStream(ctx, stream, from, direction, limit)
}

func (l away) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if l.s.away.Load() {
		return eventlog.Appended{}, eventlog.ErrUnavailable
	}
	appended, err := l.Log.Append(ctx, stream, expected, events)
	if err == nil && l.s.last.CompareAndSwap(true, false) {
		l.s.away.Store(true)
		return eventlog.Appended{}, eventlog.ErrAmbiguous
	}
	return appended, err
}

func start(t *testing.T) *service { return startWith(t, nil) }

// startWith is start with further settings.
func startWith(t *testing.T, more map[string]string) *service {
	t.Helper()
	s := &service{t: t}
	settings := map[string]string{
		"LETTERHEAD_DATA": t.TempDir(), "LETTERHEAD_STARTER": "off", "LETTERHEAD_BASE_URL": "https://brands.example.com",
	}
	maps.Copy(settings, more)
	cfg, err := config.Load(func(string) (string, bool) { return "", false }, settings)
	s.must(err)
	lock, err := datafolder.Acquire(cfg.Data, datafolder.MayBeNew, "test")
	s.must(err)
	s.node, err = node.Open(t.Context(), cfg, lock, node.Options{Release: "test", Logs: t.Output(), LogLevel: "error", Parts: node.Parts{
		Writers: streamwriter.Config{AppendWithin: testwait.Timeout, KnowWithin: time.Second}, // the machine may be busy, and only last leaves an outcome unknown
		Now:     func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) },
		Log:     func(log eventlog.Log) eventlog.Log { return away{log, s} },
	}})
	s.must(err)
	t.Cleanup(func() {
		s.away.Store(false)
		s.must(s.node.Close())
	})
	s.must(s.node.Runner.CatchUp(t.Context()))
	apiConfig, deps, err := s.node.AdminAPI(t.Context())
	s.must(err)
	apiConfig.Pages = s.node.Console
	api, err := adminapi.New(apiConfig, deps)
	s.must(err)
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *service) must(err error) {
	s.t.Helper()
	testmust.Succeed(s.t, err)
}

// account opens an account, and returns its id.
func (s *service) account(name string) string {
	s.t.Helper()
	created, err := s.node.Operations.Accounts.Create(s.t.Context(), s.node.Operator(), name, plan.Growth)
	s.must(err)
	return created.Account.ID
}

// link issues a sign-in link, and returns its token.
func (s *service) link(name string, scope operator.Scope) string {
	s.t.Helper()
	link, err := s.node.Operations.Tokens.IssueLink(s.t.Context(), s.node.Operator(), name, scope)
	s.must(err)
	u, err := url.Parse(link.URL)
	s.must(err)
	return u.Query().Get("token")
}

// person is an operator with a browser, which follows no redirects.
type person struct {
	*service
	client *http.Client
}

func (s *service) browser() *person {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	s.must(err)
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &person{s, &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// signedIn returns an operator who is signed in with a scope.
func (s *service) signedIn(scope operator.Scope) *person {
	s.t.Helper()
	p := s.browser()
	p.post("/sign-in", url.Values{"token": {s.link("Ann", scope)}}).leadsTo("/")
	return p
}

// answer is a completely read answer.
type answer struct {
	p      *person
	status int
	header http.Header
	body   string
	page   *html.Node
}

func (p *person) get(path string) answer {
	p.t.Helper()
	return p.send(http.MethodGet, path, nil, nil)
}

// post sends a form as a page does.
func (p *person) post(path string, form url.Values) answer {
	p.t.Helper()
	return p.send(http.MethodPost, path, form, http.Header{"Sec-Fetch-Site": {"same-origin"}})
}

// submit fills in the form that leads to an address, on a page, sends it, and confirms it if it is asked to.
func (p *person) submit(page, action string, fields map[string]string) answer {
	p.t.Helper()
	form := p.get(page).form(action)
	for name, value := range fields {
		if !form.Has(name) {
			p.t.Errorf("the form for %s has no field %s", action, name)
		}
		form.Set(name, value)
	}
	a := p.post(action, form)
	if a.status != http.StatusOK || !strings.Contains(a.body, `name="confirmed"`) {
		return a
	}
	// It asks whether to do that.
	asked := a.form(action)
	for name, value := range fields {
		asked.Set(name, value)
	}
	asked.Set("confirmed", "true")
	return p.post(action, asked)
}

// send sends a request, and checks what is true for every answer.
func (p *person) send(method, path string, form url.Values, header http.Header) answer {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(form.Encode()))
	p.must(err)
	for name, values := range header {
		r.Header[name] = values
	}
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := p.client.Do(r)
	p.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	p.must(err)
	a := answer{p: p, status: response.StatusCode, header: response.Header, body: string(body)}
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		a.page, err = html.Parse(bytes.NewReader(body))
		p.must(err)
		policy := a.header.Get("Content-Security-Policy")
		if a.header.Get("Referrer-Policy") != "no-referrer" || a.header.Get("Cross-Origin-Opener-Policy") != "same-origin" || a.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			p.t.Errorf("%s %s: status %d, header %v", method, path, a.status, a.header)
		}
		for _, n := range append(sitetest.Elements(a.page, "script"), sitetest.Elements(a.page, "style")...) {
			if n.FirstChild == nil {
				continue
			}
			if hash := sha256.Sum256([]byte(n.FirstChild.Data)); !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(hash[:])+"'") {
				p.t.Errorf("%s %s has inline code that its policy does not allow", method, path)
			}
		}
	}
	if got := a.header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
		p.t.Errorf("%s %s: Strict-Transport-Security %q of a service with an https URL", method, path, got)
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			p.t.Errorf("%s %s: status %d has the header %s", method, path, a.status, name)
		}
	}
	return a
}

func (a answer) text() string {
	a.p.t.Helper()
	if a.page == nil {
		a.p.t.Fatalf("status %d is no page: %s", a.status, a.body)
	}
	return sitetest.Text(sitetest.Elements(a.page, "main")[0])
}

// shows reports an error unless an answer has a status and its page has some texts.
func (a answer) shows(status int, texts ...string) answer {
	a.p.t.Helper()
	if a.status != status {
		a.p.t.Errorf("status %d, want %d", a.status, status)
	}
	text := a.text()
	for _, want := range texts {
		if !strings.Contains(text, want) {
			a.p.t.Errorf("the page does not have %q:\n%s", want, text)
		}
	}
	return a
}

// lacks reports an error if the body of an answer has a text.
func (a answer) lacks(texts ...string) answer {
	a.p.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			a.p.t.Errorf("the page has %q", text)
		}
	}
	return a
}

// leadsTo reports an error unless an answer leads to an address.
func (a answer) leadsTo(address string) {
	a.p.t.Helper()
	if a.status != http.StatusSeeOther || a.header.Get("Location") != address {
		a.p.t.Errorf("status %d to %q, want to %q:\n%s", a.status, a.header.Get("Location"), address, a.body)
	}
}

// form returns the fields of the form that leads to an address.
func (a answer) form(action string) url.Values {
	a.p.t.Helper()
	if a.page == nil {
		a.p.t.Fatalf("status %d is no page: %s", a.status, a.body)
	}
	fields, ok := sitetest.Form(a.page, action)
	if !ok {
		a.p.t.Fatalf("there is no form for %s:\n%s", action, a.body)
	}
	return fields
}

// beside reports an error unless a sentence is beside a field that is marked as wrong.
func (a answer) beside(field, sentence string) {
	a.p.t.Helper()
	for _, name := range []string{"input", "select", "textarea"} {
		for _, n := range sitetest.Elements(a.page, name) {
			if sitetest.Attribute(n, "id") != field {
				continue
			}
			described := sitetest.Attribute(n, "aria-describedby")
			for _, span := range sitetest.Elements(a.page, "span") {
				if described != "" && sitetest.Attribute(span, "id") == described && sitetest.Attribute(n, "aria-invalid") == "true" && strings.Contains(sitetest.Text(span), sentence) {
					return
				}
			}
		}
	}
	a.p.t.Errorf("beside %s is no sentence with %q:\n%s", field, sentence, a.body)
}
