package commands

import (
	"slices"
	"strings"
	"testing"

	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// otherTypes are the events of streams that have neither actors nor identities by type: each command on them names the
// key of its decision.
var otherTypes = []eventschemas.Event{
	eventschemas.LossAccepted{}, eventschemas.PeriodEnded{}, eventschemas.PeriodClosed{}, eventschemas.CheckpointBegun{},
	eventschemas.LedgerCheckpointed{},
	eventschemas.BillingReported{}, eventschemas.BillingSettled{}, eventschemas.BillingReopened{},
	eventschemas.BrandDiscovered{}, eventschemas.BrandImported{}, eventschemas.BrandClaimed{}, eventschemas.BrandWithdrawn{},
	eventschemas.CrawlRequested{}, eventschemas.CrawlSucceeded{}, eventschemas.CrawlConfirmed{}, eventschemas.CrawlFailed{},
	eventschemas.FieldOverridden{}, eventschemas.OverrideRemoved{},
	eventschemas.OperatorTokenIssued{}, eventschemas.OperatorTokenRevoked{}, eventschemas.OperatorLinkIssued{},
	eventschemas.NoticesSet{}, eventschemas.NoticeAttempted{}, eventschemas.NoticeSettled{}, eventschemas.NoticeReopened{},
	eventschemas.PaymentFailed{},
	eventschemas.SignInLinkIssued{}, eventschemas.SignedIn{}, eventschemas.SignedOut{}, eventschemas.SignedOutEverywhere{},
	eventschemas.SignInEmailSet{},
}

// Every event type of accounts and of usage must have an identity on exactly one of the two kinds of streams.
func TestDecisions_EveryEventType_HasAnIdentityOnOneKindOfStream(t *testing.T) {
	request := Request{ID: "r", Actor: "account:test"}
	kinds := map[string]func(eventschemas.Event, Request) (key, subject string, err error){
		"account": accountDecision, "usage": usageDecision,
	}
	for _, name := range eventschemas.Types() {
		version := eventschemas.Current().Version(name)
		ev := testmust.Get(eventschemas.Decode(name, version, []byte("{}")))(t)
		var on []string
		for kind, identify := range kinds {
			if _, _, err := identify(ev, request); err == nil {
				on = append(on, kind)
			}
		}
		want := 1
		if slices.ContainsFunc(otherTypes, func(other eventschemas.Event) bool { return other.EventType() == name }) {
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
