package dashboard_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/html"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/dashboard"
	"letterhead/dashboard/audit"
	"letterhead/dashboard/site/sitetest"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/node"
	"letterhead/node/datafolder"
	"letterhead/operations"
	"letterhead/readapi"
)

// testDay is the time of every test at its start.
var testDay = time.Date(2026, 11, 21, 12, 0, 1, 0, time.UTC)

// service is a node with its API and the dashboard. All parts are real except the sessions and the clock.
type service struct {
	t        testing.TB
	url      string
	node     *node.Node
	sessions *sessions
	log      eventlog.Log                                                           // is never away
	offset   *atomic.Int64                                                          // of the clock
	down     *atomic.Bool                                                           // the event log is away
	onRead   *atomic.Pointer[func(ctx context.Context, stream string, from uint64)] // called before a stream is read; nil = nothing
}

// start serves a service with a base URL.
func start(t testing.TB, baseURL string) *service {
	t.Helper()
	return startWith(t, map[string]string{"LETTERHEAD_BASE_URL": baseURL})
}

// startLimited serves a service with limits of its replays.
func startLimited(t testing.TB, limits audit.Limits) *service {
	t.Helper()
	return serve(t, map[string]string{"LETTERHEAD_BASE_URL": baseURL}, &limits)
}

// startWith serves a service with settings.
func startWith(t testing.TB, settings map[string]string) *service {
	t.Helper()
	return serve(t, settings, nil)
}

func serve(t testing.TB, settings map[string]string, replays *audit.Limits) *service {
	t.Helper()
	s := &service{t: t, offset: &atomic.Int64{}, down: &atomic.Bool{}, onRead: &atomic.Pointer[func(context.Context, string, uint64)]{}}
	settings["LETTERHEAD_DATA"], settings["LETTERHEAD_STARTER"] = t.TempDir(), "off"
	cfg, err := config.Load(func(string) (string, bool) { return "", false }, settings)
	s.must(err)
	lock, err := datafolder.Acquire(cfg.Data, datafolder.MayBeNew, "test")
	s.must(err)
	s.node, err = node.Open(t.Context(), cfg, lock, node.Options{Release: "test", Logs: io.Discard, LogLevel: "error", Parts: node.Parts{
		Writers: streamwriter.Config{AppendWithin: testwait.Timeout, KnowWithin: testwait.Timeout}, // the machine may be busy
		Replays: replays, Now: s.now, FlushEvery: time.Millisecond, Vectors: noVectors{}, Log: func(log eventlog.Log) eventlog.Log { s.log = log; return interruptible{log, s.down, s.onRead} },
	}})
	s.must(err)
	t.Cleanup(func() { s.must(s.node.Close()) })
	s.must(s.node.Runner.CatchUp(t.Context()))
	apiConfig, deps, err := s.node.API(t.Context())
	s.must(err)
	s.sessions = &sessions{Sessions: s.node.People()}
	apiConfig.Dashboard = s.node.Dashboard(s.sessions)
	api, err := readapi.New(apiConfig, deps)
	s.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	server := readapi.NewServer(api.Handler())
	unrouted := readapi.NewUnrouted(apiConfig, apiConfig.Logger)
	go func() { _ = server.Serve(readapi.NewListener(listener, unrouted)) }()
	t.Cleanup(func() { s.must(server.Close()) })
	s.url = "http://" + listener.Addr().String()
	return s
}

func (s *service) now() time.Time { return testDay.Add(time.Duration(s.offset.Load())) }

func (s *service) advance(d time.Duration) { s.offset.Add(int64(d)) }

func (s *service) must(err error) {
	s.t.Helper()
	testmust.Succeed(s.t, err)
}

// noVectors saves the time to compile the renderer of vectors, which no page needs.
type noVectors struct{}

func (noVectors) Render(context.Context, []byte, int) (*image.NRGBA, error) {
	return nil, errors.New("no test draws a vector")
}

// interruptible is an event log that can be away for those who ask for its end or append to it. What runs in the
// background reads on, so that the tests need not wait for it afterwards.
type interruptible struct {
	eventlog.Log
	down   *atomic.Bool
	onRead *atomic.Pointer[func(ctx context.Context, stream string, from uint64)]
}

