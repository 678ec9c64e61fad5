package eventlog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ErrLoss means that acknowledged events are missing: the log is shorter than it was, it is another log, or
// a damaged part of it cannot be read. The error is a *LossError.
var ErrLoss = errors.New("acknowledged events are missing from the event log")

// LossError compares a log with a witness: a record, outside the log, of an earlier state of it.
type LossError struct {
	// Witness names the record that knows more than the log holds: the head marker, a read model, a
	// snapshot, a relay checkpoint.
	Witness string
	// Remembered is the last position that the witness knows. It is 0 if the witness records something
	// other than a position.
	Remembered Position
	// Head is the position of the last readable event of the log.
	Head Position
	// RememberedFirst and HeldFirst are the ids of the first events of the recorded log and of the log that
	// was found; uuid.Nil if there is none or it is unknown.
	RememberedFirst, HeldFirst uuid.UUID
	// Other means that the log is not a prefix of the recorded one, so the witness proves nothing about
	// earlier positions either.
	Other bool
	// Shared means that the log is in an event store, whose positions are not event counts, instead of files.
	Shared bool
	// Detail describes the difference, as a clause: "its events from position 5 on have another digest".
	Detail string
	// Cause is the reason why a part of the log cannot be read; nil if all of it can.
	Cause error
}

// Error returns a message for an operator: the missing events, the remaining ones, and the remedies.
func (e *LossError) Error() string {
	var b strings.Builder
	b.WriteString(ErrLoss.Error())
	b.WriteString(": ")
	switch {
	case e.Remembered > e.Head && e.Shared:
		fmt.Fprintf(&b, "the %s remembers position %d, and the log ends at position %d: ",
			e.Witness, e.Remembered, e.Head)
	case e.Remembered > e.Head:
		fmt.Fprintf(&b, "the %s remembers position %d, and the log can be read up to position %d, so positions %d to %d (%d) are missing: ",
			e.Witness, e.Remembered, e.Head, e.Head+1, e.Remembered, e.Remembered-e.Head)
	default:
		fmt.Fprintf(&b, "the %s differs from the log, which can be read up to position %d: ", e.Witness, e.Head)
	}
	b.WriteString(e.Detail)
	if e.RememberedFirst != uuid.Nil || e.HeldFirst != uuid.Nil {
		fmt.Fprintf(&b, ". The recorded log %s", beginning(e.RememberedFirst, "begins with an unknown event"))
		if e.Remembered > 0 {
			fmt.Fprintf(&b, " and reaches position %d", e.Remembered)
		}
		fmt.Fprintf(&b, "; the log that was found %s and ends at position %d",
			beginning(e.HeldFirst, "has no readable event"), e.Head)
	}
	if e.Shared {
		b.WriteString(
			". Nothing was changed. Correct LETTERHEAD_EVENTSTORE if it names another store, or bring back the event " +
				"store that holds the events, or restore a backup of it, or continue with the events that this one holds: " +
				"letterhead recover accept-loss")
	} else {
		b.WriteString(". Nothing was changed. Keep a copy of the damaged files and restore the data folder from a backup " +
			"(letterhead restore BACKUP --data NEW), or continue with the remaining events: letterhead recover accept-loss")
	}
	return b.String()
}

func beginning(first uuid.UUID, without string) string {
	if first == uuid.Nil {
		return without
	}
	return "begins with event " + first.String()
}

// SameLoss reports whether two errors are about the same recorded log and the same log that was found. Their witnesses
// and positions may differ.
func SameLoss(a, b error) bool {
	var one, other *LossError
	if !errors.As(a, &one) || !errors.As(b, &other) {
		return a.Error() == b.Error()
	}
	return one.RememberedFirst == other.RememberedFirst && one.HeldFirst == other.HeldFirst && one.Other == other.Other
}

// Is makes errors.Is(err, ErrLoss) true.
func (e *LossError) Is(target error) bool { return target == ErrLoss }

// Unwrap returns the cause.
func (e *LossError) Unwrap() error { return e.Cause }
