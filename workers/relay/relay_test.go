package relay_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/brand"
	"letterhead/internal/broker"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/workers/relay"
)

// patience bounds the wait for what should happen.
const patience = 30 * time.Second

func openLog(t *testing.T) eventlog.Log {
	t.Helper()
	log, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

// request appends crawl requests for domains in a lane.
func request(t *testing.T, log eventlog.Log, lane string, domains ...string) {
	t.Helper()
	brands, err := commands.NewBrands(commands.BrandsConfig{}, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range domains {
		_, err := brands.RequestCrawl(t.Context(), commands.RequestCrawl{
			Request: commands.Request{ID: "r-" + d, Actor: "operator:test"}, Domain: d, Cause: brand.CauseSchedule, Lane: lane, Allowed: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func domains(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d.com", prefix, i))
	}
	return out
}

// checkpoints are positions in memory.
type checkpoints struct {
	mu    sync.Mutex
	at    map[string]eventlog.Position
	fails int
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
	if c.fails > 0 {
		c.fails--
		return errors.New("disk is full")
	}
	if c.at == nil {
		c.at = map[string]eventlog.Position{}
	}
	c.at[name] = max(c.at[name], p)
	return nil
}

// collector is a broker that keeps what it is given.
type collector struct {
	mu     sync.Mutex
	got    map[string][]broker.Message
	fail   func(lane string, m []broker.Message) error
	arrive chan struct{}
}

func newCollector() *collector {
	return &collector{got: map[string][]broker.Message{}, arrive: make(chan struct{}, 1)}
}

func (c *collector) Publish(ctx context.Context, lane string, m ...broker.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		if err := c.fail(lane, m); err != nil {
			return err
		}
	}
	for _, x := range m {
		c.got[lane] = append(c.got[lane], x)
	}
	select {
	case c.arrive <- struct{}{}:
	default:
	}
	return nil
}

// keys waits until a lane has n different messages and returns the keys in the order of their first coming.
func (c *collector) keys(t *testing.T, lane string, n int) []string {
	t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		var out []string
		seen := map[string]bool{}
		for _, m := range c.got[lane] {
			if !seen[m.ID] {
				seen[m.ID] = true
				out = append(out, m.Key)
			}
		}
		c.mu.Unlock()
		if len(out) >= n {
			return out
		}
		select {
		case <-c.arrive:
		case <-deadline:
			t.Fatalf("lane %s has %d messages after %s, want %d", lane, len(out), patience, n)
		}
	}
}

// run runs a relay until stop is called.
func run(t *testing.T, log relay.Log, to relay.Publisher, c relay.Checkpoints, cfg relay.Config) (stop func()) {
	t.Helper()
	r, err := relay.New(cfg, log, to, c)
	if err != nil {
		t.Fatal(err)
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
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func TestLanesGetTheirRequestsInOrder(t *testing.T) {
	log := openLog(t)
	live, refresh := domains("live", 30), domains("refresh", 30)
	for i := range live {
		request(t, log, brand.LaneLive, live[i])
		request(t, log, brand.LaneRefresh, refresh[i])
	}
	to := newCollector()
	run(t, log, to, &checkpoints{}, relay.Config{})
	if got := to.keys(t, broker.CrawlLive, 30); !slices.Equal(got, live) {
		t.Errorf("live lane: %v", got)
	}
	if got := to.keys(t, broker.CrawlRefresh, 30); !slices.Equal(got, refresh) {
		t.Errorf("refresh lane: %v", got)
	}
	more := domains("later", 5)
	request(t, log, brand.LaneLive, more...)
	if got := to.keys(t, broker.CrawlLive, 35); !slices.Equal(got[30:], more) {
		t.Errorf("what came while it ran: %v", got[30:])
	}
	m := to.got[broker.CrawlLive][0]
	eventType, version, err := broker.EventType(m)
	if err != nil || eventType != "CrawlRequested" || version != 1 || m.Metadata[broker.MetaStream] != "brand-live0.com" || !strings.Contains(string(m.Payload), "live0.com") {
		t.Errorf("message is %+v: %v", m, err)
	}
}

func TestARestartGoesOnWithoutAGap(t *testing.T) {
	log := openLog(t)
	all := domains("d", 60)
	request(t, log, brand.LaneLive, all[:20]...)
	saved := &checkpoints{}
	first := newCollector()
	stop := run(t, log, first, saved, relay.Config{})
	first.keys(t, broker.CrawlLive, 20)
	stop()
	request(t, log, brand.LaneLive, all[20:]...)
	second := newCollector()
	run(t, log, second, saved, relay.Config{})
	if got := second.keys(t, broker.CrawlLive, 40); !slices.Equal(got, all[20:]) {
		t.Errorf("after a clean stop the second run published %v", got)
	}
}

func TestAFailingBrokerStopsNothingForGood(t *testing.T) {
	log := openLog(t)
	all := domains("d", 40)
	request(t, log, brand.LaneLive, all...)
	request(t, log, brand.LaneRefresh, "other.com")
	to := newCollector()
	failures := 0
	to.fail = func(lane string, m []broker.Message) error {
		if lane == broker.CrawlLive && failures < 3 {
			failures++
			return errors.New("broker is away")
		}
		return nil
	}
	saved := &checkpoints{fails: 2} // and the disk is full for a while
	run(t, log, to, saved, relay.Config{RetryAfter: time.Millisecond, SaveEvery: time.Nanosecond})
	if got := to.keys(t, broker.CrawlLive, 40); !slices.Equal(got, all) {
		t.Errorf("live lane after failures: %v", got)
	}
	if got := to.keys(t, broker.CrawlRefresh, 1); got[0] != "other.com" {
		t.Errorf("refresh lane: %v", got)
	}
}

func TestNothingIsPassedOver(t *testing.T) {
	log := openLog(t)
	request(t, log, brand.LaneLive, "first.com", "second.com", "third.com")
	to := newCollector()
	broken := true
	lane := relay.CrawlLanes()[0]
	plain := lane.Message
	lane.Message = func(r eventlog.Recorded) (broker.Message, bool, error) {
		to.mu.Lock()
		defer to.mu.Unlock()
		if broken && r.Stream == "brand-second.com" {
			return broker.Message{}, false, errors.New("cannot be read by this release")
		}
		return plain(r)
	}
	saved := &checkpoints{}
	run(t, log, to, saved, relay.Config{Lanes: []relay.Lane{lane}, RetryAfter: time.Millisecond, SaveEvery: time.Nanosecond})
	if got := to.keys(t, broker.CrawlLive, 1); !slices.Equal(got, []string{"first.com"}) {
		t.Fatalf("before the event that cannot be read: %v", got)
	}
	to.mu.Lock()
	broken = false
	to.mu.Unlock()
	if got := to.keys(t, broker.CrawlLive, 3); !slices.Equal(got, []string{"first.com", "second.com", "third.com"}) {
		t.Errorf("got %v, want all in order", got)
	}
}

func TestAClosedLogEndsTheRelay(t *testing.T) {
	log := openLog(t)
	r, err := relay.New(relay.Config{}, log, newCollector(), &checkpoints{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Run: %v, want eventlog.ErrClosed", err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	_, err := relay.New(relay.Config{Lanes: []relay.Lane{{}}, SaveEvery: -1, RetryAfter: -1}, openLog(t), newCollector(), &checkpoints{})
	for _, field := range []string{"Lanes", "SaveEvery", "RetryAfter"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
