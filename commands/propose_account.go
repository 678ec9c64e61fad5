package commands

import (
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// bulkAccounts describes the streams of accounts.
var bulkAccounts = accountStreams(false)

// ProposeAccountEvent returns the event that was last applied to an account as the account writer appends it, and sets
// the head of the account's hash chain. It serves generated histories, which are imported in bulk.
func ProposeAccountEvent(a *account.Account, ev eventschemas.Event, request Request,
	at time.Time) (eventlog.Proposed, error) {
	stream := account.Stream(a.ID())
	p, err := bulkAccounts.Propose(eventschemas.Encoder{}, stream, ev, request, at)
	if err != nil {
		return eventlog.Proposed{}, err
	}
	a.Link(Chain.Link(a.Head(), stream, a.Revisions()-1, &p))
	return p, nil
}
