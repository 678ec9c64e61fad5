package eventschemas

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// JSONText is a JSON value kept as written.
type JSONText = json.RawMessage

// Encoded is an event in its stored form. Like Event and Hash, it is an alias, so that a package that knows no schemas
// can call an Encoder and Decode.
type Encoded = struct {
	Type          string
	SchemaVersion int
	Data          []byte
}

// Errors of Encode, Decode and ValidateJSON. They are wrapped with the type and version; use errors.Is.
var (
	// ErrUnknownType means that this binary does not know the event type: the log was written by a newer release.
	ErrUnknownType = errors.New("unknown event type")
	// ErrUnknownVersion means that this binary does not know this version of the event type.
	ErrUnknownVersion = errors.New("unknown schema version")
	// ErrDamaged means that the stored bytes are not a body of the event type.
	ErrDamaged = errors.New("damaged event body")
	// ErrNotEncodable means that the value cannot be written as JSON: a NaN, or a raw value that is not JSON.
	ErrNotEncodable = errors.New("event cannot be encoded")
	// ErrNotYet means that the event type, or a field of the event, is new in this release and that nodes of
	// the previous release may still be running.
	ErrNotYet = errors.New("this can be done when the upgrade is finished (letterhead upgrade finish)")
	// ErrSchemaViolation means that a body is JSON but does not conform to its JSON Schema.
	ErrSchemaViolation = errors.New("event body violates its schema")
)

// Encode encodes an event in its current version. The same value always gives the same bytes: nil
// slices become [], times become UTC with whole microseconds, and nothing is escaped for HTML.
//
// It returns ErrUnknownType for a type that is not in the table (a pointer to an event is not an
// event) and ErrNotEncodable.
func Encode(ev Event) (Encoded, error) { return current.Encode(ev) }

// Format is the data format of this release. It increases by one with each release that writes a new version of an
// event or serves a new version of a read model. Until an operator finishes the upgrade, a release works with data of
// the previous format, which nodes of the previous release can read and write; see docs/upgrade.md.
const Format = 4

// Encoder encodes events in the versions of the data format in use. The zero Encoder uses the current
// versions. It is safe for concurrent use.
type Encoder struct {
	registry *Registry
	format   func() int
}

// NewEncoder returns an Encoder that calls format for every event.
func NewEncoder(format func() int) Encoder { return EncoderOf(current, format) }

// EncoderOf is NewEncoder for another registry.
func EncoderOf(r *Registry, format func() int) Encoder { return Encoder{r, format} }

// Encode is like the function Encode, but while the previous format is in use it writes the event
// version of the previous release. Errors: as Encode, ErrNotYet for what the previous release cannot
// read, and ErrUnknownVersion if the format in use is older than the previous format.
func (e Encoder) Encode(ev Event) (Encoded, error) {
	if e.registry == nil {
		return current.Encode(ev)
	}
	return e.registry.encode(ev, e.format())
}

// Decode decodes a stored event of any version ever written and returns the struct of the current version by value, for
// example a CreditsCharged. It ignores unknown fields, so that events of a neighboring release can be folded. It does
// not check required fields; ValidateJSON does, but it is too slow for a replay.
//
// It returns ErrUnknownType, ErrUnknownVersion or ErrDamaged.
func Decode(eventType string, version int, data []byte) (Event, error) {
	return current.Decode(eventType, version, data)
}

// ValidateJSON validates a body against the JSON Schema of its type and version. The first call compiles the schemas.
//
// It returns ErrUnknownType, ErrUnknownVersion, ErrDamaged (not JSON) or ErrSchemaViolation.
func ValidateJSON(eventType string, version int, data []byte) error {
	return current.ValidateJSON(eventType, version, data)
}

// Types returns the wire names of all event types, sorted.
func Types() []string { return current.Types() }

// Check verifies at startup that the table is complete; see Registry.Check.
func Check() error { return current.Check() }

// eventNamespace is the UUIDv5 of "urn:letterhead:event" in the URL namespace of RFC 9562. It never
// changes: a retry after an upgrade must still give the same event.
var eventNamespace = uuid.MustParse("14696afb-7c17-5da0-859c-ea352143f620")

// EventID returns the id of the event that a decision produces. A retry of the decision gets the same
// id, and different events get different ids. The parts are length-prefixed, so different arguments
// never give the same input to the hash.
func EventID(stream, decisionKey, eventType, subject string) uuid.UUID {
	var space [256]byte // usual names fit, and need no memory of the heap
	name := append(space[:0], eventNamespace[:]...)
	for _, part := range [...]string{stream, decisionKey, eventType, subject} {
		name = binary.BigEndian.AppendUint64(name, uint64(len(part)))
		name = append(name, part...)
	}
	sum := sha1.Sum(name)
	id := uuid.UUID(sum[:])
	id[6], id[8] = id[6]&0x0f|0x50, id[8]&0x3f|0x80 // version 5 of RFC 9562
	return id
}

// marshal encodes JSON without escaping <, > and &, because the escapes would make URLs longer.
func marshal(v any) ([]byte, error) {
	if charge, ok := v.(CreditsCharged); ok { // most events are charges
		if data, ok := charge.encode(); ok {
			return data, nil
		}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotEncodable, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// encode returns the event as encoding/json does, without reflection. It returns false if a text may need an escape.
func (ev *CreditsCharged) encode() (data []byte, plain bool) {
	data, plain = make([]byte, 0, 512), true
	text := func(name, value string) { // name ends with a quote
		for i := range len(value) {
			c := value[i]
			plain = plain && c >= ' ' && c <= '~' && c != '"' && c != '\\'
		}
		data = append(append(append(data, name...), value...), '"')
	}
	optional := func(name, value string) {
		if value != "" {
			text(name, value)
		}
	}
	text(`{"charge_id":"`, ev.ChargeID)
	data = strconv.AppendInt(append(data, `,"credits":`...), ev.Credits, 10)
	text(`,"request_id":"`, ev.RequestID)
	text(`,"brand_id":"`, ev.BrandID)
	text(`,"domain":"`, ev.Domain)
	data = strconv.AppendUint(append(data, `,"record_revision":`...), ev.RecordRevision, 10)
	optional(`,"hold_id":"`, ev.HoldID)
	optional(`,"item":"`, ev.Item)
	optional(`,"idempotency_key_hash":"`, ev.IdempotencyKeyHash)
	optional(`,"request_hash":"`, ev.RequestHash)
	optional(`,"key_id":"`, ev.KeyID)
	return append(data, '}'), plain
}
