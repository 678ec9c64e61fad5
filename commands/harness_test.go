package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/testmust"
)

const testBrand = "7c0c2b1e-5a39-5b8d-9a50-0f4a3f1d2c3b"

// openLog opens a log whose whole content is checked when the test ends: every event matches its
// schema, time never goes backwards in a stream, and every account's hash chain is valid.
func openLog(t testing.TB) eventlog.Log {
	t.Helper()
	log := testmust.Get(sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() {
		checkLog(t, log)
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func checkLog(t testing.TB, log eventlog.Log) {
	t.Helper()
	ctx := context.Background()
	last := map[string]time.Time{}
	for at := eventlog.Position(0); ; {
		page := testmust.Get(log.ReadAll(ctx, at, eventlog.Filter{}, 1024))(t)
		for _, rec := range page.Events {
			if err := validate(t, rec); err != nil {
				t.Errorf("%s revision %d: %v: %s", rec.Stream, rec.Revision, err, rec.Data)
			}
			if rec.OccurredAt.Before(last[rec.Stream]) {
				t.Errorf("%s revision %d goes back in time", rec.Stream, rec.Revision)
			}
			last[rec.Stream] = rec.OccurredAt
		}
		if at = page.Next; page.End {
			break
		}
	}
	for stream := range last {
		if !strings.HasPrefix(stream, account.StreamPrefix) {
			continue
		}
		if _, err := Chain.Verify(ctx, log, stream); err != nil {
			t.Error(err)
		}
	}
}

// validate checks an event against its schema; it is skipped in benchmarks, where it would take most of the time.
func validate(t testing.TB, rec eventlog.Recorded) error {
	if _, ok := t.(*testing.B); ok {
		return nil
	}
	return eventschemas.ValidateJSON(rec.Type, rec.SchemaVersion, rec.Data)
}

// faults is a log with injected faults. Hooks are set before use or under the lock.
type faults struct {
	eventlog.Log
	appends, reads atomic.Int64

	mu sync.Mutex
	// before is called before an append is sent: its error is returned instead.
	before func(a sentAppend) error
	// after is called when an append has returned err: its result replaces err.
	after func(a sentAppend, err error) error
	// reading is called before a stream is read.
	reading func(stream string) error
}

type sentAppend struct {
	ctx      context.Context
	stream   string
	expected eventlog.Expected
	events   []eventlog.Proposed
}

func (f *faults) hooks() (before func(sentAppend) error, after func(sentAppend, error) error, reading func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.before, f.after, f.reading
}

func (f *faults) set(change func(f *faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) Append(ctx context.Context, stream string, expected eventlog.Expected, events []eventlog.Proposed) (eventlog.Appended, error) {
	f.appends.Add(1)
	a := sentAppend{ctx: ctx, stream: stream, expected: expected, events: events}
	before, after, _ := f.hooks()
	if before != nil {
		if err := before(a); err != nil {
			return eventlog.Appended{}, err
		}
	}
	done, err := f.Log.Append(ctx, stream, expected, events)
	if after != nil {
		if err := after(a, err); err != nil {
			return eventlog.Appended{}, err
		}
	}
	return done, err
}

func (f *faults) ReadStream(ctx context.Context, stream string, from uint64, direction eventlog.Direction, limit int) ([]eventlog.Recorded, error) {
	f.reads.Add(1)
	if _, _, reading := f.hooks(); reading != nil {
		if err := reading(stream); err != nil {
			return nil, err
		}
	}
	return f.Log.ReadStream(ctx, stream, from, direction, limit)
}

// world is a log and the accounts on it.
type world struct {
	testing.TB
	log      *faults
	requests atomic.Int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{TB: t, log: &faults{Log: openLog(t)}}
}

// opened returns an account with plan.FreeCredits and the given number of additional credits, and its writer.
func opened(t testing.TB, more int64) (w *world, d *AccountWriter, id string) {
	t.Helper()
	w = newWorld(t)
	d = w.writer(AccountWriterConfig{})
	return w, d, w.opened(d, more)
}

// openedWith returns an account that can spend exactly this many credits, and its writer.
func openedWith(t testing.TB, credits int64) (w *world, d *AccountWriter, id string) {
	t.Helper()
	w = newWorld(t)
	d = w.writer(AccountWriterConfig{})
	return w, d, w.openedWith(d, credits)
}

// ok fails the test if a call has failed.
func (w *world) ok(_ any, err error) {
	w.Helper()
	w.must(err)
}

func (w *world) must(err error) {
	w.Helper()
	testmust.Succeed(w, err)
}

// fails returns a function that fails the test unless a call has failed with this error.
func (w *world) fails(want error) func(any, error) {
	return func(_ any, err error) {
		w.Helper()
		w.failed(err, want)
	}
}

func (w *world) failed(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("got %v, want %v", err, want)
	}
}

// writer starts a writer on the world's log; it is drained before the log is checked.
func (w *world) writer(cfg AccountWriterConfig, snapshots ...streamwriter.Snapshots) *AccountWriter {
	w.Helper()
	var s streamwriter.Snapshots
	if len(snapshots) > 0 {
		s = snapshots[0]
	}
	d, err := NewAccountWriter(cfg, w.log, s)
	w.must(err)
	w.Cleanup(func() { w.drain(d) })
	return d
}

func (w *world) drain(d *AccountWriter) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Drain(ctx); err != nil {
		w.Error(err)
	}
}

func (w *world) request() Request {
	return Request{ID: fmt.Sprint("r", w.requests.Add(1)), Actor: "account:test"}
}

// opened opens an account with plan.FreeCredits and the given number of additional credits.
func (w *world) opened(d *AccountWriter, more int64) string {
	w.Helper()
	id := uuid.NewString()
	w.ok(d.OpenAccount(context.Background(), OpenAccount{Request: w.request(), AccountID: id, Holder: "holder", Plan: plan.Free}))
	if more > 0 {
		w.grant(d, id, more)
	}
	return id
}

// openedWith opens an account that can spend exactly this many credits.
func (w *world) openedWith(d *AccountWriter, credits int64) string {
	w.Helper()
	id := w.opened(d, max(credits-plan.FreeCredits, 0))
	for range plan.FreeCredits - credits {
		w.charge(d, id)
	}
	return id
}

func (w *world) grant(d *AccountWriter, id string, credits int64) Done {
	w.Helper()
	done, err := d.GrantCredits(context.Background(), GrantCredits{Request: w.request(), AccountID: id, Kind: account.KindTopup, Credits: credits, PaymentID: uuid.NewString()})
	w.must(err)
	return done
}

func (w *world) lookup(id string) ChargeLookup {
	return ChargeLookup{Request: w.request(), AccountID: id, BrandID: testBrand, Domain: "acme.com", RecordRevision: 3}
}

// hashHex returns the SHA-256 of a text in hex.
func hashHex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// onceOf returns an idempotency key and a request.
func onceOf(key, request byte) *Once {
	return &Once{Key: [32]byte{key}, Request: [32]byte{request}}
}

func (w *world) charge(d *AccountWriter, id string) Receipt {
	w.Helper()
	return w.charged(d, w.lookup(id))
}

func (w *world) charged(d *AccountWriter, in ChargeLookup) Receipt {
	w.Helper()
	receipt, err := d.ChargeLookup(context.Background(), in)
	w.must(err)
	return receipt
}

func (w *world) hold(d *AccountWriter, id string, work time.Duration) Hold {
	w.Helper()
	h, err := d.HoldCredits(context.Background(), HoldCredits{Request: w.request(), AccountID: id, Domain: "acme.com", Work: work})
	w.must(err)
	return h
}

func (w *world) reserve(d *AccountWriter, id string) *Reservation {
	w.Helper()
	r, err := d.Reserve(context.Background(), id, "")
	w.must(err)
	return r
}

func (w *world) standing(d *AccountWriter, id string) Standing {
	w.Helper()
	s, err := d.Standing(context.Background(), id)
	w.must(err)
	return s
}

// events reads and decodes an account's whole stream, bypassing the faults.
func (w *world) events(id string) (recs []eventlog.Recorded, events []eventschemas.Event) {
	w.Helper()
	for {
		page := testmust.Get(w.log.Log.ReadStream(context.Background(), account.Stream(id), uint64(len(recs)), eventlog.Forward, 4096))(w)
		for _, rec := range page {
			ev := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(w)
			recs, events = append(recs, rec), append(events, ev)
		}
		if len(page) < 4096 {
			return recs, events
		}
	}
}

// ledgerOf sums up an account's stream: charges by request, minus those that were reversed.
type ledgerOf struct {
	charges   map[string]int // by request id
	reversed  map[string]int // by the charge's request id
	balance   int64
	open      map[string]int64 // credits of the open holds
	released  int
	minimum   int64 // the lowest balance
	available int64 // the lowest balance minus holds
}

func (w *world) ledger(id string) ledgerOf {
	w.Helper()
	l := ledgerOf{charges: map[string]int{}, reversed: map[string]int{}, open: map[string]int64{}}
	_, events := w.events(id)
	for i, ev := range events {
		switch ev := ev.(type) {
		case eventschemas.CreditsGranted:
			l.balance += ev.Credits
		case eventschemas.CreditsCharged:
			l.balance -= ev.Credits
			l.charges[ev.RequestID]++
			delete(l.open, ev.HoldID)
		case eventschemas.ChargeReversed:
			l.balance += ev.Credits
			l.reversed[ev.RequestID]++
		case eventschemas.PaymentRefunded:
			l.balance -= ev.Credits
		case eventschemas.BreakageRecognized:
			l.balance -= ev.Credits
		case eventschemas.CreditsHeld:
			l.open[ev.HoldID] = ev.Credits
		case eventschemas.HoldReleased:
			delete(l.open, ev.HoldID)
			l.released++
		}
		if i == 0 || l.balance < l.minimum {
			l.minimum = l.balance
		}
		available := l.balance
		for _, credits := range l.open {
			available -= credits
		}
		if i == 0 || available < l.available {
			l.available = available
		}
	}
	return l
}

// standingCharges returns the number of charges that were not reversed.
func (l ledgerOf) standingCharges() (n int) {
	for request, made := range l.charges {
		n += made - l.reversed[request]
	}
	return n
}

// waitLimit limits a wait for other goroutines, so that a hanging test fails.
const waitLimit = time.Minute

// awaitQueued waits until n commands are queued at the account's actor, which must be working.
func (w *world) awaitQueued(d *AccountWriter, id string, n int) {
	w.Helper()
	w.waitFor(func() bool {
		queued := 0
		err := d.accounts.With(id, func(a *accountActor) { queued = a.Queued() })
		return err == nil && queued >= n
	})
}

// waitFor lets other goroutines run until so returns true.
func (w *world) waitFor(so func() bool) {
	w.Helper()
	for started := time.Now(); time.Since(started) < waitLimit; runtime.Gosched() {
		if so() {
			return
		}
	}
	w.Fatal("the condition was not met within a minute")
}

// gate blocks every passing goroutine until it is opened.
type gate struct {
	reached chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{reached: make(chan struct{}, 1024), open: make(chan struct{})} }

func (g *gate) pass() {
	g.reached <- struct{}{}
	<-g.open
}

// blockAppend blocks the next append until the gate is opened.
func (w *world) blockAppend() *gate {
	g := newGate()
	var once sync.Once
	w.log.set(func(f *faults) {
		f.before = func(sentAppend) error {
			once.Do(g.pass)
			return nil
		}
	})
	return g
}

var errTest = errors.New("fault of the test")

func ambiguous() error { return fmt.Errorf("%w: %w", eventlog.ErrAmbiguous, errTest) }

func unavailable() error { return fmt.Errorf("%w: %w", eventlog.ErrUnavailable, errTest) }
