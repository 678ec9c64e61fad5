package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/billing"
	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// reported appends events of the stream of a report.
func (s *service) reported(eventID string, bodies ...eventschemas.Event) {
	s.t.Helper()
	var events []eventlog.Proposed
	for _, body := range bodies {
		e, err := eventschemas.Encode(body)
		s.must(err)
		events = append(events, eventlog.Proposed{ID: uuid.New(), Type: e.Type, SchemaVersion: e.SchemaVersion, OccurredAt: time.Now(), Data: e.Data})
	}
	_, err := s.node.Stores.Log.Append(s.t.Context(), billing.Stream(billing.Stripe, eventID), eventlog.NoStream(), events)
	s.must(err)
}

func TestInbox_ManyWait_ThoseForAnOperatorAreShown(t *testing.T) {
	s := start(t)
	for n := range 101 { // more than a page
		s.reported(fmt.Sprint("evt_waits_", n), eventschemas.BillingReported{Processor: billing.Stripe, EventID: fmt.Sprint("evt_waits_", n), Type: "refund.created", Kind: billing.KindRefund,
			Subject: fmt.Sprint("re_", n), PaymentID: "pi_1", State: "succeeded", Money: &eventschemas.Money{Minor: 5, Currency: "EUR"}, CreatedAt: time.Now()})
	}
	s.reported("evt_inbox", eventschemas.BillingReported{Processor: billing.Stripe, EventID: "evt_inbox", Type: "customer.subscription.updated", Kind: billing.KindSubscription,
		Subject: "sub_1", Customer: "cus_1", State: "active", CreatedAt: time.Now()}, eventschemas.BillingSettled{Outcome: billing.Inbox, Reason: "the customer cus_1 is not linked to an account"})
	p := s.signedIn(operator.Finance)
	p.get("/inbox").shows(200, "evt_inbox", "the customer cus_1 is not linked to an account", "Dismiss", "1 in all.", "101 more wait or are not decided yet").lacks("evt_waits")
	p.get("/inbox?state=waiting").shows(200, "evt_waits_0", "its payment pi_1 was not granted yet", "Dismiss", "101 in all; the 100 oldest are shown.").lacks("evt_inbox", "Decide again", "more wait")
	p.get("/inbox?state=new").shows(200, "No event is in this state")
	p.get("/inbox?state=all").shows(200, "evt_waits_0", "102 in all; the 100 oldest are shown.")
	p.get("/inbox?state=done").shows(400, "inbox, waiting, new", "Show the inbox")
	p.get("/inbox").form("/inbox/stripe:evt_inbox/dismiss")
	p.submit("/inbox?state=waiting", "/inbox/stripe:evt_waits_0/dismiss?state=waiting", nil).leadsTo("/inbox?state=waiting&done=dismiss")
	p.get("/inbox?state=waiting&done=dismiss").shows(200, "The report is dismissed.", "100 in all.").lacks("stripe:evt_waits_0/", "evt_waits_0<")

	id := s.account("Acme")
	p.submit("/inbox", "/inbox", map[string]string{"customer": "", "account": id}).shows(400).beside("customer", "Give the customer's id")
	p.submit("/inbox?state=all", "/inbox?state=all", map[string]string{"customer": "cus_1", "account": ""}).shows(400, "101 in all").beside("account", "Give the account's id")
	p.submit("/inbox", "/inbox", map[string]string{"customer": "cus_1", "account": "f5a1c6ce-6f0b-4f6e-9d51-0f5b3a8e2c11"}).shows(404).lacks("GET /admin").beside("account", "There is no account f5a1c6ce")
	p.submit("/inbox", "/inbox", map[string]string{"customer": strings.Repeat("c", 121), "account": id}).shows(400).beside("customer", "at most 120")
	p.submit("/inbox", "/inbox", map[string]string{"customer": " cus_1", "account": id + " "}).leadsTo("/inbox?done=customer")
	p.get("/inbox?done=customer").shows(200, "The customer is linked")
	p.get("/inbox?state=new").shows(200, "customer cus_1", "Acme")
	s.signedIn(operator.Read).get("/inbox").shows(200, "evt_inbox").lacks("Dismiss", "Link a customer")
}
