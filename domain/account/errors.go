package account

import (
	"errors"
	"fmt"
)

// Errors of decisions. A rejected command results in no event.
var (
	// ErrInvalid means that the command is malformed. The error is an *InvalidError.
	ErrInvalid = errors.New("invalid command")
	// ErrNotFound means that there is no such account.
	ErrNotFound = errors.New("no such account")
	// ErrExists means that the account was opened before, for another holder.
	ErrExists = errors.New("account already exists")
	// ErrSuspended means that the account is suspended and may not spend.
	ErrSuspended = errors.New("account is suspended")
	// ErrClosed means that the account is closed.
	ErrClosed = errors.New("account is closed")
	// ErrInsufficientCredits means that the credits do not suffice. The error is an
	// *InsufficientCreditsError.
	ErrInsufficientCredits = errors.New("not enough credits")
	// ErrCreditLimit means that an amount would exceed MaxCredits.
	ErrCreditLimit = errors.New("exceeds the largest amount of credits")
	// ErrUnknownHold means that no such hold was ever placed, or that it ended longer than HoldMemory ago.
	ErrUnknownHold = errors.New("no such hold")
	// ErrHoldMismatch means that the hold id is in use for another amount, request or domain.
	ErrHoldMismatch = errors.New("hold differs from the one placed under its id")
	// ErrTooManyHolds means that MaxOpenHolds are open.
	ErrTooManyHolds = errors.New("too many open holds")
	// ErrUnknownPayment means that no grant carries this payment id.
	ErrUnknownPayment = errors.New("no such payment")
	// ErrPaymentMismatch means that the payment, grant, refund or fee id was used before with other
	// credits, money or payment. The error is a *PaymentMismatchError.
	ErrPaymentMismatch = errors.New("the command differs from what is already recorded under its id")
	// ErrRefundTooLarge means that the refund is more than the remainder of the payment, in credits or in money.
	ErrRefundTooLarge = errors.New("refund is larger than what is left of the payment")
	// ErrNotClosed means that breakage is recognized only of a closed account.
	ErrNotClosed = errors.New("account is not closed")
	// ErrOpenHolds means that the account has holds that have not ended.
	ErrOpenHolds = errors.New("account has open holds")
	// ErrIdempotencyMismatch means that the idempotency key was used within 24 h for another request.
	ErrIdempotencyMismatch = errors.New("idempotency key was used for another request")
	// ErrKeysForgotten means that the fold has forgotten idempotency keys that are still valid. Decide again with
	// Older.
	ErrKeysForgotten = errors.New("older idempotency keys are needed for the decision")
	// ErrChargeReversed means that the repeated charge was reversed.
	ErrChargeReversed = errors.New("charge was reversed")
	// ErrChargeKept means that another request was answered from the charge, so it is not reversed
	// although its first client disconnected.
	ErrChargeKept = errors.New("charge is kept: another answer was given from it")
	// ErrTooLate means that the charge is older than ReversalWindow, or than UndeliveredWindow when its
	// client disconnected.
	ErrTooLate = errors.New("charge is too old to be reversed")
	// ErrUnknownKey means that no key with this id was ever issued.
	ErrUnknownKey = errors.New("no such key")
	// ErrKeyExists means that the key id belongs to another key.
	ErrKeyExists = errors.New("key id is in use for another key")
	// ErrTooManyKeys means that MaxKeys are neither revoked nor expired.
	ErrTooManyKeys = errors.New("too many keys")
)

// InsufficientCreditsError reports the credits needed and available. It matches ErrInsufficientCredits.
type InsufficientCreditsError struct {
	Balance int64 // of the account stream; may be negative after a refund
	// credits that could be spent: balance minus holds and reservations, never below zero; the balance itself when that
	// is negative
	Available int64
	Required  int64 // credits that the command needed
	// KeyLimit and KeyUsed are set if the limit of the request's key is the cause. Credits that are set aside count.
	KeyLimit, KeyUsed int64
}

func (e *InsufficientCreditsError) Error() string {
	if e.KeyLimit > 0 {
		return fmt.Sprintf("%s: %d required, %d of the key's limit of %d used", ErrInsufficientCredits, e.Required,
			e.KeyUsed, e.KeyLimit)
	}
	return fmt.Sprintf("%s: %d required, %d available (balance %d)", ErrInsufficientCredits, e.Required,
		e.Available, e.Balance)
}

// Is makes errors.Is(err, ErrInsufficientCredits) true.
func (e *InsufficientCreditsError) Is(target error) bool { return target == ErrInsufficientCredits }

// InvalidError names the invalid field and the reason. It matches ErrInvalid.
type InvalidError struct {
	Field  string
	Reason string
	cause  error // a *text.EmailError, or nil
}

// Unwrap returns the *text.EmailError of a text with an e-mail address.
func (e *InvalidError) Unwrap() error { return e.cause }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s: the field %s %s", ErrInvalid, e.Field, e.Reason)
}

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// PaymentMismatchError reports what was recorded first. It matches ErrPaymentMismatch.
type PaymentMismatchError struct {
	ID       string // of the payment, grant, refund or fee
	Recorded string // such as "100 credits"
	Asked    string
}

func (e *PaymentMismatchError) Error() string {
	return fmt.Sprintf("%s: %s was recorded with %s, not %s", ErrPaymentMismatch, e.ID, e.Recorded, e.Asked)
}

// Is makes errors.Is(err, ErrPaymentMismatch) true.
func (e *PaymentMismatchError) Is(target error) bool { return target == ErrPaymentMismatch }
