package readapi_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"image"
	"io"
	"log/slog"
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
	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/ratelimit"
	"letterhead/internal/resvg"
	"letterhead/internal/sqlstore"
	"letterhead/internal/variants"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
	"letterhead/projections/engine"
	"letterhead/projections/idempotency"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/search"
	"letterhead/projections/usage"
	"letterhead/readapi"
	"letterhead/readapi/logo"
)

const (
	testUserAgent = "Mozilla/5.0 (compatible; LetterheadBot/1.0; +https://brands.example.com/bot)"
	baseURL       = "https://brands.example.com"
	// patience limits a test's wait for something that must happen; exceeding it is a failure.
	patience = 20 * time.Second
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

// service is a whole service in one folder. All parts are real except the crawler, which follows a
// script.
type service struct {
	t           testing.TB
	url         string
	logoHost    string
	clock       *clock
	log         eventlog.Log
	writer      *commands.AccountWriter
	quotas      *commands.QuotaWriter
	brands      *commands.Brands
	runner      *engine.Runner
	keys        *keys.Directory
	assets      *assets.Store
	assetFolder string
	index       *search.Projection
	metrics     *prometheus.Registry
	logs        *logs
	tail        *brandwatch.Tail
	crawler     *scriptedCrawler
	api         *readapi.API
	recorder    *commands.UsageRecorder
	transport   http.RoundTripper
	pipes       *pipes // of a service in a bubble
}

// setup contains what a test may change before the service starts.
type setup struct {
	config readapi.Config
	deps   func(*readapi.Deps)
	// log is put between the account writer and the real log.
	log    func(eventlog.Log) eventlog.Log
	writer commands.AccountWriterConfig
	// Set by inBubble.
	bubble     bool
	flushEvery time.Duration // of the usage recorder; 0 = its default
	maxConns   int           // 0 = the real limit
}

func start(t testing.TB, changes ...func(*setup)) *service {
	t.Helper()
	s := &service{t: t, clock: &clock{}, metrics: prometheus.NewRegistry(), logs: &logs{}}
	set := setup{config: readapi.Config{
		BaseURL: baseURL, BillingURL: "https://brands.example.com/billing", UserAgent: testUserAgent, CrawlTimeout: 8 * time.Second,
		Logger: slog.New(slog.NewJSONHandler(s.logs, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: s.metrics, Now: s.clock.now,
	}}
	for _, change := range changes {
		change(&set)
	}
	s.clock.bubble, s.logoHost = set.bubble, set.config.LogoHost
	set.writer.Now = s.clock.now
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	run := func(name string, f func(context.Context) error) {
		running.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s ended: %v", name, err)
			}
		})
	}
	deps := s.wire(ctx, run, &set)
	t.Cleanup(func() { // after the server's, before the stores'
		stop()
		running.Wait()
		drained, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.writer.Drain(drained); err != nil {
			t.Errorf("drain the account writer: %v", err)
		}
		if err := s.quotas.Drain(drained); err != nil {
			t.Errorf("drain the quota writer: %v", err)
		}
	})
	if set.deps != nil {
		set.deps(&deps)
	}
	var err error
	if s.api, err = readapi.New(set.config, deps); err != nil {
		t.Fatal(err)
	}
	if set.bubble {
		s.serveInBubble(set.maxConns)
	} else {
		s.serve(t, readapi.NewPlainListener)
	}
	return s
}

// wire opens everything below the API.
func (s *service) wire(ctx context.Context, run func(string, func(context.Context) error), set *setup) readapi.Deps {
	t, folder := s.t, s.t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(folder, "events.db")})
	must(err)
	t.Cleanup(func() { log.Close() })
	s.log = log
	if set.log != nil {
		s.log = set.log(log)
	}
	store, err := sqlstore.Open(ctx, sqlstore.Config{Path: filepath.Join(folder, "letterhead.db")})
	must(err)
	t.Cleanup(func() { store.Close() })
	snapshots, err := sqlstore.NewSnapshots(ctx, store)
	must(err)
	keyed := idempotency.New(store)
	set.writer.Keys = keyed
	s.writer, err = commands.NewAccountWriter(set.writer, s.log, snapshots)
	must(err)
	s.quotas, err = commands.NewQuotaWriter(streamwriter.Config{Now: s.clock.now}, s.log, nil)
	must(err)
	s.recorder, err = commands.NewUsageRecorder(commands.RecorderConfig{Now: s.clock.now, FlushEvery: set.flushEvery}, s.log, "test")
	must(err)
	s.brands, err = commands.NewBrands(commands.BrandsConfig{Now: s.clock.now}, log)
	must(err)
	brandIndex, err := brands.New(brands.Config{}, store)
	must(err)
	t.Cleanup(brandIndex.Close)
	directory, used := keys.New(keys.Config{}, store), usage.New(store, log)
	s.runner, err = engine.New(engine.Config{Now: s.clock.now}, log, store, accounts.New(store), directory, used, ledger.New(store), keyed, brandIndex)
	must(err)
	must(s.runner.Start(ctx))
	head, err := log.Head(ctx)
	must(err)
	directory.Open(head, s.runner)
	s.keys = directory
	s.assetFolder = filepath.Join(folder, "assets")
	s.assets = openAssets(t, ctx, s.assetFolder)
	s.tail, err = brandwatch.New(ctx, brandwatch.Config{}, log)
	must(err)
	counters, err := ratelimit.NewMemory(ratelimit.Config{Now: s.clock.now})
	must(err)
	s.crawler = newScriptedCrawler(t, ctx, log, s.brands)
	var found readapi.Searcher = noSearch{}
	if !set.bubble {
		s.index = s.openSearch(ctx, filepath.Join(folder, "search"), brandIndex)
		run("search", s.index.Run)
		found = s.index
	}
	run("projections", s.runner.Run)
	run("changes", s.tail.Run)
	run("crawler", s.crawler.run)
	run("recorder", s.recorder.Run)
	must(s.runner.CatchUp(ctx))
	return readapi.Deps{
		Credits: s.writer, Quotas: s.quotas, Recorder: s.recorder, Brands: s.brands, Index: brandIndex, Keys: directory,
		Usage: used, Search: found, Assets: s.assets, Logos: newStudio(t, s.assets), Changes: s.tail, Counters: counters,
	}
}

