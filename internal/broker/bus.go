package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
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
	retryGrowth = 3
	// maxReasonBytes limits the recorded reason of a dead letter, so that the message fits into its topic.
	maxReasonBytes = 2 << 10
)

// Transport carries the messages of a Bus.
type Transport interface {
	// Publish sends messages in order and returns when they are safe.
	Publish(ctx context.Context, topic string, messages ...Message) error
	// Subscribe delivers messages to a member of a group until ctx ends, then waits for running deliveries and returns
	// nil. It delivers one message per key at a time, and the next only after deliver has returned nil; after an error
	// it delivers the message again. The context of a delivery ends with the subscription.
	Subscribe(ctx context.Context, topic, group string, deliver Handler) error
	// Close waits for running work.
	Close() error
}

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

// Bus implements Port on top of a transport.
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
	b := &Bus{cfg: cfg, transport: transport, handled: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "letterhead_broker_messages_total",
		Help: "Messages handled, by topic (label lane), group and result: acknowledged, retried, set_aside, returned.",
	}, []string{"lane", "group", "result"})}
	// Subscriptions outlive this call; Close ends them.
	b.ending, b.end = context.WithCancel(context.Background())
	if err := telemetry.Register(cfg.Registerer, b.handled); err != nil {
		return nil, fmt.Errorf("register broker metrics: %w", err)
	}
	return b, nil
}

func (b *Bus) Publish(ctx context.Context, topic string, messages ...Message) error {
	for _, m := range messages {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("publish to %s: %w", topic, err)
		}
	}
	err := b.enter()
	if err == nil {
		defer b.running.Done()
		err = b.transport.Publish(ctx, topic, messages...)
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

func (b *Bus) Subscribe(ctx context.Context, topic, group string, handle Handler) error {
	err := b.enter()
	if err == nil {
		defer b.running.Done()
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.ending, cancel)()
		s := subscription{b, topic, group, handle}
		err = b.transport.Subscribe(ctx, topic, group, s.deliver)
	}
	if err != nil {
		return fmt.Errorf("subscribe %s to %s: %w", group, topic, err)
	}
	return nil
}

// subscription handles the messages of a topic for a group.
type subscription struct {
	*Bus
	topic, group string
	handle       Handler
}

// deliver handles a message, with retries, and dead-letters one that stays bad. It returns an error if the message must
// return to its topic.
func (s subscription) deliver(ctx context.Context, m Message) error {
	err := s.attempts(ctx, m)
	if err != nil && isBad(ctx, err) {
		err = s.deadLetter(ctx, m, err)
	}
	if err != nil {
		s.count("returned")
		s.cfg.Logger.Info("message returned to its topic", "topic", s.topic, "group", s.group,
			"message_id", m.ID, "error", err)
		return err
	}
	s.count("acknowledged")
	return nil
}

func (s subscription) count(result string) { s.handled.WithLabelValues(s.topic, s.group, result).Inc() }

// isBad reports whether an error means that the message is bad, and not that the subscription ended or that a
// dependency is unavailable.
func isBad(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotNow)
}

// attempts calls the handler until it succeeds, or returns its last error.
func (s subscription) attempts(ctx context.Context, m Message) error {
	wait := s.cfg.RetryAfter
	for n := 0; ; n++ {
		err := s.attempt(ctx, m)
		if err == nil || n == s.cfg.Retries || !isBad(ctx, err) || errors.Is(err, ErrUnreadable) {
			return err
		}
		s.count("retried")
		if delay.For(ctx, wait) != nil {
			return err
		}
		wait = min(retryGrowth*wait, s.cfg.MaxRetryAfter)
	}
}

// attempt calls the handler once. A panic is an error.
func (s subscription) attempt(ctx context.Context, m Message) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	if reason := m.Metadata[metaUnreadable]; reason != "" {
		return fmt.Errorf("%w: %s", ErrUnreadable, reason)
	}
	m.Metadata = maps.Clone(m.Metadata)
	return s.handle(ctx, m)
}

// deadLetter publishes a message that could not be handled to its dead-letter topic.
func (s subscription) deadLetter(ctx context.Context, m Message, reason error) error {
	metadata := map[string]string{MetaReason: clip(reason.Error(), maxReasonBytes), MetaTopic: s.topic,
		MetaGroup: s.group}
	for k, v := range m.Metadata {
		if _, ours := metadata[k]; !ours && k != metaUnreadable {
			metadata[k] = v
		}
	}
	m.Metadata = metadata
	if err := s.transport.Publish(ctx, DeadLetterTopic(s.topic), m); err != nil {
		return errors.Join(reason, err)
	}
	s.count("set_aside")
	s.cfg.Logger.Error("message is dead-lettered", "topic", s.topic, "group", s.group, "message_id", m.ID,
		"error", metadata[MetaReason])
	return nil
}

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
