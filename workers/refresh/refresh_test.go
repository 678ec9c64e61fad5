package refresh_test

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/projections/brands"
	"letterhead/workers/refresh"
)

// checkpoint is the name of the position.
const checkpoint = "refresh"

// asked is a request and its result.
type asked struct {
	commands.RequestCrawl
	commands.Crawl
}

// world is a log with the real brand commands, whose requests are reported to the test.
type world struct {
	*commands.Brands
	t         *testing.T
	log       eventlog.Log
	positions *sqlstore.Positions
	requested chan asked
	fail      func(domain string) error // called by RequestCrawl
	unsaved   error                     // error of each save
	kept      []string                  // domains that Due considers
	unlisted  atomic.Pointer[error]     // error of Due
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	testmust.Succeed(t, err)
	t.Cleanup(func() { store.Close() })
	w := &world{t: t, log: log, requested: make(chan asked, 100)}
	if w.positions, err = sqlstore.NewPositions(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if w.Brands, err = commands.NewBrands(commands.BrandsConfig{}, log); err != nil {
		t.Fatal(err)
	}
	return w
}

// RequestCrawl wraps the real command.
func (w *world) RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error) {
	if w.fail != nil {
		if err := w.fail(in.Domain); err != nil {
			return commands.Crawl{}, err
		}
	}
	c, err := w.Brands.RequestCrawl(ctx, in)
	if err == nil {
		w.requested <- asked{in, c}
	}
	return c, err
}

func (w *world) charge(domains ...string) {
	w.t.Helper()
	for _, d := range domains {
		w.append("account-a", eventschemas.CreditsCharged{ChargeID: "c", Credits: 1, RequestID: "r", BrandID: brand.ID(d).String(), Domain: d})
	}
}

func (w *world) append(stream string, ev eventschemas.Event) {
	w.t.Helper()
	enc := testmust.Get(eventschemas.Encode(ev))(w.t)
	w.raw(stream, ev, enc.SchemaVersion, string(enc.Data))
}

// raw appends an event of a type, with any schema version and body.
func (w *world) raw(stream string, like eventschemas.Event, version int, body string) {
	w.t.Helper()
	_, err := w.log.Append(w.t.Context(), stream, eventlogtest.End(w.t, w.log, stream), []eventlog.Proposed{{
		ID: uuid.New(), Type: like.EventType(), SchemaVersion: version, OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Data: []byte(body),
	}})
	testmust.Succeed(w.t, err)
}

// Due lists the kept domains according to their streams, as the read model does by its rows.
func (w *world) Due(ctx context.Context, now time.Time, after brands.Due, limit int) (all []brands.Due, err error) {
	if fault := w.unlisted.Load(); fault != nil {
		return nil, *fault
	}
	for _, d := range w.kept {
		b, err := w.State(ctx, d)
		if err != nil {
			return nil, err
		}
		at, ok := b.NextCrawl()
		if ok && !at.After(now) && (at.After(after.At) || at.Equal(after.At) && d > after.Domain) {
			all = append(all, brands.Due{At: at, Domain: d})
		}
	}
	slices.SortFunc(all, func(a, b brands.Due) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Domain, b.Domain)) })
	return all[:min(len(all), limit)], nil
}

// fails ends a crawl that found nothing.
func (w *world) fails(a asked) {
	w.t.Helper()
	testmust.Succeed(w.t, w.FailCrawl(w.t.Context(), commands.FailCrawl{Request: who, Domain: a.Domain, CrawlID: a.ID, Outcome: brand.NoData}))
}

// succeeds ends a crawl that found a record.
func (w *world) succeeds(domain, crawlID string) {
	w.t.Helper()
	name := "Crawled"
	err := w.SucceedCrawl(w.t.Context(), commands.SucceedCrawl{
		Request: who, Domain: domain, CrawlID: crawlID, Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}, FinalURL: "https://" + domain + "/",
	})
	testmust.Succeed(w.t, err)
}

// live requests a crawl as a look-up does.
func (w *world) live(domain string) (crawlID string) {
	w.t.Helper()
	crawl := testmust.Get(w.Brands.RequestCrawl(w.t.Context(), commands.RequestCrawl{Request: who, Domain: domain, Cause: brand.CauseOperator, Priority: brand.PriorityLive, Allowed: time.Minute}))(w.t)
	return crawl.ID
}

func (w *world) imported(domains ...string) {
	w.t.Helper()
	for _, d := range domains {
		name := "Imported"
		_, err := w.ImportBrand(w.t.Context(), commands.ImportBrand{Request: who, Domain: d, Source: "set 1", Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}})
		testmust.Succeed(w.t, err)
	}
}

