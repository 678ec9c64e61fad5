// Package broker distributes work between parts of Letterhead through topics.
//
// The event log remains the only source of truth. Messages are copies of events: a relay reads the log and
// publishes them, and workers subscribe. So a lost message only causes a timeout, and a repeated message only
// causes repeated work.
//
// Other packages use Port. Bus implements it on top of any watermill transport. Retries, dead-lettering and
// acknowledgements are implemented in Bus, so that the in-process transport (package inprocess) and Kafka
// behave in the same way. brokertest contains the suite that both must pass.
//
// The contract:
//
//   - A topic is ordered per key. Messages of one key reach a group one at a time, in the order in which
//     they were published; messages of different keys may be handled concurrently.
//   - A group receives each message at least once, from its first subscription on. A message that is
//     published before any group has subscribed waits for the first group. The members of a group share
//     its messages.
//   - Publish returns nil when the message is safe: Kafka's in-sync replicas have it, or, in process, every
//     group has acknowledged it. A publisher may then save a checkpoint.
//   - A handler acknowledges the message by returning nil. After an error the message is retried, with
//     growing waits, at most Config.Retries times. Then it is published to DeadLetterTopic and
//     acknowledged, so that a bad message never blocks the topic. If the handler fails because the
//     subscription ends, the message goes to the next member of the group.
//   - Everything is bounded: Publish waits while a topic is full.
package broker

import (
	"context"
	"errors"
	"fmt"
)

// Limits of a message. They leave room for the largest event that the log accepts.
const (
	// MaxPayloadBytes limits a message's payload.
	MaxPayloadBytes = 128 << 10
	// MaxKeyBytes limits a message's key.
	MaxKeyBytes = 512
	// MaxMetadata limits the number of a message's metadata entries.
	MaxMetadata = 32
)

// Errors of a Port. They are wrapped with the attempted operation; use errors.Is.
var (
	// ErrClosed means that the broker is closing or closed. If Publish returns it, the messages may still be delivered.
	ErrClosed = errors.New("broker is closed")
	// ErrNotNow is returned by a Handler if a dependency is unavailable. The message returns to its topic and
	// is redelivered without a limit.
	ErrNotNow = errors.New("cannot be handled now")
	// ErrUnavailable is returned by Publish if the broker does not work. The transport logs when that begins and ends.
	// What the broker refuses for good is another error.
	ErrUnavailable = errors.New("broker is unavailable")
	// ErrInvalid means that the message lacks an id or a key, or exceeds a limit. Nothing was published.
	ErrInvalid = errors.New("invalid message")
)

// Metadata keys that are added to a dead letter.
const (
	MetaReason = "set_aside_reason" // the error of the last attempt
	MetaTopic  = "set_aside_lane"   // the topic of the message
	MetaGroup  = "set_aside_group"  // the group that could not handle the message
)

// Message carries a copy of an event to a consumer.
type Message struct {
	ID       string // of the event; repeats have the same id
	Key      string // messages of one key are ordered
	Payload  []byte
	Metadata map[string]string
}

// Validate returns an error if the message cannot be published. Errors: ErrInvalid.
func (m Message) Validate() error {
	switch {
	case m.ID == "":
		return fmt.Errorf("%w: no id", ErrInvalid)
	case m.Key == "":
		return fmt.Errorf("%w: message %s has no key", ErrInvalid, m.ID)
	case len(m.Key) > MaxKeyBytes:
		return fmt.Errorf("%w: key of message %s has %d bytes, at most %d", ErrInvalid, m.ID, len(m.Key), MaxKeyBytes)
	case len(m.Payload) > MaxPayloadBytes:
		return fmt.Errorf("%w: payload of message %s has %d bytes, at most %d",
			ErrInvalid, m.ID, len(m.Payload), MaxPayloadBytes)
	case len(m.Metadata) > MaxMetadata:
		return fmt.Errorf("%w: message %s has %d metadata entries, at most %d",
			ErrInvalid, m.ID, len(m.Metadata), MaxMetadata)
	}
	return nil
}

// Handler handles a message. Returning nil acknowledges it. Messages may repeat, so a handler must recognize
// repeats, by their id or by the state that they would change.
type Handler func(ctx context.Context, m Message) error

// Port is a broker.
type Port interface {
	// Publish sends messages to a topic, in order, and returns when all of them are safe. It waits while the
	// topic is full. After an error other than ErrInvalid some of the messages may have been published. The
	// caller should publish all of them again.
	//
	// Errors: ErrInvalid (nothing was published), ErrClosed, ErrUnavailable, ctx.Err(), or an error of the transport.
	Publish(ctx context.Context, topic string, messages ...Message) error

	// Subscribe handles a topic's messages as a member of a group until ctx ends, then waits for
	// running handlers and returns nil. Errors: ErrClosed, or an error of the transport.
	Subscribe(ctx context.Context, topic, group string, handle Handler) error

	// Close rejects new messages, ends all subscriptions, waits for running handlers and releases the transport.
	Close() error
}

// DeadLetterTopic returns the name of the topic for messages of a topic that could not be handled.
func DeadLetterTopic(topic string) string { return topic + deadLetterSuffix }

const deadLetterSuffix = ".poison"
