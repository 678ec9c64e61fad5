package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/sweep"
)

// The name and version of the saved memory.
const (
	stateName   = "sweep"
	foldVersion = 1
)

// following records where subscriptions begin, and rejects the given number of them.
type following struct {
	eventlog.Log
	mu     sync.Mutex
	from   []eventlog.Position
	reject int
}

func (f *following) Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from = append(f.from, after)
	if f.reject > 0 {
		f.reject--
		return nil, fmt.Errorf("subscribe: %w", eventlog.ErrUnavailable)
	}
	return f.Log.Subscribe(ctx, after, filter)
}

func (f *following) begun() []eventlog.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]eventlog.Position{}, f.from...)
}

func TestStart_OverdueWorkExists_IsEnded(t *testing.T) {
	overwritten := func(state string, revision uint64) func(*world) {
		return func(w *world) {
			testmust.Succeed(w, w.snapshots.Save(w.Context(), stateName, foldVersion, revision, []byte(state)))
		}
	}
	cases := map[string]struct {
		memory func(w *world) // changes the memory after a first sweeper saved it
		saved  bool           // a first sweeper ran
		resume bool           // the second one continues where the first ended
	}{
		"with saved memory":    {saved: true, resume: true, memory: func(*world) {}},
		"without":              {memory: func(*world) {}},
		"damaged":              {saved: true, memory: overwritten(`{"position":3,"holds":{`, 1<<40)},
		"incomplete":           {saved: true, memory: overwritten(`{"position":3}`, 1<<40)},
		"of another shape":     {saved: true, memory: overwritten(`[1,2]`, 1<<40)},
		"of a longer log":      {saved: true, memory: overwritten(fmt.Sprintf(`{"position":%d,"holds":{},"crawls":{}}`, uint64(math.MaxInt64)), 1<<40)},
		"of an older release":  {saved: true, memory: func(w *world) { w.forget() }},
		"that cannot be read":  {saved: true, memory: nil},
		"that cannot be saved": {saved: false, memory: nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.opened()
			w.held(id)
			w.crawled("acme.com", brand.PriorityLive)
			if c.saved {
				stop := w.sweeper(sweep.Config{}, parts{})
				w.sweptOver()
				stop()
			}
			p := parts{log: &following{Log: w.log}}
			if c.memory == nil {
				p.memory = brokenMemory{}
			} else {
				c.memory(w)
			}
			w.pass(time.Hour) // while no sweeper ran
			w.sweeper(sweep.Config{}, p)
			w.releasedOf(id)
			w.timedOut("acme.com")
			if from := p.log.(*following).begun(); len(from) != 1 || (from[0] > 0) != c.resume {
				t.Errorf("the log was followed from %v; continuing at the saved position is %t", from, c.resume)
			}
		})
	}
}

// forget replaces the memory by that of another fold version.
func (w *world) forget() {
	w.Helper()
	testmust.Succeed(w, w.snapshots.Discard(w.Context(), stateName, foldVersion))
	testmust.Succeed(w, w.snapshots.Save(w.Context(), stateName, foldVersion+1, 1, []byte(`{}`)))
}

type brokenMemory struct{}

func (brokenMemory) Load(context.Context, string, int) (uint64, []byte, bool, error) {
	return 0, nil, false, errors.New("the database is unavailable")
}

func (brokenMemory) Discard(context.Context, string, int) error {
	return errors.New("the database is unavailable")
}

func (brokenMemory) Save(context.Context, string, int, uint64, []byte) error {
	return errors.New("the database is unavailable")
}

func TestRestart_ReadsOnlyNewEvents(t *testing.T) {
	w := newWorld(t)
	ended, open := w.opened(), w.opened()
	w.capture(ended, w.held(ended).ID)
	w.held(open)
	stop := w.sweeper(sweep.Config{}, parts{})
	w.sweptOver()
	stop()
	log, watched := &following{Log: w.log}, w.watched(nil)
	w.pass(time.Hour)
	w.sweeper(sweep.Config{}, parts{log: log, accountWriter: watched})
	w.releasedOf(open)
	head := testmust.Get(w.log.Head(t.Context()))(t)
	if from := log.begun(); from[0] == 0 || from[0] > head {
		t.Errorf("followed from %v, head is %d", from, head)
	}
	if n := watched.times(ended); n > 0 {
		t.Errorf("the ended hold was swept %d times", n)
	}
}

// savedMemory reports each save.
type savedMemory struct {
	sweep.Memory
	saved chan uint64
}

