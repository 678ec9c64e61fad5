package projections

import (
	"fmt"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Family is a set of kinds of streams.
type Category uint8

// The kinds of streams.
const (
	Accounts Category = 1 << iota // account-<id>
	Usage                         // usage-<account>-<YYYYMM>, usage-node-<node>
	Brands                        // brand-<registrable domain>
)

// Event is a recorded event, decoded once for all folds. Folds share it and must not change it.
type Event struct {
	*eventlog.Recorded
	Category Category
	// Subject is the stream's name without its family's prefix: an account's id, a brand's domain.
	Subject string
	// Body is the current struct of the event's type, by value. It is nil when Err is not.
	Body eventschemas.Event
	// Err says why the event could not be decoded. The Runner sets every read model aside that asked for
	// the stream: an event that cannot be read may have changed anything.
	Err error
}

// Errorf is a fold's complaint about an event, with the event's place in it.
func (e *Event) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s at %s@%d (position %d): %w", e.Type, e.Stream, e.Revision, e.Position, fmt.Errorf(format, args...))
}
