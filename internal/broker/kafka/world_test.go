package kafka_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
	"letterhead/internal/testwait"
)

// timeout limits the wait for an expected event.
const timeout = testwait.Timeout

// cluster starts a Kafka cluster in this process. It allows short session timeouts, so that a test need
// not wait long for the detection of dead members.
func cluster(t *testing.T, more ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"default.replication.factor": "1"}),
	}, more...)...)
	testmust.Succeed(t, err)
	t.Cleanup(c.Close)
	return c
}

// testTopic is an additional topic of work for tests.
const testTopic = "contract.live"

func testTopics() []kafka.Topic {
	return []kafka.Topic{{Name: testTopic}, {Name: broker.Ledger, Record: true}}
}

// fakeConfig returns the configuration for a cluster in this process.
func fakeConfig(c *kfake.Cluster) kafka.Config {
	return kafka.Config{
		Brokers: c.ListenAddrs(), TopicPrefix: prefix(), Topics: testTopics(), Partitions: 8,
		RedeliverAfter: time.Millisecond,
	}
}

// realConfig returns a configuration for the real Kafka. The topics are removed at the end of the test.
func realConfig(t *testing.T) kafka.Config {
	t.Helper()
	cfg := kafka.Config{
		Brokers: strings.Split(testservices.Kafka(t), ","), TopicPrefix: prefix(), Topics: testTopics(), Partitions: 8,
		RedeliverAfter: time.Millisecond,
	}
	removeTopics(t, cfg)
	return cfg
}

func prefix() string { return "test-" + strings.ToLower(rand.Text()[:10]) + "." }

func removeTopics(t testing.TB, cfg kafka.Config) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		client := &kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...), Transport: new(kafkago.Transport)}
		defer client.Transport.(*kafkago.Transport).CloseIdleConnections()
		meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{})
		if err != nil {
			t.Errorf("list topics: %v", err)
			return
		}
		var names []string
		for _, topic := range meta.Topics {
			if strings.HasPrefix(topic.Name, cfg.TopicPrefix) {
				names = append(names, topic.Name)
			}
		}
		if len(names) > 0 {
			if _, err := client.DeleteTopics(ctx, &kafkago.DeleteTopicsRequest{Topics: names}); err != nil {
				t.Errorf("remove topics: %v", err)
			}
		}
	})
}

// both runs a test against the Kafka cluster in this process and against the real Kafka.
func both(t *testing.T, run func(t *testing.T, config func(t *testing.T) kafka.Config)) {
	t.Run("in process", func(t *testing.T) {
		run(t, func(t *testing.T) kafka.Config { return fakeConfig(cluster(t)) })
	})
	t.Run("real", func(t *testing.T) {
		testservices.Kafka(t)
		run(t, realConfig)
	})
}

func open(t *testing.T, cfg kafka.Config) *kafka.Transport {
	t.Helper()
	if cfg.Logger == nil && testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	transport := testmust.Get(kafka.New(ctx, cfg))(t)
	t.Cleanup(func() { transport.Close() })
	return transport
}

// fast retries immediately.
var fast = broker.Config{Retries: 2, RetryAfter: time.Millisecond, MaxRetryAfter: time.Millisecond}

func openBus(t *testing.T, cfg kafka.Config) *broker.Bus {
	t.Helper()
	bus := testmust.Get(broker.New(fast, open(t, cfg)))(t)
	t.Cleanup(func() { bus.Close() })
	return bus
}

// subscribe handles messages of a topic in the background. stop ends the subscription and waits for it.
func subscribe(t *testing.T, bus *broker.Bus, topic, group string, handle broker.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := bus.Subscribe(ctx, topic, group, handle); err != nil {
			t.Errorf("subscribe %s to %s: %v", group, topic, err)
		}
	}()
	stop = func() {
		cancel()
		testwait.Receive(t, ended, "the end of a subscription")
	}
	t.Cleanup(stop)
	return stop
}

func numbered(key string, n int) broker.Message {
	return broker.Message{ID: fmt.Sprintf("%s-%d", key, n), Key: key, Payload: fmt.Appendf(nil, "%d", n)}
}

func publish(t *testing.T, bus broker.Port, messages ...broker.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	testmust.Succeed(t, bus.Publish(ctx, testTopic, messages...))
}
