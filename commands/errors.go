package commands

import (
	"errors"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/usage"
)

// Errors of this package. Commands also return the rejections of the domain packages and the errors of
// the event log, wrapped with the attempted operation.
var (
	// ErrBusy: the queue is full, a conflict could not be resolved in time, or the writer is shutting
	// down. Nothing was written. Retry after a second, or after LoadingError.RetryAfter.
	ErrBusy = streamwriter.ErrBusy
	// ErrUnknownOutcome: the log did not report in time whether the append succeeded. It is an ErrBusy.
	// If a charge or hold was stored, it is reversed or released.
	ErrUnknownOutcome = streamwriter.ErrUnknownOutcome
	// ErrInvalidRequest: the command lacks its request id or actor.
	ErrInvalidRequest = streamwriter.ErrInvalidRequest
	// ErrReservationSpent: the reservation was used or dropped before, or belongs to another account.
	ErrReservationSpent = errors.New("reservation is not open")
	// ErrUnknownCharge: the account's stream has no such charge at that revision.
	ErrUnknownCharge = errors.New("no such charge")
	// ErrOlderRecord: another node answered the account with a newer record of the domain, or crawled it for the
	// account, within answersFor. Nothing was charged. Read the record from the brand's stream.
	ErrOlderRecord = errors.New("the account has already received a newer record")
	// ErrNotSeen: a decision is durable, and requests were not seen to follow it in time.
	ErrNotSeen = errors.New("not every node has confirmed it in time")
	// ErrUnknownRevision: the brand's stream has no such revision.
	ErrUnknownRevision = errors.New("no such revision")
	// ErrQuotaExceeded: the month's allowance is used up. The error is a *usage.QuotaExceededError.
	ErrQuotaExceeded = usage.ErrQuotaExceeded
)

// FieldError means that a field of an operator's request has a wrong value. It is an account.ErrInvalid.
type FieldError struct {
	Field  string // as in the request
	Reason string // after the name of the field
}

func (e *FieldError) Error() string { return "the field " + e.Field + " " + e.Reason }

// Is reports whether the target is account.ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == account.ErrInvalid }
