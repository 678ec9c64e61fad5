package kafka_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
)

func benchConfig(b *testing.B) kafka.Config {
	b.Helper()
	return kafka.Config{Brokers: strings.Split(testservices.Kafka(b), ","), TopicPrefix: prefix(), Topics: testTopics()}
}

func openBench(b *testing.B, cfg kafka.Config) *kafka.Transport {
	b.Helper()
	transport := testmust.Get(kafka.New(b.Context(), cfg))(b)
	b.Cleanup(func() { transport.Close() })
	return transport
}

// BenchmarkPublishToHandle measures the time from Publish to the handler for one message at a time, such as a
// crawl request for which a client waits.
func BenchmarkPublishToHandle(b *testing.B) {
	cfg := benchConfig(b)
	removeTopics(b, cfg)
	bus := testmust.Get(broker.New(broker.Config{}, openBench(b, cfg)))(b)
	defer bus.Close()
	got := make(chan string, 1)
	go bus.Subscribe(b.Context(), testTopic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m.ID
		return nil
	})
	once := func(n int) time.Duration {
		begun := time.Now()
		testmust.Succeed(b, bus.Publish(b.Context(), testTopic, numbered("warm"+strconv.Itoa(n), n)))
		<-got
		return time.Since(begun)
	}
	for n := range 50 {
		once(n)
	}
	var took []time.Duration
	for b.Loop() {
		took = append(took, once(len(took)))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkPublishMany publishes 256 messages with different keys concurrently, as a relay does that catches up.
func BenchmarkPublishMany(b *testing.B) {
	cfg := benchConfig(b)
	removeTopics(b, cfg)
	transport := openBench(b, cfg)
	bus := testmust.Get(broker.New(broker.Config{}, transport))(b)
	defer bus.Close()
	n := 0
	for b.Loop() {
		testmust.Succeed(b, bus.Publish(b.Context(), testTopic, spread(256, 1)...))
		n += 256
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkRecords publishes charges of 1,000 accounts in batches like those of the relay.
func BenchmarkRecords(b *testing.B) {
	cfg := benchConfig(b)
	removeTopics(b, cfg)
	to := openBench(b, cfg).Records()
	data := []byte(`{"charge_id":"0192f0c1-7d6b-7c3a-9d53-3a1f0f0a7a11","credits":1,"request_id":"0192f0c1-7d6b-7c3a-9d53-3a1f0f0a7a12","brand_id":"acme.com","domain":"acme.com","record_revision":3}`)
	var batch []broker.Message
	for i := range 4096 {
		batch = append(batch, broker.Record(eventlog.Recorded{
			Proposed: eventlog.Proposed{ID: uuid.New(), Type: "CreditsCharged", SchemaVersion: 1, OccurredAt: time.Now(), Data: data,
				Metadata: eventlog.Metadata{RequestID: uuid.NewString(), Actor: "account:0192f0c1", Hash: strings.Repeat("ab", 32)}},
			Stream: fmt.Sprint("account-", i%1000), Revision: uint64(i), Position: eventlog.Position(i),
		}))
	}
	n := 0
	for b.Loop() {
		testmust.Succeed(b, to.Publish(b.Context(), broker.Ledger, batch...))
		n += len(batch)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}
