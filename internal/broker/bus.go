package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// Defaults of Config.
const (
	// DefaultRetries is how often a message is retried before it is dead-lettered.
	DefaultRetries = 3
	// DefaultRetryAfter is the wait before the first retry. Each further wait is retryGrowth times longer.
	DefaultRetryAfter = 100 * time.Millisecond
	// DefaultMaxRetryAfter limits the wait between two retries. Retries block all keys in the message's
	// partition, so all waits together must take only a few seconds.
	DefaultMaxRetryAfter = 2 * time.Second
)

const (
	retryGrowth = 3.0
	// maxReasonBytes limits the recorded reason of a dead letter, so that the message fits into its topic.
	maxReasonBytes = 2 << 10
	// metaKey carries a message's key through transports that support metadata only.
	metaKey = "letterhead_key"
)

// Transport is the part of a watermill pub/sub that a Bus needs.
type Transport interface {
	// Publish sends messages in order and returns when they are safe. KeyOf returns the key of a message.
	// Publish uses the context of the messages.
	Publish(topic string, messages ...*message.Message) error
	// Subscribe delivers a topic's messages to a member of a consumer group until ctx ends: one message per key at
	// a time, and the next only after an ack. After a nack it redelivers the message.
	Subscribe(ctx context.Context, topic, group string) (<-chan *message.Message, error)
	// Close waits for running work.
	Close() error
}

// KeyOf returns the key of a message published by a Bus, for the transport's partitioning.
func KeyOf(m *message.Message) string { return m.Metadata.Get(metaKey) }

// Config configures a Bus.
type Config struct {
	// Retries is how often a message is retried before it is dead-lettered (DefaultRetries).
	Retries int
	// RetryAfter is the wait before the first retry (DefaultRetryAfter).
	RetryAfter time.Duration
	// MaxRetryAfter limits the wait between two retries (DefaultMaxRetryAfter).
	MaxRetryAfter time.Duration

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
}

func (c *Config) setDefaults() {
	c.Retries = cmp.Or(c.Retries, DefaultRetries)
	c.RetryAfter = cmp.Or(c.RetryAfter, DefaultRetryAfter)
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, max(DefaultMaxRetryAfter, c.RetryAfter))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// Bus implements Port on top of a watermill transport.
type Bus struct {
	cfg       Config
	transport Transport
	handled   *prometheus.CounterVec

	mu      sync.Mutex
	closing bool
	running sync.WaitGroup
	ending  context.Context
	end     context.CancelFunc
}

var _ Port = (*Bus)(nil)

// New returns a Bus on top of a transport. The Bus closes the transport.
func New(cfg Config, transport Transport) (*Bus, error) {
	cfg.setDefaults()
	b := &Bus{cfg: cfg, transport: transport, handled: telemetry.Counters("letterhead_broker_messages_total",
		"Messages handled, by topic (label lane), group and result: acknowledged, retried, set_aside, returned.",
		"lane", "group", "result")}
	// Subscriptions outlive this call; Close ends them.
	b.ending, b.end = context.WithCancel(context.Background())
	if err := telemetry.Register(cfg.Registerer, b.handled); err != nil {
		return nil, fmt.Errorf("register broker metrics: %w", err)
	}
	return b, nil
}

// Publish implements Port.
func (b *Bus) Publish(ctx context.Context, topic string, messages ...Message) error {
	out := make([]*message.Message, len(messages))
	for i, m := range messages {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("publish to %s: %w", topic, err)
		}
		w := message.NewMessageWithContext(ctx, m.ID, m.Payload)
		for k, v := range m.Metadata {
			w.Metadata.Set(k, v)
		}
		w.Metadata.Set(metaKey, m.Key)
		out[i] = w
	}
	if err := b.enter(); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	defer b.running.Done()
	if err := b.transport.Publish(topic, out...); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// Subscribe implements Port.
func (b *Bus) Subscribe(ctx context.Context, topic, group string, handle Handler) error {
	if err := b.enter(); err != nil {
		return fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	defer b.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.ending, cancel)()

	if group == "" {
		return fmt.Errorf("subscribe to %s: a consumer group needs a name", topic)
	}
	in, err := b.transport.Subscribe(ctx, topic, group)
	if err != nil {
		return fmt.Errorf("subscribe %s to %s: %w", group, topic, err)
	}
	process, err := b.chain(ctx, topic, group, handle)
	if err != nil {
		return fmt.Errorf("subscribe %s to %s: %w", group, topic, err)
	}
	// The number of handlers is limited because the transport delivers one message per partition at a time.
	var handlers sync.WaitGroup
	for m := range in {
		handlers.Go(func() { b.handle(m, topic, group, process) })
	}
	handlers.Wait()
	return nil
}