// vectors renders with one renderer for all tests. It is compiled when the first of them stores a
// vector (stored): under the race detector that takes longer than a request's time for drawing.
type vectors struct{}

var renderer = sync.OnceValues(func() (*resvg.Renderer, error) { return resvg.New(context.Background(), resvg.Config{}) })

func (vectors) Render(ctx context.Context, svg []byte, side int) (*image.NRGBA, error) {
	r, err := renderer()
	if err != nil {
		return nil, err
	}
	return r.Render(ctx, svg, side)
}

func newStudio(t testing.TB, files logo.Files) *logo.Renderer {
	t.Helper()
	drawn, err := variants.New(variants.Config{MakeTimeout: patience}) // requests have their own limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(drawn.Close)
	studio, err := logo.NewRenderer(files, vectors{}, drawn)
	if err != nil {
		t.Fatal(err)
	}
	return studio
}

func openAssets(t testing.TB, ctx context.Context, folder string) *assets.Store {
	t.Helper()
	where, err := assets.FolderURL(folder)
	if err != nil {
		t.Fatal(err)
	}
	store, err := assets.Open(ctx, where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// serve listens like the real server.
func (s *service) serve(t testing.TB, wrap func(net.Listener) net.Listener) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := readapi.NewServer(s.api.Handler())
	done := make(chan error, 1)
	go func() { done <- server.Serve(wrap(l)) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}
	s.transport, s.url = s.witnessed(transport), "http://"+l.Addr().String()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shut the server down: %v", err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
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
	s.must(s.writer.OpenAccount(ctx, commands.OpenAccount{Request: operator(), AccountID: c.id, Holder: uuid.NewString(), Plan: id}))
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
	key, err := apikey.Generate(kind, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := apikey.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
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

// inForce waits until a command on an account is visible in the key directory, like the commands of an
// operator.
func (s *service) inForce(done commands.Done) {
	s.t.Helper()
	s.must(s.keys.AwaitNodes(s.t.Context(), func(ctx context.Context) error {
		return s.runner.WaitFor(ctx, keys.Name, done.Position)
	}))
}

func (s *service) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// settled waits until every read model and the search index have caught up with the log.
func (s *service) settled() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	head, err := s.log.Head(ctx)
	s.must(err)
	s.must(s.runner.CatchUp(ctx))
	if s.index != nil {
		s.must(s.index.WaitFor(ctx, head))
	}
}

// known puts a brand into the index.
func (s *service) known(domain string, record eventschemas.Record) string {
	s.t.Helper()
	_, err := s.brands.ImportBrand(s.t.Context(), commands.ImportBrand{Request: operator(), Domain: domain, Source: "test 1", Record: record})
	s.must(err)
	s.settled()
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

// problem is the error body of the specification.
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
		} `json:"details"`
	} `json:"error"`
}

// refused checks an error answer completely and returns its body.
func (a answer) refused(t testing.TB, status int, code string) problem {
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
		t.Fatalf("content type %q", got)
	}
	retry := a.header.Get("Retry-After")
	if want := status == 429 || status == 503; (retry != "") != want {
		t.Fatalf("Retry-After %q on %d", retry, status)
	}
	if a.header.Get("X-Cache") != "" {
		t.Fatalf("X-Cache %q on %d", a.header.Get("X-Cache"), status)
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

// until waits for a change of an account that happens after an answer, such as a compensation for a
// caller who left.
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
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
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