var who = commands.Request{ID: "r", Actor: "operator:test"}

// Save wraps the real positions.
func (w *world) Save(ctx context.Context, name string, p eventlog.Position) error {
	if w.unsaved != nil {
		return w.unsaved
	}
	return w.positions.Save(ctx, name, p)
}

func (w *world) Reset(ctx context.Context, name string, at eventlog.Position) error {
	return w.positions.Reset(ctx, name, at)
}

func (w *world) Load(ctx context.Context, name string) (eventlog.Position, bool, error) {
	return w.positions.Load(ctx, name)
}

func (w *world) saved() eventlog.Position {
	w.t.Helper()
	p, _, err := w.positions.Load(w.t.Context(), checkpoint)
	testmust.Succeed(w.t, err)
	return p
}

func (w *world) run(cfg refresh.Config) (stop func()) {
	w.t.Helper()
	if cfg.Every == 0 {
		cfg.Every = time.Nanosecond
	}
	r := testmust.Get(refresh.New(cfg, w.log, w, w, w))(w.t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}
	w.t.Cleanup(stop)
	return stop
}

func (w *world) next() asked {
	w.t.Helper()
	return testwait.Receive(w.t, w.requested, "a crawl to be requested")
}

func TestRefresh_ImportedBrands_CrawlsOnlyLookedUp(t *testing.T) {
	w := newWorld(t)
	w.imported("wanted.com", "unwanted.com", "withdrawn.com", "crawled.com", "running.com", "marker.com")
	testmust.Succeed(t, w.WithdrawBrand(t.Context(), commands.WithdrawBrand{Request: who, Domain: "withdrawn.com", Reason: "owner"}))
	w.succeeds("crawled.com", w.live("crawled.com"))
	w.live("running.com")
	w.charge("wanted.com", "wanted.com", "withdrawn.com", "crawled.com", "running.com", "unknown.com", "wanted.com", "marker.com")
	w.run(refresh.Config{})
	first, second := w.next(), w.next()
	if first.Domain != "wanted.com" || second.Domain != "marker.com" {
		t.Errorf("crawls were requested for %s and %s, want wanted.com once and then the marker", first.Domain, second.Domain)
	}
	if first.Priority != brand.PriorityBulk || first.Cause != brand.CauseSchedule || first.Force {
		t.Errorf("request is %+v, want an unforced one of bulk priority", first)
	}
}

func TestRestart_ContinuesAtItsCheckpoint(t *testing.T) {
	w := newWorld(t)
	w.imported("one.com", "marker.com", "two.com")
	w.charge("one.com", "marker.com")
	stop := w.run(refresh.Config{})
	w.next()
	w.next() // the first charge is dealt with
	stop()
	before := w.saved()
	w.charge("two.com")
	w.run(refresh.Config{})
	if in := w.next(); in.Domain != "two.com" {
		t.Errorf("after the restart %s was requested, want two.com", in.Domain)
	}
	if before == 0 {
		t.Error("no position was saved at a clean shutdown")
	}
}

func TestFault_IsRetried(t *testing.T) {
	w := newWorld(t)
	w.imported("acme.com")
	failures := 2
	w.fail = func(string) error {
		if failures > 0 {
			failures--
			return eventlog.ErrUnavailable
		}
		return nil
	}
	w.charge("acme.com")
	w.run(refresh.Config{})
	if in := w.next(); in.Domain != "acme.com" {
		t.Errorf("got %s", in.Domain)
	}
}

func TestRefusal_IsNotRetried(t *testing.T) {
	w := newWorld(t)
	w.imported("refused.com", "next.com")
	w.fail = func(domain string) error {
		if domain == "refused.com" {
			return &brand.RememberedError{Outcome: brand.Blocked}
		}
		return nil
	}
	w.charge("refused.com", "next.com")
	w.run(refresh.Config{})
	if in := w.next(); in.Domain != "next.com" {
		t.Errorf("got %s, want next.com", in.Domain)
	}
}

func TestRun_RefreshOff_RequestsNothing(t *testing.T) {
	w := newWorld(t)
	w.imported("acme.com")
	w.charge("acme.com")
	r := testmust.Get(refresh.New(refresh.Config{Off: true}, w.log, w.positions, w, w))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if len(w.requested) > 0 || w.saved() != 0 {
		t.Error("the refresher requested a crawl although it is off")
	}
}

func TestClosedLog_EndsTheRefresher(t *testing.T) {
	w := newWorld(t)
	r := testmust.Get(refresh.New(refresh.Config{}, w.log, w.positions, w, w))(t)
	testmust.Succeed(t, w.log.Close())
	if err := r.Run(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Run: %v, want eventlog.ErrClosed", err)
	}
}
