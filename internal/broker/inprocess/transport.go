package inprocess

import (
	"cmp"
	"context"
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
	closing context.Context // ends when there is no new work
	close   context.CancelFunc
	closed  chan struct{} // no more running work
	workers sync.WaitGroup

	mu     sync.Mutex // held while closing ends
	topics map[string]*topic
}

var _ broker.Transport = (*Transport)(nil)

// New returns a Transport.
func New(cfg Config) *Transport {
	cfg.setDefaults()
	t := &Transport{cfg: cfg, closed: make(chan struct{}), topics: map[string]*topic{}}
	t.closing, t.close = context.WithCancel(context.Background()) // Close ends it
	return t
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

// Subscribe implements broker.Transport.
func (t *Transport) Subscribe(ctx context.Context, name, group string) (<-chan *message.Message, error) {
	from, err := t.topic(name)
	if err != nil {
		return nil, err
	}
	// Count as a worker while joining, so that Close does not return while workers start.
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.workers.Done()
	return from.join(ctx, group)
}

// Close rejects new messages, waits for running handlers and ends all subscriptions.
func (t *Transport) Close() error {
	t.mu.Lock()
	again := t.closing.Err() != nil
	t.close()
	t.mu.Unlock()
	if again {
		<-t.closed
		return nil
	}
	t.workers.Wait() // CloseTimeout limits each of them
	close(t.closed)
	return nil
}

// enter adds the caller to the workers that Close waits for, unless Close has begun.
func (t *Transport) enter() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing.Err() != nil {
		return broker.ErrClosed
	}
	t.workers.Add(1)
	return nil
}

func (t *Transport) topic(name string) (*topic, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing.Err() != nil {
		return nil, broker.ErrClosed
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
