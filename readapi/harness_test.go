package readapi_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"image"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/resvg"
	"letterhead/internal/resvg/resvgtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/node"
	"letterhead/node/datafolder"
	"letterhead/projections/brandwatch"
	"letterhead/projections/engine"
	"letterhead/readapi"
)

const (
	testUserAgent = "Mozilla/5.0 (compatible; LetterheadBot/1.0; +https://brands.example.com/bot)"
	baseURL       = "https://brands.example.com"
	// waitLimit limits a test's wait for something that must happen; exceeding it is a failure.
	waitLimit = time.Minute
	// patient is the time of a request, and of a crawl that it waits for, in tests of anything else: enough on a busy
	// machine.
	patient = time.Minute
)

// clock is stopped until a test advances it, so that no minute ends by chance on a slow machine. In a
// bubble it is the bubble's clock.
type clock struct {
	offset atomic.Int64
	bubble bool
}

var testDay = time.Date(2026, 11, 21, 12, 0, 1, 0, time.UTC)

func (c *clock) now() time.Time {
	if c.bubble {
		return time.Now()
	}
	return testDay.Add(time.Duration(c.offset.Load()))
}

func (c *clock) add(d time.Duration) {
	if c.bubble {
		time.Sleep(d)
		return
	}
	c.offset.Add(int64(d))
}

// service is a node that the test serves. All parts are real except the crawler, which follows a script, and the clock.
type service struct {
	t           testing.TB
	url         string
	clock       *clock
	node        *node.Node
	log         eventlog.Log
	writer      *commands.AccountWriter
	brands      *commands.Brands
	runner      *engine.Runner
	assets      *assets.Store
	assetFolder string
	config      readapi.Config
	deps        readapi.Deps
	tail        *brandwatch.Tail
	metrics     prometheus.Gatherer
	logs        *logs
	crawler     *scriptedCrawler
	api         *readapi.API
	transport   http.RoundTripper
	pipes       *pipes // of a service in a bubble
}

// setup contains what a test may change before the service starts.
type setup struct {
	config config.Config
	parts  node.Parts
	deps   func(*readapi.Deps)
	// Fields of readapi.Config that are no settings.
	extra          map[string]http.Handler
	dashboard      http.Handler
	requestTimeout time.Duration // 0 = patient; in a bubble, the default
	// Set by inBubble.
	bubble   bool
	maxConns int // 0 = the real limit
}

func start(t testing.TB, changes ...func(*setup)) *service {
	t.Helper()
	s := &service{t: t, clock: &clock{}}
	set := setup{config: settings(t), parts: node.Parts{Now: s.clock.now, Vectors: vectors{}, LogoTime: waitLimit}}
	for _, change := range changes {
		change(&set)
	}
	s.clock.bubble = set.bubble
	if !set.bubble { // in a bubble, the log is never slow
		set.parts.Writers.AppendWithin, set.parts.Writers.KnowWithin = patient, patient
	}
	s.openNode(&set)
	s.crawler = startCrawler(t, s.node, s.clock.now)
	s.must(s.runner.CatchUp(t.Context()))
	s.openAPI(&set)
	if set.bubble {
		s.serveInBubble(set.maxConns)
	} else {
		s.serve(t, readapi.NewPlainListener)
	}
	return s
}

// startWith starts a service with a customer.
func startWith(t testing.TB, id plan.ID, credits int64) (*service, *customer) {
	t.Helper()
	s := start(t)
	return s, s.account(id, credits)
}

// settings returns the settings of a test, whose data is in a folder of the test.
func settings(t testing.TB) config.Config {
	t.Helper()
	cfg, err := config.Load(func(string) (string, bool) { return "", false }, map[string]string{
		"LETTERHEAD_DATA": t.TempDir(), "LETTERHEAD_STARTER": "off", "LETTERHEAD_LOG_FORMAT": "json",
		"LETTERHEAD_BASE_URL": baseURL, "LETTERHEAD_BILLING_URL": baseURL + "/billing",
		"LETTERHEAD_USER_AGENT": testUserAgent, "LETTERHEAD_CRAWL_TIMEOUT": patient.String(),
	})
	testmust.Succeed(t, err)
	return cfg
}