func (l interruptible) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	if f := l.onRead.Load(); f != nil {
		(*f)(ctx, stream, from)
	}
	return l.Log.ReadStream(ctx, stream, from, direction, limit)
}

func (l interruptible) Head(ctx context.Context) (eventlog.Position, error) {
	if l.down.Load() {
		return 0, eventlog.ErrUnavailable
	}
	return l.Log.Head(ctx)
}

func (l interruptible) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	if l.down.Load() {
		return eventlog.Appended{}, eventlog.ErrUnavailable
	}
	return l.Log.Append(ctx, stream, expected, events)
}

// sessions are the sign-ins of the node, which can fail.
type sessions struct {
	dashboard.Sessions
	mu      sync.Mutex
	err     error         // of every call
	after   error         // of calls that made their change
	held    chan struct{} // ends calls of SignOut when it is closed; nil = at once
	holding chan struct{} // gets a value from each call that is held
}

func (s *sessions) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *sessions) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *sessions) Enter(ctx context.Context, accountID, token string) (string, time.Time, error) {
	if err := s.failure(); err != nil {
		return "", time.Time{}, err
	}
	session, expires, err := s.Sessions.Enter(ctx, accountID, token)
	return session, expires, errors.Join(err, s.after)
}

func (s *sessions) Session(ctx context.Context, token string) (*signin.Session, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	return s.Sessions.Session(ctx, token)
}

func (s *sessions) SignOut(ctx context.Context, ended signin.Session) error {
	if s.held != nil {
		s.holding <- struct{}{}
		<-s.held
	}
	return errors.Join(s.Sessions.SignOut(ctx, ended), s.after)
}

// link issues a link, and returns its token.
func (c *customer) link(person string) string {
	c.t.Helper()
	var l operations.LoginLink
	var err error
	testwait.Until(testwait.Timeout, func() bool { // an account with a long history is loaded first
		l, err = c.node.Operations.SignIns.IssueLink(c.t.Context(), operator(), c.id, person)
		return !errors.As(err, new(*streamwriter.LoadingError))
	})
	c.must(err)
	u, err := url.Parse(l.URL)
	c.must(err)
	return u.Query().Get("token")
}

// customer is an account and a browser.
type customer struct {
	*service
	id     string
	client *http.Client
}

func operator() commands.Request {
	return commands.Request{ID: uuid.NewString(), Actor: "operator:test"}
}

// undated is a jar that ignores when cookies expire, which the clock of the node says and the machine's has passed.
type undated struct{ http.CookieJar }

// SetCookies implements http.CookieJar.
func (j undated) SetCookies(u *url.URL, cookies []*http.Cookie) {
	for _, c := range cookies {
		c.Expires = time.Time{}
	}
	j.CookieJar.SetCookies(u, cookies)
}

// browser returns a browser that follows no redirects.
func browser(t testing.TB) *http.Client {
	t.Helper()
	jar := testmust.Get(cookiejar.New(nil))(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: undated{jar}, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// newAccount opens an account without a session.
func (s *service) newAccount(name string, id plan.ID) *customer {
	s.t.Helper()
	created, err := s.node.Operations.Accounts.Create(s.t.Context(), operator(), name, id)
	s.must(err)
	return &customer{service: s, id: created.Account.ID, client: browser(s.t)}
}

// signedIn opens an account and signs its owner in.
func (s *service) signedIn(name string, id plan.ID) *customer {
	s.t.Helper()
	c := s.newAccount(name, id)
	c.signIn("owner")
	return c
}

func (c *customer) signIn(person string) {
	c.t.Helper()
	token := c.link(person)
	a := c.post("/dashboard/sign-in", url.Values{"account": {c.id}, "token": {token}})
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/dashboard" {
		c.t.Fatalf("sign in: status %d to %q\n%s", a.status, a.header.Get("Location"), a.body)
	}
}

// charge charges a look-up, and returns the id of its request.
func (c *customer) charge(domain, keyID string) string {
	c.t.Helper()
	by := commands.Request{ID: "req_" + uuid.NewString(), Actor: "account:" + c.id}
	_, err := c.node.Writers.Accounts.ChargeLookup(c.t.Context(), commands.ChargeLookup{Request: by, AccountID: c.id, BrandID: uuid.NewString(), Domain: domain, KeyID: keyID})
	c.must(err)
	return by.ID
}

func (c *customer) grant(credits int64, payment string) {
	c.t.Helper()
	_, err := c.node.Writers.Accounts.GrantCredits(c.t.Context(), commands.GrantCredits{Request: operator(), AccountID: c.id, Kind: account.KindTopup, Credits: credits,
		PaymentID: payment, Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}})
	c.must(err)
}

