// Package eventlog is the port to the event store: the only source of truth. Streams are append-only and
// numbered from revision 0; one global order, the position, covers all of them.
//
// Adapters: sqlite (the default, one file) and esdb (EventStoreDB). eventlogtest holds the contract suite
// that each of them passes. A Log may also be an Importer; sqlite is.
package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Limits that every adapter enforces before it sends or stores anything.
const (
	// MaxEventBytes bounds data plus metadata of one event.
	MaxEventBytes = 128 << 10
	// MaxAppendBytes bounds one append. EventStoreDB rejects 1 MiB by default, including its framing.
	MaxAppendBytes = 768 << 10
	// MaxAppendEvents bounds the events of one append.
	MaxAppendEvents = 1024
	// MaxStreamName bounds a stream's name, in bytes.
	MaxStreamName = 300
	// MaxPage bounds the events of one read.
	MaxPage = 16384
	// MaxImportEvents and MaxImportBytes bound all runs of one import together. Larger imports were no
	// faster at 100,000 events, and concurrent appends wait for the import's commit.
	MaxImportEvents = 4096
	MaxImportBytes  = 4 << 20
	// MaxDisorder bounds how a copy into a store without Import may reorder a log: two events of different
	// streams may be swapped if the second comes fewer than MaxDisorder events after the first.
	MaxDisorder = 4096
)

// Errors of a Log. Adapters wrap them with the attempted operation; callers use errors.Is.
var (
	// ErrWrongRevision: the stream is not at the expected revision. Nothing was written. The error is a
	// *WrongRevisionError.
	ErrWrongRevision = errors.New("wrong expected revision")
	// ErrTooLarge: the append exceeds a limit. Nothing was written.
	ErrTooLarge = errors.New("append is too large")
	// ErrInvalid: the append or read is malformed (no events, nil event id, empty stream name).
	ErrInvalid = errors.New("invalid request to the event log")
	// ErrUnavailable: the store failed (for example because of a full disk) and nothing was written. Retry later.
	ErrUnavailable = errors.New("event log is unavailable")
	// ErrFull: the store has no room left and nothing was written. It is an ErrUnavailable too.
	ErrFull = fmt.Errorf("no space is left for the event log: %w", ErrUnavailable)
	// ErrAmbiguous: the outcome is unknown. Repeat the same append (same ids, same expected revision) to learn it.
	ErrAmbiguous = errors.New("outcome of the append is unknown")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("event log is closed")
	// ErrCorrupt: stored data is damaged.
	ErrCorrupt = errors.New("event log is corrupt")
)

// WrongRevisionError describes an append to a stream that is not at the expected revision.
type WrongRevisionError struct {
	Stream   string
	Expected Expected
}

func (e *WrongRevisionError) Error() string {
	return fmt.Sprintf("append to %s at %s: %s", e.Stream, e.Expected, ErrWrongRevision)
}

// Is makes errors.Is(err, ErrWrongRevision) true.
func (e *WrongRevisionError) Is(target error) bool { return target == ErrWrongRevision }

// Position orders all events; 0 is before the first event. Positions grow, with gaps.
// Only 0 and positions returned by the log may be passed to it: a store may interpret any other position as
// the middle of an event.
type Position uint64

// Expected is the revision that a stream must be at for an append. The zero Expected is NoStream.
type Expected struct{ events uint64 }

// NoStream appends only if the stream has no event.
func NoStream() Expected { return Expected{} }

// Exact appends only if the stream's last event has this revision.
func Exact(revision uint64) Expected { return Expected{events: revision + 1} }

// After returns the expected revision of a stream with n events: NoStream for 0, else Exact(n-1).
func After(n uint64) Expected { return Expected{events: n} }

// Next returns the revision of the first event of an append.
func (e Expected) Next() uint64 { return e.events }

func (e Expected) String() string {
	if e.events == 0 {
		return "no stream"
	}
	return fmt.Sprintf("revision %d", e.events-1)
}

// Metadata is stored with an event's data.
type Metadata struct {
	RequestID     string `json:"request_id,omitempty"`
	Actor         string `json:"actor,omitempty"` // account:<id>, operator:<name> or system:<part>
	CorrelationID string `json:"correlation_id,omitempty"`
	CausationID   string `json:"causation_id,omitempty"`
	Hash          string `json:"hash,omitempty"` // hex; account streams only
}

// Proposed is an event to be appended.
type Proposed struct {
	ID            uuid.UUID
	Type          string
	SchemaVersion int
	OccurredAt    time.Time // UTC, whole microseconds
	Data          []byte    // JSON
	Metadata      Metadata
}

