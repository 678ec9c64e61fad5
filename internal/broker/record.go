package broker

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// Additional metadata of messages in topics of record. Together with the metadata of all event messages
// and the payload it contains the whole event, so consumers can compare it with the log and verify the
// hash chain of an account. Empty values are omitted. docs/events.md describes each value.
const (
	MetaRevision   = "revision"
	MetaOccurredAt = "occurred_at"
	MetaActor      = "actor"
	MetaRequest    = "request_id"
	MetaCausation  = "causation_id"
	MetaHash       = "hash"
)

// timeLayout is RFC 3339 with the microseconds of the log, always six digits, in UTC.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// Record returns a message that carries a whole event, keyed by its stream.
func Record(r eventlog.Recorded) Message {
	meta := map[string]string{
		MetaType:       r.Type,
		MetaVersion:    strconv.Itoa(r.SchemaVersion),
		MetaStream:     r.Stream,
		MetaRevision:   strconv.FormatUint(r.Revision, 10),
		MetaPosition:   strconv.FormatUint(uint64(r.Position), 10),
		MetaOccurredAt: r.OccurredAt.UTC().Format(timeLayout),
	}
	for key, value := range map[string]string{
		MetaActor: r.Metadata.Actor, MetaRequest: r.Metadata.RequestID, MetaHash: r.Metadata.Hash,
		MetaCorrelation: r.Metadata.CorrelationID, MetaCausation: r.Metadata.CausationID,
	} {
		if value != "" {
			meta[key] = value
		}
	}
	return Message{ID: r.ID.String(), Key: r.Stream, Payload: r.Data, Metadata: meta}
}

// Recorded returns the event that a message of a topic of record carries. It is the inverse of Record.
// Errors: ErrInvalid.
func Recorded(m Message) (eventlog.Recorded, error) {
	var r eventlog.Recorded
	var err error
	if r.Type, r.SchemaVersion, err = EventType(m); err != nil {
		return eventlog.Recorded{}, err
	}
	fail := func(what string) (eventlog.Recorded, error) {
		return eventlog.Recorded{}, fmt.Errorf("%w: message %.64q has no valid %s", ErrInvalid, m.ID, what)
	}
	if r.ID, err = uuid.Parse(m.ID); err != nil {
		return fail("event id")
	}
	if r.Stream = m.Metadata[MetaStream]; r.Stream == "" {
		return fail(MetaStream)
	}
	if r.Revision, err = strconv.ParseUint(m.Metadata[MetaRevision], 10, 64); err != nil {
		return fail(MetaRevision)
	}
	position, err := strconv.ParseUint(m.Metadata[MetaPosition], 10, 64)
	if err != nil {
		return fail(MetaPosition)
	}
	if r.OccurredAt, err = time.Parse(timeLayout, m.Metadata[MetaOccurredAt]); err != nil {
		return fail(MetaOccurredAt)
	}
	r.Position, r.Data = eventlog.Position(position), m.Payload
	r.Metadata = eventlog.Metadata{
		RequestID: m.Metadata[MetaRequest], Actor: m.Metadata[MetaActor], Hash: m.Metadata[MetaHash],
		CorrelationID: m.Metadata[MetaCorrelation], CausationID: m.Metadata[MetaCausation],
	}
	return r, nil
}

// Topics of work. Each has a separate relay, so that live work never waits behind bulk work.
const (
	CrawlLive    = "crawl.live"
	CrawlRefresh = "crawl.refresh"
)

// Topics of record: copies of events for external consumers, on a broker that retains them.
const (
	// Ledger carries the events of account and usage streams.
	Ledger = "ledger"
	// Brands carries the events of brand streams.
	Brands = "brands"
)

// Metadata of a message that carries an event of the log.
const (
	MetaType        = "event_type"
	MetaVersion     = "schema_version"
	MetaStream      = "stream"
	MetaPosition    = "position"
	MetaCorrelation = "correlation_id"
)

// Event returns a message that carries an event of the log. It deliberately omits the time of the event: work
// is limited by durations, because the clocks of nodes differ.
func Event(r eventlog.Recorded, key string) Message {
	return Message{
		ID: r.ID.String(), Key: key, Payload: r.Data,
		Metadata: map[string]string{
			MetaType:        r.Type,
			MetaVersion:     strconv.Itoa(r.SchemaVersion),
			MetaStream:      r.Stream,
			MetaPosition:    strconv.FormatUint(uint64(r.Position), 10),
			MetaCorrelation: r.Metadata.CorrelationID,
		},
	}
}

// EventType returns the type and schema version of the event that a message carries. It returns ErrInvalid if
// one of them is missing; retrying does not help then.
func EventType(m Message) (eventType string, version int, err error) {
	if m.Metadata[MetaType] == "" {
		return "", 0, fmt.Errorf("%w: message %s has no event type", ErrInvalid, m.ID)
	}
	version, err = strconv.Atoi(m.Metadata[MetaVersion])
	if err != nil || version < 1 {
		return "", 0, fmt.Errorf("%w: message %s has the schema version %.32q", ErrInvalid, m.ID,
			m.Metadata[MetaVersion])
	}
	return m.Metadata[MetaType], version, nil
}

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
