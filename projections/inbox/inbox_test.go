package inbox_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/eventschemas"
	"letterhead/projections/engine"
	"letterhead/projections/inbox"
	"letterhead/projections/projectionstest"
)

var at = time.Date(2026, 11, 21, 9, 0, 0, 123_456_000, time.UTC)

// expected returns an open report as the fold of the decisions has it.
func expected(state *billing.State, e *billing.Entry) inbox.Report {
	r := inbox.Report{ID: e.Report.Processor + ":" + e.Report.EventID, Processor: e.Report.Processor, EventID: e.Report.EventID, Type: e.Report.Type, At: e.At,
		State: e.State, Reason: e.Reason, AccountID: e.Report.AccountID, Customer: e.Report.Customer, PaymentID: e.Report.PaymentID}
	if r.State == "" {
		r.State = inbox.Undecided
		if d := state.Decide(e, &billing.Catalog{}); d.Outcome == billing.Waiting {
			r.State, r.Reason = d.Outcome, d.Reason
		}
	}
	return r
}

// anyReport returns a report of one of few events about few payments, whose copies differ.
func anyReport(rng *rand.Rand) eventschemas.BillingReported {
	one := func(all ...string) string { return all[rng.IntN(len(all))] }
	r := eventschemas.BillingReported{
		Processor: one("stripe", "admin"), EventID: fmt.Sprint("evt_", rng.IntN(30)), Type: "test", CreatedAt: at.Add(time.Duration(rng.IntN(3)) * time.Second),
		PaymentID: fmt.Sprint("pi_", rng.IntN(4)), Problem: one("", "", "", "another API version"), Customer: one("", "cus_1"),
	}
	switch rng.IntN(5) {
	case 0:
		r.Kind, r.GrantKind, r.Credits = billing.KindPayment, account.KindTopup, 10
	case 1:
		r.Kind, r.InvoiceID = billing.KindLink, fmt.Sprint("pi_", 3+rng.IntN(3))
	case 2:
		r.Kind, r.Problem = "", "the type is unknown"
	default:
		r.Kind, r.Subject, r.State = one(billing.KindRefund, billing.KindDispute), "re_1", one("succeeded", "under_review", "unknown")
		if rng.IntN(8) > 0 {
			r.Money = &eventschemas.Money{Minor: 5, Currency: "EUR"}
		}
	}
	return r
}

// The model shows what billing.State decides, after any events of streams of reports.
func TestList_RandomReports_AgreesWithDecisions(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := inbox.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		rng := rand.New(rand.NewPCG(1, 2))
		state, revisions := billing.NewState(), map[string]uint64{}
		for round := range 40 {
			for n := range 12 {
				ev := eventschemas.Event(anyReport(rng))
				stream := billing.Stream(ev.(eventschemas.BillingReported).Processor, ev.(eventschemas.BillingReported).EventID)
				if revisions[stream] > 0 && rng.IntN(4) > 0 {
					outcome := []string{billing.Applied, billing.Inbox, billing.Inbox, billing.Dismissed}[rng.IntN(4)]
					ev = eventschemas.BillingSettled{Outcome: outcome, Reason: fmt.Sprint("reason ", n), AccountID: "a"}
					if rng.IntN(3) == 0 {
						ev = eventschemas.BillingReopened{}
					}
				}
				when := at.Add(time.Duration(round*100+n) * time.Second)
				state.Apply(stream, revisions[stream], ev, when)
				revisions[stream]++
				e.Events(stream, when, ev)
			}
			e.CatchUp(r)
			all := map[string][]inbox.Report{}
			for _, entry := range state.Open() {
				want := expected(state, entry)
				all[""], all[want.State] = append(all[""], want), append(all[want.State], want)
			}
			for _, s := range []string{"", billing.Inbox, billing.Waiting, inbox.Undecided} {
				got, total, err := m.List(t.Context(), inbox.Selection{State: s}, 1000)
				if err != nil || total != len(all[s]) || !reflect.DeepEqual(got, all[s]) {
					t.Fatalf("round %d, state %q: %d reports %+v, %v\nwant %+v", round, s, total, got, err, all[s])
				}
				if got, total, err := m.List(t.Context(), inbox.Selection{State: s}, 1); err != nil || total != len(all[s]) || len(got) != min(1, total) {
					t.Fatalf("round %d, state %q, limit 1: %d of %d reports, %v", round, s, len(got), total, err)
				}
			}
		}
	})
}