// openNode opens the node, which closes after the test.
func (s *service) openNode(set *setup) {
	s.t.Helper()
	s.logs = &logs{}
	lock, err := datafolder.Acquire(set.config.Data, datafolder.MayBeNew, "test")
	s.must(err)
	s.node, err = node.Open(s.t.Context(), set.config, lock, node.Options{
		Release: "test", Logs: s.logs, LogLevel: "debug", Parts: set.parts,
	})
	s.must(err)
	s.t.Cleanup(func() {
		if err := s.node.Close(); err != nil {
			s.t.Errorf("close the node: %v", err)
		}
		if strings.Contains(s.logs.all(), "a part of the service ended") {
			s.t.Errorf("a part of the node ended early:\n%s", s.logs.all())
		}
	})
	s.log, s.writer, s.brands, s.runner = s.node.Stores.Log, s.node.Writers.Accounts, s.node.Writers.Brands, s.node.Runner
	s.assets = s.node.Stores.Assets
	s.assetFolder = filepath.Join(set.config.Data, "assets")
}

// openAPI makes the API of the node, with the parts that the test exchanges.
func (s *service) openAPI(set *setup) {
	s.t.Helper()
	var err error
	s.config, s.deps, err = s.node.API(s.t.Context())
	s.must(err)
	s.config.Extra, s.config.RequestTimeout = set.extra, set.requestTimeout
	s.config.Dashboard = nil
	if set.dashboard != nil {
		s.config.Dashboard = func(http.Handler) (http.Handler, error) { return set.dashboard, nil }
	}
	if !set.bubble && set.requestTimeout == 0 {
		s.config.RequestTimeout, s.config.QuickTimeout = patient, patient
	}
	s.deps.Filled = func() bool { return true } // the starter index is off
	s.tail, s.metrics = s.deps.Changes.(*brandwatch.Tail), s.config.Registerer.(prometheus.Gatherer)
	if set.deps != nil {
		set.deps(&s.deps)
	}
	s.api, err = readapi.New(s.config, s.deps)
	s.must(err)
}

// vectors renders with one renderer for all tests. It is compiled when the first of them stores a
// vector (stored): under the race detector that takes longer than a request's time for drawing.
type vectors struct{}

var renderer = sync.OnceValues(func() (*resvg.Renderer, error) {
	return resvg.New(context.Background(), resvg.Config{CacheDir: resvgtest.Folder(), Timeout: waitLimit})
})

func (vectors) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	r, err := renderer()
	if err != nil {
		return nil, err
	}
	return r.Render(ctx, svg, side)
}

// serve listens like the real server.
func (s *service) serve(t testing.TB, wrap func(net.Listener) net.Listener) {
	t.Helper()
	l := testmust.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := readapi.NewServer(s.api.Handler())
	done := make(chan error, 1)
	go func() { done <- server.Serve(wrap(l)) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true, ExpectContinueTimeout: testwait.Timeout}
	s.transport, s.url = s.withContract(transport), "http://"+l.Addr().String()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shut the server down: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v, want ErrServerClosed", err)
		}
	})
}

// customer is an account with its keys.
type customer struct {
	s           *service
	id          string
	secret      string
	secretID    string
	publishable string
}

func operator() commands.Request {
	return commands.Request{ID: uuid.NewString(), Actor: "operator:test"}
}

// account opens an account on a plan with the given credits.
func (s *service) account(id plan.ID, credits int64) *customer {
	s.t.Helper()
	ctx := s.t.Context()
	c := &customer{s: s, id: uuid.NewString()}
	_, err := s.writer.OpenAccount(ctx, commands.OpenAccount{Request: operator(), AccountID: c.id, Holder: uuid.NewString(), Plan: id})
	s.must(err)
	if more := credits - plan.FreeCredits; more > 0 {
		_, err := s.writer.GrantCredits(ctx, commands.GrantCredits{Request: operator(), AccountID: c.id, Kind: account.KindTopup, Credits: more, PaymentID: uuid.NewString()})
		s.must(err)
	} else if more < 0 {
		for i := more; i < 0; i++ {
			_, err := s.writer.ChargeLookup(ctx, commands.ChargeLookup{Request: operator(), AccountID: c.id, BrandID: uuid.NewString(), Domain: spentAway})
			s.must(err)
		}
	}
	c.secret, c.secretID = c.issue(apikey.Secret)
	c.publishable, _ = c.issue(apikey.Publishable)
	return c
}

