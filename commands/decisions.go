package commands

import (
	"fmt"

	"letterhead/eventschemas"
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
