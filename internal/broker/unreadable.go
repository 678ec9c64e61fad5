package broker

import (
	"errors"
	"strconv"

	"github.com/ThreeDotsLabs/watermill/message"
)

// ErrUnreadable: what lay in a lane is no message of a Bus. It is set aside at once; no handler sees it.
var ErrUnreadable = errors.New("not a message of this broker")

// MetaBytes says how long the payload of an unreadable message was that was cut for being too large.
const MetaBytes = "set_aside_bytes"

// metaUnreadable marks a message that a transport could not read, with the reason.
const metaUnreadable = "letterhead_unreadable"

// Unreadable is what a transport delivers in place of something that it found in a lane and that no Bus has
// published. The Bus sets it aside, with the reason. id and key must not be empty; the payload is cut at
// MaxPayloadBytes, so that the poison lane always has room for it.
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
