package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/uuid"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/testmust"
)

func record(t *testing.T, to kafka.Records, messages ...broker.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return to.Publish(ctx, broker.Ledger, messages...)
}

// spread returns several messages for each of many keys, in an order that a log could have.
func spread(keys, each int) []broker.Message {
	var out []broker.Message
	for n := range each {
		for k := range keys {
			m := numbered(fmt.Sprintf("stream-%d", k), n)
			m.Metadata = map[string]string{broker.MetaRevision: fmt.Sprint(n)}
			out = append(out, m)
		}
	}
	return out
}

// inOrder checks that the first deliveries of each key are numbered 0, 1, 2…, and returns how many
// first deliveries and repeats there were.
func inOrder(t *testing.T, got []kafka.Read) (first, repeats int) {
	t.Helper()
	next := map[string]int{}
	for _, m := range got {
		var n int
		fmt.Sscan(string(m.Payload), &n)
		switch {
		case n == next[m.Key]:
			next[m.Key]++
			first++
		case n < next[m.Key]:
			repeats++
		default:
			t.Errorf("key %s: %d was delivered before %d", m.Key, n, next[m.Key])
		}
	}
	return first, repeats
}

func TestRecords_RoundTrip(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		cfg := config(t)
		sent := broker.Message{ID: uuid.NewString(), Key: "account-1", Payload: []byte("{\"a\":\"\x00é\"}"), Metadata: map[string]string{"event_type": "X", "hash": "00"}}
		to := open(t, cfg).Records()
		testmust.Succeed(t, record(t, to, sent))
		large := broker.Message{ID: uuid.NewString(), Key: "account-1", Payload: make([]byte, broker.MaxPayloadBytes)}
		var many []broker.Message
		for range 20 { // more than fits into one request
			many = append(many, large)
		}
		testmust.Succeed(t, record(t, to, many...))
		got := all(t, cfg, broker.Ledger)
		if len(got) != 21 {
			t.Fatalf("the topic contains %d records, want 21", len(got))
		}
		if m := got[0]; m.ID != sent.ID || m.Key != sent.Key || string(m.Payload) != string(sent.Payload) || fmt.Sprint(m.Metadata) != fmt.Sprint(sent.Metadata) {
			t.Errorf("got %+v, want %+v", m.Message, sent)
		}
		if err := to.Publish(t.Context(), testTopic, sent); !errors.Is(err, kafka.ErrUnknownTopic) {
			t.Errorf("a topic of work accepted a record: %v", err)
		}
		if err := record(t, to, sent, broker.Message{ID: "no key"}); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("an invalid message was accepted: %v", err)
		}
		if n := len(all(t, cfg, broker.Ledger)); n != 21 {
			t.Errorf("%d records after a batch was rejected, want 21", n)
		}
	})
}

// If the leader of a partition moved, or an acknowledgement was lost after the write, only that
// partition is written again.
func TestRecords_FailedBatch_IsResentInOrder(t *testing.T) {
	for name, fault := range map[string]struct {
		err     *kerr.Error
		repeats bool
	}{
		"refused":                      {kerr.NotLeaderForPartition, false},
		"written but not acknowledged": {kerr.NotEnoughReplicasAfterAppend, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t)
			cfg := fakeConfig(c)
			to := open(t, cfg).Records()
			hit := c.Fault(produceFault(cfg.KafkaTopic(broker.Ledger), []int32{0}, fault.err, 2))
			sent := spread(40, 5)
			testmust.Succeed(t, record(t, to, sent...))
			first, repeats := inOrder(t, all(t, cfg, broker.Ledger))
			if first != len(sent) || (repeats > 0) != fault.repeats || hit.Hits() != 2 {
				t.Errorf("%d of %d records arrived, %d of them twice, after %d faults", first, len(sent), repeats, hit.Hits())
			}
		})
	}
}

