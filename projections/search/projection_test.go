package search_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/searchindex"
	"letterhead/internal/searchindex/bleveindex"
	"letterhead/internal/testmust"
	"letterhead/projections/brands"
	"letterhead/projections/engine"
	"letterhead/projections/projectionstest"
	"letterhead/projections/search"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a log with the brands model and a search index behind it.
type world struct {
	*projectionstest.Env
	t      *testing.T
	model  *brands.Model
	runner *engine.Runner
	path   string
	index  *bleveindex.Index
	search *search.Projection
	stop   func()
}

func newWorld(t *testing.T) *world {
	w := &world{Env: projectionstest.Open(t), t: t, path: filepath.Join(t.TempDir(), "search")}
	var err error
	if w.model, err = brands.New(brands.Config{}, w.Store); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.model.Close)
	w.runner, _ = w.Start(engine.Config{}, w.model)
	w.open()
	t.Cleanup(w.close)
	return w
}

// open opens the index and follows the brands.
func (w *world) open() {
	w.t.Helper()
	w.index = openIndex(w.t, w.path)
	var err error
	w.search, err = search.New(w.Context(), search.Config{
		Await: func(ctx context.Context, at eventlog.Position) error { return w.runner.WaitFor(ctx, brands.Name, at) },
		Log:   eventlog.Probe(w.Log),
	}, w.model, w.index)
	testmust.Succeed(w.t, err)
	w.stop = run(w.t, w.search)
}

func (w *world) close() {
	w.stop()
	if err := w.index.Close(); err != nil {
		w.t.Error(err)
	}
}

func openIndex(t testing.TB, path string) *bleveindex.Index {
	t.Helper()
	x := testmust.Get(bleveindex.Open(context.Background(), bleveindex.Config{Path: path}))(t)
	return x
}

// run runs a projection until stop is called.
func run(t testing.TB, p *search.Projection) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	var once sync.Once
	return func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
}

// say appends events to a brand's stream.
func (w *world) say(domain string, events ...eventschemas.Event) eventlog.Position {
	w.t.Helper()
	return w.Events(brand.Stream(domain), noon, events...)
}

func imported(domain, name string, quality float64) eventschemas.Event {
	r := eventschemas.Record{
		Links: []eventschemas.Link{}, Logos: []eventschemas.Logo{}, Colors: []eventschemas.Color{},
		Fonts: []eventschemas.Font{}, Images: []eventschemas.Image{}, Company: eventschemas.EmptyCompany(), QualityScore: quality,
	}
	if name != "" {
		r.Name = &name
	}
	return eventschemas.BrandImported{BrandID: brand.ID(domain).String(), Domain: domain, Source: "test 1", Record: r, Evidence: []eventschemas.Evidence{}}
}

// finds waits until a position is searchable and compares the hits in the form of describe.
func (w *world) finds(at eventlog.Position, q string, want ...string) {
	w.t.Helper()
	if err := w.search.WaitFor(w.Context(), at); err != nil {
		w.t.Fatalf("wait for %d: %v", at, err)
	}
	hits := testmust.Get(w.search.Search(w.Context(), q, 5))(w.t)
	if got := describe(hits); !slices.Equal(got, want) {
		w.t.Errorf("search %q found %v, want %v", q, got, want)
	}
}

func describe(hits []search.Hit) []string {
	out := []string{}
	for _, h := range hits {
		s := h.Domain + "=" + h.Name
		if h.BrandID == nil && h.QualityScore == nil {
			s += " unknown"
		} else if *h.BrandID != brand.ID(h.Domain).String() || h.QualityScore == nil {
			s += " with a wrong id or no quality"
		}
		if h.Claimed {
			s += " claimed"
		}
		out = append(out, s)
	}
	return out
}

func TestSearch_FindsBrandsOfLookups(t *testing.T) {
	w := newWorld(t)
	w.finds(0, "acme.com", "acme.com=acme unknown")
	at := w.say("acme.com", imported("acme.com", "Acme", 0.5))
	w.finds(at, "acme", "acme.com=Acme")
	w.finds(at, "acme.com", "acme.com=Acme")
	at = w.say("acme.com", eventschemas.BrandClaimed{})
	w.finds(at, "acme", "acme.com=Acme claimed")
	at = w.say("acme.com", eventschemas.BrandWithdrawn{Reason: "owner"})
	w.finds(at, "acme")
	w.finds(at, "acme.com", "acme.com=acme unknown")
}

