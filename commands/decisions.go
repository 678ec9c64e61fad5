package commands

import (
	"fmt"

	"letterhead/commands/streamwriter"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// accountDecision returns the identity of the decision behind an event of an account's stream.
func accountDecision(ev eventschemas.Event, request Request) (key, subject string, err error) {
	switch ev := ev.(type) {
	case eventschemas.CreditsCharged:
		if ev.IdempotencyKeyHash != "" {
			return ev.IdempotencyKeyHash, ev.ChargeID, nil
		}
		return ev.RequestID, ev.ChargeID, nil
	case eventschemas.CreditsHeld:
		return ev.HoldID, "", nil
	case eventschemas.HoldReleased:
		return ev.HoldID, "", nil
	case eventschemas.ChargeReversed:
		return ev.ChargeID, "", nil
	case eventschemas.ChargeKept:
		return ev.ChargeID, "", nil
	case eventschemas.CreditsGranted:
		if ev.PaymentID != "" {
			return ev.PaymentID, "payment", nil
		}
		return ev.GrantID, "grant", nil
	case eventschemas.PaymentRefunded:
		return ev.RefundID, ev.PaymentID, nil
	case eventschemas.PaymentFeeRecorded:
		return ev.FeeID, ev.PaymentID, nil
	case eventschemas.RefundReversed:
		return ev.RefundID, ev.PaymentID, nil
	case eventschemas.KeyIssued:
		return ev.KeyID, "", nil
	case eventschemas.KeyRevoked:
		return ev.KeyID, "", nil
	case eventschemas.KeyLimitSet:
		return request.ID, ev.KeyID, nil
	case eventschemas.AccountNoted:
		return ev.NoteID, "", nil
	case eventschemas.AccountOpened, eventschemas.PlanChanged, eventschemas.AccountSuspended,
		eventschemas.AccountReinstated, eventschemas.AccountClosed, eventschemas.BreakageRecognized:
		return request.ID, "", nil
	}
	return "", "", noDecision(ev, "account")
}

// usageDecision returns the identity of the decision behind an event of a usage stream.
func usageDecision(ev eventschemas.Event, request Request) (key, subject string, err error) {
	switch ev.(type) {
	case eventschemas.UsageTicked, eventschemas.LogosAllotted:
		return request.ID, "", nil // each group has its request
	}
	return "", "", noDecision(ev, "usage")
}

func noDecision(ev eventschemas.Event, kind string) error {
	return fmt.Errorf("no decision on %s streams appends %s", kind, ev.EventType())
}

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

// Chain is the hash chain of accounts.
var Chain streamwriter.Chain = func(
	head eventschemas.Hash, stream string, revision uint64, ev *eventlog.Proposed,
) eventschemas.Hash {
	return chainLink(stream, revision, ev).Next(head)
}

// ChainLink returns the part of a recorded event that the chain covers.
func ChainLink(rec *eventlog.Recorded) eventschemas.ChainLink {
	return chainLink(rec.Stream, rec.Revision, &rec.Proposed)
}

// chainLink returns the part of an event that the chain covers.
func chainLink(stream string, revision uint64, ev *eventlog.Proposed) eventschemas.ChainLink {
	return eventschemas.ChainLink{
		Stream:        stream,
		Revision:      revision,
		EventID:       ev.ID,
		Type:          ev.Type,
		SchemaVersion: ev.SchemaVersion,
		OccurredAt:    ev.OccurredAt,
		Actor:         ev.Metadata.Actor,
		RequestID:     ev.Metadata.RequestID,
		Data:          ev.Data,
	}
}
