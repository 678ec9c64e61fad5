package streamwriter

import (
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
)

// State is the folded state of one stream and the part of it that is published. The state belongs to
// the actor's goroutine; the fields that Publish writes are guarded by the actor's lock.
type State interface {
	Apply(ev eventlog.Body, at time.Time)
	Revisions() uint64 // events applied
	LastAt() time.Time
	Begin()
	Commit()
	Rollback()
	Remembered() int // entries a snapshot writes
	MarshalBinary() ([]byte, error)
	UnmarshalBinary(data []byte) error
	Reset() // back to the state before the first event

	// BeforeGroup returns the events that a group appends before its first command, AfterGroup those after its last.
	BeforeGroup(now time.Time) []Event
	AfterGroup() []Event

	// Publish makes the state visible to readers that do not queue; durable reports whether none of it is
	// tentative. It is called with the lock held.
	Publish(durable bool)
	// Withdraw marks the published state as unknown. It is called with the lock held.
	Withdraw()
	// Idle reports whether the actor can end without losing anything. It is called with the lock held.
	Idle() bool
}

// Chained is a State whose stream carries the hash chain.
type Chained interface {
	Head() Hash
	Link(head Hash)
}

// Encoder writes the bodies of events.
type Encoder interface {
	Encode(ev eventlog.Body) (eventlog.Encoded, error)
}

// Kind describes the streams that a set of actors serves.
type Kind[S State] struct {
	// Label distinguishes the metrics.
	Label       string
	FoldVersion int
	// Open returns the stream of a key and its state before the first event, or an error for a key
	// that cannot have a stream.
	Open func(key string) (stream string, state S, err error)
	// Identify returns the identity of the decision behind an event: the same decision appends the same
	// event ids. An event type that these streams do not hold is an error.
	Identify func(ev eventlog.Body, request Request) (key, subject string, err error)
	// Encoder and Decode write and read the bodies of the events.
	Encoder Encoder
	Decode  func(eventType string, schemaVersion int, data []byte) (eventlog.Body, error)
	// EventID returns the id of an event: the same for the same arguments, and another one for any other.
	EventID func(stream, decisionKey, eventType, subject string) uuid.UUID
	// Chain is the hash chain; it may be nil unless the State is Chained.
	Chain Chain
	// Final reports whether a rejection is valid whatever the stream's tail holds.
	Final func(rejection error) bool
	// NeedsOperator reports whether a rejected compensation has to be left to an operator.
	NeedsOperator func(rejection error) bool
}

// Event is an event to append and the request that caused it.
type Event struct {
	Event   eventlog.Body
	Request Request
}

// Decision is the result of deciding a command.
type Decision struct {
	Events []eventlog.Body
	// Joined reports whether the command's effect is part of an event that the group appends anyway.
	Joined bool
	// Final reports whether success without an event is valid whatever the stream's tail holds.
	Final bool
}

// Command is one command on a stream. Decide, Applied, Undone and Finished are called with the actor's lock held.
type Command[S State] interface {
	// Decide returns the result of the command, or its rejection. Every change that it makes is reverted
	// by Undone, and it is called again when the group has to be decided again.
	Decide(s S, now time.Time) (Decision, error)
	// Applied is called after the decided events, if any, were applied to the state.
	Applied(s S)
	// Undone reverts the effects of Decide and Applied because the group was rolled back.
	Undone(s S)
	// Finished is called once with the final outcome, before the caller gets it.
	Finished(a *Actor[S], err error, position eventlog.Position)
	// Compensation is called when the command succeeded but its caller has left or was answered with an
	// unknown outcome, and when the outcome will never be known, to log what an operator would have to
	// compensate. It returns nil if there is nothing to compensate. The lock is not held.
	Compensation() *Compensation[S]
}

// Compensation is a command that an actor appends without a caller to end the effect of another command. It
// is retried for a time, and then left to an operator.
type Compensation[S State] struct {
	Request Request // usually of the command that it compensates
	Command Command[S]
}