// chain wraps the middleware around a handler. The poison middleware must be outside the retries, because
// otherwise it would dead-letter a message after the first failure.
func (b *Bus) chain(ctx context.Context, topic, group string, handle Handler) (message.HandlerFunc, error) {
	// If the subscription ended or a dependency is unavailable, the message is not bad.
	bad := func(err error) bool {
		return ctx.Err() == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotNow)
	}
	deadLetter, err := middleware.PoisonQueueWithFilter(deadLetterer{b, topic, group}, DeadLetterTopic(topic), bad)
	if err != nil {
		return nil, err
	}
	retry := middleware.Retry{
		MaxRetries:      b.cfg.Retries,
		InitialInterval: b.cfg.RetryAfter,
		MaxInterval:     b.cfg.MaxRetryAfter,
		Multiplier:      retryGrowth,
		ShouldRetry: func(p middleware.RetryParams) bool {
			again := bad(p.Err) && !errors.Is(p.Err, ErrUnreadable)
			if again && p.RetryNum < b.cfg.Retries {
				b.handled.WithLabelValues(topic, group, "retried").Inc()
			}
			return again
		},
		// Without this a context that the middleware of one attempt canceled would fail all later attempts.
		ResetContextOnRetry: true,
	}
	h := func(m *message.Message) ([]*message.Message, error) {
		if reason := m.Metadata.Get(metaUnreadable); reason != "" {
			return nil, fmt.Errorf("%w: %s", ErrUnreadable, reason)
		}
		return nil, handle(m.Context(), received(m))
	}
	return deadLetter(retry.Middleware(middleware.Recoverer(h))), nil
}

// handle processes one message and acks or nacks it.
func (b *Bus) handle(m *message.Message, topic, group string, process message.HandlerFunc) {
	_, err := process(m)
	if err != nil {
		b.handled.WithLabelValues(topic, group, "returned").Inc()
		b.cfg.Logger.Info("message returned to its topic", "topic", topic, "group", group,
			"message_id", m.UUID, "error", err)
		m.Nack()
		return
	}
	b.handled.WithLabelValues(topic, group, "acknowledged").Inc()
	m.Ack()
}

// Close implements Port.
func (b *Bus) Close() error {
	b.mu.Lock()
	again := b.closing
	b.closing = true
	b.mu.Unlock()
	if again {
		return nil
	}
	b.end()
	err := b.transport.Close()
	b.running.Wait()
	return err
}

func (b *Bus) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return ErrClosed
	}
	b.running.Add(1)
	return nil
}

// deadLetterer publishes a message that could not be handled to its dead-letter topic. It adds the metadata
// itself, because the middleware's own metadata requires watermill's router.
type deadLetterer struct {
	bus          *Bus
	topic, group string
}

func (p deadLetterer) Publish(to string, messages ...*message.Message) error {
	for _, m := range messages {
		reason := m.Metadata.Get(middleware.ReasonForPoisonedKey)
		out := message.NewMessageWithContext(m.Context(), m.UUID, m.Payload)
		for k, v := range received(m).Metadata {
			out.Metadata.Set(k, v)
		}
		out.Metadata.Set(metaKey, KeyOf(m))
		out.Metadata.Set(MetaReason, clip(reason, maxReasonBytes))
		out.Metadata.Set(MetaTopic, p.topic)
		out.Metadata.Set(MetaGroup, p.group)
		if err := p.bus.transport.Publish(to, out); err != nil {
			return err
		}
		p.bus.handled.WithLabelValues(p.topic, p.group, "set_aside").Inc()
		p.bus.cfg.Logger.Error("message is dead-lettered", "topic", p.topic, "group", p.group,
			"message_id", m.UUID, "error", reason)
	}
	return nil
}

func (deadLetterer) Close() error { return nil }

// received converts a delivered message to a Message and removes internal metadata.
func received(m *message.Message) Message {
	out := Message{ID: m.UUID, Key: KeyOf(m), Payload: m.Payload, Metadata: map[string]string{}}
	for k, v := range m.Metadata {
		switch k {
		case metaKey, metaUnreadable, middleware.ReasonForPoisonedKey, middleware.PoisonedTopicKey,
			middleware.PoisonedHandlerKey, middleware.PoisonedSubscriberKey:
		default:
			out.Metadata[k] = v
		}
	}
	return out
}

var _ message.Publisher = deadLetterer{}
