package projections

import (
	"fmt"
	"strings"

	"letterhead/domain/account"
	"letterhead/domain/brand"
	"letterhead/domain/usage"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Family is a set of kinds of streams.
type Family uint8

// The kinds of streams.
const (
	Accounts Family = 1 << iota // account-<id>
	Usage                       // usage-<account>-<YYYYMM>, usage-node-<node>
	Brands                      // brand-<registrable domain>
)

var prefixes = [...]struct {
	prefix string
	family Family
}{{account.StreamPrefix, Accounts}, {usage.StreamPrefix, Usage}, {brand.StreamPrefix, Brands}}

// Event is a recorded event, decoded once for all folds. Folds share it and must not change it.
type Event struct {
	*eventlog.Recorded
	Family Family
	// Subject is the stream's name without its family's prefix: an account's id, a brand's domain.
	Subject string
	// Body is the current struct of the event's type, by value. It is nil when Err is not.
	Body eventschemas.Event
	// Err says why the event could not be decoded. The Runner sets every read model aside that asked for
	// the stream: an event that cannot be read may have changed anything.
	Err error
}

func decode(rec *eventlog.Recorded, into *Event) {
	into.Recorded = rec
	for _, p := range prefixes {
		if subject, ok := strings.CutPrefix(rec.Stream, p.prefix); ok {
			into.Family, into.Subject = p.family, subject
			break
		}
	}
	if into.Family == 0 {
		return // nobody asks for it
	}
	into.Body, into.Err = eventlog.Decode(rec, eventschemas.Decode)
	if into.Err == nil && into.Body == nil {
		into.Err = fmt.Errorf("decode %s: no event", rec.Type)
	}
}

// Errorf is a fold's complaint about an event, with the event's place in it.
func (e *Event) Errorf(format string, args ...any) error {
	return fmt.Errorf("%s at %s@%d (position %d): %w", e.Type, e.Stream, e.Revision, e.Position, fmt.Errorf(format, args...))
}
