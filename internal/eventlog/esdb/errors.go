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

// outcome is what an error says about an append.
type outcome int

const (
	unknownOutcome outcome = iota // perhaps written
	notWritten                    // surely not written; later it may work
	wrongRevision
	tooLarge
	refused // surely not written, and will not be
)

// Parts of error texts. The client gives no better sign of these.
const (
	// gRPC fails a call with this when there was no connection to send it on.
	textDialing = "Error while dialing"
	// The server's own words when it took nothing (RpcExceptions in its source).
	textNotReady    = "Server Is Not Ready"
	textBusy        = "Server Is Too Busy"
	textNoLeader    = "No leader info available"
	textMaximumSize = "Maximum Append Size"
)

// outcomeOf reads an append's error. Whatever is not surely a refusal is unknown: the client reports a
// server that ended the call early as EOF without the reason, and a reset connection like one that could
// not be made.
func outcomeOf(err error) outcome {
	var e *esdb.Error
	if !errors.As(err, &e) {
		return unknownOutcome
	}
	switch e.Code() {
	case esdb.ErrorCodeWrongExpectedVersion:
		return wrongRevision
	case esdb.ErrorCodeNotLeader, esdb.ErrorCodeConnectionClosed,
		// Somebody must change the credentials or the rights; then the same append works.
		esdb.ErrorCodeAccessDenied, esdb.ErrorCodeUnauthenticated:
		return notWritten
	case esdb.ErrorCodeStreamDeleted:
		return refused
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
		return refused
	case codes.Unavailable:
		if strings.Contains(text, textDialing) || strings.Contains(text, textNotReady) || strings.Contains(text, textBusy) {
			return notWritten
		}
	case codes.Unknown:
		if strings.Contains(text, textNoLeader) {
			return notWritten
		}
	}
	return unknownOutcome
}

// appendError turns an error into the port's. ctx is the caller's.
func appendError(ctx context.Context, stream string, expected eventlog.Expected, err error) error {
	attempt := fmt.Sprintf("append to %s at %s", stream, expected)
	var unsent notSent
	if errors.As(err, &unsent) {
		if errors.Is(err, ctx.Err()) {
			return ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) { // the time of the call, not the caller's
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
	case refused:
		return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrInvalid, err)
	default:
		// The cause only as text: errors.Is must not find a context's error in it, which would say that
		// nothing was sent.
		return fmt.Errorf("%s: %w: %v", attempt, eventlog.ErrAmbiguous, err)
	}
}

// readError turns an error into the port's. ctx is the caller's.
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

// isAborted reports whether the server gave an append up: its writer had not answered within the server's own
// timeout.
func isAborted(err error) bool {
	var e *esdb.Error
	return errors.As(err, &e) && (e.IsErrorCode(esdb.ErrorAborted) || status.Code(e.Err()) == codes.Aborted)
}

func isNotLeader(err error) bool {
	var e *esdb.Error
	return errors.As(err, &e) && e.IsErrorCode(esdb.ErrorCodeNotLeader)
}
