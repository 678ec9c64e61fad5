package relay_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/broker/inprocess"
	"letterhead/internal/checkpoint"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/workers/relay"
)

// timeout limits the wait for expected results.
const timeout = 30 * time.Second

func openLog(t *testing.T) eventlog.Log {
	t.Helper()
	log := testmust.Get(sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}))(t)
	t.Cleanup(func() { log.Close() })
	return log
}

func newPositions(t *testing.T) *sqlstore.Positions {
	t.Helper()
	store := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}))(t)
	t.Cleanup(func() { store.Close() })
	p := testmust.Get(sqlstore.NewPositions(t.Context(), store))(t)
	return p
}

func newBus(t *testing.T) *broker.Bus {
	t.Helper()
	bus := testmust.Get(broker.New(broker.Config{}, inprocess.New(inprocess.Config{})))(t)
	t.Cleanup(func() { bus.Close() })
	return bus
}

// handle lets a group of one consume a topic's messages until the test or ctx ends.
func handle(t *testing.T, ctx context.Context, bus *broker.Bus, topic string, do broker.Handler) {
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { bus.Subscribe(ctx, topic, "test", do) })
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
}

// tap wraps a broker, records what was published and may reject it.
type tap struct {
	*broker.Bus
	t      *testing.T
	arrive chan struct{}

	mu   sync.Mutex
	got  map[string][]broker.Message
	fail func(topic string, m []broker.Message) error
}

// newTap returns a tap for a broker whose messages are all consumed.
func newTap(t *testing.T) *tap {
	t.Helper()
	bus := newBus(t)
	for _, topic := range []string{broker.CrawlLive, broker.CrawlRefresh} {
		handle(t, t.Context(), bus, topic, func(context.Context, broker.Message) error { return nil })
	}
	return &tap{Bus: bus, t: t, arrive: make(chan struct{}, 1), got: map[string][]broker.Message{}}
}

func (p *tap) Publish(ctx context.Context, topic string, m ...broker.Message) error {
	p.mu.Lock()
	fail := p.fail
	p.mu.Unlock()
	if fail != nil {
		if err := fail(topic, m); err != nil {
			return err
		}
	}
	if err := p.Bus.Publish(ctx, topic, m...); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got[topic] = append(p.got[topic], m...)
	select {
	case p.arrive <- struct{}{}:
	default:
	}
	return nil
}

// failing sets the function that rejects messages from now on; nil rejects none.
func (p *tap) failing(fail func(topic string, m []broker.Message) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

// published returns the messages of a topic, including repeats.
func (p *tap) published(topic string) []broker.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]broker.Message(nil), p.got[topic]...)
}

// keys waits until a topic has messages of n keys and returns the keys in the order of their first occurrence.
func (p *tap) keys(topic string, n int) []string {
	p.t.Helper()
	deadline := time.After(timeout)
	for {
		out := firsts(p.published(topic))
		if len(out) >= n {
			return out
		}
		select {
		case <-p.arrive:
		case <-deadline:
			p.t.Fatalf("topic %s has %d messages after %s, want %d", topic, len(out), timeout, n)
		}
	}
}

func firsts(messages []broker.Message) []string {
	var out []string
	seen := map[string]bool{}
	for _, m := range messages {
		if !seen[m.Key] {
			seen[m.Key] = true
			out = append(out, m.Key)
		}
	}
	return out
}

// request appends crawl requests of a priority for domains.
func request(t *testing.T, log eventlog.Log, priority string, domains ...string) {
	t.Helper()
	brands := testmust.Get(commands.NewBrands(commands.BrandsConfig{}, log))(t)
	for _, d := range domains {
		_, err := brands.RequestCrawl(t.Context(), commands.RequestCrawl{
			Request: commands.Request{ID: "r-" + d, Actor: "operator:test"}, Domain: d, Cause: brand.CauseSchedule, Priority: priority, Allowed: time.Minute,
		})
		testmust.Succeed(t, err)
	}
}

// raw appends a crawl request with any body and schema version.
func raw(t *testing.T, log eventlog.Log, domain string, version int, body string) {
	t.Helper()
	_, err := log.Append(t.Context(), brand.Stream(domain), eventlogtest.End(t, log, brand.Stream(domain)), []eventlog.Proposed{{
		ID: uuid.New(), Type: eventschemas.CrawlRequested{}.EventType(), SchemaVersion: version,
		OccurredAt: time.Now().UTC().Truncate(time.Microsecond), Data: []byte(body),
	}})
	testmust.Succeed(t, err)
}

func domains(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d.com", prefix, i))
	}
	return out
}

// streams returns the keys of messages about domains.
func streams(domains ...string) []string {
	var out []string
	for _, d := range domains {
		out = append(out, brand.Stream(d))
	}
	return out
}

// start runs a relay until stop is called; ended receives the result of Run.
func start(t *testing.T, log checkpoint.Log, to relay.Publisher, c checkpoint.Store, cfg relay.Config) (ended <-chan error, stop func()) {
	t.Helper()
	r := testmust.Get(relay.New(cfg, log, to, c))(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		defer close(done)
		done <- r.Run(ctx)
	}()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return done, stop
}

// run runs a relay that must not end before it is stopped.
func run(t *testing.T, log checkpoint.Log, to relay.Publisher, c checkpoint.Store, cfg relay.Config) (stop func()) {
	t.Helper()
	_, stop = start(t, log, to, c, cfg)
	return stop
}
