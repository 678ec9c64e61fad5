package account

import "letterhead/eventschemas"

// Delta returns by how much an event moves the balance of its account.
func Delta(ev eventschemas.Event) int64 {
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		return ev.Credits
	case eventschemas.CreditsCharged:
		return -ev.Credits
	case eventschemas.ChargeReversed:
		return ev.Credits
	case eventschemas.PaymentRefunded:
		return -ev.Credits
	case eventschemas.BreakageRecognized:
		return -ev.Credits
	case eventschemas.RefundReversed:
		return ev.Credits
	}
	return 0
}
