// Package eventlog is the port to the event store: the only source of truth. Streams are append-only
// and numbered from revision 0; one global order, the position, runs through all of them.
//
// Adapters: sqlite (the default, one file) and esdb (EventStoreDB). eventlogtest holds the suite of
// promises that each of them keeps. A Log may also be an Importer; sqlite is.
package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Limits that every adapter enforces before it sends or stores anything.
const (
	// MaxEventBytes bounds data plus metadata of one event.
	MaxEventBytes = 128 << 10
	// MaxAppendBytes bounds one append. EventStoreDB refuses 1 MiB by default, with its framing.
	MaxAppendBytes = 768 << 10
	// MaxAppendEvents bounds the events of one append.
	MaxAppendEvents = 1024
	// MaxStreamName bounds a stream's name, in bytes.
	MaxStreamName = 300
	// MaxPage bounds the events of one read.
	MaxPage = 16384
	// MaxImportEvents and MaxImportBytes bound all runs of one import together. Larger ones were no faster at 100,000 events,
	// and whoever appends beside it waits for its commit.
	MaxImportEvents = 4096
	MaxImportBytes  = 4 << 20
	// MaxDisorder bounds what a copy into a store that does not import may change in the order of a log: two events of
	// different streams may change places if the second comes fewer than MaxDisorder events after the first.
	MaxDisorder = 4096
)

// Errors of a Log. Adapters wrap them with what was attempted; callers use errors.Is.
var (
	// ErrWrongRevision: the stream is not at the expected revision. Nothing was written. The error is a
	// *WrongRevisionError.
	ErrWrongRevision = errors.New("wrong expected revision")
	// ErrTooLarge: the append is past a limit. Nothing was written.
	ErrTooLarge = errors.New("append is too large")
	// ErrInvalid: the append or read is malformed (no events, nil event id, empty stream name).
	ErrInvalid = errors.New("invalid request to the event log")
	// ErrUnavailable: the store could not do it and nothing was written (also a full disk). Try again later.
	ErrUnavailable = errors.New("event log is unavailable")
	// ErrAmbiguous: nobody knows whether it was written. Repeat the same append (same ids, same expected
	// revision); it then says so.
	ErrAmbiguous = errors.New("outcome of the append is unknown")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("event log is closed")
	// ErrCorrupt: stored data cannot be read as what it should be.
	ErrCorrupt = errors.New("event log is corrupt")
)

// WrongRevisionError says where the stream really was, as far as the store told.
type WrongRevisionError struct {
	Stream   string
	Expected Expected
}

func (e *WrongRevisionError) Error() string {
	return fmt.Sprintf("append to %s at %s: %s", e.Stream, e.Expected, ErrWrongRevision)
}

// Is makes errors.Is(err, ErrWrongRevision) true.
func (e *WrongRevisionError) Is(target error) bool { return target == ErrWrongRevision }

// Position is a place in the order of all events; 0 stands before the first event. Positions grow, with
// gaps. Only 0 and positions that the log gave may be handed to it: a store may take another one for the
// middle of an event.
type Position uint64

// Expected is the revision a stream must be at for an append.
type Expected struct {
	kind     expectedKind
	revision uint64
}

type expectedKind uint8

const (
	kindAny expectedKind = iota
	kindNoStream
	kindExact
)

// Any appends whatever the stream's revision. Repeats are not recognised.
func Any() Expected { return Expected{kind: kindAny} }

// NoStream appends only when the stream has no event.
func NoStream() Expected { return Expected{kind: kindNoStream} }

// Exact appends only when the stream's last event has this revision.
func Exact(revision uint64) Expected { return Expected{kind: kindExact, revision: revision} }

// After is what a stream with n events expects: NoStream for 0, else Exact(n-1).
func After(n uint64) Expected {
	if n == 0 {
		return NoStream()
	}
	return Exact(n - 1)
}

// IsAny says whether every revision will do.
func (e Expected) IsAny() bool { return e.kind == kindAny }

// Next returns the revision that the first event of an append gets, and false for Any.
func (e Expected) Next() (uint64, bool) {
	switch e.kind {
	case kindNoStream:
		return 0, true
	case kindExact:
		return e.revision + 1, true
	default:
		return 0, false
	}
}

func (e Expected) String() string {
	switch e.kind {
	case kindNoStream:
		return "no stream"
	case kindExact:
		return fmt.Sprintf("revision %d", e.revision)
	default:
		return "any revision"
	}
}

// Metadata travels beside an event's data.
type Metadata struct {
	RequestID     string `json:"request_id,omitempty"`
	Actor         string `json:"actor,omitempty"` // who: account:<id>, operator:<name>, system:<part>
	CorrelationID string `json:"correlation_id,omitempty"`
	CausationID   string `json:"causation_id,omitempty"`
	Hash          string `json:"hash,omitempty"` // hex; account streams only
}

// Proposed is an event that is to be appended.
type Proposed struct {
	ID            uuid.UUID
	Type          string
	SchemaVersion int
	OccurredAt    time.Time // UTC, whole microseconds
	Data          []byte    // JSON
	Metadata      Metadata
}

