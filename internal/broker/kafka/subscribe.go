package kafka

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"letterhead/internal/broker"
	"letterhead/internal/delay"
)

const (
	// rebalanceTimeout limits how long running handlers may delay a rebalance. A member whose handler takes
	// longer loses its partitions and rejoins.
	rebalanceTimeout = 15 * time.Second
	// Minimum and maximum wait before another attempt to reach the brokers.
	reconnectAfter    = 500 * time.Millisecond
	maxReconnectAfter = 5 * time.Second
)

// Subscribe implements broker.Transport. It returns immediately. The subscription continues until ctx ends, even while
// the brokers are unreachable. In Kafka the name of the group has the same prefix as topics.
func (t *Transport) Subscribe(ctx context.Context, topic, group string) (<-chan *message.Message, error) {
	name, err := t.topicName(topic)
	if err != nil {
		return nil, err
	}
	config, err := t.cfg.consumerConfig()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing {
		return nil, broker.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	from, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{
		Brokers: t.cfg.Brokers, Unmarshaler: format{}, ConsumerGroup: t.cfg.TopicPrefix + group,
		OverwriteSaramaConfig: config, NackResendSleep: t.cfg.RedeliverAfter, ReconnectRetrySleep: reconnectAfter,
	}, holdingLogger{quietLogger{t.cfg.Logger, t.outage}, ctx, new(atomic.Int64)})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribe to kafka: %w", err)
	}
	t.lag.follow(topic, group)
	stop := context.AfterFunc(t.ending, cancel)
	out := make(chan *message.Message)
	t.subscriptions.Go(func() {
		defer cancel()
		defer stop()
		defer close(out)
		d := &delivery{topic: name, out: out, maxWait: closeTimeout, logger: t.cfg.Logger, outage: t.outage}
		d.run(ctx, from)
	})
	return out, nil
}

// delivery forwards the messages of one subscription from watermill to the Bus, so that the
// subscription ends gracefully. When its context ends, watermill would drop pending messages and leave
// the group immediately, and another member would get messages whose handlers are still running here.
type delivery struct {
	topic    string
	out      chan<- *message.Message
	maxWait  time.Duration
	logger   *slog.Logger
	outage   *outage
	underWay sync.WaitGroup
}

func (d *delivery) run(ctx context.Context, from *wkafka.Subscriber) {
	// inner ends after the handlers have ended.
	inner, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		leave()
		if err := from.Close(); err != nil {
			d.logger.Warn("kafka: closing a subscription failed", "topic", d.topic, "error", err)
		}
	}()
	in := d.connect(ctx, inner, from)
	if in == nil {
		return
	}
	for {
		select {
		case m, open := <-in:
			if !open || !d.forward(ctx, m) {
				d.drain()
				return
			}
		case <-ctx.Done():
			d.drain()
			return
		}
	}
}

// connect subscribes and retries until it succeeds. It returns nil if ctx ends.
func (d *delivery) connect(ctx, inner context.Context, from *wkafka.Subscriber) <-chan *message.Message {
	for wait := reconnectAfter; ; wait = min(2*wait, maxReconnectAfter) {
		in, err := from.Subscribe(inner, d.topic)
		if err == nil {
			return in
		}
		d.outage.failed("subscribe to "+d.topic, err)
		if delay.For(ctx, wait) != nil {
			return nil
		}
	}
}

// forward delivers one message. It returns false if ctx ended before the message was received.
func (d *delivery) forward(ctx context.Context, m *message.Message) bool {
	of, cancel := context.WithCancel(m.Context()) // ends with the subscription, or with watermill's context
	stop := context.AfterFunc(ctx, cancel)
	m.SetContext(of)
	if delay.Send(ctx, d.out, m) != nil {
		stop()
		cancel()
		return false
	}
	d.underWay.Go(func() {
		defer cancel()
		defer stop()
		select {
		case <-m.Acked():
		case <-m.Nacked():
		}
	})
	return true
}

