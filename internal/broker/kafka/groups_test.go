package kafka_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

func TestSubscribe_NewGroup_SeesHistory(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		bus := openBus(t, config(t))
		sent := spread(10, 2)
		publish(t, bus, sent...)
		for _, group := range []string{"first", "second"} {
			got := make(chan string, 64)
			subscribe(t, bus, testTopic, group, func(_ context.Context, m broker.Message) error {
				got <- m.ID
				return nil
			})
			for seen := map[string]bool{}; len(seen) < len(sent); {
				seen[testwait.Receive(t, got, "all messages")] = true
			}
		}
	})
}

// tally records the messages that members of a group handle, and checks that the first deliveries of
// each key are in order.
type tally struct {
	t    *testing.T
	mu   sync.Mutex
	next map[string]int
	done chan struct{}
	left int
}

func newTally(t *testing.T, messages int) *tally {
	return &tally{t: t, next: map[string]int{}, done: make(chan struct{}), left: messages}
}

func (y *tally) handle(m broker.Message) {
	y.mu.Lock()
	defer y.mu.Unlock()
	var n int
	fmt.Sscan(string(m.Payload), &n)
	if n > y.next[m.Key] {
		y.t.Errorf("key %s: %d was delivered before %d", m.Key, n, y.next[m.Key])
	}
	if n == y.next[m.Key] {
		y.next[m.Key]++
		if y.left--; y.left == 0 {
			close(y.done)
		}
	}
}

// Members join and leave while messages are published. Each key must keep its order, and no message may be lost.
// Rule 6.
func TestRebalance_KeepsOrderPerKey(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		const keys, each, rounds = 12, 12, 4
		bus := openBus(t, config(t))
		y := newTally(t, keys*each)
		handled := make(chan struct{}, keys*each*8)
		member := func() (stop func()) {
			return subscribe(t, bus, testTopic, "workers", func(_ context.Context, m broker.Message) error {
				y.handle(m)
				select {
				case handled <- struct{}{}:
				default:
				}
				return nil
			})
		}
		published := make(chan error, 1)
		go func() { published <- bus.Publish(t.Context(), testTopic, spread(keys, each)...) }()
		member()
		for range rounds {
			select {
			case <-handled: // some messages have been handled
			case <-y.done:
			}
			stop := member()
			stop()
		}
		testwait.Receive(t, y.done, "all messages")
		if err := testwait.Receive(t, published, "Publish"); err != nil {
			t.Error(err)
		}
	})
}

// A node is stopped repeatedly while its handlers are running. No message may be dead-lettered or lost because of that.
// Rule 6.
func TestShutdownUnderLoad_LosesAndDeadLettersNothing(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		const keys, each = 10, 20
		cfg := config(t)
		publish(t, openBus(t, cfg), spread(keys, each)...)
		y := newTally(t, keys*each)
		for range 6 {
			transport := testmust.Get(kafka.New(t.Context(), cfg))(t)
			bus := testmust.Get(broker.New(fast, transport))(t)
			some := make(chan struct{})
			var once sync.Once
			var members sync.WaitGroup
			n := 0
			var mu sync.Mutex
			members.Go(func() {
				err := bus.Subscribe(context.Background(), testTopic, "workers", func(ctx context.Context, m broker.Message) error {
					mu.Lock()
					n++
					interrupted := n > each
					mu.Unlock()
					if interrupted { // the work takes so long that it is interrupted
						once.Do(func() { close(some) })
						<-ctx.Done()
						return fmt.Errorf("crawl was cut off: %w", ctx.Err())
					}
					y.handle(m)
					return nil
				})
				if err != nil && !errors.Is(err, broker.ErrClosed) {
					t.Errorf("Subscribe: %v", err)
				}
			})
			testwait.Receive(t, some, "some messages")
			if err := bus.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			members.Wait()
		}
		subscribe(t, openBus(t, cfg), testTopic, "workers", func(_ context.Context, m broker.Message) error {
			y.handle(m)
			return nil
		})
		testwait.Receive(t, y.done, "all messages")
		if aside := all(t, cfg, broker.DeadLetterTopic(testTopic)); len(aside) > 0 {
			t.Errorf("%d messages were dead-lettered: %v", len(aside), aside[0].Metadata)
		}
	})
}

type crashCluster struct {
	Brokers []string
	Prefix  string
	Session time.Duration
}

// crashVariable passes the configuration to a process that will be killed.
const crashVariable = "KAFKA_TEST_CRASH"

// TestMain also runs the process that TestCrash_RepeatsButLosesNothing kills.
func TestMain(m *testing.M) {
	raw := os.Getenv(crashVariable)
	if raw == "" {
		os.Exit(m.Run())
	}
	cfg := kafka.Config{Topics: testTopics(), Partitions: 8}
	var at crashCluster
	if err := json.Unmarshal([]byte(raw), &at); err != nil {
		panic(err)
	}
	cfg.Brokers, cfg.TopicPrefix, cfg.SessionTimeout = at.Brokers, at.Prefix, at.Session
	transport, err := kafka.New(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	bus, err := broker.New(fast, transport)
	if err != nil {
		panic(err)
	}
	panic(bus.Subscribe(context.Background(), testTopic, "workers", func(_ context.Context, m broker.Message) error {
		fmt.Println(m.ID) // to a pipe, so that the parent gets the line before the message is acknowledged
		return nil
	}))
}

// Rule 6.
func TestCrash_RepeatsButLosesNothing(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		cfg := fakeConfig(cluster(t))
		cfg.SessionTimeout = 2 * time.Second // only here: a busy machine may delay a live member as long
		crashes(t, cfg)
	})
	t.Run("real", func(t *testing.T) { crashes(t, realConfig(t)) })
}

// crashes kills three members of a group in turn, and checks that a fourth handles what they have not.
func crashes(t *testing.T, cfg kafka.Config) {
	sent := spread(20, 10)
	publish(t, openBus(t, cfg), sent...)
	handled := map[string]bool{}
	for _, kill := range []int{1, 60, 30} {
		crash(t, cfg, kill, handled)
	}
	got := make(chan string, 1000)
	subscribe(t, openBus(t, cfg), testTopic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m.ID
		return nil
	})
	publish(t, openBus(t, cfg), numbered("last", 0))
	for !handled["last-0"] || len(handled) < len(sent)+1 {
		handled[testwait.Receive(t, got, fmt.Sprintf("the rest, after %d", len(handled)))] = true
	}
}

// crash starts a process, lets it handle some messages and kills it.
func crash(t *testing.T, cfg kafka.Config, after int, handled map[string]bool) {
	t.Helper()
	raw := testmust.Get(json.Marshal(crashCluster{cfg.Brokers, cfg.TopicPrefix, cfg.SessionTimeout}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	process := exec.CommandContext(ctx, os.Args[0])
	process.Stderr = t.Output()
	process.Env = append(os.Environ(), crashVariable+"="+string(raw))
	output := testmust.Get(process.StdoutPipe())(t)
	testmust.Succeed(t, process.Start())
	lines := bufio.NewScanner(output)
	for range after {
		if !lines.Scan() {
			t.Fatalf("the process ended early, or handled no message for %s", timeout)
		}
		handled[lines.Text()] = true
	}
	process.Process.Kill()
	process.Wait()
}
