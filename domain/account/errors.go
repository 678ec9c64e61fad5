package account

import (
	"errors"
	"fmt"
)

// Refusals. A refused command leads to no event.
var (
	// ErrInvalid: the command itself is malformed. The error is an *InvalidError.
	ErrInvalid = errors.New("invalid command")
	// ErrNotFound: there is no such account.
	ErrNotFound = errors.New("no such account")
	// ErrExists: the account was opened before, for another holder.
	ErrExists = errors.New("account exists already")
	// ErrSuspended: the account is suspended and may not spend.
	ErrSuspended = errors.New("account is suspended")
	// ErrClosed: the account is closed.
	ErrClosed = errors.New("account is closed")
	// ErrInsufficientCredits: the error is an *InsufficientCreditsError.
	ErrInsufficientCredits = errors.New("not enough credits")
	// ErrCreditLimit: an amount would pass MaxCredits.
	ErrCreditLimit = errors.New("past the largest amount of credits")
	// ErrUnknownHold: no such hold was ever placed, or it ended longer than HoldMemory ago.
	ErrUnknownHold = errors.New("no such hold")
	// ErrHoldMismatch: the hold id is in use for another amount, request or domain.
	ErrHoldMismatch = errors.New("hold differs from the one placed under its id")
	// ErrTooManyHolds: MaxOpenHolds are open.
	ErrTooManyHolds = errors.New("too many open holds")
	// ErrUnknownPayment: no grant carries this payment id.
	ErrUnknownPayment = errors.New("no such payment")
	// ErrPaymentMismatch: the payment, grant or refund id was used before for another amount. The error is a
	// *PaymentMismatchError.
	ErrPaymentMismatch = errors.New("amount differs from the one already recorded")
	// ErrRefundTooLarge: the refund is more than what is left of the payment.
	ErrRefundTooLarge = errors.New("refund is larger than what is left of the payment")
	// ErrIdempotencyMismatch: the idempotency key was used within 24 h for another request.
	ErrIdempotencyMismatch = errors.New("idempotency key was used for another request")
	// ErrKeysForgotten: the fold has forgotten idempotency keys that still count. Decide again with Older.
	ErrKeysForgotten = errors.New("older idempotency keys are needed for the decision")
	// ErrChargeReversed: the charge that is repeated was handed back.
	ErrChargeReversed = errors.New("charge was reversed")
	// ErrChargeKept: somebody else was answered from the charge, so it is not handed back because its first
	// client has gone.
	ErrChargeKept = errors.New("charge is kept: another answer was given from it")
	// ErrTooLate: the charge is older than ReversalWindow, or than HandBackWindow when its client has gone.
	ErrTooLate = errors.New("charge is too old to be reversed")
	// ErrUnknownKey: no key with this id was ever issued.
	ErrUnknownKey = errors.New("no such key")
	// ErrKeyExists: the key id stands for another key.
	ErrKeyExists = errors.New("key id is in use for another key")
	// ErrTooManyKeys: MaxKeys are valid.
	ErrTooManyKeys = errors.New("too many keys")
)

// InsufficientCreditsError says how far the credits go. It is ErrInsufficientCredits.
type InsufficientCreditsError struct {
	Balance   int64 // of the account stream; may be negative after a refund
	Available int64 // what could be spent: balance less holds and reservations, never below zero; the balance itself when that is negative
	Required  int64 // what the command needed
}

func (e *InsufficientCreditsError) Error() string {
	return fmt.Sprintf("%s: %d required, %d available (balance %d)", ErrInsufficientCredits, e.Required, e.Available, e.Balance)
}

// Is makes errors.Is(err, ErrInsufficientCredits) true.
func (e *InsufficientCreditsError) Is(target error) bool { return target == ErrInsufficientCredits }

// InvalidError names the field that is wrong and why. It is ErrInvalid.
type InvalidError struct {
	Field  string
	Reason string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s %s", ErrInvalid, e.Field, e.Reason) }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// PaymentMismatchError says what was recorded first. It is ErrPaymentMismatch.
type PaymentMismatchError struct {
	ID       string // of the payment, grant or refund
	Recorded int64  // credits
	Asked    int64  // credits
}

func (e *PaymentMismatchError) Error() string {
	return fmt.Sprintf("%s: %s stands for %d credits, not %d", ErrPaymentMismatch, e.ID, e.Recorded, e.Asked)
}

// Is makes errors.Is(err, ErrPaymentMismatch) true.
func (e *PaymentMismatchError) Is(target error) bool { return target == ErrPaymentMismatch }