// drain waits for running handlers, up to a limit.
func (d *delivery) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), d.maxWait) // that of the subscription has ended
	defer cancel()
	if delay.Await(ctx, func() error { d.underWay.Wait(); return nil }) != nil {
		d.logger.Warn(
			"kafka: a handler is still running after the end of its subscription; its message will be redelivered",
			"topic", d.topic)
	}
}

// holdingLogger is the logger of one subscription. It slows down rejoining: after a failure watermill rejoins a group
// immediately, so a group without permission would keep a processor busy and fill the log. The only place where a delay
// can be inserted is the message that watermill logs after the failure.
type holdingLogger struct {
	quietLogger
	ctx      context.Context // of the subscription
	failures *atomic.Int64   // since the last received message
}

// groupFailed is the message that watermill 3.1 logs when joining or reading a group failed.
const groupFailed = "Group consume error"

// Error implements watermill.LoggerAdapter.
func (l holdingLogger) Error(msg string, err error, fields watermill.LogFields) {
	l.quietLogger.Error(msg, err, fields)
	if msg != groupFailed {
		return
	}
	_ = delay.For(l.ctx, min(reconnectAfter<<min(l.failures.Add(1)-1, maxDoublings), maxReconnectAfter))
}

// maxDoublings prevents an overflow before the wait is limited.
const maxDoublings = 10

// Trace implements watermill.LoggerAdapter: it is called for each received message.
func (l holdingLogger) Trace(string, watermill.LogFields) { l.failures.Store(0) }

// With implements watermill.LoggerAdapter.
func (l holdingLogger) With(watermill.LogFields) watermill.LoggerAdapter { return l }

// format converts between messages of a Bus and of Kafka.
type format struct{}

var _ wkafka.MarshalerUnmarshaler = format{}

// Marshal implements wkafka.Marshaler. The key determines the partition.
func (format) Marshal(topic string, m *message.Message) (*sarama.ProducerMessage, error) {
	out, err := wkafka.DefaultMarshaler{}.Marshal(topic, m)
	if err != nil {
		return nil, err
	}
	out.Key = sarama.StringEncoder(broker.KeyOf(m))
	return out, nil
}

// Unmarshal implements wkafka.Unmarshaler. It never fails, because after an error watermill would leave
// the group and read the same message again, forever. A message that no Bus published is converted by
// broker.Unreadable, so that the Bus dead-letters it.
func (format) Unmarshal(in *sarama.ConsumerMessage) (*message.Message, error) {
	var id string
	meta := map[string]string{}
	kept := 0
	for _, h := range in.Headers {
		switch {
		case h == nil:
		case string(h.Key) == wkafka.UUIDHeaderKey:
			id = string(h.Value)
		case kept < maxHeaders:
			meta[string(h.Key)] = string(h.Value)
			kept++
		}
	}
	m := message.NewMessage(id, in.Value)
	m.Metadata = meta
	if reason := unreadable(in, m); reason != "" {
		source := fmt.Sprintf("%s/%d/%d", in.Topic, in.Partition, in.Offset)
		key := cmp.Or(string(in.Key), source)
		if id == "" || len(id) > broker.MaxKeyBytes {
			id = source
		}
		return broker.Unreadable(id, key, in.Value, reason+" (at "+source+")"), nil
	}
	return m, nil
}

// maxHeaders limits the headers of a message. It is enough for the maximum metadata and the headers of the Bus.
const maxHeaders = broker.MaxMetadata + 8

// unreadable returns the reason why a message cannot have been published by a Bus, or "".
func unreadable(in *sarama.ConsumerMessage, m *message.Message) string {
	switch key := broker.KeyOf(m); {
	case m.UUID == "":
		return "it has no message id"
	case key == "":
		return "it has no key of ours"
	case len(key) > broker.MaxKeyBytes:
		return "its key is too long"
	case len(in.Value) > broker.MaxPayloadBytes:
		return "its payload is too large"
	case len(in.Headers) > maxHeaders:
		return "it has too many headers"
	}
	return ""
}
