package broker

import (
	"errors"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"
)

// ErrUnreadable means that no Bus published the message. The message is dead-lettered immediately,
// without a call of a handler.
var ErrUnreadable = errors.New("not a message of this broker")

// MetaBytes is the metadata key of the original payload length of an unreadable message that was truncated.
const MetaBytes = "set_aside_bytes"

// metaUnreadable marks a message that a transport could not read, with the reason.
const metaUnreadable = "letterhead_unreadable"

// Unreadable returns the message that a transport delivers instead of a message that no Bus published.
// The Bus dead-letters it with the reason. id and key must not be empty. The payload is truncated to
// MaxPayloadBytes, so that it fits into the dead-letter topic.
func Unreadable(id, key string, payload []byte, reason string) *message.Message {
	m := message.NewMessage(id, payload)
	m.Metadata.Set(metaKey, clip(key, MaxKeyBytes))
	m.Metadata.Set(metaUnreadable, reason)
	if len(payload) > MaxPayloadBytes {
		m.Payload = payload[:MaxPayloadBytes]
		m.Metadata.Set(MetaBytes, strconv.Itoa(len(payload)))
	}
	return m
}

func clip(s string, most int) string { return s[:min(len(s), most)] }
