package commands

import (
	"letterhead/commands/streamwriter"
	"letterhead/internal/eventlog"
)

// Request identifies the request of a command and its actor.
type Request = streamwriter.Request

// Done is the outcome of a command on an account that is not a spend.
type Done struct {
	// Position is the position to wait for in a projection before it shows the command's effect.
	Position eventlog.Position
	Balance  int64
	Repeated bool // no change; nothing was appended
	// TookNothing and Short are as in account.Outcome.
	TookNothing bool
	Short       int64
}

// Actors of events without a client's request.
const (
	actorAccountWriter = "system:desk"
	actorQuotaWriter   = "system:usage-desk"
)