func TestGet_ReportInAnyState(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := inbox.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		paid := eventschemas.BillingReported{Processor: "stripe", EventID: "evt_1", Type: "test", Kind: billing.KindPayment, GrantKind: account.KindTopup, Credits: 5, PaymentID: "pi_1", Customer: "cus_1"}
		want := inbox.Report{ID: "stripe:evt_1", Processor: "stripe", EventID: "evt_1", Type: "test", At: at, State: inbox.Undecided, Customer: "cus_1", PaymentID: "pi_1"}
		for _, s := range []struct {
			event         eventschemas.Event
			state, reason string
			account       string // of the payment
		}{
			{paid, inbox.Undecided, "", ""},
			{eventschemas.BillingSettled{Outcome: billing.Inbox, Reason: "no account"}, billing.Inbox, "no account", ""},
			{eventschemas.BillingReopened{}, inbox.Undecided, "", ""},
			{eventschemas.BillingSettled{Outcome: billing.Applied, AccountID: "a"}, billing.Applied, "", "a"},
			{eventschemas.BillingReopened{}, billing.Applied, "", "a"}, // no command appends it
		} {
			e.Events(billing.Stream("stripe", "evt_1"), at, s.event)
			e.CatchUp(r)
			want.State, want.Reason = s.state, s.reason
			if got, found, err := m.Get(t.Context(), want.ID); err != nil || !found || got != want {
				t.Fatalf("report %+v, %v, %v, want %+v", got, found, err, want)
			}
			if got, err := m.AccountOfPayment(t.Context(), "stripe", "pi_1"); err != nil || got != s.account {
				t.Errorf("state %s: account of the payment %q, %v, want %q", s.state, got, err, s.account)
			}
		}
		if _, found, err := m.Get(t.Context(), "stripe:evt_2"); err != nil || found {
			t.Errorf("an unknown report: %v, %v", found, err)
		}
	})
}

