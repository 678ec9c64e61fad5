package streamwriter

import (
	"errors"
	"fmt"
)

// Errors of this package. Commands also return their own rejections and the errors of the event log,
// wrapped with the attempted operation.
var (
	// ErrBusy: the queue is full, a conflict could not be resolved in time, or Drain was called. Nothing
	// was written. Retry after a second, or after LoadingError.RetryAfter.
	ErrBusy = errors.New("busy, try again")
	// ErrUnknownOutcome: the log did not report in time whether the append succeeded. It is an ErrBusy.
	// Events that were stored are compensated.
	ErrUnknownOutcome = fmt.Errorf("%w: the outcome of the append is not known", ErrBusy)
	// ErrInvalidRequest: the command lacks its request id or actor.
	ErrInvalidRequest = errors.New("invalid request")
)
