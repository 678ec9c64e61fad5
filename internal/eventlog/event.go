package eventlog

import "sync"

// Body is the decoded body of an event: a struct of its type, by value. It is an alias, so that schemas can implement
// the functions that read and write bodies without importing this package.
type Body = interface{ EventType() string }

// Encoded is the body of an event in its stored form.
type Encoded = struct {
	Type          string
	SchemaVersion int
	Data          []byte
}

// Decoding holds the decoded value of an event, so that the roles of a process decode each event once. The
// zero value is ready to use; it is safe for concurrent use.
type Decoding struct {
	once  sync.Once
	value any
	err   error
}

// Share gives each event a Decoding. A log calls it once for events that several subscriptions deliver,
// before the first of them sees the events.
func Share(events []Recorded) {
	shared := make([]Decoding, len(events))
	for i := range events {
		events[i].Decoding = &shared[i]
	}
}

// Decode decodes an event by its type, schema version and data. It calls decode once per shared event; all
// callers get the same value or error, which they must not change.
func Decode[T any](r *Recorded, decode func(eventType string, version int, data []byte) (T, error)) (T, error) {
	d := r.Decoding
	if d == nil {
		return decode(r.Type, r.SchemaVersion, r.Data)
	}
	d.once.Do(func() { d.value, d.err = decode(r.Type, r.SchemaVersion, r.Data) })
	if value, ok := d.value.(T); ok {
		return value, d.err
	}
	if d.err != nil {
		var none T
		return none, d.err
	}
	return decode(r.Type, r.SchemaVersion, r.Data) // the other callers decode to another type
}
