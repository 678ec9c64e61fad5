package esdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// maxServerAppend is the default limit of a server for one append: data, user metadata and twice the type's
// name of all events (Event.SizeOnDisk in the server's source).
const maxServerAppend = 1 << 20

// userMetadata is the content of EventStoreDB's user metadata, as JSON.
type userMetadata struct {
	SchemaVersion int    `json:"schema_version"`
	OccurredAt    string `json:"occurred_at"` // RFC 3339, UTC, microseconds
	eventlog.Metadata
	// The names that EventStoreDB's own tools use; they are written but never read.
	ServersCorrelationID string `json:"$correlationId,omitempty"`
	ServersCausationID   string `json:"$causationId,omitempty"`
}

// timeFormat keeps all six digits, so that equal times are equal strings.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// encodeMetadata also writes correlation and causation under the server's names, if requested.
func encodeMetadata(e *eventlog.Proposed, serversNames bool) ([]byte, error) {
	m := userMetadata{
		SchemaVersion: e.SchemaVersion,
		OccurredAt:    e.OccurredAt.UTC().Format(timeFormat),
		Metadata:      e.Metadata,
	}
	if serversNames {
		m.ServersCorrelationID, m.ServersCausationID = e.Metadata.CorrelationID, e.Metadata.CausationID
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(m)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// optional are the fields that are omitted if empty, in the order in which they are written.
func (m *userMetadata) optional() [7]plainField {
	return [...]plainField{
		{`,"request_id":"`, &m.RequestID}, {`,"actor":"`, &m.Actor}, {`,"correlation_id":"`, &m.CorrelationID},
		{`,"causation_id":"`, &m.CausationID}, {`,"hash":"`, &m.Hash},
		{`,"$correlationId":"`, &m.ServersCorrelationID}, {`,"$causationId":"`, &m.ServersCausationID},
	}
}

// plainField is a field of the metadata's JSON, up to its value's quotation mark.
type plainField struct {
	begins string
	value  *string
}

// decodeMetadata is the inverse of encodeMetadata.
func decodeMetadata(b []byte, e *eventlog.Proposed) error {
	m, plain := plainMetadata(string(b))
	if !plain {
		m = userMetadata{}
		if err := json.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("its metadata: %w", err)
		}
	}
	at, err := time.Parse(timeFormat, m.OccurredAt)
	if err != nil {
		return fmt.Errorf("its time: %w", err)
	}
	if m.SchemaVersion < 0 {
		return fmt.Errorf("its schema version is %d", m.SchemaVersion)
	}
	e.SchemaVersion, e.OccurredAt, e.Metadata = m.SchemaVersion, at.UTC(), m.Metadata
	return nil
}

// plainMetadata decodes metadata that has exactly the form of encodeMetadata, without escapes: nearly all
// of it, because the general decoder takes a fifth of the time of a replay. It returns false for any other
// input, including malformed input.
func plainMetadata(s string) (m userMetadata, plain bool) {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == '\\' {
			return m, false
		}
	}
	rest, ok := strings.CutPrefix(s, `{"schema_version":`)
	number, rest, ok2 := strings.Cut(rest, `,"occurred_at":"`)
	n, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil || strconv.Itoa(n) != number || !utf8.ValidString(s) {
		return m, false
	}
	m.SchemaVersion = n
	if m.OccurredAt, rest, ok = strings.Cut(rest, `"`); !ok {
		return m, false
	}
	for _, field := range m.optional() {
		after, there := strings.CutPrefix(rest, field.begins)
		if !there {
			continue
		}
		if *field.value, rest, ok = strings.Cut(after, `"`); !ok {
			return m, false
		}
	}
	return m, rest == "}"
}

// toStore converts events for the store. An append within the port's limits that is too large for the server because
// some ids are stored under two names stores them only under ours. Errors: eventlog.ErrTooLarge, ErrInvalid.
func toStore(events []eventlog.Proposed) ([]*streams.BatchAppendReq_ProposedMessage, error) {
	out, err := encodeEvents(events, true)
	if errors.Is(err, eventlog.ErrTooLarge) {
		out, err = encodeEvents(events, false)
	}
	return out, err
}

func encodeEvents(events []eventlog.Proposed, serversNames bool) ([]*streams.BatchAppendReq_ProposedMessage, error) {
	out := make([]*streams.BatchAppendReq_ProposedMessage, len(events))
	total := 0
	for i := range events {
		e := &events[i]
		metadata, err := encodeMetadata(e, serversNames)
		if err != nil {
			return nil, fmt.Errorf("%w: metadata of event %d: %w", eventlog.ErrInvalid, i, err)
		}
		total += len(e.Data) + len(metadata) + 2*len(e.Type)
		out[i] = &streams.BatchAppendReq_ProposedMessage{
			Id: structured(esdb.UUIDAsInt64(e.ID)), Data: e.Data, CustomMetadata: metadata,
			Metadata: map[string]string{"type": e.Type, "content-type": "application/json"},
		}
	}
	if total > maxServerAppend {
		return nil, fmt.Errorf("%w: %d bytes with metadata, at most %d", eventlog.ErrTooLarge, total, maxServerAppend)
	}
	return out, nil
}

// errNotOurs marks an event that was written by another program.
var errNotOurs = fmt.Errorf("%w: not an event of this log", eventlog.ErrCorrupt)

// fromClient converts an event of the client. ours is false for system events and links. The error
// describes an invalid event that should be ours.
func fromClient(in *esdb.ResolvedEvent) (e eventlog.Recorded, ours bool, err error) {
	r := in.Event
	if r == nil || in.Link != nil || isSystem(r.StreamID) || isSystem(r.EventType) {
		return e, false, nil
	}
	e.ID, e.Type, e.Data = r.EventID, r.EventType, r.Data
	e.Stream, e.Revision, e.Position = r.StreamID, r.EventNumber, eventlog.Position(r.Position.Commit)
	err = decodeMetadata(r.UserMetadata, &e.Proposed)
	if err == nil && e.ID == uuid.Nil {
		err = errors.New("it has no id")
	}
	if err != nil {
		return e, true, fmt.Errorf("%w: %s, revision %d, position %d: %w", errNotOurs, e.Stream,
			e.Revision, e.Position, err)
	}
	return e, true, nil
}

func isSystem(name string) bool { return strings.HasPrefix(name, "$") }

// position returns the position of an event of the client, including system events. For a link it is that
// of the link, not of its target.
func position(in *esdb.ResolvedEvent) eventlog.Position {
	if r := in.OriginalEvent(); r != nil {
		return eventlog.Position(r.Position.Commit)
	}
	return 0
}
