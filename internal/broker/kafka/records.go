package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"letterhead/internal/broker"
)

// HeaderID is the header with the event's id in the topics of record. The other headers are the message's metadata.
const HeaderID = "event_id"

// Records publishes to the topics of record. It implements relay.Publisher.
type Records struct{ transport *Transport }

// PublishError means that some messages are not safe. For each key, the safe messages precede the others.
type PublishError struct {
	// Failed contains the ascending indices of the messages that may not have arrived.
	Failed []int
	// Total is the number of messages to publish.
	Total int
	Err   error
}

func (e *PublishError) Error() string {
	return fmt.Sprintf("%d of %d records are not safe: %s", len(e.Failed), e.Total, e.Err)
}

func (e *PublishError) Unwrap() error { return e.Err }

// Publish sends messages to a topic and returns when all in-sync replicas have them. Messages of one
// key keep their order: what was refused is never followed by later messages.
//
// Errors: broker.ErrInvalid and ErrUnknownTopic (nothing was sent), broker.ErrClosed, ctx.Err(), or a
// *PublishError.
func (r *Records) Publish(ctx context.Context, topic string, messages ...broker.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.transport.cfg.Topics, func(t Topic) bool { return t.Name == topic && t.Record }) {
		return fmt.Errorf("%w of record: %.120q", ErrUnknownTopic, topic)
	}
	for _, m := range messages {
		if err := m.Validate(); err != nil {
			return fmt.Errorf("publish to %s: %w", topic, err)
		}
	}
	failed, err := r.transport.publish(ctx, topic, messages, record)
	if len(failed) > 0 && ctx.Err() == nil {
		return &PublishError{Failed: failed, Total: len(messages), Err: err}
	}
	return err
}

// record converts a message to a record of a topic of record.
func record(m broker.Message) *kgo.Record { return withHeaders(m, HeaderID) }

// withHeaders returns a record whose headers are the id, in a header of the given name, and the metadata, sorted by
// name.
func withHeaders(m broker.Message, id string) *kgo.Record {
	headers := append(make([]kgo.RecordHeader, 0, len(m.Metadata)+2), kgo.RecordHeader{Key: id, Value: []byte(m.ID)})
	for _, name := range slices.Sorted(maps.Keys(m.Metadata)) {
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(m.Metadata[name])})
	}
	return &kgo.Record{Key: []byte(m.Key), Value: m.Payload, Headers: headers}
}

// messageOf is the inverse of withHeaders.
func messageOf(r *kgo.Record, id string) broker.Message {
	m := broker.Message{Key: string(r.Key), Payload: r.Value, Metadata: map[string]string{}}
	for _, h := range r.Headers {
		if h.Key == id {
			m.ID = string(h.Value)
		} else if len(m.Metadata) < maxHeaders {
			m.Metadata[h.Key] = string(h.Value)
		}
	}
	return m
}
