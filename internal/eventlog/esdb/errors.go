package esdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Answers of the store to an append.
var (
	errWrongRevision = errors.New("the stream is at another revision")
	errAboveLimit    = errors.New("the append is above the server's limit")
	errRejected      = errors.New("the server rejects the append")
	errDenied        = status.Error(codes.PermissionDenied, "access is denied")
	// errNotTaken means that the server takes no appends now.
	errNotTaken = status.Error(codes.Unavailable, "the server takes no appends")
	// errUnsent means that the append was not sent before the call for appends ended.
	errUnsent = errors.New("it was not sent")
	// errTimedOut means that the append's writer did not answer within the server's own timeout.
	errTimedOut = errors.New("the server's timeout has passed")
	// errNotLeader means that the server rejected the append because it is not the leader, errMaybeNotLeader that
	// it rejected this one or another one.
	errNotLeader      = errors.New("the server is not the leader")
	errMaybeNotLeader = fmt.Errorf("possibly for another append: %w", errNotLeader)
)

// outcomeOf classifies the error of an append. Everything except a certain rejection is unknown.
func outcomeOf(err error) outcome {
	code := status.Code(err)
	switch {
	case errors.Is(err, errWrongRevision):
		return wrongRevision
	case errors.Is(err, errAboveLimit):
		return tooLarge
	case errors.Is(err, errRejected):
		return rejected
	case errors.Is(err, errUnsent):
		return notWritten
	case errors.Is(err, errMaybeNotLeader):
		return unknownOutcome
	case errors.Is(err, errNotLeader), errors.Is(err, errNotTaken), strings.Contains(err.Error(), textEnded),
		// After the credentials or the permissions are corrected, the same append succeeds.
		code == codes.PermissionDenied, code == codes.Unauthenticated,
		// No call begins, because something in between does not know BatchAppend.
		code == codes.Unimplemented:
		return notWritten
	}
	return unknownOutcome
}

// appendError converts an error to one of the port. ctx is the caller's.
func appendError(ctx context.Context, stream string, expected eventlog.Expected, err error) error {
	attempt := fmt.Sprintf("append to %s at %s", stream, expected)
	if unsent, ok := errors.AsType[notSent](err); ok {
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

// hasCode reports whether an error of the client has one of the codes.
func hasCode(err error, codes ...esdb.ErrorCode) bool {
	e, ok := errors.AsType[*esdb.Error](err)
	return ok && slices.ContainsFunc(codes, e.IsErrorCode)
}

func isNotLeader(err error) bool { return errors.Is(err, errNotLeader) }

// The oldest supported release: earlier servers do not report when a subscription has caught up, and
// callers that wait for that would wait forever.
const oldestMajor, oldestMinor = 23, 10

// ErrUnsupported: the server's release is too old. The same server never becomes usable by waiting.
var ErrUnsupported = errors.New("this release of EventStoreDB is not supported")

// Version is a server's release.
type Version struct{ Major, Minor, Patch int }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// since reports whether the release is this one or a later one.
func (v Version) since(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// versionOf requests the release of a working client's server. Releases that do not report one are 0.0.0.
//
// Errors: ErrUnsupported, the errors of the client.
func versionOf(client *esdb.Client) (Version, error) {
	answer, err := client.GetServerVersion()
	if err != nil {
		return Version{}, fmt.Errorf("ask for the server's version: %w", err)
	}
	v := Version(*answer)
	if !v.since(oldestMajor, oldestMinor) {
		name := "older than 21.10"
		if v != (Version{}) {
			name = v.String()
		}
		return v, fmt.Errorf(
			"%w: the server is %s, and Letterhead needs %d.%d or newer (24.10 is recommended): upgrade the server",
			ErrUnsupported, name, oldestMajor, oldestMinor)
	}
	return v, nil
}

// ServerVersion returns the release of the server that the log is connected to.
//
// Errors: as ReadStream.
func (l *Log) ServerVersion(ctx context.Context) (Version, error) {
	const attempt = "ask for the server's version"
	if err := l.usable(ctx, attempt); err != nil {
		return Version{}, err
	}
	m, err := l.supervisor.acquire(ctx)
	if err != nil {
		return Version{}, readError(ctx, attempt, err)
	}
	defer m.release()
	return m.version, nil
}
