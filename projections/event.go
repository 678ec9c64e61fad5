package projections

import (
	"fmt"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Category is a set of stream categories.
type Category uint16

// The stream categories.
const (
	Accounts    Category = 1 << iota // account-<id>
	Usage                            // usage-<account>-<YYYYMM>, usage-node-<node>
	Brands                           // brand-<registrable domain>
	Books                            // books: the ends of months
	Checkpoints                      // checkpoints, of the ledger
	Operators                        // operators: their tokens
	Notices                          // notices-<account>
	SignIns                          // signins-<account>
	Billing                          // billing-<processor>:<event>
)

// Event is a recorded event, decoded once for all folds. Folds share it and must not change it.
type Event struct {
	*eventlog.Recorded
	Category Category
	// Subject is the stream's name without the prefix of its category: an account's id, a brand's domain. It is
	// empty in the streams of the books, of the checkpoints and of the operators.
	Subject string
	// Body is the current struct of the event's type, by value. It is nil if Err is not.
	Body eventschemas.Event
	// Err is set if the event could not be decoded. The engine then quarantines every read model that folds the stream,
	// because such an event may have changed anything.
	Err error
}

// Errorf returns an error of a fold about an event, including the event's position.
func (e *Event) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s at %s@%d (position %d): %w", e.Type, e.Stream, e.Revision, e.Position, fmt.Errorf(format, args...))
}
