package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"letterhead/eventschemas"
	"letterhead/internal/broker"
	letterhead "letterhead/internal/broker/kafka"
	"letterhead/internal/eventlog"
	"letterhead/internal/testservices"
)

const waitLimit = 30 * time.Second

// history returns the events of an account in the order of the log. Half of
// them are repeated, as after a restart of the relay.
func history(t *testing.T, account string) []broker.Message {
	t.Helper()
	var out []broker.Message
	for revision, ev := range []eventschemas.Event{
		eventschemas.CreditsGranted{GrantID: "g", Kind: "free", Credits: 50},
		eventschemas.CreditsHeld{HoldID: "h", Credits: 1, Deadline: time.Now().UTC()},
		eventschemas.CreditsCharged{ChargeID: "c", Credits: 1, RequestID: "r", BrandID: "b", Domain: "acme.com", HoldID: "h"},
		eventschemas.ChargeReversed{ChargeID: "c", Credits: 1, RequestID: "r", Reason: "client_gone"},
		eventschemas.PaymentRefunded{RefundID: "f", PaymentID: "p", Credits: 8},
	} {
		enc, err := eventschemas.Encode(ev)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, broker.Record(eventlog.Recorded{
			Proposed: eventlog.Proposed{ID: uuid.New(), Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: time.Now(), Data: enc.Data},
			Stream:   "account-" + account, Revision: uint64(revision), Position: eventlog.Position(revision + 1),
		}))
	}
	return append(out, out[2:]...)
}

func TestBooks_CreditsOfEveryAccount(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		follow(t, c.ListenAddrs())
	})
	t.Run("real", func(t *testing.T) { follow(t, strings.Split(testservices.Kafka(t), ",")) })
}

func follow(t *testing.T, brokers []string) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	prefix := "test-" + strings.ToLower(rand.Text()[:10]) + "."
	cfg := letterhead.Config{Brokers: brokers, TopicPrefix: prefix, Replication: 1, Topics: []letterhead.Topic{{Name: broker.Ledger, Partitions: 4, Record: true}}}
	transport, err := letterhead.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.Close()
	defer func() {
		client := &kafka.Client{Addr: kafka.TCP(brokers...)}
		client.DeleteTopics(context.WithoutCancel(ctx), &kafka.DeleteTopicsRequest{Topics: []string{cfg.KafkaTopic(broker.Ledger)}})
	}()
	accounts := []string{"one", "two", "three"}
	for _, account := range accounts {
		if err := transport.Records().Publish(ctx, broker.Ledger, history(t, account)...); err != nil {
			t.Fatal(err)
		}
	}
	reading, stop := context.WithCancel(ctx)
	lines, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(reading, brokers, cfg.KafkaTopic(broker.Ledger), prefix+"example", out)
		out.Close()
	}()
	want := map[string][]string{}
	for _, account := range accounts {
		for _, line := range []string{"CreditsGranted +50 credits, 50 in all", "CreditsCharged -1 credits, 49 in all", "ChargeReversed +1 credits, 50 in all", "PaymentRefunded -8 credits, 42 in all"} {
			want[account] = append(want[account], account+" "+line)
		}
	}
	scanner := bufio.NewScanner(lines)
	for range 4 * len(accounts) {
		if !scanner.Scan() {
			t.Fatalf("run ended early: %v", <-ended)
		}
		account, _, _ := strings.Cut(scanner.Text(), " ")
		if len(want[account]) == 0 || want[account][0] != scanner.Text() {
			t.Fatalf("printed %q, want one of %v", scanner.Text(), want)
		}
		want[account] = want[account][1:]
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func message(partition int, offset int64, stream string, revision int, eventType, data string) kafka.Message {
	m := kafka.Message{Partition: partition, Offset: offset, Value: []byte(data)}
	for key, value := range map[string]string{"event_id": "id", "stream": stream, "revision": fmt.Sprint(revision), "event_type": eventType} {
		m.Headers = append(m.Headers, kafka.Header{Key: key, Value: []byte(value)})
	}
	return m
}

// After a rebalance kafka-go may return messages that are older than the processed ones.
func TestTake_StaleMessage_ChangesNothing(t *testing.T) {
	b := newBooks()
	take := func(m kafka.Message) string {
		t.Helper()
		line, err := b.take(m)
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	take(message(0, 5, "account-a", 0, "CreditsGranted", `{"credits":5}`))
	take(message(0, 6, "account-b", 0, "CreditsGranted", `{"credits":5}`))
	if line := take(message(0, 5, "account-new", 0, "CreditsGranted", `{"credits":5}`)); line != "" {
		t.Errorf("a message before the processed offset changed %q, want %q", line, "")
	}
	if line := take(message(1, 5, "account-c", 0, "CreditsGranted", `{"credits":7}`)); line != "c CreditsGranted +7 credits, 7 in all" {
		t.Errorf("another partition: %q, want %q", line, "c CreditsGranted +7 credits, 7 in all")
	}
	if line := take(message(0, 7, "account-a", 0, "CreditsGranted", `{"credits":5}`)); line != "" || b.credits["a"] != 5 {
		t.Errorf("a repeat changed %q", line)
	}
	if line := take(message(0, 8, "usage-a-202611", 0, "UsageTicked", `{}`)); line != "" {
		t.Errorf("usage changed %q, want %q", line, "")
	}
	if line := take(message(0, 9, "account-a", 1, "SomethingNew", `[]`)); line != "" {
		t.Errorf("an unknown type changed %q, want %q", line, "")
	}
	if _, err := b.take(message(0, 10, "account-a", 3, "CreditsCharged", `{"credits":1}`)); err == nil {
		t.Error("a gap in a stream went unnoticed")
	}
	if _, err := b.take(message(0, 11, "account-a", 2, "CreditsCharged", `{"credits":"1"}`)); !errors.Is(err, errSchema) {
		t.Errorf("bad data: %v, want errSchema", err)
	}
}
