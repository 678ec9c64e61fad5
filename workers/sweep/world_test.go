package sweep_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
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
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/workers/sweep"
)

const (
	// timeout limits the wait for required results.
	timeout = time.Minute
	// every is the pause between two sweeps.
	every = 2 * time.Millisecond
	// work is the duration of a hold's or crawl's work in these tests; the hold's deadline is account.HoldGrace later.
	work = 8500 * time.Millisecond
)

// world is a log, a database, a clock that the test moves, and the commands on them.
type world struct {
	*testing.T
	log           eventlog.Log
	snapshots     *sqlstore.Snapshots
	brands        *commands.Brands
	accountWriter *commands.AccountWriter // for the test itself; each sweeper has its own
	requests      atomic.Int64
	unchained     []string // streams whose chain is invalid, on purpose
	damaged       []string // streams whose events do not match their schemas, on purpose

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)}
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	w.log = log
	t.Cleanup(func() {
		w.check()
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")})
	testmust.Succeed(t, err)
	t.Cleanup(func() { testmust.Succeed(t, store.Close()) })
	if w.snapshots, err = sqlstore.NewSnapshots(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if w.brands, err = commands.NewBrands(commands.BrandsConfig{Now: w.clock}, log); err != nil {
		t.Fatal(err)
	}
	w.accountWriter = w.newAccountWriter()
	return w
}

func (w *world) newAccountWriter() *commands.AccountWriter {
	w.Helper()
	accountWriter := testmust.Get(commands.NewAccountWriter(commands.AccountWriterConfig{Config: streamwriter.Config{Now: w.clock}}, w.log, w.snapshots))(w)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := accountWriter.Drain(ctx); err != nil {
			w.Error(err)
		}
	})
	return accountWriter
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// pass moves the clock.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) request() commands.Request {
	return commands.Request{ID: fmt.Sprint("r", w.requests.Add(1)), Actor: "operator:test"}
}

// opened opens an account with plan.FreeCredits.
func (w *world) opened() string {
	w.Helper()
	id := uuid.NewString()
	testmust.Succeed(w, testmust.Err(w.accountWriter.OpenAccount(w.Context(), commands.OpenAccount{Request: w.request(), AccountID: id, Holder: "holder", Plan: plan.Free})))
	return id
}

// held places a hold of one credit.
func (w *world) held(accountID string) commands.Hold {
	w.Helper()
	hold := testmust.Get(w.accountWriter.HoldCredits(w.Context(), commands.HoldCredits{Request: w.request(), AccountID: accountID, Domain: "acme.com", Work: work}))(w)
	return hold
}

func (w *world) capture(accountID, holdID string) {
	w.Helper()
	_, err := w.accountWriter.ChargeLookup(w.Context(), commands.ChargeLookup{
		Request: w.request(), AccountID: accountID, BrandID: brand.ID("acme.com").String(), Domain: "acme.com", RecordRevision: 2, HoldID: holdID,
	})
	testmust.Succeed(w, err)
}

// crawled requests a crawl of the given priority.
func (w *world) crawled(domain, priority string) commands.Crawl {
	w.Helper()
	crawl, err := w.brands.RequestCrawl(w.Context(), commands.RequestCrawl{
		Request: w.request(), Domain: domain, Cause: brand.CauseLookup, Priority: priority, Allowed: work,
	})
	testmust.Succeed(w, err)
	if crawl.Joined {
		w.Fatalf("the crawl of %s was joined", domain)
	}
	return crawl
}

func (w *world) succeed(domain, crawlID string) {
	w.Helper()
	name := "Acme"
	err := w.brands.SucceedCrawl(w.Context(), commands.SucceedCrawl{
		Request: w.request(), Domain: domain, CrawlID: crawlID, Record: eventschemas.Record{Name: &name}, FinalURL: "https://" + domain + "/",
	})
	testmust.Succeed(w, err)
}

func (w *world) state(domain string) *brand.Brand {
	w.Helper()
	state := testmust.Get(w.brands.State(w.Context(), domain))(w)
	return state
}

