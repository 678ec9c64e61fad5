package commands

import (
	"slices"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// logTypes are the events of other streams: workers/loss, workers/journal, workers/checkpoint and Billing have their ids.
var logTypes = []string{eventschemas.LossAccepted{}.EventType(), eventschemas.PeriodEnded{}.EventType(), eventschemas.PeriodClosed{}.EventType(),
	eventschemas.CheckpointBegun{}.EventType(), eventschemas.LedgerCheckpointed{}.EventType(),
	eventschemas.BillingReported{}.EventType(), eventschemas.BillingSettled{}.EventType(), eventschemas.BillingReopened{}.EventType()}

// Every event type must have an identity on one kind of stream.
func TestDecisions_EveryEventType_HasAnIdentityOnOneKindOfStream(t *testing.T) {
	request := Request{ID: "r", Actor: "account:test"}
	kinds := map[string]func(ev eventschemas.Event) error{
		"account": func(ev eventschemas.Event) error {
			_, _, err := accountDecision(ev, request)
			return err
		},
		"usage": func(ev eventschemas.Event) error {
			_, _, err := usageDecision(ev, request)
			return err
		},
		"brand":     func(ev eventschemas.Event) error { return onBrandStream(ev) },
		"operators": func(ev eventschemas.Event) error { return onOperatorsStream(ev) },
		"notices":   func(ev eventschemas.Event) error { return onNoticesStream(ev) },
		"sign-ins":  func(ev eventschemas.Event) error { return onSignInsStream(ev) },
	}
	for _, name := range eventschemas.Types() {
		version := eventschemas.Current().Version(name)
		ev := testmust.Get(eventschemas.Decode(name, version, []byte("{}")))(t)
		var on []string
		for kind, identify := range kinds {
			if identify(ev) == nil {
				on = append(on, kind)
			}
		}
		want := 1
		if slices.Contains(logTypes, name) {
			want = 0
		}
		if slices.Sort(on); len(on) != want {
			t.Errorf("%s has a decision on %d kinds of stream (%s), want %d", name, len(on), strings.Join(on, ", "), want)
		}
	}
}

// Events of one type with the same ids are one decision; with other ids they are different decisions.
func TestAccountDecision_KeyOfEachType_IsItsOwnID(t *testing.T) {
	request := Request{ID: "r", Actor: "account:test"}
	for want, ev := range map[string]eventschemas.Event{
		"r":   eventschemas.AccountSuspended{},
		"k":   eventschemas.CreditsCharged{RequestID: "q", IdempotencyKeyHash: "k", ChargeID: "c"},
		"q":   eventschemas.CreditsCharged{RequestID: "q", ChargeID: "c"},
		"h":   eventschemas.HoldReleased{HoldID: "h"},
		"c":   eventschemas.ChargeReversed{ChargeID: "c", RequestID: "q"},
		"pay": eventschemas.CreditsGranted{PaymentID: "pay", GrantID: "g"},
		"g":   eventschemas.CreditsGranted{GrantID: "g"},
		"ref": eventschemas.PaymentRefunded{RefundID: "ref", PaymentID: "pay"},
		"fee": eventschemas.PaymentFeeRecorded{FeeID: "fee", PaymentID: "pay"},
		"dis": eventschemas.RefundReversed{RefundID: "dis", PaymentID: "pay"},
		"key": eventschemas.KeyIssued{KeyID: "key"},
	} {
		if key, _, err := accountDecision(ev, request); key != want || err != nil {
			t.Errorf("%s is identified by %q, want %q: %v", ev.EventType(), key, want, err)
		}
	}
}
