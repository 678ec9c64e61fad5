package commands

import "letterhead/eventschemas"

// accountDecision returns the identity of the decision behind an event of an account or usage stream.
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
	case eventschemas.KeyIssued:
		return ev.KeyID, "", nil
	case eventschemas.KeyRevoked:
		return ev.KeyID, "", nil
	default:
		return request.ID, "", nil
	}
}
