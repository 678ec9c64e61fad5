package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/checkpoint"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
	"letterhead/workers/relay"
)

// flaky checkpoints sometimes cannot be saved.
type flaky struct {
	checkpoint.Store
	mu   sync.Mutex
	fail func() bool
}

func (f *flaky) Save(ctx context.Context, name string, p eventlog.Position) error {
	f.mu.Lock()
	failed := f.fail()
	f.mu.Unlock()
	if failed {
		return errors.New("disk is full")
	}
	return f.Store.Save(ctx, name, p)
}

func (f *flaky) Reset(ctx context.Context, name string, p eventlog.Position) error {
	f.mu.Lock()
	failed := f.fail()
	f.mu.Unlock()
	if failed {
		return errors.New("disk is full")
	}
	return f.Store.Reset(ctx, name, p)
}

func TestBrokerFails_RelayContinues(t *testing.T) {
	log, to := openLog(t), newTap(t)
	all := domains("d", 40)
	request(t, log, brand.PriorityLive, all...)
	request(t, log, brand.PriorityBulk, "other.com")
	failures := 0
	to.failing(func(topic string, m []broker.Message) error {
		if topic == broker.CrawlLive && failures < 3 {
			failures++
			return errors.New("broker is unavailable")
		}
		return nil
	})
	run(t, log, to, newPositions(t), relay.Config{RetryAfter: time.Millisecond})
	if got := to.keys(broker.CrawlLive, 40); !slices.Equal(got, streams(all...)) {
		t.Errorf("live topic after failures: %v", got)
	}
	if got := to.keys(broker.CrawlRefresh, 1); !slices.Equal(got, streams("other.com")) {
		t.Errorf("refresh topic: %v", got)
	}
}

func TestSaveFails_MessagesAreNotRepeated(t *testing.T) {
	log, to, full := openLog(t), newTap(t), true
	positions := &flaky{Store: newPositions(t), fail: func() bool { return full }}
	output := testwait.NewLines()
	stop := run(t, log, to, positions, relay.Config{SaveEvery: time.Nanosecond, RetryAfter: time.Millisecond, Logger: output.Logger()})
	all := domains("d", 30)
	for i, d := range all {
		if i == len(all)/2 { // nor is it repeated when the topic restarts
			rejected := false
			to.failing(func(topic string, _ []broker.Message) error {
				if rejected || topic != broker.CrawlLive {
					return nil
				}
				rejected = true
				return errors.New("broker is unavailable")
			})
		}
		request(t, log, brand.PriorityLive, d)
		to.keys(broker.CrawlLive, i+1)
	}
	output.Wait(t, 1, "could not be saved")
	if n := len(to.published(broker.CrawlLive)); n != len(all) {
		t.Errorf("%d messages were published for %d requests, want one each", n, len(all))
	}
	positions.mu.Lock()
	full = false
	positions.mu.Unlock()
	stop()
	request(t, log, brand.PriorityLive, "next.com")
	second := newTap(t)
	run(t, log, second, positions, relay.Config{})
	if got := second.keys(broker.CrawlLive, 1); !slices.Equal(got, streams("next.com")) {
		t.Errorf("after a successful save the next run published %v, want only next.com", got)
	}
}

// A client that looks up a brand waits some seconds for its crawl.
func TestLiveTopic_BrokerFails_RetriesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, to := openLog(t), newTap(t)
		var mu sync.Mutex
		tries := map[string][]time.Time{}
		left := map[string]int{broker.CrawlLive: 12, broker.CrawlRefresh: 12}
		to.failing(func(topic string, _ []broker.Message) error {
			mu.Lock()
			defer mu.Unlock()
			tries[topic] = append(tries[topic], time.Now())
			if left[topic]--; left[topic] >= 0 {
				return errors.New("broker is unavailable")
			}
			return nil
		})
		longest := func(topic string) (most time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			for i, at := range tries[topic][1:] {
				most = max(most, at.Sub(tries[topic][i]))
			}
			return most
		}
		stop := run(t, log, to, newPositions(t), relay.Config{})
		request(t, log, brand.PriorityLive, "live.com")
		request(t, log, brand.PriorityBulk, "refresh.com")
		for _, topic := range []string{broker.CrawlLive, broker.CrawlRefresh} {
			for len(to.published(topic)) == 0 {
				<-to.arrive
			}
		}
		if most := longest(broker.CrawlLive); most > time.Second {
			t.Errorf("live work waited %s for another attempt, want at most a second", most)
		}
		if most := longest(broker.CrawlRefresh); most <= time.Second || most > 30*time.Second {
			t.Errorf("background work waited %s, want longer than live work but bounded", most)
		}
		mu.Lock()
		clear(tries)
		left[broker.CrawlLive] = 1
		mu.Unlock()
		request(t, log, brand.PriorityLive, "next.com")
		for len(to.published(broker.CrawlLive)) == 1 {
			<-to.arrive
		}
		if most := longest(broker.CrawlLive); most > relay.DefaultRetryAfter {
			t.Errorf("after a success the first wait was %s, want at most %s", most, relay.DefaultRetryAfter)
		}
		stop()
	})
}

