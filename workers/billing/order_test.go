package billing_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"letterhead/commands"
	domain "letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/testmust"
)

// TestAnyOrder_EndsInSameAccount permutes and repeats the events of a customer's life, with crashes between.
// Rule 1.
func TestAnyOrder_EndsInSameAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minor := rapid.Int64Range(1, 4900).Draw(t, "refund")
		outcome := rapid.SampledFrom([]string{"won", "lost", "under_review", "warning_closed"}).Draw(t, "dispute")
		status := rapid.SampledFrom([]string{"active", "past_due", "canceled", "unpaid"}).Draw(t, "subscription")
		refundEnds := rapid.SampledFrom([]string{"succeeded", "failed", "pending"}).Draw(t, "refund ends")
		life := []stripeEvent{
			packSession("evt_1", "unpaid", 0, "checkout.session.completed"), packSession("evt_2", "paid", 5, "checkout.session.async_payment_succeeded"),
			packSession("evt_3", "paid", 5, "checkout.session.completed"),
			refunded("evt_4", "re_1", "pi_1", "pending", minor, 6), refunded("evt_5", "re_1", "pi_1", refundEnds, minor, 7),
			disputed("evt_6", "charge.dispute.created", "needs_response", "pi_1", 8), disputed("evt_7", "charge.dispute.closed", outcome, "pi_1", 9),
			subscriptionSession("evt_8", 10), subscribed("evt_9", 10, "customer.subscription.created", "incomplete", "price_starter"),
			subscribed("evt_10", 10, "customer.subscription.updated", "active", "price_starter"), invoicePaid("evt_11", "in_1", "price_starter", 11),
			invoicePaidBy("evt_12", "in_1", "pi_2", 11), subscribed("evt_13", 20, "customer.subscription.updated", "active", "price_growth"),
			invoicePaid("evt_14", "in_2", "price_growth", 21), refunded("evt_15", "re_2", "pi_2", "succeeded", 990, 22),
			subscribed("evt_16", 30, "customer.subscription.updated", status, "price_growth"),
			{"evt_17", "treasury.transaction.created", "{}", 31},
			// Buyers who name another account, with the customers of this one.
			session("evt_18", "subscription", other, "", "cus_2"), session("evt_19", "payment", other, "", "cus_1"),
		}
		refund := int64(0)
		if refundEnds == "succeeded" {
			refund = (500*minor + 4899) / 4900
		}
		balance := 500 - refund
		if outcome == "lost" || outcome == "under_review" {
			balance = 0
		}
		balance += 1000 + 10000 - 100
		on := map[string]plan.ID{"active": plan.Growth, "past_due": plan.Growth, "canceled": plan.Free, "unpaid": plan.Free}[status]

		s := newService(t)
		s.receiveInAnyOrder(t, life)
		if a := s.ledger.accounts[acme]; a.Balance() != balance || a.Plan() != on {
			t.Fatalf("the account has %d credits on the plan %s, want %d on %s; open: %v", a.Balance(), a.Plan(), balance, on, s.open())
		}
		if open := s.open(); len(open) != 2 {
			t.Fatalf("open: %v, want the event of an unknown type and the session that names only another account",
				open)
		}
		if o := s.ledger.accounts[other]; o.Balance() != 500 || o.Plan() != plan.Free {
			t.Fatalf("another account has %d credits on the plan %s, want only what was bought for it", o.Balance(),
				o.Plan())
		}
	})
}

// receiveInAnyOrder has events received in any order, some of them twice, with crashes and failures between.
func (s *service) receiveInAnyOrder(t *rapid.T, life []stripeEvent) {
	all := slices.Concat(life, life[:rapid.IntRange(0, len(life)).Draw(t, "repeated")])
	for _, e := range rapid.Permutation(all).Draw(t, "order") {
		s.receive(e)
		switch rapid.IntRange(0, 5).Draw(t, "then") {
		case 0: // the worker reads several events at once
			continue
		case 1:
			s.restart()
		case 2:
			s.ledger.failures = 1
		case 3:
			s.log.failures = 1
		}
		s.work()
		s.ledger.failures, s.log.failures = 0, 0
	}
	s.restart()
	s.settle()
}