func TestSearch_FirstCrawlRunning_HasNoID(t *testing.T) {
	w := newWorld(t)
	at := w.say("acme.com", eventschemas.BrandDiscovered{BrandID: brand.ID("acme.com").String(), Domain: "acme.com"},
		eventschemas.CrawlRequested{CrawlID: uuid.NewString(), Domain: "acme.com", Cause: "lookup", Priority: "live", AllowedMS: 8500})
	w.finds(at, "acme.com", "acme.com=acme unknown")
	w.finds(at, "acme")
}

func TestSearch_FirstCrawlFailed_HasNoID(t *testing.T) {
	w := newWorld(t)
	id := uuid.NewString()
	at := w.say("acme.com", eventschemas.BrandDiscovered{BrandID: brand.ID("acme.com").String(), Domain: "acme.com"},
		eventschemas.CrawlRequested{CrawlID: id, Domain: "acme.com", Cause: "lookup", Priority: "live", AllowedMS: 8500},
		eventschemas.CrawlFailed{CrawlID: id, Outcome: "timeout", RememberSeconds: 300, Detail: "d"})
	w.finds(at, "acme.com", "acme.com=acme unknown")
	w.finds(at, "acme")
}

// A page with the name of a known brand never precedes that brand, even if the page is better.
func TestSearch_BrandOfDataSet_ComesFirstAmongEquals(t *testing.T) {
	w := newWorld(t)
	crawled := func(domain, name string, quality float64) []eventschemas.Event {
		id := uuid.NewString()
		record := imported(domain, name, quality).(eventschemas.BrandImported).Record
		return []eventschemas.Event{
			eventschemas.CrawlRequested{CrawlID: id, Domain: domain, Cause: "lookup", Priority: "live", AllowedMS: 8500},
			eventschemas.CrawlSucceeded{CrawlID: id, Record: record, FinalURL: "https://" + domain + "/"},
		}
	}
	w.say("acme.com", imported("acme.com", "Acme", 0.4))
	w.say("acme.net", append([]eventschemas.Event{eventschemas.BrandDiscovered{BrandID: brand.ID("acme.net").String(), Domain: "acme.net"}},
		crawled("acme.net", "Acme", 0.9)...)...)
	want := []string{"acme.com=Acme", "acme.net=Acme"}
	w.finds(w.say("acme.com", crawled("acme.com", "Acme", 0.3)...), "acme", want...) // a crawl does not remove the flag
	testmust.Succeed(t, w.search.Rebuild(w.Context()))
	w.finds(0, "acme", want...)
	w.finds(0, "acme.net", "acme.net=Acme", "acme.com=Acme")
	w.verifies("")
}

func TestSearch_BrandWithoutName_IsFoundByDomain(t *testing.T) {
	w := newWorld(t)
	at := w.say("acme.com", imported("acme.com", "", 0.2))
	w.finds(at, "acme", "acme.com=acme")
}

func TestSearch_UnknownDomain_IsBetweenExactAndFuzzyHits(t *testing.T) {
	w := newWorld(t)
	w.say("stripe.com", imported("stripe.com", "Stripe", 0.5))
	at := w.say("named.org", imported("named.org", "Node.com", 0.5))
	for q, want := range map[string][]string{
		"stripe.co":                 {"stripe.co=stripe unknown", "stripe.com=Stripe"},
		"stripf.com":                {"stripf.com=stripf unknown", "stripe.com=Stripe"},
		"node.com":                  {"named.org=Node.com", "node.com=node unknown"},
		"www.nowhere.co.uk":         {"nowhere.co.uk=nowhere unknown"},
		"  Nowhere.COM ":            {"nowhere.com=nowhere unknown"},
		"https://docs.nowhere.com/": {"nowhere.com=nowhere unknown"},
		"bücher.de":                 {"xn--bcher-kva.de=bücher unknown"},
		"shop.myshopify.com":        {"shop.myshopify.com=shop unknown"},
		"docs.stripe.com":           {"stripe.com=Stripe"},
		"jane@stripe.com":           {"stripe.com=Stripe"},
		"jane@stripe.co":            {"stripe.co=stripe unknown", "stripe.com=Stripe"},
		"Jane <jane@Nowhere.com>":   {"nowhere.com=nowhere unknown"},
		"mailto:jane@nowhere.com":   {"nowhere.com=nowhere unknown"},
		"STRIPE。CO":                 {"stripe.co=stripe unknown", "stripe.com=Stripe"},
		"ｓｔｒｉｐｅ．ｃｏ":                 {"stripe.co=stripe unknown", "stripe.com=Stripe"},
		"xn--bcher-kva.de":          {"xn--bcher-kva.de=bücher unknown"},
		"Nowhere.com, Inc.":         {"nowhere.com=nowhere unknown"},
		"//nowhere.com:8080/?q=a b": {"nowhere.com=nowhere unknown"},
		"https://stripe":            {"stripe.com=Stripe"},
		"stripe inc. nowhere.com":   {"stripe.com=Stripe"},
		"jane@nowhere":              {},
		"jane@":                     {},
		"@.com":                     {},
		"🙂.":                        {},
		"...":                       {},
		"co.uk":                     {},
		"com":                       {},
		"127.0.0.1":                 {},
		"next.js":                   {},
		"nowhere":                   {},
		"no where.com":              {},
	} {
		w.finds(at, q, want...)
	}
}

