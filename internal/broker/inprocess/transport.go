package inprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"letterhead/internal/broker"
)

// Defaults of Config.
const (
	// partitions is how many messages of one topic a group handles concurrently.
	partitions = 16
	// DefaultQueue limits the messages in a topic.
	DefaultQueue = 1024
	// DefaultRedeliverAfter is the wait before a nacked message is redelivered.
	DefaultRedeliverAfter = 100 * time.Millisecond
	// DefaultCloseTimeout limits how long Close waits for handlers.
	DefaultCloseTimeout = 10 * time.Second
	// DefaultKeep limits the messages that a dead-letter topic keeps; the oldest are dropped first.
	DefaultKeep = 1000
)

const (
	maxTopics = 1024
	maxGroups = 64 // of one topic
)

// Config configures a Transport.
type Config struct {
	// Queue limits the messages in a topic; Publish waits while it is full (DefaultQueue).
	Queue int
	// RedeliverAfter is the wait before a nacked message is redelivered.
	RedeliverAfter time.Duration
	// CloseTimeout limits how long Close waits for handlers. It also limits how long a message of an ended
	// subscription waits for its ack before another member receives it.
	CloseTimeout time.Duration
	// Keep limits the messages of each dead-letter topic (DefaultKeep).
	Keep int
}

func (c *Config) setDefaults() {
	c.Queue = cmp.Or(c.Queue, DefaultQueue)
	c.RedeliverAfter = cmp.Or(c.RedeliverAfter, DefaultRedeliverAfter)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, DefaultCloseTimeout)
	c.Keep = cmp.Or(c.Keep, DefaultKeep)
}

// Transport is the in-process transport.
type Transport struct {
	cfg     Config
	closing chan struct{} // no new work
	closed  chan struct{} // no more running work
	workers sync.WaitGroup

	mu     sync.Mutex
	topics map[string]*topic
}

var _ broker.Transport = (*Transport)(nil)

// New returns a Transport.
func New(cfg Config) *Transport {
	cfg.setDefaults()
	return &Transport{
		cfg:     cfg,
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
		topics:  map[string]*topic{},
	}
}

// Publish sends messages to a topic and returns when every group has acknowledged all of them. For a
// dead-letter topic it does not wait for groups. It returns early when the context of a message ends.
func (t *Transport) Publish(name string, messages ...*message.Message) error {
	to, err := t.topic(name)
	if err != nil {
		return err
	}
	entries := make([]*entry, 0, len(messages))
	for _, m := range messages {
		e, err := to.add(m)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if to.kept {
		return nil
	}
	for i, e := range entries {
		select {
		case <-e.done:
		case <-messages[i].Context().Done():
			return messages[i].Context().Err()
		case <-t.closed:
			select {
			case <-e.done: // acknowledged at the last moment
			default:
				return broker.ErrClosed
			}
		}
	}
	return nil
}

// Group returns the subscriber of a consumer group.
func (t *Transport) Group(name string) (message.Subscriber, error) {
	if name == "" {
		return nil, errors.New("a consumer group needs a name")
	}
	return groupSubscriber{t, name}, nil
}

type groupSubscriber struct {
	transport *Transport
	group     string
}

// Subscribe implements message.Subscriber.
func (s groupSubscriber) Subscribe(ctx context.Context, name string) (<-chan *message.Message, error) {
	t := s.transport
	from, err := t.topic(name)
	if err != nil {
		return nil, err
	}
	// Count as a worker while joining, so that Close does not return while workers start.
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.workers.Done()
	return from.join(ctx, s.group)
}

// Close implements message.Subscriber. Subscriptions end with their contexts, or with the transport.
func (groupSubscriber) Close() error { return nil }

// Close rejects new messages, waits for running handlers and ends all subscriptions.
func (t *Transport) Close() error {
	t.mu.Lock()
	select {
	case <-t.closing:
		t.mu.Unlock()
		<-t.closed
		return nil
	default:
	}
	close(t.closing)
	t.mu.Unlock()
	t.workers.Wait() // CloseTimeout limits each of them
	close(t.closed)
	return nil
}

// enter adds the caller to the workers that Close waits for, unless Close has begun.
func (t *Transport) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.closing:
		return broker.ErrClosed
	default:
		t.workers.Add(1)
		return nil
	}
}

func (t *Transport) topic(name string) (*topic, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-t.closing:
		return nil, broker.ErrClosed
	default:
	}
	if to, ok := t.topics[name]; ok {
		return to, nil
	}
	if len(t.topics) >= maxTopics {
		return nil, fmt.Errorf("no more than %d topics", maxTopics)
	}
	to := &topic{transport: t, name: name, kept: strings.HasSuffix(name, broker.DeadLetterTopic("")),
		groups: map[string]*group{}}
	to.slots = make(chan struct{}, t.cfg.Queue)
	t.topics[name] = to
	return to, nil
}

func (t *Transport) partition(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % partitions)
}