func newKey(t testing.TB, kind apikey.Kind) (string, apikey.Key) {
	t.Helper()
	key := testmust.Get(apikey.Generate(kind, rand.Reader))(t)
	parsed := testmust.Get(apikey.Parse(key))(t)
	return key, parsed
}

func (c *customer) issue(kind apikey.Kind) (key, id string) {
	c.s.t.Helper()
	key, parsed := newKey(c.s.t, kind)
	id = uuid.NewString()
	done, err := c.s.writer.IssueKey(c.s.t.Context(), commands.IssueKey{Request: operator(), AccountID: c.id, KeyID: id, Key: parsed})
	c.s.must(err)
	c.s.inForce(done)
	return key, id
}

// inForce waits until a command on an account is visible in the key directory, like the commands of an operator.
func (s *service) inForce(done commands.Done) {
	s.t.Helper()
	s.must(s.node.Operations.Reads.AwaitKeys(s.t.Context(), done.Position))
}

func (s *service) must(err error) {
	s.t.Helper()
	testmust.Succeed(s.t, err)
}

// catchUp waits until every read model and the search index have caught up with the log. A bubble's search index finds
// nothing, and waiting for it would move the clock.
func (s *service) catchUp() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitLimit)
	defer cancel()
	s.must(s.runner.CatchUp(ctx))
	if s.pipes == nil {
		s.must(s.node.Operations.Reads.CatchUp(ctx))
	}
}

// known puts a brand into the index.
func (s *service) known(domain string, record eventschemas.Record) string {
	s.t.Helper()
	_, err := s.brands.ImportBrand(s.t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: record})
	s.must(err)
	s.catchUp()
	return brand.ID(domain).String()
}

// stored puts a logo file into the store, and makes sure that the vector renderer is compiled before a
// request needs it.
func (s *service) stored(file []byte, format string) string {
	s.t.Helper()
	if format == "svg" {
		_, err := renderer()
		s.must(err)
	}
	id, err := s.assets.Put(s.t.Context(), file, format)
	s.must(err)
	return id
}

// answer is a completely read response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// request is a request of a test.
type request struct {
	method string
	path   string
	header http.Header
}

func (s *service) do(ctx context.Context, r request) (answer, error) {
	if r.method == "" {
		r.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.url+r.path, nil)
	if err != nil {
		return answer{}, err
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	resp, err := s.transport.RoundTrip(req) // no redirects are followed
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, err
}

func (s *service) send(r request) answer {
	s.t.Helper()
	a, err := s.do(s.t.Context(), r)
	s.must(err)
	return a
}

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

func (c *customer) get(path string) answer {
	c.s.t.Helper()
	return c.s.send(request{path: path, header: bearer(c.secret)})
}

func (c *customer) head(path string) answer {
	c.s.t.Helper()
	return c.s.send(request{method: http.MethodHead, path: path, header: bearer(c.secret)})
}

// problem is the error body of the OpenAPI description.
type problem struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Docs    string `json:"docs"`
		Details *struct {
			Balance    *int64  `json:"balance"`
			Required   *int64  `json:"required"`
			BillingURL *string `json:"billing_url"`
			RetryAfter *int64  `json:"retry_after"`
			Limit      *int64  `json:"limit"`
			KeyLimit   *int64  `json:"key_limit"`
			KeyUsed    *int64  `json:"key_used"`
		} `json:"details"`
	} `json:"error"`
}