func TestSearch_Limit_IncludesUnknownDomain(t *testing.T) {
	w := newWorld(t)
	at := w.say("stripe.com", imported("stripe.com", "Stripe", 0.5))
	testmust.Succeed(t, w.search.WaitFor(w.Context(), at))
	hits, err := w.search.Search(w.Context(), "stripf.com", 1)
	if got := describe(hits); err != nil || !slices.Equal(got, []string{"stripf.com=stripf unknown"}) {
		t.Errorf("Search = %v, %v, want only stripf.com", got, err)
	}
	if _, err := w.search.Search(w.Context(), "stripe", 0); !errors.Is(err, searchindex.ErrInvalid) {
		t.Errorf("limit 0: %v, want %v", err, searchindex.ErrInvalid)
	}
}

func TestNew_ContinuesAtCheckpointOfIndex(t *testing.T) {
	w := newWorld(t)
	at := w.say("acme.com", imported("acme.com", "Acme", 0.5))
	w.finds(at, "acme", "acme.com=Acme")
	w.close()
	at = w.say("other.com", imported("other.com", "Other", 0.5))
	w.open()
	w.finds(at, "acme", "acme.com=Acme")
	w.finds(at, "other", "other.com=Other")
}

// An index that was fed from events that no longer exist proves a loss until an operator empties it.
func TestNew_IndexPastLog_FailsUntilEmptied(t *testing.T) {
	w := newWorld(t)
	at := w.say("acme.com", imported("acme.com", "Acme", 0.5))
	w.finds(at, "acme", "acme.com=Acme")
	w.stop()
	stale := searchindex.Document{Domain: "stale.com", Name: "Stale", Version: 1 << 40}
	testmust.Succeed(t, w.index.Apply(w.Context(), []searchindex.Document{stale}, 1<<40))
	w.close()
	w.index = openIndex(t, w.path)
	if _, err := search.New(w.Context(), search.Config{Log: eventlog.Probe(w.Log)}, w.model, w.index); !errors.Is(err, eventlog.ErrLoss) {
		t.Errorf("new on an index past the log: %v, want %v", err, eventlog.ErrLoss)
	}
	testmust.Succeed(t, errors.Join(search.Empty(w.Context(), w.index), w.index.Close()))
	w.open()
	w.finds(at, "stale")
	w.finds(at, "acme", "acme.com=Acme")
}

// Rule 8.
func TestRebuild_WhileBrandsChange_SameDocuments(t *testing.T) {
	// Enough changes that a rebuild of the index meets some of them, and a limit for machines on which it is slow.
	const count, changed = 300, 1000
	w := newWorld(t)
	for i := range count {
		w.say(fmt.Sprintf("site%d.com", i), imported(fmt.Sprintf("site%d.com", i), fmt.Sprintf("Site %d", i), 0.5))
	}
	for round := range 3 {
		var changes sync.WaitGroup
		changes.Go(func() {
			for i := range changed {
				domain := fmt.Sprintf("new%d.com", round*changed+i)
				w.say(domain, imported(domain, "New", 0.5))
			}
		})
		t.Cleanup(changes.Wait) // before the log is closed, if the test fails
		testmust.Succeed(t, w.search.Rebuild(w.Context()))
		w.finds(count, "site 107", "site107.com=Site 107")
		w.verifies("")
		changes.Wait()
	}
	at := testmust.Get(w.Log.Head(w.Context()))(t)
	w.finds(at, "site 108", "site108.com=Site 108")
	w.verifies("")
}

// verifies compares the index with the brands and names the domain that differs, "" for none.
func (w *world) verifies(differing string) {
	w.t.Helper()
	v := testmust.Get(w.search.Verify(w.Context()))(w.t)
	key := ""
	if v.Difference != nil {
		key = v.Difference.Key
	}
	if key != differing || v.Name != search.Name || v.Rows == 0 || v.OK() != (differing == "") {
		w.t.Errorf("verified %+v (%v), want a difference at %q", v, v.Difference, differing)
	}
}