func (m savedMemory) Save(ctx context.Context, stream string, foldVersion int, revision uint64, state []byte) error {
	err := m.Memory.Save(ctx, stream, foldVersion, revision, state)
	select {
	case m.saved <- revision:
	default:
	}
	return err
}

func TestMemory_IsSavedWhileRunning(t *testing.T) {
	w := newWorld(t)
	id := w.opened()
	w.held(id)
	memory := savedMemory{Memory: w.snapshots, saved: make(chan uint64, 1)}
	w.sweeper(sweep.Config{SaveEvery: time.Millisecond}, parts{memory: memory})
	if at := testwait.Receive(t, memory.saved, "something to be saved"); at == 0 { // and if the process were killed now:
		t.Error("saved before anything was read")
	}
	log := &following{Log: w.log}
	w.sweeper(sweep.Config{}, parts{log: log})
	w.pass(time.Hour)
	w.releasedOf(id)
	w.sweptOver()
	if from := log.begun(); from[0] == 0 {
		t.Error("the saved memory was not used")
	}
	if n := len(w.releases(id)); n != 1 {
		t.Errorf("released %d times", n)
	}
}

func TestMemory_IsBounded_NothingIsForgotten(t *testing.T) {
	w := newWorld(t)
	const maxOpen, each = 4, 30
	var accounts, domains []string
	for i := range each {
		accounts = append(accounts, w.holding(1))
		domains = append(domains, fmt.Sprintf("d%d.com", i))
		w.crawled(domains[i], brand.PriorityLive)
	}
	w.pass(time.Hour)
	registry := prometheus.NewRegistry()
	most, sweeps := 0.0, 0
	watched := w.watched(func(string) error {
		sweeps++
		most = max(most, metric(t, registry, "letterhead_sweep_open"))
		return nil
	})
	stop := w.sweeper(sweep.Config{MaxOpen: maxOpen, Registerer: registry}, parts{accountWriter: watched, crawls: watched})
	for i := range each {
		w.releasedOf(accounts[i])
		w.timedOut(domains[i])
	}
	stop()
	if sweeps < 2*each || most == 0 || most > maxOpen {
		t.Errorf("in %d ends at most %v were remembered at a time; the bound is %d", sweeps, most, maxOpen)
	}
}

func TestMemory_FullOfYoungWork_WaitsForIt(t *testing.T) {
	w := newWorld(t)
	young, late := w.opened(), w.opened()
	for range 3 {
		w.held(young)
	}
	w.held(late)
	w.sweeper(sweep.Config{MaxOpen: 3}, parts{})
	w.pass(time.Hour)
	w.releasedOf(late)
	await(w, account.Stream(young), func(eventschemas.HoldReleased) bool { return len(w.releases(young)) == 3 })
}

func TestFailure_IsRetriedAtTheNextSweep(t *testing.T) {
	for name, fault := range map[string]error{
		"one stream is busy":     errors.New("busy"),
		"the log is unavailable": fmt.Errorf("append: %w", eventlog.ErrUnavailable),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.holding(1)
			w.crawled("acme.com", brand.PriorityLive)
			w.pass(time.Hour)
			left := map[string]int{id: 3, "acme.com": 3}
			watched := w.watched(func(what string) error {
				if left[what]--; left[what] >= 0 {
					return fault
				}
				return nil
			})
			w.sweeper(sweep.Config{}, parts{accountWriter: watched, crawls: watched})
			w.releasedOf(id)
			w.timedOut("acme.com")
		})
	}
}

func TestOneStreamFails_OthersContinue(t *testing.T) {
	w := newWorld(t)
	// Neither can be decided on, however often it is retried.
	w.written(account.StreamPrefix+"nobody", eventschemas.CreditsHeld{
		HoldID: "h", Credits: 1, Deadline: w.clock().Add(-time.Hour), RequestID: "r", Domain: "acme.com",
	})
	broken := uuid.NewString()
	w.writtenUnchained(broken)
	busy, fine := w.holding(1), w.holding(1)
	watched := w.watched(func(what string) error {
		if what == busy {
			return errors.New("busy")
		}
		return nil
	})
	w.sweeper(sweep.Config{}, parts{accountWriter: watched})
	w.releasedOf(fine)
	w.sweptOver()
	w.sweptOver()
	for _, id := range []string{"nobody", broken} {
		if n := watched.times(id); n != 1 {
			t.Errorf("%s was swept %d times; repeats are useless", id, n)
		}
	}
	if n := watched.times(busy); n < 2 {
		t.Errorf("the busy account was swept %d times", n)
	}
}

