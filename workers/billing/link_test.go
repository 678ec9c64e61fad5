package billing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	domain "letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// session is a completed checkout of a subscription, or of the pack small, with a payment of its own.
func session(id, mode, reference, metadata, customer string) stripeEvent {
	return stripeEvent{id, "checkout.session.completed",
		fmt.Sprintf(`{"id":"cs_%[1]s","mode":%[2]q,"payment_status":"paid","client_reference_id":%[3]q,
		"customer":%[5]q,"payment_intent":"pi_%[1]s","amount_total":4900,"currency":"eur",
		"metadata":{"account_id":%[4]q,"price":"price_small"}}`,
			id, mode, reference, metadata, customer), 5}
}

// of returns an invoice or a subscription with metadata that names an account.
func (e stripeEvent) of(accountID string) stripeEvent {
	metadata := fmt.Sprintf(`"metadata":{"account_id":%q}`, accountID)
	if strings.HasPrefix(e.eventType, "invoice.") {
		metadata = `"parent":{"subscription_details":{` + metadata + `}}`
	}
	e.object = strings.Replace(e.object, "{", "{"+metadata+",", 1)
	return e
}

// link records that an operator links a customer to an account.
func (s *service) link(id, customer, accountID string, at int64) *service {
	s.append(id, eventschemas.BillingReported{Processor: domain.Stripe, EventID: id, Type: domain.LinkedByOperator,
		Kind: domain.KindCustomer, AccountID: accountID, Customer: customer,
		CreatedAt: start.Add(time.Duration(at) * time.Second)})
	return s.settle()
}

// linkedTo returns the account to which an invoice of a customer is granted that names no account.
func (s *service) linkedTo(t *testing.T, customer string) string {
	t.Helper()
	probe := domain.NewState()
	for i := range s.log.events {
		rec := &s.log.events[i]
		ev := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(t)
		probe.Apply(rec.Stream, rec.Revision, ev, start)
	}
	report := invoicePaid("evt_probe", "in_probe", "price_starter", 1000).report(t)
	report.Customer = customer
	probe.Apply(domain.Stream(domain.Stripe, "evt_probe"), 0, report, start)
	open := probe.Open()
	return probe.Decide(open[len(open)-1], catalog(t, offers)).AccountID
}

func (s *service) wants(t *testing.T, acmes, others int64, customer, linked string, open ...string) {
	t.Helper()
	if a, o := s.ledger.accounts[acme].Balance(), s.ledger.accounts[other].Balance(); a != acmes || o != others {
		t.Errorf("the accounts have %d and %d credits, want %d and %d", a, o, acmes, others)
	}
	if got := s.linkedTo(t, customer); got != linked {
		t.Errorf("the customer %s is linked to %q, want %q", customer, got, linked)
	}
	all := s.open()
	if len(all) != len(open) {
		t.Errorf("open: %v, want %v", all, open)
	}
	for _, want := range open {
		id, reason, _ := strings.Cut(want, " ")
		if !strings.HasPrefix(all[id], domain.Inbox) || !strings.Contains(all[id], reason) {
			t.Errorf("%s is %q, want in the inbox with %q", id, all[id], reason)
		}
	}
}

const confirms = "only its client_reference_id names the account"

// A buyer chooses the client_reference_id of a payment link.
func TestSession_ReferenceWithoutMetadata_GrantsAndLinksNothing(t *testing.T) {
	for name, metadata := range map[string]string{"none": "", "of another program": "order-7"} {
		t.Run(name, func(t *testing.T) {
			s := newService(t).settle(session("evt_1", "payment", acme, metadata, "cus_2"))
			s.wants(t, 500, 0, "cus_2", "")
			s = newService(t).settle(session("evt_1", "subscription", acme, metadata, "cus_2"),
				invoicePaid("evt_2", "in_1", "price_starter", 6),
				subscribed("evt_3", 6, "customer.subscription.created", "active", "price_starter"))
			s.wants(t, 0, 0, "cus_2", "", "evt_1 "+confirms, "evt_2 cus_2 is not linked", "evt_3 cus_2 is not linked")
			s.append("evt_1", eventschemas.BillingReopened{}) // replaying confirms no link
			s.settle()
			s.wants(t, 0, 0, "cus_2", "", "evt_1 "+confirms, "evt_2 cus_2 is not linked", "evt_3 cus_2 is not linked")
			s.link("link", "cus_2", acme, 9)
			s.wants(t, 1000, 0, "cus_2", acme)
			s.restart()
			s.settle()
			s.expect(t, 1000, plan.Starter)
		})
	}
}