func TestSubscriberOf_LatestSubscriptionThatHasNotEnded(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := inbox.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		for n, s := range []struct {
			kind, processor, customer, subject, state string
			created                                   time.Duration
			outcome, account                          string
			want                                      string // of the account a
		}{
			{billing.KindCustomer, "stripe", "cus_link", "", "", 0, billing.Applied, "a", ""},
			{billing.KindSubscription, "stripe", "cus_new", "sub_1", "active", 2, "", "", ""},
			{billing.KindSubscription, "stripe", "cus_3", "sub_3", "active", 3, billing.Applied, "a", "cus_3"},
			{billing.KindSubscription, "stripe", "cus_older", "sub_4", "active", 1, billing.Applied, "a", "cus_3"},
			{billing.KindSubscription, "stripe", "cus_open", "sub_5", "active", 5, billing.Inbox, "", "cus_3"},
			{billing.KindSubscription, "other", "cus_other", "sub_6", "active", 6, billing.Applied, "a", "cus_3"},
			{billing.KindSubscription, "stripe", "", "sub_7", "active", 7, billing.Applied, "a", "cus_3"},
			{billing.KindSubscription, "stripe", "cus_8", "sub_8", "unpaid", 8, billing.Applied, "a", "cus_8"},
			{billing.KindSubscription, "stripe", "cus_8", "sub_8", "canceled", 9, billing.Applied, "a", "cus_3"},
			{billing.KindSubscription, "stripe", "cus_8", "sub_8", "active", 10, billing.Applied, "a", "cus_3"}, // the end is final
			{billing.KindSubscription, "stripe", "cus_3", "sub_3", "past_due", 11, billing.Applied, "a", "cus_3"},
			{billing.KindCustomer, "stripe", "cus_3", "", "", 12, billing.Inbox, "b", "cus_3"},
			{billing.KindCustomer, "stripe", "cus_3", "", "", 13, billing.Applied, "b", "cus_older"}, // linked to another account
			{billing.KindSubscription, "stripe", "cus_3", "sub_3", "active", 14, billing.Applied, "b", "cus_older"},
			{billing.KindSubscription, "stripe", "cus_older", "sub_4", "incomplete_expired", 15, billing.Applied, "a", ""},
			{billing.KindCustomer, "stripe", "cus_3", "", "", 16, billing.Applied, "a", ""}, // and back: its events are yet to come
			{billing.KindSubscription, "stripe", "cus_3", "sub_3", "active", 17, billing.Applied, "a", "cus_3"},
		} {
			event := fmt.Sprintf("evt_%02d", n)
			stream := billing.Stream(s.processor, event)
			report := eventschemas.BillingReported{Processor: s.processor, EventID: event, Type: "test", Kind: s.kind, State: s.state, Subject: s.subject, Customer: s.customer, CreatedAt: at.Add(s.created * time.Second)}
			if s.kind == billing.KindCustomer {
				report.AccountID = s.account
			}
			e.Events(stream, at, report)
			if s.outcome != "" {
				e.Events(stream, at, eventschemas.BillingSettled{Outcome: s.outcome, AccountID: s.account})
			}
			e.CatchUp(r)
			if got, err := m.SubscriberOf(t.Context(), "stripe", "a"); err != nil || got != s.want {
				t.Errorf("after %s: customer %q, %v, want %q", event, got, err, s.want)
			}
		}
		if got, err := m.SubscriberOf(t.Context(), "stripe", "b"); err != nil || got != "" {
			t.Errorf("the account that had the customer: customer %q, %v", got, err)
		}
	})
}

// Two accounts share a customer, which the first subscription links. The second account gets the customer from an
// operator.
func TestSubscriberOf_SharedCustomer_IsThatOfTheLinkedAccount(t *testing.T) {
	projectionstest.Each(t, func(t *testing.T, e *projectionstest.Env) {
		m := inbox.New(e.Store)
		r, _ := e.Start(engine.Config{}, m)
		for n, s := range []struct{ kind, eventType, subject, state, account, reason, a, b string }{
			{billing.KindSubscription, "test", "sub_a", "active", "a", "", "cus_1", ""},
			{billing.KindSubscription, "test", "sub_b", "active", "b", billing.LinkStays, "cus_1", ""},
			{billing.KindPayment, "test", "sub_b", "", "b", "the payment was granted before; " + billing.LinkStays, "cus_1", ""},
			{billing.KindSubscription, "test", "sub_a", "past_due", "a", "", "cus_1", ""},
			{billing.KindCustomer, billing.LinkedByOperator, "", "", "b", "", "", "cus_1"},
			{billing.KindSubscription, "test", "sub_a", "active", "a", billing.LinkStays, "", "cus_1"},
			{billing.KindSubscription, "test", "sub_b", "canceled", "b", "", "", ""},
		} {
			event := fmt.Sprintf("evt_%02d", n)
			e.Events(billing.Stream("stripe", event), at, eventschemas.BillingReported{
				Processor: "stripe", EventID: event, Type: s.eventType, Kind: s.kind, State: s.state, Subject: s.subject, AccountID: s.account,
				Customer: "cus_1", CreatedAt: at.Add(time.Duration(n) * time.Second),
			}, eventschemas.BillingSettled{Outcome: billing.Applied, AccountID: s.account, Reason: s.reason})
			e.CatchUp(r)
			for account, want := range map[string]string{"a": s.a, "b": s.b} {
				if got, err := m.SubscriberOf(t.Context(), "stripe", account); err != nil || got != want {
					t.Errorf("after %s: the customer of account %s is %q, %v, want %q", event, account, got, err, want)
				}
			}
		}
	})
}