// A sweep that takes longer than the pause between two of them must leave time to read the log.
func TestSlowAccount_LaterHoldsAreReleased(t *testing.T) {
	w := newWorld(t)
	busy := w.holding(1)
	w.pass(time.Hour)
	watched := w.watched(func(what string) error {
		if what != busy {
			return nil
		}
		for begun := time.Now(); time.Since(begun) < 2*every; {
		}
		return errors.New("busy")
	})
	w.sweeper(sweep.Config{}, parts{accountWriter: watched})
	w.sweptOver()
	later := w.holding(1)
	w.pass(time.Hour)
	w.releasedOf(later)
}

// writtenUnchained writes an account with an overdue hold whose hashes do not match its content.
func (w *world) writtenUnchained(id string) {
	w.Helper()
	var proposed []eventlog.Proposed
	for _, ev := range []eventschemas.Event{
		eventschemas.AccountOpened{AccountID: id, Holder: "holder", Plan: "free"},
		eventschemas.CreditsHeld{HoldID: "x", Credits: 1, Deadline: w.clock().Add(-time.Hour), RequestID: "r", Domain: "acme.com"},
	} {
		enc := testmust.Get(eventschemas.Encode(ev))(w)
		proposed = append(proposed, eventlog.Proposed{
			ID: uuid.New(), Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: w.clock(), Data: enc.Data,
			Metadata: eventlog.Metadata{Hash: strings.Repeat("0", 64)},
		})
	}
	w.unchained = append(w.unchained, account.Stream(id))
	testmust.Succeed(w, testmust.Err(w.log.Append(w.Context(), account.Stream(id), eventlog.NoStream(), proposed)))
}

func (w *world) damage(stream string, version int, data string) {
	w.Helper()
	w.damaged = append(w.damaged, stream)
	_, err := w.log.Append(w.Context(), stream, eventlogtest.End(w, w.log, stream), []eventlog.Proposed{{
		ID: uuid.New(), Type: eventschemas.CrawlRequested{}.EventType(), SchemaVersion: version, OccurredAt: w.clock(), Data: []byte(data),
	}})
	testmust.Succeed(w, err)
}

func TestDamagedEvent_IsSkipped(t *testing.T) {
	w := newWorld(t)
	w.damage(brand.Stream("unreadable.com"), 1, `{"crawl_id":7}`)
	w.damage(brand.StreamPrefix, 1, `{"crawl_id":"x","domain":"","cause":"lookup","lane":"live","allowed_ms":1}`)
	w.crawled("acme.com", brand.PriorityLive)
	w.pass(time.Hour)
	w.sweeper(sweep.Config{}, parts{})
	w.timedOut("acme.com")
}

func TestEventOfNewerRelease_EndsTheSweeper(t *testing.T) {
	w := newWorld(t)
	w.damage(brand.Stream("unreadable.com"), 99, `{}`)
	err := w.newSweeper(sweep.Config{}, parts{}).Run(t.Context())
	if !errors.Is(err, eventschemas.ErrUnknownVersion) {
		t.Errorf("Run: %v, want ErrUnknownVersion", err)
	}
}

func TestSweeper_LogUnavailable_Retries(t *testing.T) {
	w := newWorld(t)
	id := w.holding(1)
	log := &following{Log: w.log, reject: 3}
	w.sweeper(sweep.Config{}, parts{log: log})
	w.releasedOf(id)
	if n := len(log.begun()); n != 4 {
		t.Errorf("subscribed %d times, want 4", n)
	}
}

func TestRun_EndsWithContextOrLog(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.newSweeper(sweep.Config{}, parts{}).Run(ctx); err != nil {
		t.Errorf("with its context: %v", err)
	}
	closed := newWorld(t)
	s := closed.newSweeper(sweep.Config{}, parts{log: closedLog{closed.log}})
	if err := s.Run(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("with the log: %v, want ErrClosed", err)
	}
}

// closedLog ends every subscription, like a closed log.
type closedLog struct{ eventlog.Log }

func (l closedLog) Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error) {
	sub, err := l.Log.Subscribe(ctx, after, filter)
	if err != nil {
		return nil, err
	}
	return sub, sub.Close()
}

func TestNew_MetricsRegisteredAlready_Fails(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	for i := range 2 {
		if _, err := sweep.New(sweep.Config{Registerer: registry}, w.log, w.accountWriter, w.brands, w.snapshots); (err != nil) != (i == 1) {
			t.Errorf("sweeper %d with the same registry: %v", i, err)
		}
	}
}
