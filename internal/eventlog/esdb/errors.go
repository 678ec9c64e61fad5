package esdb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"letterhead/internal/eventlog"
)

// outcome is what an error means for an append.
type outcome int

const (
	unknownOutcome outcome = iota // possibly written
	notWritten                    // certainly not written; may succeed later
	wrongRevision
	tooLarge
	rejected // certainly not written, and never will be
)

// Parts of error texts. The client offers no better way to recognize these errors.
const (
	// gRPC fails a call with this text if there was no connection for sending it.
	textDialing = "Error while dialing"
	// The server's texts if it wrote nothing (RpcExceptions in its source).
	textNotReady    = "Server Is Not Ready"
	textBusy        = "Server Is Too Busy"
	textNoLeader    = "No leader info available"
	textMaximumSize = "Maximum Append Size"
)

// outcomeOf classifies the error of an append. Everything except a certain rejection is unknown: the client reports a
// server that ended the call early as EOF without the reason, and a reset connection like a failed attempt to connect.
func outcomeOf(err error) outcome {
	var e *esdb.Error
	if !errors.As(err, &e) {
		return unknownOutcome
	}
	switch e.Code() {
	case esdb.ErrorCodeWrongExpectedVersion:
		return wrongRevision
	case esdb.ErrorCodeNotLeader, esdb.ErrorCodeConnectionClosed,
		// After the credentials or the permissions are corrected, the same append succeeds.
		esdb.ErrorCodeAccessDenied, esdb.ErrorCodeUnauthenticated:
		return notWritten
	case esdb.ErrorCodeStreamDeleted:
		return rejected
	}
	text := err.Error()
	if strings.Contains(text, textEnded) {
		return notWritten
	}
	switch status.Code(e.Err()) {
	case codes.InvalidArgument:
		if strings.Contains(text, textMaximumSize) {
			return tooLarge
		}
		return rejected
	case codes.Unavailable:
		if strings.Contains(text, textDialing) || strings.Contains(text, textNotReady) ||
			strings.Contains(text, textBusy) {
			return notWritten
		}
	case codes.Unknown:
		if strings.Contains(text, textNoLeader) {
			return notWritten
		}
	}
	return unknownOutcome
}

// appendError converts an error to one of the port. ctx is the caller's.
func appendError(ctx context.Context, stream string, expected eventlog.Expected, err error) error {
	attempt := fmt.Sprintf("append to %s at %s", stream, expected)
	var unsent notSent
	if errors.As(err, &unsent) {
		if errors.Is(err, ctx.Err()) {
			return ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) { // the timeout of the call, not the caller's
			return fmt.Errorf("%s: %w: %v", attempt, eventlog.ErrUnavailable, unsent.error)
		}
		return fmt.Errorf("%s: %w", attempt, unsent.error)
	}
	switch outcomeOf(err) {
	case wrongRevision:
		return &eventlog.WrongRevisionError{Stream: stream, Expected: expected}
	case notWritten:
		return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrUnavailable, err)
	case tooLarge:
		return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrTooLarge, err)
	case rejected:
		return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrInvalid, err)
	default:
		// The cause is included only as text: errors.Is must not find a context's error in it, which would
		// mean that nothing was sent.
		return fmt.Errorf("%s: %w: %v", attempt, eventlog.ErrAmbiguous, err)
	}
}

// readError converts an error to one of the port. ctx is the caller's.
func readError(ctx context.Context, attempt string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, eventlog.ErrClosed), errors.Is(err, eventlog.ErrUnavailable):
		return fmt.Errorf("%s: %w", attempt, err)
	case errors.Is(err, errNotOurs):
		return fmt.Errorf("%s: %w; another program writes into this store, or the data is damaged", attempt, err)
	}
	return fmt.Errorf("%s: %w: %v", attempt, eventlog.ErrUnavailable, err)
}

func isNotFound(err error) bool {
	var e *esdb.Error
	return errors.As(err, &e) && e.IsErrorCode(esdb.ErrorCodeResourceNotFound)
}

// isAborted reports whether the server gave up an append because its writer had not answered within the
// server's own timeout.
func isAborted(err error) bool {
	var e *esdb.Error
	return errors.As(err, &e) && (e.IsErrorCode(esdb.ErrorAborted) || status.Code(e.Err()) == codes.Aborted)
}

func isNotLeader(err error) bool {
	var e *esdb.Error
	return errors.As(err, &e) && e.IsErrorCode(esdb.ErrorCodeNotLeader)
}