// Recorded is an event that the log holds. Its Data must not be changed: others who follow the log may be
// reading the same bytes.
type Recorded struct {
	Proposed
	Stream   string
	Revision uint64
	Position Position
	// Decoding is shared by the subscriptions of the process that deliver this event; see Decode. It is nil when one
	// of them alone has read the event, and in what ReadStream and ReadAll return.
	Decoding *Decoding
}

// Appended says where an append landed.
type Appended struct {
	// FirstRevision and LastRevision are those of the appended events.
	FirstRevision, LastRevision uint64
	// Position is at or past the last appended event and before anything appended later.
	Position Position
}

// Direction of a stream read.
type Direction int

// Directions.
const (
	Forward Direction = iota
	Backward
)

// End as the from of a backward read is the stream's last event.
const End = ^uint64(0)

// Filter chooses events. The zero Filter chooses all. Both parts must match when both are given.
type Filter struct {
	StreamPrefixes []string
	EventTypes     []string // exact names
}

// Match says whether the filter chooses an event.
func (f Filter) Match(stream, eventType string) bool {
	return f.matchStream(stream) && f.matchType(eventType)
}

func (f Filter) matchStream(stream string) bool {
	if len(f.StreamPrefixes) == 0 {
		return true
	}
	for _, p := range f.StreamPrefixes {
		if strings.HasPrefix(stream, p) {
			return true
		}
	}
	return false
}

func (f Filter) matchType(eventType string) bool {
	if len(f.EventTypes) == 0 {
		return true
	}
	for _, t := range f.EventTypes {
		if t == eventType {
			return true
		}
	}
	return false
}

// Page is a part of the global order.
type Page struct {
	Events []Recorded
	// Next is the position to go on after: all up to it were looked at, also those the filter left out.
	Next Position
	// End is true when nothing stood behind Next at the time of the read.
	End bool
}

// Batch is what a subscription delivers: events in order, then how far it has looked.
type Batch struct {
	Events []Recorded
	// Position is at or past the last event; all chosen events up to it have been delivered.
	Position Position
	// Live is true when the subscription has reached the end of the log.
	Live bool
}

// Subscription delivers all chosen events after a position, in order, without gap or repeat: those that
// are there, then those that come. It is for one goroutine.
type Subscription interface {
	// Next waits for events. It returns a batch (possibly without events, when only the position or Live
	// changed), ctx.Err(), ErrClosed, or ErrCorrupt. Faults of the store are retried inside. After
	// ctx.Err() the subscription goes on where it was.
	Next(ctx context.Context) (Batch, error)
	// Close ends the subscription, also one that waits in Next. Closing again does nothing.
	Close() error
}

// Log is an event store.
type Log interface {
	// Append writes all events at the end of a stream, or none. With an exact revision or NoStream it is
	// idempotent: when the stream already holds the same event ids at those revisions, the first result is
	// returned; only ids are compared. It is durable when it returns. The log keeps no hold of the events.
	//
	// Errors: ErrWrongRevision, ErrTooLarge, ErrInvalid, ErrUnavailable, ErrAmbiguous (also when ctx ended
	// while the write was under way), ErrClosed; ctx.Err() when ctx ended before anything was sent.
	Append(ctx context.Context, stream string, expected Expected, events []Proposed) (Appended, error)

	// ReadStream returns at most limit events of a stream, from a revision on, in the direction. A stream
	// that does not exist has no events. Errors: ErrInvalid, ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
	ReadStream(ctx context.Context, stream string, from uint64, direction Direction, limit int) ([]Recorded, error)

	// ReadAll returns at most limit chosen events after a position. It may return fewer, even none, before
	// the end: go on at Next. Errors: as ReadStream.
	ReadAll(ctx context.Context, after Position, filter Filter, limit int) (Page, error)

	// Subscribe starts after a position. ctx bounds this call only; Close ends the subscription. Errors:
	// as ReadStream.
	Subscribe(ctx context.Context, after Position, filter Filter) (Subscription, error)

	// Head returns the position of the last event, 0 for an empty log. Errors: as ReadStream.
	Head(ctx context.Context) (Position, error)

	// Close ends all subscriptions, waits for appends under way and releases the store. Closing again
	// returns what the first Close returned.
	Close() error
}

// Run is events that follow each other in one stream, as an import takes them.
type Run struct {
	Stream   string
	Expected Expected
	Events   []Proposed
}

// Importer is a Log that takes events of many streams in a given order. It is for copies of whole logs, which
// one append at a time makes slow; not every store can do it.
type Importer interface {
	Log

	// Import does the appends that the runs describe, one after the other, or none of them: they are durable
	// together when it returns, their events stand in exactly the given order, and readers and subscribers
	// see them as after Append. The order of the runs counts: one may go on where an earlier one ended.
	// Each run keeps the limits of Append, all together keep MaxImportEvents and MaxImportBytes.
	//
	// A run whose events the stream already holds at their revisions is left as it is, as by Append, so the
	// same import may be repeated. Any is refused, because its repeats are not recognised.
	//
	// Errors: as Append; the first run that is refused decides, and nothing of the others was written.
	Import(ctx context.Context, runs []Run) error
}
