package proof

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"letterhead/eventschemas"
)

// Event is an event of an account's stream as it is stored, without what its hash does not cover.
type Event struct {
	eventschemas.ChainLink
	Hash Hash
}

// The parts of an event's line between its values, in order.
var eventParts = [...]string{`{"revision":`, `,"id":"`, `","type":`, `,"schema_version":`, `,"occurred_at":"`,
	`","actor":`, `,"request_id":`, `,"hash":"`, `","data":`, `}`}

// appendEvent appends the line of an event, without the newline.
func appendEvent(line []byte, e *Event) []byte {
	text := func(s string) []byte {
		quoted, _ := json.Marshal(s) // a string can be marshaled
		return quoted
	}
	line = strconv.AppendUint(append(line, eventParts[0]...), e.Revision, 10)
	line = append(append(line, eventParts[1]...), e.EventID.String()...)
	line = append(append(line, eventParts[2]...), text(e.Type)...)
	line = strconv.AppendInt(append(line, eventParts[3]...), int64(e.SchemaVersion), 10)
	line = e.OccurredAt.UTC().AppendFormat(append(line, eventParts[4]...), timeLayout)
	line = append(append(line, eventParts[5]...), text(e.Actor)...)
	line = append(append(line, eventParts[6]...), text(e.RequestID)...)
	line = hex.AppendEncode(append(line, eventParts[7]...), e.Hash[:])
	line = append(append(line, eventParts[8]...), e.Data...)
	return append(line, eventParts[9]...)
}

// checkWritable fails if the line of an event would not be one line of UTF-8.
func checkWritable(e *Event) error {
	if bytes.IndexByte(e.Data, '\n') >= 0 || !utf8.Valid(e.Data) || !utf8.ValidString(e.Actor) ||
		!utf8.ValidString(e.RequestID) || !utf8.ValidString(e.Type) {
		return fmt.Errorf("revision %d of %s is not a line of UTF-8 text", e.Revision, e.Stream)
	}
	return nil
}

var errNotAnEvent = errors.New("this is not an event as a proof writes it")

// parseEvent parses the line of an event. The result has the bytes of line, and no stream. A line that appendEvent
// would write differently is rejected.
func parseEvent(line []byte) (e Event, err error) {
	var values [len(eventParts) - 1][]byte
	rest, ok := bytes.CutPrefix(line, []byte(eventParts[0]))
	for i := range values {
		if !ok {
			return e, errNotAnEvent
		}
		next := eventParts[i+1]
		if i == len(values)-1 { // the data, up to the end of the line
			values[i], ok = bytes.CutSuffix(rest, []byte(next))
			break
		}
		at := valueEnd(rest, next)
		if ok = at >= 0; ok {
			values[i], rest = rest[:at], rest[at+len(next):]
		}
	}
	if !ok {
		return e, errNotAnEvent
	}
	var version uint64
	var hashErr, timeErr, idErr error
	e.Revision, err = strconv.ParseUint(string(values[0]), 10, 64)
	e.EventID, idErr = uuid.ParseBytes(values[1])
	version, versionErr := strconv.ParseUint(string(values[3]), 10, 31)
	e.OccurredAt, timeErr = time.Parse(timeLayout, string(values[4]))
	e.Hash, hashErr = parseHash(values[7])
	if err := errors.Join(err, idErr, versionErr, timeErr, hashErr,
		json.Unmarshal(values[2], &e.Type), json.Unmarshal(values[5], &e.Actor),
		json.Unmarshal(values[6], &e.RequestID)); err != nil {
		return e, errNotAnEvent
	}
	e.SchemaVersion, e.Data = int(version), values[8]
	if !bytes.Equal(appendEvent(make([]byte, 0, len(line)), &e), line) {
		return e, errNotAnEvent
	}
	return e, nil
}

// valueEnd returns the index of next after a value, and -1 if it does not follow. A value that begins with a quote is a
// JSON text.
func valueEnd(rest []byte, next string) int {
	if len(rest) == 0 || rest[0] != '"' {
		return bytes.Index(rest, []byte(next))
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			if bytes.HasPrefix(rest[i+1:], []byte(next)) {
				return i + 1
			}
			return -1
		}
	}
	return -1
}