// A process that ends after it has changed the plan, and before it has recorded that, leaves a report that a later one
// makes obsolete.
func TestSubscription_CrashAfterAChangeOfPlan_EndsInTheLatestState(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, crash stripeEvent
		after         stripeEvent
		want          plan.ID
	}{
		{"given and taken", subscribed("evt_2", 10, "customer.subscription.created", "incomplete", "price_starter"),
			subscribed("evt_3", 20, "customer.subscription.updated", "active", "price_starter"),
			subscribed("evt_4", 30, "customer.subscription.deleted", "canceled", "price_starter"), plan.Free},
		{"taken and given", subscribed("evt_2", 10, "customer.subscription.created", "active", "price_growth"),
			subscribed("evt_3", 20, "customer.subscription.updated", "unpaid", "price_growth"),
			subscribed("evt_4", 30, "customer.subscription.updated", "active", "price_growth"), plan.Growth},
		{"raised and lowered", subscribed("evt_2", 10, "customer.subscription.created", "active", "price_starter"),
			subscribed("evt_3", 20, "customer.subscription.updated", "active", "price_growth"),
			subscribed("evt_4", 30, "customer.subscription.updated", "active", "price_starter"), plan.Starter},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newService(t)
			s.receive(subscriptionSession("evt_1", 10))
			s.receive(c.before)
			s.settle()
			changed := s.ledger.accounts[acme].Plan()
			s.receive(c.crash)
			s.log.failures = 1
			s.work()
			s.log.failures = 0
			if now := s.ledger.accounts[acme].Plan(); now == changed {
				t.Fatalf("the plan %s was not changed before the crash", now)
			}
			s.receive(c.after)
			s.restart()
			s.settle()
			if got := s.ledger.accounts[acme].Plan(); got != c.want {
				t.Errorf("the account is on the plan %s, want %s; open: %v", got, c.want, s.open())
			}
		})
	}
}

// An operator's plan stays until the plan that the subscriptions give changes.
func TestSubscription_SamePlanAgain_LeavesOperatorsPlan(t *testing.T) {
	second := func(id string, at int64, eventType, status string) stripeEvent {
		return stripeEvent{id, eventType, fmt.Sprintf(`{"id":"sub_2","status":%q,"customer":"cus_2","items":{"data":[{"price":{"id":"price_starter"},"quantity":1}]}}`, status), at}
	}
	growth := subscribed("evt_2", 20, "customer.subscription.updated", "active", "price_growth")
	for name, after := range map[string][]stripeEvent{
		"the same twice":              {subscribed("evt_3", 30, "customer.subscription.updated", "active", "price_growth"), subscribed("evt_4", 31, "customer.subscription.updated", "past_due", "price_growth")},
		"an earlier state, late":      {subscribed("evt_3", 10, "customer.subscription.created", "incomplete", "price_growth")},
		"a smaller plan, late":        {subscribed("evt_3", 10, "customer.subscription.created", "active", "price_starter")},
		"a smaller subscription":      {second("evt_3", 30, "customer.subscription.updated", "active"), second("evt_4", 31, "customer.subscription.updated", "active")},
		"a smaller subscription ends": {second("evt_3", 30, "customer.subscription.updated", "active"), second("evt_4", 31, "customer.subscription.deleted", "canceled")},
		"a price without a plan":      {subscribed("evt_3", 30, "customer.subscription.updated", "active", "price_unknown"), subscribed("evt_4", 31, "customer.subscription.updated", "active", "price_growth")},
	} {
		for _, each := range []bool{false, true} {
			s := newService(t)
			s.receive(subscriptionSession("evt_1", 10))
			s.receive(growth)
			s.receive(second("evt_0", 12, "customer.subscription.created", "active"))
			s.settle()
			testmust.Succeed(t, testmust.Err(s.ledger.ChangePlan(t.Context(), commands.ChangePlan{AccountID: acme, Plan: plan.Custom})))
			for _, e := range after {
				s.receive(e)
				if each {
					s.settle()
				}
			}
			s.restart()
			s.settle()
			if got := s.ledger.accounts[acme].Plan(); got != plan.Custom {
				t.Errorf("%s, decided one by one: %t: the account is on the plan %s, want the operator's", name, each, got)
			}
		}
	}
}