func TestDamagedRequest_IsSkipped(t *testing.T) {
	log, to := openLog(t), newTap(t)
	request(t, log, brand.PriorityLive, "first.com")
	raw(t, log, "bad.com", 1, `{"crawl_id":7}`)
	request(t, log, brand.PriorityLive, "second.com")
	request(t, log, brand.PriorityBulk, "other.com")
	registry, output := prometheus.NewPedanticRegistry(), testwait.NewLines()
	run(t, log, to, newPositions(t), relay.Config{Registerer: registry, Logger: output.Logger()})
	if got := to.keys(broker.CrawlLive, 2); !slices.Equal(got, streams("first.com", "second.com")) {
		t.Errorf("live topic: got %v, want first.com and second.com", got)
	}
	to.keys(broker.CrawlRefresh, 1)
	output.Wait(t, 2, "stream=brand-bad.com") // in each topic: it is unknown which one it belongs to
	if n := total(t, registry, "letterhead_relay_skipped_total"); n != 2 {
		t.Errorf("%v events were counted as skipped, want one in each topic", n)
	}
}

// total returns the sum of a counter over its labels.
func total(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families := testmust.Get(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestRequestOfNewerRelease_EndsTheRelay(t *testing.T) {
	log, to, positions := openLog(t), newTap(t), newPositions(t)
	request(t, log, brand.PriorityLive, "first.com")
	before := testmust.Get(log.Head(t.Context()))(t)
	raw(t, log, "newer.com", 1000, `{}`)
	request(t, log, brand.PriorityLive, "second.com")
	only := relay.CrawlTopics()[:1]
	ended, _ := start(t, log, to, positions, relay.Config{Topics: only})
	if err := testwait.Receive(t, ended, "the end of Run"); !errors.Is(err, eventschemas.ErrUnknownVersion) || !strings.Contains(err.Error(), "CrawlRequested") {
		t.Errorf("Run: %v, want eventschemas.ErrUnknownVersion of a CrawlRequested", err)
	}
	if got := firsts(to.published(broker.CrawlLive)); !slices.Equal(got, streams("first.com")) {
		t.Errorf("published %v, want the request before the unknown version", got)
	}
	// The newer release continues with the event that this one could not read.
	if at, _, err := positions.Load(t.Context(), only[0].Checkpoint()); err != nil || at != before {
		t.Errorf("the checkpoint is %d (%v), want %d", at, err, before)
	}
}

func TestTemporaryFailure_IsNotSkipped(t *testing.T) {
	log, to := openLog(t), newTap(t)
	request(t, log, brand.PriorityLive, "first.com", "second.com", "third.com")
	broken := make(chan struct{})
	topic := relay.CrawlTopics()[0]
	plain := topic.Message
	topic.Message = func(r eventlog.Recorded) (broker.Message, bool, error) {
		select {
		case <-broken:
		default:
			if r.Stream == "brand-second.com" {
				return broker.Message{}, false, errors.New("not now")
			}
		}
		return plain(r)
	}
	run(t, log, to, newPositions(t), relay.Config{Topics: []relay.Topic{topic}, RetryAfter: time.Millisecond})
	if got := to.keys(broker.CrawlLive, 1); !slices.Equal(got, streams("first.com")) {
		t.Fatalf("before the event that failed: %v", got)
	}
	close(broken)
	if got := to.keys(broker.CrawlLive, 3); !slices.Equal(got, streams("first.com", "second.com", "third.com")) {
		t.Errorf("got %v, want all in order", got)
	}
}

func TestCheckpointPastTheLog_BeginsAtHead(t *testing.T) {
	log, to, positions := openLog(t), newTap(t), newPositions(t)
	for _, topic := range relay.CrawlTopics() {
		testmust.Succeed(t, positions.Save(t.Context(), topic.Checkpoint(), 1<<40))
	}
	request(t, log, brand.PriorityLive, "old.com") // handled by the longer log's relay
	output := testwait.NewLines()
	run(t, log, to, positions, relay.Config{Logger: output.Logger()})
	output.Wait(t, 2, "past the log")
	request(t, log, brand.PriorityLive, "new.com")
	if got := to.keys(broker.CrawlLive, 1); !slices.Equal(got, streams("new.com")) {
		t.Errorf("published %v, want only requests after the start", got)
	}
}

// The new log is shorter, so Save would have no effect for a long time.
func TestCheckpointPastTheLog_IsResetForTheNextLeader(t *testing.T) {
	log, positions, topic := openLog(t), newPositions(t), relay.CrawlTopics()[0]
	testmust.Succeed(t, positions.Save(t.Context(), topic.Checkpoint(), 1<<40))
	request(t, log, brand.PriorityLive, "old.com")
	first := newTap(t)
	stop := run(t, log, first, positions, relay.Config{Topics: []relay.Topic{topic}})
	bound, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for { // until it has begun: before that, the end of the log is not recorded
		at, _, err := positions.Load(bound, topic.Checkpoint())
		if err != nil {
			t.Fatal("the checkpoint stays past the log: ", err)
		}
		if at < 1<<40 {
			break
		}
	}
	request(t, log, brand.PriorityLive, "mine.com")
	first.keys(broker.CrawlLive, 1)
	stop()
	request(t, log, brand.PriorityLive, "between.com") // no node leads
	second := newTap(t)
	run(t, log, second, positions, relay.Config{Topics: []relay.Topic{topic}})
	if got := second.keys(broker.CrawlLive, 1); !slices.Equal(got, streams("between.com")) {
		t.Errorf("the next leader published %v, want between.com", got)
	}
}

func TestCheckpointPastTheLog_ResetFails_SkipsNothing(t *testing.T) {
	log, to := openLog(t), newTap(t)
	topics := relay.CrawlTopics()[:1]
	saved := newPositions(t)
	testmust.Succeed(t, saved.Save(t.Context(), topics[0].Checkpoint(), 1<<40))
	tried, failures := make(chan struct{}, 1), 3
	positions := &flaky{Store: saved}
	positions.fail = func() bool {
		failures--
		if failures == 2 {
			tried <- struct{}{}
		}
		return failures >= 0
	}
	request(t, log, brand.PriorityLive, "old.com")
	run(t, log, to, positions, relay.Config{Topics: topics, RetryAfter: 100 * time.Millisecond})
	testwait.Receive(t, tried, "the checkpoint to be reset")
	request(t, log, brand.PriorityLive, "new.com")
	if got := to.keys(broker.CrawlLive, 1); !slices.Equal(got, streams("new.com")) {
		t.Errorf("published %v, want new.com", got)
	}
}

func TestClosedBroker_EndsTheRelay(t *testing.T) {
	log, to := openLog(t), newBus(t)
	to.Close()
	ended, _ := start(t, log, to, newPositions(t), relay.Config{})
	request(t, log, brand.PriorityLive, "acme.com") // the refresh topic has nothing to publish
	if err := testwait.Receive(t, ended, "the end of Run"); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Run: %v, want broker.ErrClosed", err)
	}
}

func TestClosedLog_EndsTheRelay(t *testing.T) {
	log := openLog(t)
	ended, _ := start(t, log, newTap(t), newPositions(t), relay.Config{})
	testmust.Succeed(t, log.Close())
	if err := testwait.Receive(t, ended, "the end of Run"); !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("Run: %v, want eventlog.ErrClosed", err)
	}
}

// Only the first of several failures is logged, and none of a broker whose transport logs its outage.
func TestTopicFails_FirstFailureIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"transport logs it": {fmt.Errorf("publish: %w", broker.ErrUnavailable), 0},
		"another error":     {errors.New("the event cannot be sent"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			log, to := openLog(t), newTap(t)
			failures := 0
			to.failing(func(topic string, _ []broker.Message) error {
				if failures++; failures > 5 {
					return nil
				}
				return c.err
			})
			request(t, log, brand.PriorityLive, "acme.com")
			output := &strings.Builder{} // read after the relay has stopped
			stop := run(t, log, to, newPositions(t), relay.Config{RetryAfter: time.Millisecond, Logger: slog.New(slog.NewTextHandler(output, nil))})
			to.keys(broker.CrawlLive, 1)
			stop()
			if n := strings.Count(output.String(), "relay starts again"); n != c.want {
				t.Errorf("%d lines after 5 failures, want %d:\n%s", n, c.want, output)
			}
		})
	}
}
