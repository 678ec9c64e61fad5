package commands

import (
	"errors"
	"fmt"

	"letterhead/domain/usage"
)

// Errors of this package. Commands also return the refusals of the domain packages and the errors of the
// event log, wrapped with what was attempted.
var (
	// ErrBusy: the queue is full, a conflict could not be settled in time, or the desk is shutting down.
	// Nothing was written. Try again in a second, or when a *LoadingError says.
	ErrBusy = errors.New("busy, try again")
	// ErrUnknownOutcome: the log did not say in time whether the append landed. It is an ErrBusy. If a charge
	// or hold did land, the desk hands it back.
	ErrUnknownOutcome = fmt.Errorf("%w: the outcome of the append is not known", ErrBusy)
	// ErrInvalidRequest: the command does not say who asks, or for what.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrReservationSpent: the reservation was used or dropped before, or is another account's.
	ErrReservationSpent = errors.New("reservation is not open")
	// ErrUnknownCharge: the account's stream has no such charge at that revision.
	ErrUnknownCharge = errors.New("no such charge")
	// ErrOlderRecord: another node answered the account a newer record of the domain, or crawled it for the
	// account, within answersFor. Nothing was charged. Read the record from the brand's stream.
	ErrOlderRecord = errors.New("the account was answered a newer record")
	// ErrUnknownRevision: the brand's stream has no such revision.
	ErrUnknownRevision = errors.New("no such revision")
	// ErrQuotaExceeded: the month's allowance is used up. The error is a *usage.QuotaExceededError.
	ErrQuotaExceeded = usage.ErrQuotaExceeded
)
