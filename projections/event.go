package projections

import (
	"fmt"

	"letterhead/internal/eventlog"
)

// Event is a recorded event, decoded once for all folds. Folds share it and must not change it.
type Event struct {
	*eventlog.Recorded
	// Prefix is the prefix of the stream's name, one of Version.Streams, and Subject the rest: an account's id, a
	// brand's domain. Subject is empty if the stream has no other name than the prefix.
	Prefix, Subject string
	// Set is the set of streams, as the engine numbers them, that has only this prefix.
	Set uint64
	// Body is the current struct of the event's type, by value. It is nil if Err is not.
	Body eventlog.Body
	// Err is set if the event could not be decoded. The engine then quarantines every read model that folds the stream,
	// because such an event may have changed anything.
	Err error
}

// Errorf returns an error of a fold about an event, including the event's position.
func (e *Event) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s at %s@%d (position %d): %w", e.Type, e.Stream, e.Revision, e.Position,
		fmt.Errorf(format, args...))
}