// written appends events to a stream unchanged, for cases that no command produces. Account streams get their chain.
func (w *world) written(stream string, events ...eventschemas.Event) {
	w.Helper()
	at := w.clock()
	var proposed []eventlog.Proposed
	var head eventschemas.Hash
	for i, ev := range events {
		enc := testmust.Get(eventschemas.Encode(ev))(w)
		link := eventschemas.ChainLink{
			Stream: stream, Revision: uint64(i), EventID: uuid.New(), Type: enc.Type, SchemaVersion: enc.SchemaVersion,
			OccurredAt: at, Actor: "operator:test", RequestID: "r", Data: enc.Data,
		}
		p := eventlog.Proposed{
			ID: link.EventID, Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: at, Data: enc.Data,
			Metadata: eventlog.Metadata{Actor: link.Actor, RequestID: link.RequestID},
		}
		if strings.HasPrefix(stream, account.StreamPrefix) {
			head = link.Next(head)
			p.Metadata.Hash = hex.EncodeToString(head[:])
		}
		proposed = append(proposed, p)
	}
	testmust.Succeed(w, testmust.Err(w.log.Append(w.Context(), stream, eventlog.NoStream(), proposed)))
}

// holding writes an account with one hold of the given credits that was due an hour ago, and the events after it.
func (w *world) holding(credits int64, more ...eventschemas.Event) (accountID string) {
	w.Helper()
	id := uuid.NewString()
	w.written(account.Stream(id), append([]eventschemas.Event{
		eventschemas.AccountOpened{AccountID: id, Holder: "holder", Plan: string(plan.Free)},
		eventschemas.CreditsGranted{GrantID: "g", Kind: account.KindFree, Credits: plan.FreeCredits},
		eventschemas.CreditsHeld{HoldID: "h", Credits: credits, Deadline: w.clock().Add(-time.Hour), RequestID: "r", Domain: "acme.com"},
	}, more...)...)
	return id
}

// captured returns a charge of the hold that holding writes.
func captured(credits int64, item string) eventschemas.Event {
	return eventschemas.CreditsCharged{
		ChargeID: "c-" + item, Credits: credits, RequestID: "r", BrandID: brand.ID("acme.com").String(), Domain: "acme.com",
		RecordRevision: 2, HoldID: "h", Item: item,
	}
}

// sweptOver waits for a complete sweep that saw everything that is on the log now: the hold of a
// second marker is released in a later sweep than that of the first.
func (w *world) sweptOver() {
	w.Helper()
	for range 2 {
		w.releasedOf(w.holding(1))
	}
}

// releasedOf waits for the first release on an account.
func (w *world) releasedOf(accountID string) eventschemas.HoldReleased {
	w.Helper()
	return await(w, account.Stream(accountID), func(eventschemas.HoldReleased) bool { return true })
}

// await waits for the first event of its type on a stream for which asked returns true.
func await[E eventschemas.Event](w *world, stream string, asked func(E) bool) E {
	w.Helper()
	var of E
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	sub := testmust.Get(w.log.Subscribe(ctx, 0, eventlog.Filter{StreamPrefixes: []string{stream}, EventTypes: []string{of.EventType()}}))(w)
	defer sub.Close()
	for {
		batch, err := sub.Next(ctx)
		if err != nil {
			w.Fatalf("waiting for %s on %s: %v", of.EventType(), stream, err)
		}
		for _, r := range batch.Events {
			if ev, ok := w.decode(r).(E); ok && r.Stream == stream && asked(ev) {
				return ev
			}
		}
	}
}

func (w *world) decode(r eventlog.Recorded) eventschemas.Event {
	w.Helper()
	ev := testmust.Get(eventschemas.Decode(r.Type, r.SchemaVersion, r.Data))(w)
	return ev
}

// all returns the events of a type on a stream.
func all[E eventschemas.Event](w *world, stream string) (found []E) {
	w.Helper()
	events := testmust.Get(w.log.ReadStream(w.Context(), stream, 0, eventlog.Forward, 4096))(w)
	for _, r := range events {
		if ev, ok := w.decode(r).(E); ok {
			found = append(found, ev)
		}
	}
	return found
}

