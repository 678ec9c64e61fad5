package kafka_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
	"letterhead/internal/testwait"
)

// behind is a broker's listener that reports the address of a link, so that the broker advertises that
// address to its clients.
type behind struct {
	net.Listener
	address net.Addr
}

// Addr implements net.Listener.
func (b behind) Addr() net.Addr { return b.address }

// startLinked starts a cluster of one broker in this process. Clients reach it through the link.
func startLinked(t *testing.T) (*testlink.Link, *kfake.Cluster) {
	var link *testlink.Link
	c := cluster(t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		link = testlink.Through(t, l.Addr().String())
		at, err := net.ResolveTCPAddr(network, link.Address())
		return behind{l, at}, err
	}))
	t.Cleanup(link.Resume) // before the cluster closes
	return link, c
}

// all reads a topic from its beginning to its end.
func all(t *testing.T, cfg kafka.Config, topic string) []kafka.Read {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var out []kafka.Read
	err := kafka.ReadTopic(ctx, cfg, topic, kafka.ReadOptions{FromBeginning: true}, func(m kafka.Read) error {
		out = append(out, m)
		return nil
	})
	testmust.Succeed(t, err)
	return out
}

// The connection breaks between the broker's write and its acknowledgement. The producer resends the
// message, and the broker recognizes the repeat.
func TestPublish_LostAcknowledgement_RepeatsNothing(t *testing.T) {
	link, c := startLinked(t)
	cfg := fakeConfig(c)
	bus := openBus(t, cfg)
	publish(t, bus, numbered("a", 0))
	lost := 0
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		if lost == 0 {
			link.Swallow(1, func([]byte) bool { return true })
			lost++
		}
		return nil, nil, false
	})
	publish(t, bus, numbered("a", 1))
	publish(t, bus, numbered("a", 2))
	got := all(t, cfg, testTopic)
	if len(got) != 3 || lost != 1 {
		t.Fatalf("the topic contains %d messages after %d lost acknowledgements, want 3 after 1", len(got), lost)
	}
	for i, m := range got {
		if want := string(numbered("a", i).Payload); string(m.Payload) != want {
			t.Errorf("message %d is %s", i, m.Payload)
		}
	}
}

func TestPublish_HungBroker_EndsWithContext(t *testing.T) {
	link, c := startLinked(t)
	transport := open(t, fakeConfig(c))
	bus := testmust.Get(broker.New(fast, transport))(t)
	defer bus.Close()
	publish(t, bus, numbered("a", 0))
	link.Hang()
	for topic, publish := range map[string]func(context.Context, string, ...broker.Message) error{
		testTopic: bus.Publish, broker.Ledger: transport.Records().Publish,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- publish(ctx, topic, numbered("a", 1), numbered("b", 1)) }()
		if err := testwait.Receive(t, done, "Publish"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want context.DeadlineExceeded", topic, err)
		}
		cancel()
	}
	link.Resume()
	got := make(chan string, 8)
	subscribe(t, bus, testTopic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m.ID
		return nil
	})
	publish(t, bus, numbered("last", 0))
	for testwait.Receive(t, got, "a message after the broker came back") != "last-0" {
	}
}

func TestSubscribe_BrokerDown_Reconnects(t *testing.T) {
	link, c := startLinked(t)
	bus := openBus(t, fakeConfig(c))
	publish(t, bus, numbered("a", 0))
	got := make(chan string, 8)
	link.Refuse()
	subscribe(t, bus, testTopic, "workers", func(_ context.Context, m broker.Message) error {
		got <- m.ID
		return nil
	})
	link.Resume()
	if id := testwait.Receive(t, got, "the message before"); id != "a-0" {
		t.Errorf("got %s", id)
	}
	link.Refuse() // close the connections of the member
	link.Resume()
	publish(t, bus, numbered("a", 1))
	for testwait.Receive(t, got, "the message after") != "a-1" {
	}
}

// Messages of other programs are dead-lettered with a reason, and the messages after them are handled.
func TestForeignMessages_AreDeadLettered(t *testing.T) {
	both(t, func(t *testing.T, config func(t *testing.T) kafka.Config) {
		cfg := config(t)
		bus := openBus(t, cfg)
		client := &kafkago.Client{Addr: kafkago.TCP(cfg.Brokers...), Transport: new(kafkago.Transport)}
		defer client.Transport.(*kafkago.Transport).CloseIdleConnections()
		large := make([]byte, broker.MaxPayloadBytes+1)
		answer, err := client.Produce(t.Context(), &kafkago.ProduceRequest{
			Topic: cfg.KafkaTopic(testTopic), Partition: 0, RequiredAcks: kafkago.RequireAll,
			Records: kafkago.NewRecordReader(
				kafkago.Record{}, // empty
				kafkago.Record{Key: kafkago.NewBytes([]byte("k")), Value: kafkago.NewBytes([]byte("{}"))},
				kafkago.Record{Key: kafkago.NewBytes([]byte("k")), Value: kafkago.NewBytes(large), Headers: []kafkago.Header{
					{Key: "_watermill_message_uuid", Value: []byte("id")}, {Key: "letterhead_key", Value: []byte("k")}}},
			),
		})
		if err != nil || answer.Error != nil {
			t.Fatal(err, answer)
		}
		var good []broker.Message // at least one is in the partition of the bad messages
		for i := range 32 {
			good = append(good, numbered("good"+string(rune('a'+i)), 0))
		}
		publish(t, bus, good...)
		got := make(chan string, 64)
		subscribe(t, bus, testTopic, "workers", func(_ context.Context, m broker.Message) error {
			got <- m.ID
			return nil
		})
		for seen := map[string]bool{}; len(seen) < len(good); {
			id := testwait.Receive(t, got, "the good messages")
			if !strings.HasPrefix(id, "good") {
				t.Fatalf("a handler received %q", id)
			}
			seen[id] = true
		}
		aside := make(chan broker.Message, 8)
		subscribe(t, bus, broker.DeadLetterTopic(testTopic), "inspection", func(_ context.Context, m broker.Message) error {
			aside <- m
			return nil
		})
		for _, want := range []string{"no message id", "no message id", "too large"} {
			m := testwait.Receive(t, aside, "a dead letter")
			if !strings.Contains(m.Metadata[broker.MetaReason], want) || m.ID == "" || m.Key == "" || len(m.Payload) > broker.MaxPayloadBytes {
				t.Errorf("the dead letter is %.40q for %q with %d bytes, want %q", m.ID, m.Metadata[broker.MetaReason], len(m.Payload), want)
			}
			if want == "too large" && m.Metadata[broker.MetaBytes] == "" {
				t.Error("the dead letter has no original payload length")
			}
		}
	})
}

func produceFault(topic string, partitions []int32, err *kerr.Error, count int) kfake.Fault {
	return kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: partitions, Err: err, Count: count}
}