func TestSession_ReferenceWithoutMetadata_OfALinkedCustomer_KeepsTheLink(t *testing.T) {
	s := newService(t).settle(subscriptionSession("evt_1", 0), session("evt_2", "subscription", other, "", "cus_2"),
		session("evt_3", "payment", other, "", "cus_2"))
	s.wants(t, 0, 500, "cus_2", acme, "evt_2 "+confirms)
	s.settle(session("evt_4", "subscription", acme, "", "cus_2")) // nothing to confirm
	s.wants(t, 0, 500, "cus_2", acme, "evt_2 "+confirms)
	s.link("link", "cus_2", other, 9)
	s.wants(t, 0, 500, "cus_2", other)
	s.settle(session("evt_5", "subscription", acme, "", "cus_2"))
	s.wants(t, 0, 500, "cus_2", other, "evt_5 "+confirms)
	s.append("evt_5", eventschemas.BillingSettled{Outcome: domain.Dismissed})
	s.settle().wants(t, 0, 500, "cus_2", other)
}

func TestSession_MetadataContradictsReference_GoesToInbox(t *testing.T) {
	s := newService(t).settle(session("evt_1", "payment", acme, other, "cus_2"),
		session("evt_2", "subscription", acme, other, "cus_2"))
	s.wants(t, 0, 0, "cus_2", "", "evt_1 different accounts", "evt_2 different accounts")
	s.link("link", "cus_2", other, 9) // the payment is not granted by it
	s.wants(t, 0, 0, "cus_2", other, "evt_1 different accounts", "evt_2 different accounts")
}

func TestSession_MetadataOnly_Links(t *testing.T) {
	newService(t).settle(session("evt_1", "payment", "", acme, "cus_2")).wants(t, 500, 0, "cus_2", acme)
	newService(t).settle(session("evt_1", "subscription", "order-7", acme, "cus_2")).wants(t, 0, 0, "cus_2", acme)
}

func TestSession_AccountDoesNotExist_LinksNoOther(t *testing.T) {
	const none = "3d4c1c3e-1a3c-4f6e-9d43-2f6f7c1f9a12"
	s := newService(t).settle(session("evt_1", "payment", none, "", "cus_2"),
		session("evt_2", "subscription", none, "", "cus_2"))
	s.wants(t, 0, 0, "cus_2", "", "evt_1 no such account", "evt_2 "+confirms)
	s.settle(subscriptionSession("evt_3", 9))
	s.wants(t, 0, 0, "cus_2", acme, "evt_1 no such account", "evt_2 "+confirms)
}

// A report whose metadata names an account is applied to it. Only an operator gives it the customer of another account.
func TestLinkedCustomer_NamedByAnotherAccount_StaysUntilAnOperatorLinksIt(t *testing.T) {
	second := subscribed("evt_4", 8, "customer.subscription.created", "active", "price_growth").of(other)
	second.object = strings.Replace(second.object, "sub_1", "sub_2", 1)
	s := newService(t).settle(subscriptionSession("evt_1", 0),
		subscribed("evt_2", 1, "customer.subscription.created", "active", "price_starter"),
		session("evt_3", "subscription", other, other, "cus_2"), second,
		invoicePaid("evt_5", "in_2", "price_growth", 8).of(other),
		session("evt_6", "payment", other, other, "cus_2"))
	s.wants(t, 0, 10500, "cus_2", acme, "evt_3 "+domain.LinkStays)
	plans := [2]plan.ID{s.ledger.accounts[acme].Plan(), s.ledger.accounts[other].Plan()}
	if plans != [2]plan.ID{plan.Starter, plan.Growth} {
		t.Errorf("the plans are %v", plans)
	}
	s.append("evt_3", eventschemas.BillingReopened{})
	s.settle().wants(t, 0, 10500, "cus_2", acme, "evt_3 "+domain.LinkStays)
	s.restart()
	s.settle(invoicePaid("evt_7", "in_3", "price_starter", 9)).wants(t, 1000, 10500, "cus_2", acme,
		"evt_3 "+domain.LinkStays)
	s.link("link", "cus_2", other, 20)
	s.wants(t, 1000, 10500, "cus_2", other)
	s.settle(invoicePaid("evt_8", "in_4", "price_starter", 30).of(acme)).wants(t, 2000, 10500, "cus_2", other)
}

func TestLinkedCustomer_UnmappedPriceOfAnotherAccount_LinksOnceConfirmed(t *testing.T) {
	unmapped := session("evt_2", "payment", other, other, "cus_2")
	unmapped.object = strings.Replace(unmapped.object, "price_small", "price_new", 1)
	s := newService(t).settle(subscriptionSession("evt_1", 0), unmapped)
	s.wants(t, 0, 0, "cus_2", acme, "evt_2 price_new is not in")
	s.offers = moreOffers
	s.append("evt_2", eventschemas.BillingReopened{})
	s.restart()
	s.settle().wants(t, 0, 70, "cus_2", acme)
}

func TestLinkedCustomer_LinkIsDismissed_NextReportLinks(t *testing.T) {
	unmapped := session("evt_1", "payment", acme, acme, "cus_2")
	unmapped.object = strings.Replace(unmapped.object, "price_small", "price_new", 1)
	s := newService(t).settle(unmapped, session("evt_2", "subscription", other, other, "cus_2"))
	s.wants(t, 0, 0, "cus_2", acme, "evt_1 price_new", "evt_2 "+domain.LinkStays)
	s.append("evt_1", eventschemas.BillingSettled{Outcome: domain.Dismissed})
	s.settle().wants(t, 0, 0, "cus_2", other)
}