func TestVerify_ComparesBothDirectionsAndAllFields(t *testing.T) {
	w := newWorld(t)
	w.say("gone.com", imported("gone.com", "Gone", 0.5))
	w.say("gone.com", eventschemas.BrandWithdrawn{Reason: "owner"})
	at := w.say("acme.com", imported("acme.com", "Acme", 0.5))
	w.finds(at, "acme", "acme.com=Acme")
	w.verifies("")

	tamper := func(d searchindex.Document) {
		t.Helper()
		testmust.Succeed(t, w.index.Apply(w.Context(), []searchindex.Document{d}, 0))
	}
	repair := func() {
		t.Helper()
		testmust.Succeed(t, w.search.Rebuild(w.Context()))
		w.verifies("")
	}
	tamper(searchindex.Document{Domain: "extra.com", Name: "Extra", Version: 1})
	w.verifies("extra.com")
	repair()
	for _, d := range []searchindex.Document{
		{Domain: "acme.com", BrandID: brand.ID("acme.com").String(), Name: "Other", Quality: 0.5, Version: uint64(at) + 1},
		{Domain: "acme.com", BrandID: brand.ID("acme.com").String(), Name: "Acme", Quality: 0.6, Version: uint64(at) + 1},
		{Domain: "acme.com", BrandID: brand.ID("acme.com").String(), Name: "Acme", Quality: 0.5, Version: uint64(at) + 1},
		{Domain: "acme.com", Version: uint64(at) + 1, Gone: true},
		{Domain: "gone.com", Name: "Gone", Version: uint64(at) + 1},
	} {
		tamper(d)
		w.verifies(d.Domain)
		repair()
	}

	// The index lost a document, although its checkpoint is past the event.
	g := testmust.Get(w.index.Rebuild(w.Context()))(t)
	testmust.Succeed(t, errors.Join(g.Apply(w.Context(), nil, uint64(at)), g.Publish(w.Context())))
	w.verifies("acme.com")
	repair()
}

// script is a source that answers from a list.
type script struct {
	mu    sync.Mutex
	docs  []brands.Doc
	fail  error
	asked []eventlog.Position
}

func (s *script) Changed(_ context.Context, after eventlog.Position, limit int) ([]brands.Doc, eventlog.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, after)
	if s.fail != nil {
		return nil, 0, s.fail
	}
	var out []brands.Doc
	for _, d := range s.docs {
		if d.Position > after && len(out) < limit {
			out = append(out, d)
		}
	}
	if len(out) == limit {
		return out, out[limit-1].Position, nil
	}
	return out, max(after, s.last()), nil
}

func (s *script) last() eventlog.Position {
	if len(s.docs) == 0 {
		return 0
	}
	return s.docs[len(s.docs)-1].Position
}

