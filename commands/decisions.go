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

// onBrandStream returns an error for an event that brand streams do not hold. Each command on a brand
// has the key of its decision.
func onBrandStream(ev eventschemas.Event) error {
	switch ev.(type) {
	case eventschemas.BrandDiscovered, eventschemas.BrandImported, eventschemas.BrandClaimed,
		eventschemas.BrandWithdrawn,
		eventschemas.CrawlRequested, eventschemas.CrawlSucceeded, eventschemas.CrawlConfirmed, eventschemas.CrawlFailed,
		eventschemas.FieldOverridden, eventschemas.OverrideRemoved:
		return nil
	}
	return noDecision(ev, "brand")
}

// onOperatorsStream returns an error for an event that the stream of operators does not hold.
func onOperatorsStream(ev eventschemas.Event) error {
	switch ev.(type) {
	case eventschemas.OperatorTokenIssued, eventschemas.OperatorTokenRevoked, eventschemas.OperatorLinkIssued:
		return nil
	}
	return noDecision(ev, "operators")
}

// onNoticesStream returns an error for an event that streams of notices do not hold.
func onNoticesStream(ev eventschemas.Event) error {
	switch ev.(type) {
	case eventschemas.NoticesSet, eventschemas.NoticeAttempted, eventschemas.NoticeSettled, eventschemas.NoticeReopened,
		eventschemas.PaymentFailed:
		return nil
	}
	return noDecision(ev, "notices")
}

// onSignInsStream returns an error for an event that streams of sign-ins do not hold.
func onSignInsStream(ev eventschemas.Event) error {
	switch ev.(type) {
	case eventschemas.SignInLinkIssued, eventschemas.SignedIn, eventschemas.SignedOut, eventschemas.SignedOutEverywhere,
		eventschemas.SignInEmailSet:
		return nil
	}
	return noDecision(ev, "sign-ins")
}

func noDecision(ev eventschemas.Event, kind string) error {
	return fmt.Errorf("no decision on %s streams appends %s", kind, ev.EventType())
}