// Earlier releases linked the customer of every report that named an account. Their links stay.
func TestFold_ReportsOfEarlierReleases_LinkAsBefore(t *testing.T) {
	report := func(id, kind, accountID string, at int64) eventschemas.BillingReported {
		r := eventschemas.BillingReported{Processor: domain.Stripe, EventID: id, Type: "checkout.session.completed",
			Kind: kind, AccountID: accountID, Customer: "cus_2", CreatedAt: start.Add(time.Duration(at) * time.Second)}
		if kind == domain.KindPayment {
			r.GrantKind, r.PaymentID, r.Prices = "topup", "pi_"+id,
				[]eventschemas.BillingPrice{{Price: "price_new", Quantity: 1}}
		}
		return r
	}
	applied := func(accountID string) eventschemas.BillingSettled {
		return eventschemas.BillingSettled{Outcome: domain.Applied, AccountID: accountID}
	}
	unmapped := eventschemas.BillingSettled{Outcome: domain.Inbox,
		Reason: "the price price_new is not in LETTERHEAD_BILLING_FILE"}
	type recorded struct {
		id    string
		event eventschemas.Event
	}
	for name, c := range map[string]struct {
		events []recorded
		want   string
	}{
		"replaced": {[]recorded{{"a", report("a", domain.KindCustomer, acme, 1)}, {"a", applied(acme)},
			{"b", report("b", domain.KindCustomer, other, 2)}, {"b", applied(other)}}, other},
		"replaced by an older": {[]recorded{{"a", report("a", domain.KindCustomer, acme, 2)}, {"a", applied(acme)},
			{"b", report("b", domain.KindCustomer, other, 1)}, {"b", applied(other)}}, acme},
		"replaced in the inbox": {[]recorded{{"a", report("a", domain.KindCustomer, acme, 1)}, {"a", applied(acme)},
			{"b", report("b", domain.KindPayment, other, 2)},
			{"b", unmapped}}, other},
		"in the inbox, dismissed": {[]recorded{{"a", report("a", domain.KindCustomer, acme, 1)}, {"a", applied(acme)},
			{"b", report("b", domain.KindPayment, other, 2)},
			{"b", unmapped}, {"b", eventschemas.BillingSettled{Outcome: domain.Dismissed}}}, acme},
		"in the inbox, applied later": {[]recorded{{"a", report("a", domain.KindCustomer, acme, 1)},
			{"b", report("b", domain.KindPayment, other, 2)}, {"b", unmapped}, {"a", applied(acme)},
			{"b", eventschemas.BillingReopened{}}, {"b", applied(other)}}, other},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			for _, e := range c.events {
				s.append(e.id, e.event)
			}
			if got := s.linkedTo(t, "cus_2"); got != c.want {
				t.Errorf("the customer is linked to %q, want %q", got, c.want)
			}
		})
	}
}

// Subscriptions of two accounts have one customer. In any order of the events each account gets what was bought for it,
// and an operator decides which account has the customer.
// Rule 1.
func TestSharedCustomer_AnyOrder_EachAccountGetsItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		second := subscribed("evt_4", 4, "customer.subscription.created", "active", "price_growth").of(other)
		second.object = strings.Replace(second.object, "sub_1", "sub_2", 1)
		life := []stripeEvent{
			session("evt_1", "subscription", acme, acme, "cus_2"),
			subscribed("evt_2", 2, "customer.subscription.created", "active", "price_starter").of(acme),
			invoicePaid("evt_3", "in_1", "price_starter", 3).of(acme), second,
			invoicePaid("evt_5", "in_2", "price_growth", 5).of(other),
			session("evt_6", "payment", other, other, "cus_2"), session("evt_7", "payment", other, "", "cus_2"),
		}
		s := newService(t)
		s.receiveInAnyOrder(t, life)
		linked := rapid.SampledFrom([]string{acme, other}).Draw(t, "linked")
		s.link("link", "cus_2", linked, 60)
		s.settle(invoicePaid("evt_8", "in_3", "price_starter", 61))
		want := map[string]int64{acme: 1000, other: 11000}
		want[linked] += 1000
		for id, balance := range want {
			if got := s.ledger.accounts[id].Balance(); got != balance {
				t.Fatalf("account %s has %d credits, want %d; the customer is linked to %s; open: %v", id, got, balance,
					linked, s.open())
			}
		}
		// The session of the account that lost the customer may wait for an operator to link it.
		if open := s.open(); len(open) > 1 ||
			len(open) == 1 && (linked == acme || !strings.Contains(open["evt_1"], domain.LinkStays)) {
			t.Fatalf("open: %v", open)
		}
	})
}