// answer is a completely read answer.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
	page   *html.Node
}

func (c *customer) get(path string) answer {
	c.t.Helper()
	return c.send(http.MethodGet, path, nil, nil)
}

// post sends a form as a page of the dashboard does.
func (c *customer) post(path string, form url.Values) answer {
	c.t.Helper()
	return c.send(http.MethodPost, path, form, http.Header{"Sec-Fetch-Site": {"same-origin"}})
}

// send sends a request, and checks what is true for every answer.
func (c *customer) send(method, path string, form url.Values, header http.Header) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(form.Encode()))
	c.must(err)
	for name, values := range header {
		r.Header[name] = values
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := c.client.Do(r)
	c.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	c.must(err)
	a := answer{t: c.t, status: response.StatusCode, header: response.Header, body: string(body)}
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		a.page, err = html.Parse(bytes.NewReader(body))
		c.must(err)
	}
	a.checkHeaders(method, path)
	return a
}

func (a answer) checkHeaders(method, path string) {
	a.t.Helper()
	policy := a.header.Get("Content-Security-Policy")
	if a.header.Get("Referrer-Policy") != "no-referrer" || a.header.Get("Cross-Origin-Opener-Policy") != "same-origin" || strings.HasPrefix(path, "/dashboard") && a.header.Get("Cache-Control") != "no-store" ||
		!strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		a.t.Errorf("%s %s: status %d, header %v", method, path, a.status, a.header)
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			a.t.Errorf("%s %s: status %d has the header %s", method, path, a.status, name)
		}
	}
}

// elements returns the elements with a name.
func (a answer) elements(name string) []*html.Node {
	a.t.Helper()
	if a.page == nil {
		a.t.Fatalf("status %d is no page: %s", a.status, a.body)
	}
	return sitetest.Elements(a.page, name)
}

// text returns the text of the main part of a page.
func (a answer) text() string {
	a.t.Helper()
	return sitetest.Text(a.elements("main")[0])
}

// shows reports an error unless an answer has a status and its page has some texts.
func (a answer) shows(status int, texts ...string) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Errorf("status %d, want %d", a.status, status)
	}
	text := a.text()
	for _, want := range texts {
		if !strings.Contains(text, want) {
			a.t.Errorf("the page does not have %q:\n%s", want, text)
		}
	}
	return a
}

// leadsTo fails unless the answer leads the browser to a path.
func (a answer) leadsTo(path string) {
	a.t.Helper()
	if got := strings.TrimPrefix(a.header.Get("Location"), baseURL); a.status != http.StatusSeeOther || got != path {
		a.t.Errorf("status %d leads to %q, want 303 to %q", a.status, got, path)
	}
}

// lacks reports an error if the body of an answer has a text.
func (a answer) lacks(texts ...string) answer {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			a.t.Errorf("the page has %q", text)
		}
	}
	return a
}

// rows returns the texts of the cells of the rows of tables' bodies.
func (a answer) rows() [][]string { return sitetest.Rows(a.page) }

// link returns the address of the first link whose text begins so.
func (a answer) link(text string) string {
	a.t.Helper()
	address, ok := sitetest.Link(a.page, text)
	if !ok {
		a.t.Fatalf("there is no link %q:\n%s", text, a.body)
	}
	return address
}

// form returns the fields of the form that leads to an address.
func (a answer) form(action string) url.Values {
	a.t.Helper()
	fields, ok := sitetest.Form(a.page, action)
	if !ok {
		a.t.Fatalf("there is no form for %s:\n%s", action, a.body)
	}
	return fields
}

// problemOf returns the sentence about a field.
func (a answer) problemOf(field string) string {
	a.t.Helper()
	for _, n := range a.elements("span") {
		if sitetest.Attribute(n, "id") == field+"-problem" {
			return sitetest.Text(n)
		}
	}
	return ""
}
