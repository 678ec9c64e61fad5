package broker

import (
	"fmt"
	"strconv"
	"time"

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