// rejected checks an error answer completely and returns its body.
func (a answer) rejected(t testing.TB, status int, code string) problem {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	var p problem
	decoder := json.NewDecoder(strings.NewReader(string(a.body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		t.Fatalf("error body: %v in %s", err, a.body)
	}
	if p.Error.Code != code || p.Error.Message == "" || p.Error.Docs != baseURL+"/docs/errors#"+code {
		t.Fatalf("error body %s, want code %s with message and docs", a.body, code)
	}
	if got := a.header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		t.Fatalf("content type %q, want %q", got, "application/json; charset=utf-8")
	}
	retry := a.header.Get("Retry-After")
	if want := status == 429 || status == 503; (retry != "") != want {
		t.Fatalf("Retry-After %q on %d", retry, status)
	}
	if a.header.Get("X-Cache") != "" {
		t.Fatalf("X-Cache %q on %d; want %q", a.header.Get("X-Cache"), status, "")
	}
	return p
}

// ok checks that an answer is 200 and returns its headers.
func (a answer) ok(t testing.TB) http.Header {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("status %d, want 200: %s", a.status, a.body)
	}
	return a.header
}

// logs collects the log lines.
type logs struct {
	mu    sync.Mutex
	lines []string
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

func (l *logs) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "")
}

// of returns the log lines of one request.
func (l *logs) of(requestID string) []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []map[string]any
	for _, line := range l.lines {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["request_id"] == requestID {
			found = append(found, fields)
		}
	}
	return found
}

// books is the sum of an account's stream, computed here and not by the code under test.
type books struct {
	granted, charged, reversed int64
	charges                    []eventschemas.CreditsCharged // except those of spentAway
	reversals                  []eventschemas.ChargeReversed
	openHolds                  map[string]bool
	holds                      int
	lowest                     int64 // of the balance minus open holds
}

func (b books) balance() int64 { return b.granted - b.charged + b.reversed }

// books reads an account's stream. It need not wait: answered charges are on the log.
func (c *customer) books() books {
	c.s.t.Helper()
	b := books{openHolds: map[string]bool{}}
	held := map[string]int64{}
	stream := account.Stream(c.id)
	for from := uint64(0); ; {
		events, err := c.s.log.ReadStream(context.Background(), stream, from, eventlog.Forward, 1000)
		c.s.must(err)
		for _, recorded := range events {
			ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
			c.s.must(err)
			b.apply(ev, held)
			var set int64
			for _, n := range held {
				set += n
			}
			b.lowest = min(b.lowest, b.balance()-set)
			from = recorded.Revision + 1
		}
		if len(events) < 1000 {
			return b
		}
	}
}

func (b *books) apply(ev eventschemas.Event, held map[string]int64) {
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		b.granted += ev.Credits
	case eventschemas.CreditsHeld:
		b.holds++
		b.openHolds[ev.HoldID], held[ev.HoldID] = true, ev.Credits
	case eventschemas.HoldReleased:
		delete(b.openHolds, ev.HoldID)
		delete(held, ev.HoldID)
	case eventschemas.CreditsCharged:
		b.charged += ev.Credits
		if ev.Domain != spentAway {
			b.charges = append(b.charges, ev)
		}
		delete(b.openHolds, ev.HoldID)
		delete(held, ev.HoldID)
	case eventschemas.ChargeReversed:
		b.reversed += ev.Credits
		b.reversals = append(b.reversals, ev)
	}
}

// until waits for a change of an account that happens after an answer, such as a compensation for a caller who left.
func (c *customer) until(what string, holds func(books) bool) books {
	c.s.t.Helper()
	var b books
	c.s.t.Logf("waiting until %s", what)
	c.s.follow(account.Stream(c.id), func(eventschemas.Event) bool {
		b = c.books()
		return holds(b)
	})
	return b
}

// follow reads events as they arrive until done, and fails the test if that takes too long.
func (s *service) follow(prefix string, done func(eventschemas.Event) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waitLimit)
	defer cancel()
	sub, err := s.log.Subscribe(ctx, 0, eventlog.Filter{StreamPrefixes: []string{prefix}})
	s.must(err)
	defer sub.Close()
	for {
		batch, err := sub.Next(ctx)
		if err != nil {
			s.t.Fatalf("the event did not arrive: %v", err)
		}
		for _, recorded := range batch.Events {
			ev, err := eventschemas.Decode(recorded.Type, recorded.SchemaVersion, recorded.Data)
			s.must(err)
			if done(ev) {
				return
			}
		}
	}
}

// together runs f n times concurrently and waits for all.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	ready := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-ready
			f(i)
		})
	}
	close(ready)
	all.Wait()
}
