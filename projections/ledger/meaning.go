package ledger

import (
	"fmt"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// Charged returns the credits that the entry charges; below zero if it returns credits of a reversed charge.
func (e *Entry) Charged() int64 {
	switch e.Type {
	case eventschemas.CreditsCharged{}.EventType(), eventschemas.ChargeReversed{}.EventType():
		return -e.Amount
	}
	return 0
}

// Meaning explains an entry of a look-up to its account; empty for events that look-ups do not cause.
func (e *Entry) Meaning() string {
	switch e.Type {
	case eventschemas.CreditsHeld{}.EventType():
		return fmt.Sprintf("%s held while the site of %s was to be crawled.", credits(e.Held), e.Domain)
	case eventschemas.CreditsCharged{}.EventType():
		if e.HoldID != "" {
			return fmt.Sprintf("%s charged for the brand of %s, from those that were held.",
				credits(-e.Amount), e.Domain)
		}
		return fmt.Sprintf("The index had the brand of %s, with a logo. %s charged.", e.Domain, credits(-e.Amount))
	case eventschemas.HoldReleased{}.EventType():
		return fmt.Sprintf("%s released: the request ended without a charge to this hold.", credits(-e.Held))
	case eventschemas.ChargeReversed{}.EventType():
		if e.Reason == account.ReasonClientGone {
			return fmt.Sprintf("The client had disconnected before the answer. %s returned.", credits(e.Amount))
		}
		return fmt.Sprintf("The operator reversed the charge. %s returned.", credits(e.Amount))
	case eventschemas.ChargeKept{}.EventType():
		return "The answer of this charge was sent again to a repeated request, which was not charged."
	}
	return ""
}

// credits returns the beginning of a passive sentence about a number of credits.
func credits(n int64) string {
	if n == 1 {
		return "1 credit was"
	}
	return fmt.Sprintf("%d credits were", n)
}
