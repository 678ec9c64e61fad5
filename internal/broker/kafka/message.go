package kafka

import (
	"cmp"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"letterhead/internal/broker"
)

// Headers of messages in topics of work. Earlier releases, which run beside this one during an upgrade, need both.
const (
	headerWorkID  = "_watermill_message_uuid"
	headerWorkKey = "letterhead_key"
)

// maxHeaders limits the headers of a message. It is enough for the maximum metadata and the headers of the Bus.
const maxHeaders = broker.MaxMetadata + 8

// crawlRecord converts a message to a record of a topic of work. The key determines the partition.
func crawlRecord(m broker.Message) *kgo.Record {
	r := withHeaders(m, headerWorkID)
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerWorkKey, Value: r.Key})
	return r
}

// received converts a record of a topic of work to a message. One that no Bus published is converted by
// broker.Unreadable, so that the Bus dead-letters it.
func received(r *kgo.Record) broker.Message {
	m := messageOf(r, headerWorkID)
	key := m.Metadata[headerWorkKey]
	delete(m.Metadata, headerWorkKey)
	reason := ""
	switch {
	case m.ID == "":
		reason = "it has no message id"
	case key == "":
		reason = "it has no key of ours"
	case len(key) > broker.MaxKeyBytes:
		reason = "its key is too long"
	case len(r.Value) > broker.MaxPayloadBytes:
		reason = "its payload is too large"
	case len(r.Headers) > maxHeaders:
		reason = "it has too many headers"
	}
	if reason == "" {
		m.Key = key
		return m
	}
	source := fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
	if m.ID == "" || len(m.ID) > broker.MaxKeyBytes {
		m.ID = source
	}
	return broker.Unreadable(m.ID, cmp.Or(m.Key, source), r.Value, reason+" (at "+source+")")
}