func (s *script) set(fail error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func scripted(n int) *script {
	s := &script{}
	for i := range n {
		s.docs = append(s.docs, brands.Doc{
			Domain: fmt.Sprintf("site%d.com", i), Name: fmt.Sprintf("Site %d", i), BrandID: "id", Position: eventlog.Position(i + 1),
		})
	}
	return s
}

func minuteContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestFeed_SourceFails_IsRetried(t *testing.T) {
	s := scripted(3)
	broken := errors.New("database is unavailable")
	s.fail = broken
	x := openIndex(t, t.TempDir())
	defer x.Close()
	p := testmust.Get(search.New(t.Context(), search.Config{Poll: time.Millisecond}, s, x))(t)
	defer run(t, p)()
	for tried := minuteContext(t); p.Err() == nil && tried.Err() == nil; {
		runtime.Gosched()
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.WaitFor(soon, 3); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, broken) {
		t.Errorf("while it fails: %v", err)
	}
	s.set(nil)
	if err := p.WaitFor(minuteContext(t), 3); err != nil || p.Err() != nil {
		t.Errorf("afterwards: %v, %v, want no errors", err, p.Err())
	}
}

func TestClose_SavesCheckpoint(t *testing.T) {
	s := scripted(3)
	dir := t.TempDir()
	x := openIndex(t, dir)
	p := testmust.Get(search.New(t.Context(), search.Config{Poll: time.Millisecond}, s, x))(t)
	stop := run(t, p)
	testmust.Succeed(t, p.WaitFor(minuteContext(t), 3))
	// Only the position moves: no brand changed.
	s.mu.Lock()
	s.docs = append(s.docs, brands.Doc{Domain: "site2.com", Gone: true, Position: 9})
	s.mu.Unlock()
	testmust.Succeed(t, p.WaitFor(minuteContext(t), 9))
	stop()
	testmust.Succeed(t, x.Close())
	x = openIndex(t, dir)
	defer x.Close()
	if at, _, err := x.Checkpoint(t.Context()); err != nil || at != 9 {
		t.Errorf("checkpoint %d, %v, want 9", at, err)
	}
}

func TestFeed_SeveralBatches(t *testing.T) {
	const count = 2*brands.MaxPage + 7
	s := scripted(count)
	x := openIndex(t, t.TempDir())
	defer x.Close()
	p := testmust.Get(search.New(t.Context(), search.Config{Poll: time.Millisecond}, s, x))(t)
	defer run(t, p)()
	testmust.Succeed(t, p.WaitFor(minuteContext(t), count))
	if v, err := p.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != count {
		t.Errorf("Verify = %+v, %v, want %d equal rows", v, err, count)
	}
	testmust.Succeed(t, p.Rebuild(minuteContext(t)))
	if v, err := p.Verify(minuteContext(t)); err != nil || !v.OK() || v.Rows != count {
		t.Errorf("after a rebuild: %+v, %v, want %d equal rows", v, err, count)
	}
}

func TestRebuild_Interrupted_LeavesIndexUnchanged(t *testing.T) {
	s := scripted(3)
	x := openIndex(t, t.TempDir())
	defer x.Close()
	p := testmust.Get(search.New(t.Context(), search.Config{Poll: time.Millisecond}, s, x))(t)
	defer run(t, p)()
	testmust.Succeed(t, p.WaitFor(minuteContext(t), 3))
	broken := errors.New("database is unavailable")
	s.set(broken)
	if err := p.Rebuild(minuteContext(t)); !errors.Is(err, broken) {
		t.Errorf("rebuild: %v, want %v", err, broken)
	}
	s.set(nil)
	if hits, err := p.Search(t.Context(), "site 1", 5); err != nil || len(hits) == 0 || hits[0].Domain != "site1.com" {
		t.Errorf("Search after the failed rebuild = %v, %v, want site1.com first", hits, err)
	}
	if err := p.Rebuild(minuteContext(t)); err != nil {
		t.Errorf("the next rebuild: %v", err)
	}
}

func TestNew_BadConfiguration_ReportsErrors(t *testing.T) {
	if _, err := search.New(t.Context(), search.Config{Poll: -1}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "Poll") || !strings.Contains(err.Error(), "source and index") {
		t.Errorf("New = %v, want errors of Poll and of source and index", err)
	}
	x := openIndex(t, t.TempDir())
	defer x.Close()
	reg := prometheus.NewRegistry()
	testmust.Succeed(t, testmust.Err(search.New(t.Context(), search.Config{Registerer: reg}, scripted(1), x)))
	if _, err := search.New(t.Context(), search.Config{Registerer: reg}, scripted(1), x); err == nil {
		t.Error("the same metrics were registered twice")
	}
	if families, err := reg.Gather(); err != nil || len(families) != 5 {
		t.Errorf("%d metrics, %v, want 5", len(families), err)
	}
}

func FuzzSearch(f *testing.F) {
	for _, q := range []string{"acme", "acme.com", "https://a@b:80/?q#f", "\x00", "\xff", "a b c d e f g h i j k l m n", "*?~^:\"(", "xn--a", strings.Repeat("ä", 300), "٠١٢", "а́", "\u200d", "1.2.3.4", ".", "@", "a..b"} {
		f.Add(q, 5)
	}
	x := openIndex(f, f.TempDir())
	f.Cleanup(func() { x.Close() })
	s := scripted(50)
	p := testmust.Get(search.New(context.Background(), search.Config{}, s, x))(f)
	testmust.Succeed(f, p.Rebuild(context.Background()))
	f.Fuzz(func(t *testing.T, q string, limit int) {
		hits, err := p.Search(context.Background(), q, limit)
		if limit < 1 || limit > searchindex.MaxLimit {
			if !errors.Is(err, searchindex.ErrInvalid) {
				t.Errorf("limit %d: %v, want %v", limit, err, searchindex.ErrInvalid)
			}
			return
		}
		if err != nil || len(hits) > limit {
			t.Errorf("search %q: %d hits, %v", q, len(hits), err)
		}
		for _, h := range hits {
			if h.Domain == "" || h.Name == "" || (h.BrandID == nil) != (h.QualityScore == nil) {
				t.Errorf("search %q: %+v", q, h)
			}
		}
	})
}
