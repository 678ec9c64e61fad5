package streamwriter

import (
	"errors"
	"time"

	"letterhead/internal/eventlog"
)

// Plain is the part of a State that has no snapshots, appends nothing of its own, publishes nothing and keeps nothing
// between groups.
type Plain struct{}

// Remembered implements State.
func (Plain) Remembered() int { return 0 }

// MarshalBinary implements State.
func (Plain) MarshalBinary() ([]byte, error) { return nil, errors.ErrUnsupported }

// UnmarshalBinary implements State.
func (Plain) UnmarshalBinary([]byte) error { return errors.ErrUnsupported }

// BeforeGroup implements State.
func (Plain) BeforeGroup(time.Time) []Event { return nil }

// AfterGroup implements State.
func (Plain) AfterGroup() []Event { return nil }

// Publish implements State.
func (Plain) Publish(bool) {}

// Withdraw implements State.
func (Plain) Withdraw() {}

// Idle implements State.
func (Plain) Idle() bool { return true }

// PlainCommand is the part of a Command that only decides. It is not compensated if its caller has left.
type PlainCommand[S State] struct{}

// Applied implements Command.
func (PlainCommand[S]) Applied(S) {}

// Undone implements Command.
func (PlainCommand[S]) Undone(S) {}

// Finished implements Command.
func (PlainCommand[S]) Finished(*Actor[S], error, eventlog.Position) {}

// Compensation implements Command.
func (PlainCommand[S]) Compensation() *Compensation[S] { return nil }
