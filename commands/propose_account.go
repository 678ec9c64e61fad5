package commands

import (
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// ProposeAccountEvent returns the event that was last applied to an account as the account writer appends it, and sets
// the head of the account's hash chain. It serves generated histories, which are imported in bulk.
func ProposeAccountEvent(a *account.Account, ev eventschemas.Event, request Request, at time.Time) (eventlog.Proposed, error) {
	stream := account.Stream(a.ID())
	p, err := streamwriter.Propose(eventschemas.Encoder{}, accountDecision, stream, ev, request, at)
	if err != nil {
		return eventlog.Proposed{}, err
	}
	a.Link(streamwriter.Link(a.Head(), stream, a.Revisions()-1, &p))
	return p, nil
}