// releases returns the releases on an account.
func (w *world) releases(accountID string) []eventschemas.HoldReleased {
	w.Helper()
	return all[eventschemas.HoldReleased](w, account.Stream(accountID))
}

// failures returns the failures of a brand's crawls.
func (w *world) failures(domain string) []eventschemas.CrawlFailed {
	w.Helper()
	return all[eventschemas.CrawlFailed](w, brand.Stream(domain))
}

// check reads the whole log: every event matches its schema, and every account's chain is valid.
func (w *world) check() {
	ctx := context.Background()
	streams := map[string]bool{}
	for at := eventlog.Position(0); ; {
		page, err := w.log.ReadAll(ctx, at, eventlog.Filter{}, 4096)
		if err != nil {
			w.Error(err)
			return
		}
		for _, r := range page.Events {
			if slices.Contains(w.damaged, r.Stream) {
				continue
			}
			streams[r.Stream] = true
			if err := eventschemas.ValidateJSON(r.Type, r.SchemaVersion, r.Data); err != nil {
				w.Errorf("%s at revision %d: %v", r.Stream, r.Revision, err)
			}
		}
		if at = page.Next; page.End {
			break
		}
	}
	for stream := range streams {
		if strings.HasPrefix(stream, account.StreamPrefix) && !slices.Contains(w.unchained, stream) {
			if _, err := commands.Chain.Verify(ctx, w.log, stream); err != nil {
				w.Error(err)
			}
		}
	}
}

// parts are the dependencies of a sweeper; nil is the real one of the world.
type parts struct {
	log           eventlog.Log
	accountWriter sweep.Holds
	crawls        sweep.Crawls
	memory        sweep.Memory
}

// sweeper starts a sweeper with its own account writer.
func (w *world) sweeper(cfg sweep.Config, p parts) (stop func()) {
	w.Helper()
	s := w.newSweeper(cfg, p)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				w.Errorf("the sweeper ended with %v", err)
			}
		})
	}
	w.Cleanup(stop)
	return stop
}

func (w *world) newSweeper(cfg sweep.Config, p parts) *sweep.Sweeper {
	w.Helper()
	if cfg.Every == 0 {
		cfg.Every = every
	}
	cfg.Now = w.clock
	if p.log == nil {
		p.log = w.log
	}
	if p.accountWriter == nil {
		p.accountWriter = w.newAccountWriter()
	}
	if p.crawls == nil {
		p.crawls = w.brands
	}
	if p.memory == nil {
		p.memory = w.snapshots
	}
	s := testmust.Get(sweep.New(cfg, p.log, p.accountWriter, p.crawls, p.memory))(w)
	return s
}

// watched wraps account and brand commands, records calls and fails on request.
type watched struct {
	accountWriter sweep.Holds
	crawls        sweep.Crawls

	mu     sync.Mutex
	before func(what string) error // called with the account or domain; its error is returned
	asked  map[string]int
}

func (w *world) watched(before func(what string) error) *watched {
	return &watched{accountWriter: w.newAccountWriter(), crawls: w.brands, before: before, asked: map[string]int{}}
}

func (d *watched) ask(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked[what]++
	if d.before == nil {
		return nil
	}
	return d.before(what)
}

func (d *watched) times(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[what]
}

func (d *watched) ReleaseOverdue(ctx context.Context, accountID string) (int, error) {
	if err := d.ask(accountID); err != nil {
		return 0, err
	}
	return d.accountWriter.ReleaseOverdue(ctx, accountID)
}

func (d *watched) ExpireCrawl(ctx context.Context, domain, crawlID string) error {
	if err := d.ask(domain); err != nil {
		return err
	}
	return d.crawls.ExpireCrawl(ctx, domain, crawlID)
}

// metric returns the sum of a metric's values.
func metric(t *testing.T, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families := testmust.Get(g.Gather())(t)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}
