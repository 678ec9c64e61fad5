package relay_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/domain/brand"
	"letterhead/internal/broker"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/relay"
)

func TestTopics_GetTheirRequestsInOrder(t *testing.T) {
	log := openLog(t)
	live, refresh := domains("live", 30), domains("refresh", 30)
	for i := range live {
		request(t, log, brand.PriorityLive, live[i])
		request(t, log, brand.PriorityBulk, refresh[i])
	}
	to := newTap(t)
	run(t, log, to, newPositions(t), relay.Config{})
	if got := to.keys(broker.CrawlLive, 30); !slices.Equal(got, streams(live...)) {
		t.Errorf("live topic: %v", got)
	}
	if got := to.keys(broker.CrawlRefresh, 30); !slices.Equal(got, streams(refresh...)) {
		t.Errorf("refresh topic: %v", got)
	}
	more := domains("later", 5)
	request(t, log, brand.PriorityLive, more...)
	if got := to.keys(broker.CrawlLive, 35); !slices.Equal(got[30:], streams(more...)) {
		t.Errorf("messages published while it ran: %v", got[30:])
	}
	m := to.published(broker.CrawlLive)[0]
	eventType, version, err := broker.EventType(m)
	if err != nil || eventType != "CrawlRequested" || version != 1 || m.Metadata[broker.MetaStream] != "brand-live0.com" || !strings.Contains(string(m.Payload), "live0.com") {
		t.Errorf("message is %+v: %v", m, err)
	}
}

// The domain in a request's body must not decide whether the broker accepts the message.
func TestMessage_IsKeyedByItsStream(t *testing.T) {
	log, to := openLog(t), newTap(t)
	raw(t, log, "acme.com", 1, `{"crawl_id":"c1","domain":"","cause":"lookup","lane":"live","allowed_ms":1000}`)
	run(t, log, to, newPositions(t), relay.Config{})
	if got := to.keys(broker.CrawlLive, 1); !slices.Equal(got, streams("acme.com")) {
		t.Errorf("keys are %v, want the stream of acme.com", got)
	}
}

// Rule 6.
func TestLiveTopic_BlockedRefreshTopic_Flows(t *testing.T) {
	log, bus := openLog(t), newBus(t)
	stuck, live := make(chan struct{}, 1), make(chan string, 100)
	handle(t, t.Context(), bus, broker.CrawlRefresh, func(ctx context.Context, _ broker.Message) error {
		select {
		case stuck <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return ctx.Err()
	})
	handle(t, t.Context(), bus, broker.CrawlLive, func(_ context.Context, m broker.Message) error {
		live <- m.Key
		return nil
	})
	run(t, log, bus, newPositions(t), relay.Config{})
	request(t, log, brand.PriorityBulk, domains("r", 40)...)
	<-stuck
	for _, d := range domains("l", 20) {
		request(t, log, brand.PriorityLive, d)
		if got := testwait.Receive(t, live, d); got != brand.Stream(d) {
			t.Errorf("got %s, want %s", got, brand.Stream(d))
		}
	}
}

func TestRestart_ContinuesWithoutGap(t *testing.T) {
	log, positions := openLog(t), newPositions(t)
	all := domains("d", 60)
	request(t, log, brand.PriorityLive, all[:20]...)
	first := newTap(t)
	stop := run(t, log, first, positions, relay.Config{})
	first.keys(broker.CrawlLive, 20)
	stop()
	request(t, log, brand.PriorityLive, all[20:]...)
	second := newTap(t)
	run(t, log, second, positions, relay.Config{})
	if got := second.keys(broker.CrawlLive, 40); !slices.Equal(got, streams(all[20:]...)) {
		t.Errorf("after a clean shutdown the second run published %v, want %v", got, streams(all[20:]...))
	}
}

// Runs that are interrupted in the middle of a batch, half of whose saves fail, lose nothing.
// Rule 6.
func TestRun_CutOffAnywhere_LosesNothing(t *testing.T) {
	for range 8 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { cutOff(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func cutOff(t *testing.T, random *rand.Rand) {
	log := openLog(t)
	var mu sync.Mutex // of random and handled
	chance := func(of int) bool {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(of) == 0
	}
	positions := &flaky{Store: newPositions(t), fail: func() bool { return chance(2) }}
	handled, all := map[string]bool{}, domains("d", 60)
	var published []broker.Message
	for requested := 0; requested < len(all); {
		mu.Lock()
		n := min(1+random.IntN(10), len(all)-requested)
		mu.Unlock()
		request(t, log, brand.PriorityLive, all[requested:requested+n]...)
		requested += n
		last := requested == len(all)
		bus := newBus(t)
		to := &tap{Bus: bus, t: t, arrive: make(chan struct{}, 1), got: map[string][]broker.Message{}}
		ctx, cut := context.WithTimeout(t.Context(), timeout)
		handle(t, ctx, bus, broker.CrawlLive, func(_ context.Context, m broker.Message) error {
			mu.Lock()
			handled[m.Key] = true
			enough := len(handled) == requested
			mu.Unlock()
			if enough || !last && chance(8) {
				cut()
			}
			return nil
		})
		r := testmust.Get(relay.New(relay.Config{SaveEvery: time.Nanosecond, RetryAfter: time.Millisecond}, log, to, positions))(t)
		testmust.Succeed(t, r.Run(ctx))
		cut()
		bus.Close()
		published = append(published, to.published(broker.CrawlLive)...)
	}
	for _, key := range streams(all...) {
		if !handled[key] {
			t.Errorf("%s was not handled", key)
		}
	}
	if got := firsts(published); !slices.IsSortedFunc(got, func(a, b string) int { return slices.Index(streams(all...), a) - slices.Index(streams(all...), b) }) {
		t.Errorf("first published in the order %v, want the order of the log", got)
	}
}