func TestClaim_MoreThanIsLeft_IsAppliedWithTheDifference(t *testing.T) {
	for name, c := range map[string]struct {
		claims []stripeEvent
		last   string
		reason string
	}{
		"more than was paid":            {[]stripeEvent{refunded("evt_2", "re_1", "pi_1", "succeeded", 9900, 1)}, "evt_2", "it exceeds what was left of the payment by 50.00 EUR; the rest was taken"},
		"more than others have left":    {[]stripeEvent{refunded("evt_2", "re_1", "pi_1", "succeeded", 490, 1), disputed("evt_3", "charge.dispute.created", "needs_response", "pi_1", 2)}, "evt_3", "it exceeds what was left of the payment by 4.90 EUR; the rest was taken"},
		"exactly what others have left": {[]stripeEvent{refunded("evt_2", "re_1", "pi_1", "succeeded", 490, 1), refunded("evt_3", "re_2", "pi_1", "succeeded", 4410, 2)}, "evt_3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t).settle(packSession("evt_1", "paid", 0, "checkout.session.completed"))
			s.settle(c.claims...)
			s.expect(t, 0, plan.Free)
			var got *eventschemas.BillingSettled
			for _, rec := range s.log.events {
				ev := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(t)
				if settled, ok := ev.(eventschemas.BillingSettled); ok && rec.Stream == domain.Stream(domain.Stripe, c.last) {
					got = &settled
				}
			}
			if got == nil || got.Outcome != domain.Applied || got.Reason != c.reason {
				t.Errorf("the last report is settled as %+v, want applied with the reason %q", got, c.reason)
			}
		})
	}
}

// A refund and a dispute of the whole payment: one of them takes it, and each report of the other one is applied once, with
// the reason that it took nothing.
func TestClaim_NothingLeftToTake_IsAppliedOnceWithReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		life := []stripeEvent{
			packSession("evt_1", "paid", 0, "checkout.session.completed"), refunded("evt_2", "re_1", "pi_1", "succeeded", 4900, 1),
			disputed("evt_3", "charge.dispute.created", "needs_response", "pi_1", 2), disputed("evt_4", "charge.dispute.closed", "lost", "pi_1", 3),
		}
		s := newService(t)
		for _, e := range rapid.Permutation(slices.Concat(life, life)).Draw(t, "order") {
			s.receive(e)
			switch rapid.IntRange(0, 4).Draw(t, "then") {
			case 0: // the worker reads several events at once
				continue
			case 1:
				s.restart()
			case 2:
				s.log.failures = 1
			}
			s.work()
			s.log.failures = 0
		}
		s.restart()
		s.settle()
		settled, reasons := map[string]int{}, map[string]map[string]bool{"re_1": {}, "dp_pi_1": {}}
		for _, rec := range s.log.events {
			ev := testmust.Get(eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data))(t)
			outcome, ok := ev.(eventschemas.BillingSettled)
			if !ok {
				continue
			}
			settled[rec.Stream]++
			switch rec.Stream {
			case domain.Stream(domain.Stripe, "evt_2"):
				reasons["re_1"][outcome.Reason] = true
			case domain.Stream(domain.Stripe, "evt_3"), domain.Stream(domain.Stripe, "evt_4"):
				reasons["dp_pi_1"][outcome.Reason] = true
			}
		}
		for stream, n := range settled {
			if n != 1 {
				t.Errorf("%s was settled %d times", stream, n)
			}
		}
		a := s.ledger.accounts[acme]
		for claim, of := range reasons {
			want := ""
			if _, took := a.RefundOf(claim); !took {
				want = domain.NothingLeft
			}
			if len(of) != 1 || !of[want] {
				t.Errorf("the reports of %s are applied with the reasons %v, want %q", claim, of, want)
			}
		}
		if len(settled) != len(life) || a.Balance() != 0 {
			t.Errorf("%d reports were settled, want %d; the balance is %d, want 0", len(settled), len(life), a.Balance())
		}
	})
}
