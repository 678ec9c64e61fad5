package broker

import (
	"context"
	"errors"
	"fmt"
)

// Limits of a message. They leave room for an event of the largest size the log takes.
const (
	// MaxPayloadBytes bounds a message's payload.
	MaxPayloadBytes = 128 << 10
	// MaxKeyBytes bounds a message's key.
	MaxKeyBytes = 512
	// MaxMetadata bounds the number of a message's metadata entries.
	MaxMetadata = 32
)

// Errors of a Port. They are wrapped with what was attempted; use errors.Is.
var (
	// ErrClosed: the broker is closing. A message whose Publish ended so may or may not be delivered.
	ErrClosed = errors.New("broker is closed")
	// ErrNotNow is what a Handler returns when nothing is wrong with the message, but something it needs is away. The
	// message goes back to its lane and is delivered again, however often.
	ErrNotNow = errors.New("cannot be handled now")
	// ErrInvalid: the message lacks an id or a key, or is past a limit. Nothing was published.
	ErrInvalid = errors.New("invalid message")
)

// Metadata keys that a poison message carries beside its own.
const (
	// MetaReason says which error the last attempt ended with.
	MetaReason = "set_aside_reason"
	// MetaLane says which lane the message was taken from.
	MetaLane = "set_aside_lane"
	// MetaGroup says which group could not handle it.
	MetaGroup = "set_aside_group"
)

// Message is a copy of an event on its way to somebody who acts on it.
type Message struct {
	ID       string // of the event; repeats carry the same
	Key      string // order is kept per key
	Payload  []byte
	Metadata map[string]string
}

// Validate says what keeps a message from being published. Errors: ErrInvalid.
func (m Message) Validate() error {
	switch {
	case m.ID == "":
		return fmt.Errorf("%w: no id", ErrInvalid)
	case m.Key == "":
		return fmt.Errorf("%w: message %s has no key", ErrInvalid, m.ID)
	case len(m.Key) > MaxKeyBytes:
		return fmt.Errorf("%w: key of message %s has %d bytes, at most %d", ErrInvalid, m.ID, len(m.Key), MaxKeyBytes)
	case len(m.Payload) > MaxPayloadBytes:
		return fmt.Errorf("%w: payload of message %s has %d bytes, at most %d", ErrInvalid, m.ID, len(m.Payload), MaxPayloadBytes)
	case len(m.Metadata) > MaxMetadata:
		return fmt.Errorf("%w: message %s has %d metadata entries, at most %d", ErrInvalid, m.ID, len(m.Metadata), MaxMetadata)
	}
	return nil
}

// Handler acts on a message. nil acknowledges it. Messages may repeat: a handler recognises those by
// their id or by the state they would change.
type Handler func(ctx context.Context, m Message) error

// Port is a broker.
type Port interface {
	// Publish hands messages to a lane, in order, and returns when all of them are safe. It waits
	// while the lane is full. After an error other than ErrInvalid the first of the messages may have
	// been published: publish all of them again.
	//
	// Errors: ErrInvalid (nothing was published), ErrClosed, ctx.Err(), or the transport's fault.
	Publish(ctx context.Context, lane string, messages ...Message) error

	// Subscribe handles a lane's messages as a member of a group until ctx ends, then waits for the
	// handlers under way and returns nil. Errors: ErrClosed, or the transport's fault.
	Subscribe(ctx context.Context, lane, group string, handle Handler) error

	// Close refuses new messages, ends all subscriptions, waits for the handlers under way and
	// releases the transport.
	Close() error
}

// PoisonLane is the lane that messages of a lane are set aside in.
func PoisonLane(lane string) string { return lane + poisonSuffix }

const poisonSuffix = ".poison"
