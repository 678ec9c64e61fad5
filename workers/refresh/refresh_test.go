package refresh_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/workers/refresh"
)

const patience = 30 * time.Second

// world is a log with the real brand commands, whose requests are told to the test.
type world struct {
	*commands.Brands
	t         *testing.T
	log       eventlog.Log
	saved     checkpoints
	requested chan commands.RequestCrawl
	fail      func(domain string) error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	log, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	w := &world{t: t, log: log, requested: make(chan commands.RequestCrawl, 100)}
	if w.Brands, err = commands.NewBrands(commands.BrandsConfig{}, log); err != nil {
		t.Fatal(err)
	}
	return w
}

// RequestCrawl stands before the real command.
func (w *world) RequestCrawl(ctx context.Context, in commands.RequestCrawl) (commands.Crawl, error) {
	if w.fail != nil {
		if err := w.fail(in.Domain); err != nil {
			return commands.Crawl{}, err
		}
	}
	c, err := w.Brands.RequestCrawl(ctx, in)
	if err == nil {
		w.requested <- in
	}
	return c, err
}

func (w *world) charge(domains ...string) {
	w.t.Helper()
	for _, d := range domains {
		enc, err := eventschemas.Encode(eventschemas.CreditsCharged{ChargeID: "c", Credits: 1, RequestID: "r", BrandID: brand.ID(d).String(), Domain: d})
		if err != nil {
			w.t.Fatal(err)
		}
		_, err = w.log.Append(w.t.Context(), "account-a", eventlog.Any(), []eventlog.Proposed{{
			ID: uuid.New(), Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Data: enc.Data,
		}})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) imported(domains ...string) {
	w.t.Helper()
	for _, d := range domains {
		name := "Imported"
		_, err := w.ImportBrand(w.t.Context(), commands.ImportBrand{Request: who, Domain: d, Source: "set 1", Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

var who = commands.Request{ID: "r", Actor: "operator:test"}

func (w *world) run(cfg refresh.Config) (stop func()) {
	w.t.Helper()
	if cfg.Every == 0 {
		cfg.Every = time.Nanosecond
	}
	r, err := refresh.New(cfg, w.log, &w.saved, w)
	if err != nil {
		w.t.Fatal(err)
	}
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

func (w *world) next() commands.RequestCrawl {
	w.t.Helper()
	select {
	case in := <-w.requested:
		return in
	case <-time.After(patience):
		w.t.Fatal("no crawl was requested")
		panic("unreachable")
	}
}

type checkpoints struct {
	mu sync.Mutex
	at map[string]eventlog.Position
}

func (c *checkpoints) Load(_ context.Context, name string) (eventlog.Position, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.at[name]
	return p, ok, nil
}

func (c *checkpoints) Save(_ context.Context, name string, p eventlog.Position) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at = map[string]eventlog.Position{}
	}
	c.at[name] = max(c.at[name], p)
	return nil
}

func TestOnlyImportedBrandsThatSomebodyLookedUpAreCrawled(t *testing.T) {
	w := newWorld(t)
	w.imported("wanted.com", "unwanted.com", "withdrawn.com", "crawled.com", "running.com", "marker.com")
	if err := w.WithdrawBrand(t.Context(), commands.WithdrawBrand{Request: who, Domain: "withdrawn.com", Reason: "owner"}); err != nil {
		t.Fatal(err)
	}
	done, err := w.Brands.RequestCrawl(t.Context(), commands.RequestCrawl{Request: who, Domain: "crawled.com", Cause: brand.CauseOperator, Lane: brand.LaneLive, Allowed: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	name := "Crawled"
	err = w.SucceedCrawl(t.Context(), commands.SucceedCrawl{Request: who, Domain: "crawled.com", CrawlID: done.ID, Record: eventschemas.Record{Name: &name, Company: eventschemas.EmptyCompany()}, FinalURL: "https://crawled.com/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Brands.RequestCrawl(t.Context(), commands.RequestCrawl{Request: who, Domain: "running.com", Cause: brand.CauseOperator, Lane: brand.LaneLive, Allowed: time.Minute}); err != nil {
		t.Fatal(err)
	}
	w.charge("wanted.com", "wanted.com", "withdrawn.com", "crawled.com", "running.com", "unknown.com", "wanted.com", "marker.com")
	w.run(refresh.Config{})
	first, second := w.next(), w.next()
	if first.Domain != "wanted.com" || second.Domain != "marker.com" {
		t.Errorf("crawls were requested for %s and %s, want wanted.com once and then the marker", first.Domain, second.Domain)
	}
	if first.Lane != brand.LaneRefresh || first.Cause != brand.CauseSchedule || first.Force {
		t.Errorf("request is %+v, want an unforced one in the refresh lane", first)
	}
}

func TestARestartDoesNotBeginAnew(t *testing.T) {
	w := newWorld(t)
	w.imported("one.com", "two.com")
	w.charge("one.com")
	stop := w.run(refresh.Config{})
	w.next()
	stop()
	before := w.saved.at["refresh"]
	w.charge("two.com")
	w.run(refresh.Config{})
	if in := w.next(); in.Domain != "two.com" {
		t.Errorf("after the restart %s was requested, want two.com", in.Domain)
	}
	if before == 0 {
		t.Error("no position was saved at the clean end")
	}
}

func TestAFaultIsTriedAgain(t *testing.T) {
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

func TestARefusalIsNoFault(t *testing.T) {
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

func TestOffDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.imported("acme.com")
	w.charge("acme.com")
	r, err := refresh.New(refresh.Config{Off: true}, w.log, &w.saved, w)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if len(w.requested) > 0 || w.saved.at != nil {
		t.Error("something was done though it is off")
	}
}

func TestAClosedLogEndsTheRefresher(t *testing.T) {
	w := newWorld(t)
	r, err := refresh.New(refresh.Config{}, w.log, &w.saved, w)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Run: %v, want eventlog.ErrClosed", err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	w := newWorld(t)
	_, err := refresh.New(refresh.Config{Every: -1, Allowed: time.Millisecond}, w.log, &w.saved, w)
	for _, field := range []string{"Every", "Allowed"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
