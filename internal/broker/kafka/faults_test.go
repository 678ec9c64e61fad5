package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
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

// A broker that is down, with a publisher of each kind and two subscriptions that retry: the log has a line for each
// change of state, however many attempts fail.
func TestBrokerDown_LogsEachChangeOnce(t *testing.T) {
	link, c := startLinked(t)
	output := &everyLine{}
	cfg := fakeConfig(c)
	cfg.LagEvery, cfg.Logger = 500*time.Millisecond, slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: slog.LevelDebug}))
	transport := open(t, cfg)
	bus := testmust.Get(broker.New(fast, transport))(t)
	t.Cleanup(func() { bus.Close() })
	got := make(chan string, 64)
	for _, group := range []string{"one", "two"} {
		subscribe(t, bus, testTopic, group, func(_ context.Context, m broker.Message) error { got <- m.ID; return nil })
	}
	publish(t, bus, numbered("before", 0))
	for range 2 {
		testwait.Receive(t, got, "the message before")
	}
	for round := range 2 {
		link.Refuse()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for topic, publish := range map[string]func(context.Context, string, ...broker.Message) error{
			testTopic: bus.Publish, broker.Ledger: transport.Records().Publish,
		} {
			go func() {
				for { // as a relay
					err := publish(ctx, topic, numbered("during", round))
					if err == nil || ctx.Err() != nil {
						ended <- err
						return
					}
					if !errors.Is(err, broker.ErrUnavailable) {
						t.Errorf("publish to %s: %v, want broker.ErrUnavailable", topic, err)
					}
				}
			}()
		}
		if _, ok := testwait.Until(timeout, func() bool { return output.count("level=DEBUG", "kafka: publish to") >= 20*(round+1) }); !ok {
			t.Fatalf("few attempts failed:\n%s", output)
		}
		link.Resume()
		for range 2 {
			testmust.Succeed(t, testwait.Receive(t, ended, "the end of a publisher"))
			testwait.Receive(t, got, "the message during")
		}
		if _, ok := testwait.Until(timeout, func() bool { return output.count("kafka works again") > round }); !ok {
			t.Fatalf("the end of outage %d is not logged:\n%s", round, output)
		}
		cancel()
		down, up, all := output.count("level=WARN", "kafka does not work"), output.count("level=INFO", "kafka works again"), output.count("level=WARN")+output.count("level=INFO")+output.count("level=ERROR")
		if down != round+1 || up != round+1 || all != 2*(round+1) {
			t.Errorf("after outage %d: %d lines say that kafka does not work and %d that it works, of %d; want %d, %[5]d, and no other:\n%[6]s", round, down, up, all, round+1, output)
		}
	}
}

// everyLine collects the lines of a logger.
type everyLine struct {
	mu    sync.Mutex
	lines []string
}

// Write implements io.Writer.
func (e *everyLine) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, string(p))
	return len(p), nil
}

// String returns all lines.
func (e *everyLine) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, "")
}

// count returns the number of lines that contain all texts.
func (e *everyLine) count(texts ...string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, line := range e.lines {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}
