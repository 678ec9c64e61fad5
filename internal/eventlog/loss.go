package eventlog

import (
	"errors"
	"fmt"
)

// ErrLoss reports that the log has lost events that were acknowledged: it is shorter than it was, it is
// another log, or a damaged part of it cannot be read. The error is a *LossError.
var ErrLoss = errors.New("acknowledged events are missing from the event log")

// LossError compares a log with a witness: something outside the log that remembers an earlier state of it.
type LossError struct {
	// Witness names what remembers more than the log holds: the head marker, a read model, a snapshot, a
	// relay checkpoint.
	Witness string
	// Remembered is the last position that the witness knows. It is 0 when the witness remembers something
	// other than a position.
	Remembered Position
	// Head is the position of the last event that the log still holds and can read.
	Head Position
	// Other reports that the log is not a prefix of the one that is remembered: what the witness remembers of
	// earlier positions says nothing about it either.
	Other bool
	// Detail says what differs, as a clause: "its events from position 5 on have another digest".
	Detail string
}

func (e *LossError) Error() string {
	return fmt.Sprintf("%s: the %s remembers position %d, the log ends at position %d: %s", ErrLoss, e.Witness, e.Remembered, e.Head, e.Detail)
}

// Is makes errors.Is(err, ErrLoss) true.
func (e *LossError) Is(target error) bool { return target == ErrLoss }