// Recorded is an event of the log. Its Data must not be changed: other subscribers may be reading the same bytes.
type Recorded struct {
	Proposed
	Stream   string
	Revision uint64
	Position Position
	// Decoding is shared by all subscriptions of the process that deliver this event; see Decode. It is nil
	// if only one of them has read the event, and in results of ReadStream and ReadAll.
	Decoding *Decoding
}

// Appended is the result of an append.
type Appended struct {
	// FirstRevision and LastRevision belong to the appended events.
	FirstRevision, LastRevision uint64
	// Position is at or after the last appended event and before any event appended later.
	Position Position
}

// Direction of a stream read.
type Direction int

// Directions.
const (
	Forward Direction = iota
	Backward
)

// End, as the start of a backward read, is the stream's last event.
const End = ^uint64(0)

// Filter selects events. The zero Filter selects all. If both parts are set, both must match.
type Filter struct {
	StreamPrefixes []string
	EventTypes     []string // exact names
}

// All reports whether the filter selects all events.
func (f Filter) All() bool { return len(f.StreamPrefixes) == 0 && len(f.EventTypes) == 0 }

// Match reports whether the filter selects an event.
func (f Filter) Match(stream, eventType string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(stream, prefix) }
	return (len(f.StreamPrefixes) == 0 || slices.ContainsFunc(f.StreamPrefixes, begins)) &&
		(len(f.EventTypes) == 0 || slices.Contains(f.EventTypes, eventType))
}

// Page is a part of the global order.
type Page struct {
	Events []Recorded
	// Next is the position after which to continue: everything up to it was read, including events that the
	// filter excluded.
	Next Position
	// End is true if there was nothing after Next at the time of the read.
	End bool
}

// Batch is a delivery of a subscription: events in order, and the position it has read up to.
type Batch struct {
	Events []Recorded
	// Position is at or after the last event; all selected events up to it have been delivered.
	Position Position
	// Live is true when the subscription has reached the end of the log.
	Live bool
}

// Subscription delivers all selected events after a position, in order, without gaps or repeats: first
// existing events, then new ones. It must be used by one goroutine at a time.
type Subscription interface {
	// Next waits for events. It returns a batch (possibly without events, if only the position or Live
	// changed), ctx.Err(), ErrClosed, or ErrCorrupt. It retries after faults of the store. After ctx.Err()
	// the subscription can continue.
	Next(ctx context.Context) (Batch, error)
	// Close ends the subscription, and a waiting Next. Closing again does nothing.
	Close() error
}

// Log is an event store.
type Log interface {
	// Append writes all events at the end of a stream, or none. It is idempotent: if the stream already holds events
	// with the same ids at those revisions, Append returns the first result; it compares only ids. The events are
	// durable when it returns. The log does not retain the slice.
	//
	// Errors: ErrWrongRevision, ErrTooLarge, ErrInvalid, ErrUnavailable, ErrAmbiguous (also if ctx ended during
	// the write), ErrClosed; ctx.Err() if ctx ended before anything was sent.
	Append(ctx context.Context, stream string, expected Expected, events []Proposed) (Appended, error)

	// ReadStream returns at most limit events of a stream, starting at a revision, in the given direction. A stream
	// that does not exist has no events. Errors: ErrInvalid, ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
	ReadStream(ctx context.Context, stream string, from uint64, direction Direction, limit int) ([]Recorded, error)

	// ReadAll returns at most limit selected events after a position. Before the end it may return fewer,
	// even none: continue at Next. Errors: as ReadStream.
	ReadAll(ctx context.Context, after Position, filter Filter, limit int) (Page, error)

	// Subscribe starts after a position. ctx bounds this call only; Close ends the subscription. Errors: as ReadStream.
	Subscribe(ctx context.Context, after Position, filter Filter) (Subscription, error)

	// Head returns the position of the last event, 0 for an empty log. Errors: as ReadStream.
	Head(ctx context.Context) (Position, error)

	// Close ends all subscriptions, waits for appends in progress and releases the store. Closing again
	// returns the result of the first Close.
	Close() error
}

// Run is a sequence of events of one stream, for an import.
type Run struct {
	Stream   string
	Expected Expected
	Events   []Proposed
}

// Importer is a Log that accepts events of many streams in a given order. It serves copies of whole logs,
// which single appends would make slow; not every store supports it.
type Importer interface {
	Log

	// Import does the appends that the runs describe, in order, or none of them: when it returns, all are durable, the
	// events have exactly the given order, and readers and subscribers see them as after Append. A run may continue
	// where an earlier one ended. Each run must respect the limits of Append, all together MaxImportEvents and
	// MaxImportBytes.
	//
	// Import skips a run whose events the stream already holds at their revisions, so an import may be repeated.
	//
	// Errors: as Append. The first rejected run determines the error, and nothing of the others is written.
	Import(ctx context.Context, runs []Run) error
}

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