func TestPublish_PartialFailure_ReportsUnsafeMessages(t *testing.T) {
	c := cluster(t)
	cfg := fakeConfig(c)
	to := open(t, cfg).Records()
	hit := c.Fault(produceFault(cfg.KafkaTopic(broker.Ledger), []int32{3}, kerr.TopicAuthorizationFailed, -1))
	sent := spread(40, 5)
	err := record(t, to, sent...)
	var partial *kafka.PublishError
	if !errors.As(err, &partial) || len(partial.Failed) == 0 || len(partial.Failed) == len(sent) {
		t.Fatalf("Publish = %v, want a *PublishError about some of the messages", err)
	}
	failed := map[string]bool{}
	for _, i := range partial.Failed {
		failed[sent[i].ID] = true
	}
	there := all(t, cfg, broker.Ledger)
	if len(there)+len(failed) != len(sent) {
		t.Errorf("%d messages arrived and %d failed of %d", len(there), len(failed), len(sent))
	}
	for _, m := range there {
		if failed[m.ID] || m.Partition == 3 {
			t.Errorf("%s arrived, although it was reported as failed", m.ID)
		}
	}
	hit.Remove()
	if err := record(t, to, sent...); err != nil { // publish all of them again, as a relay does
		t.Fatal(err)
	}
	if first, _ := inOrder(t, all(t, cfg, broker.Ledger)); first != len(sent) {
		t.Errorf("%d of %d records arrived after the repeat", first, len(sent))
	}
}

// Faults occur at any time, and the caller repeats whole batches. No message may be lost, and each key
// must keep its order.
func TestRecords_RandomFaults_LoseNothing(t *testing.T) {
	c := cluster(t)
	base := fakeConfig(c)
	rapid.Check(t, func(r *rapid.T) {
		cfg := base
		cfg.TopicPrefix = prefix()
		transport := testmust.Get(kafka.New(t.Context(), cfg))(r)
		defer transport.Close()
		keys, total := rapid.IntRange(1, 12).Draw(r, "keys"), 0
		var sent []broker.Message
		for n := range rapid.IntRange(1, 4).Draw(r, "batches") {
			for range rapid.IntRange(0, 3).Draw(r, "faults") {
				kind := rapid.SampledFrom([]*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicasAfterAppend, kerr.TopicAuthorizationFailed}).Draw(r, "kind")
				c.Fault(produceFault(cfg.KafkaTopic(broker.Ledger), []int32{rapid.Int32Range(0, 7).Draw(r, "partition")}, kind, 1))
			}
			sent = sent[:0]
			for k := range keys {
				sent = append(sent, numbered(fmt.Sprint("s", k), 2*n), numbered(fmt.Sprint("s", k), 2*n+1))
			}
			total += len(sent)
			for err := error(errors.New("not yet")); err != nil; {
				if err = transport.Records().Publish(t.Context(), broker.Ledger, sent...); err != nil && !errors.As(err, new(*kafka.PublishError)) {
					r.Fatal(err)
				}
			}
		}
		if first, _ := inOrder(t, all(t, cfg, broker.Ledger)); first != total {
			r.Fatalf("%d of %d records arrived", first, total)
		}
	})
}

// A key must be in the same partition of both kinds of topics.
func TestPartition_SameInBothClients(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		cfg := config(t)
		transport := open(t, cfg)
		bus := testmust.Get(broker.New(fast, transport))(t)
		defer bus.Close()
		sent := spread(200, 1)
		publish(t, bus, sent...)
		testmust.Succeed(t, record(t, transport.Records(), sent...))
		at, used := map[string]int{}, map[int]bool{}
		for _, m := range all(t, cfg, testTopic) {
			at[m.Key], used[m.Partition] = m.Partition, true
		}
		for _, m := range all(t, cfg, broker.Ledger) {
			if p, known := at[m.Key]; !known || p != m.Partition {
				t.Errorf("%s is in partition %d of one topic and %d of the other", m.Key, p, m.Partition)
			}
			hash := kafkago.Hash{}
			if want := hash.Balance(kafkago.Message{Key: []byte(m.Key)}, 0, 1, 2, 3, 4, 5, 6, 7); m.Partition != want {
				t.Errorf("%s is in partition %d, kafka-go puts it into %d", m.Key, m.Partition, want)
			}
		}
		if len(used) != 8 {
			t.Errorf("200 keys use %d of 8 partitions, want 8", len(used))
		}
	})
}
