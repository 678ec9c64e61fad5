package billing_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	domain "letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/domain/text"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/testmust"
	"letterhead/workers/billing"
)

const (
	acme  = "1d4c1c3e-1a3c-4f6e-9d43-2f6f7c1f9a10"
	other = "2d4c1c3e-1a3c-4f6e-9d43-2f6f7c1f9a11"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// offers has a second file, to which a price was added.
const (
	offers = `
plans:
  - {price: price_starter, plan: starter, credits: 1000}
  - {price: price_growth, plan: growth, credits: 10000}
packs:
  - {price: price_small, name: small, credits: 500}
`
	moreOffers = offers + "  - {price: price_new, name: new, credits: 70}\n"
)

func catalog(t testmust.T, text string) *domain.Catalog {
	c := testmust.Get(domain.ParseCatalog([]byte(text)))(t)
	return c
}

// stripeEvent is an event of Stripe, as it is sent.
type stripeEvent struct {
	id, eventType, object string
	created               int64 // seconds after start
}

func (e stripeEvent) report(t testmust.T) eventschemas.BillingReported {
	r, ok := domain.FromStripe(domain.StripeEvent{
		ID: e.id, Type: e.eventType, APIVersion: domain.StripeVersion, Created: start.Unix() + e.created, Object: []byte(e.object),
	})
	if !ok {
		t.Fatal("the event is ignored", e)
	}
	return r
}

// packSession is a checkout of the pack small for 49 euros.
func packSession(id, status string, at int64, eventType string) stripeEvent {
	return stripeEvent{id, eventType, fmt.Sprintf(`{"id":"cs_1","mode":"payment","payment_status":%q,"client_reference_id":%q,"customer":"cus_1",
		"payment_intent":"pi_1","amount_total":4900,"currency":"eur","total_details":{"amount_tax":782},
		"metadata":{"account_id":%q,"price":"price_small"}}`, status, acme, acme), at}
}

func subscribed(id string, at int64, eventType, status, price string) stripeEvent {
	return stripeEvent{id, eventType, fmt.Sprintf(`{"id":"sub_1","status":%q,"customer":"cus_2","items":{"data":[{"price":{"id":%q},"quantity":1}]}}`, status, price), at}
}

func invoicePaid(id, invoice, price string, at int64) stripeEvent {
	return stripeEvent{id, "invoice.paid", fmt.Sprintf(`{"id":%q,"customer":"cus_2","billing_reason":"subscription_cycle","amount_paid":9900,"total":9900,
		"currency":"eur","lines":{"data":[{"amount":9900,"quantity":1,"pricing":{"price_details":{"price":%q}}}]}}`, invoice, price), at}
}

func invoiceFailed(id, invoice string, attempt, at int64) stripeEvent {
	return stripeEvent{id, "invoice.payment_failed", fmt.Sprintf(`{"id":%q,"customer":"cus_2","billing_reason":"subscription_cycle","amount_remaining":9900,
		"attempt_count":%d,"currency":"eur","lines":{"data":[{"amount":9900,"pricing":{"price_details":{"price":"price_starter"}}}]}}`, invoice, attempt), at}
}

func subscriptionSession(id string, at int64) stripeEvent {
	return stripeEvent{id, "checkout.session.completed",
		fmt.Sprintf(`{"id":"cs_2","mode":"subscription","payment_status":"paid","client_reference_id":%[1]q,
			"customer":"cus_2","metadata":{"account_id":%[1]q}}`, acme), at}
}

func invoicePaidBy(id, invoice, payment string, at int64) stripeEvent {
	return stripeEvent{id, "invoice_payment.paid", fmt.Sprintf(`{"invoice":%q,"payment":{"type":"payment_intent","payment_intent":%q}}`, invoice, payment), at}
}

func refunded(id, refund, payment, status string, minor, at int64) stripeEvent {
	return stripeEvent{id, "refund.updated", fmt.Sprintf(`{"id":%q,"amount":%d,"currency":"eur","status":%q,"payment_intent":%q}`, refund, minor, status, payment), at}
}

func disputed(id, eventType, status, payment string, at int64) stripeEvent {
	return stripeEvent{id, eventType, fmt.Sprintf(`{"id":"dp_%s","amount":4900,"currency":"eur","status":%q,"payment_intent":%q}`, payment, status, payment), at}
}

// ledger holds accounts in memory. A command that fails for a passing reason is tried again by the worker.
type ledger struct {
	accounts map[string]*account.Account
	failures int // of the next commands
	calls    int
	failed   []commands.RecordFailedPayment
}

func newLedger(t testmust.T) *ledger {
	l := &ledger{accounts: map[string]*account.Account{}}
	for _, id := range []string{acme, other} {
		l.accounts[id] = account.New(id)
		out := testmust.Get(l.accounts[id].Open(account.Open{Holder: "h", Plan: plan.Free}))(t)
		for _, ev := range out.Events {
			l.accounts[id].Apply(ev, start)
		}
	}
	return l
}

func (l *ledger) run(id string, decide func(*account.Account) (account.Outcome, error)) (commands.Done, error) {
	l.calls++
	if l.failures > 0 {
		l.failures--
		return commands.Done{}, commands.ErrBusy
	}
	a, ok := l.accounts[id]
	if !ok {
		return commands.Done{}, account.ErrNotFound
	}
	out, err := decide(a)
	if err != nil {
		return commands.Done{}, err
	}
	for _, ev := range out.Events {
		a.Apply(ev, start)
	}
	return commands.Done{Balance: a.Balance(), Repeated: out.Repeated, TookNothing: out.TookNothing, Short: out.Short}, nil
}

func (l *ledger) GrantCredits(_ context.Context, in commands.GrantCredits) (commands.Done, error) {
	return l.run(in.AccountID, func(a *account.Account) (account.Outcome, error) {
		return a.Grant(account.Grant{Kind: in.Kind, Credits: in.Credits, PaymentID: in.PaymentID, Money: in.Money, Tax: in.Tax})
	})
}

func (l *ledger) SettlePayment(_ context.Context, in commands.SettlePayment) (commands.Done, error) {
	return l.run(in.AccountID, func(a *account.Account) (account.Outcome, error) {
		return a.SettlePayment(account.Settle{PaymentID: in.PaymentID, Claims: in.Claims, Subject: in.Subject})
	})
}

func (l *ledger) ChangePlan(_ context.Context, in commands.ChangePlan) (commands.Done, error) {
	return l.run(in.AccountID, func(a *account.Account) (account.Outcome, error) { return a.ChangePlan(in.Plan) })
}

func (l *ledger) RecordFailedPayment(_ context.Context, in commands.RecordFailedPayment) (string, error) {
	_, err := l.run(in.AccountID, func(*account.Account) (account.Outcome, error) {
		l.failed = append(l.failed, in)
		return account.Outcome{}, nil
	})
	return "", err
}

// memory is a log of billing streams.
type memory struct {
	events   []eventlog.Recorded
	streams  map[string]uint64
	failures int // of the next outcomes, after their effects
}

func (m *memory) add(stream string, ev eventschemas.Event) error {
	enc, err := eventschemas.Encode(ev)
	if err != nil {
		return err
	}
	if m.streams == nil {
		m.streams = map[string]uint64{}
	}
	m.events = append(m.events, eventlog.Recorded{Proposed: eventlog.Proposed{Type: enc.Type, SchemaVersion: enc.SchemaVersion, Data: enc.Data, OccurredAt: start}, Stream: stream, Revision: m.streams[stream]})
	m.streams[stream]++
	return nil
}

func (m *memory) Settle(_ context.Context, _ commands.Request, stream string, revisions uint64, outcome eventschemas.BillingSettled) error {
	if m.failures > 0 {
		m.failures--
		return eventlog.ErrUnavailable
	}
	if m.streams[stream] != revisions {
		return eventlog.ErrWrongRevision
	}
	return m.add(stream, outcome)
}

// service is a worker on accounts and a log in memory. A new worker folds the log from its beginning.
type service struct {
	t      testmust.T
	log    memory
	ledger *ledger
	offers string
	worker *billing.Worker
	folded int
}

func newService(t testmust.T) *service {
	s := &service{t: t, ledger: newLedger(t), offers: offers}
	s.restart()
	return s
}

func (s *service) restart() {
	var err error
	if s.worker, err = billing.New(billing.Config{Catalog: catalog(s.t, s.offers)}, nil, s.ledger, s.ledger, &s.log); err != nil {
		s.t.Fatal(err)
	}
	s.folded = 0
}

// receive records events that were not recorded before, as commands.Billing does.
func (s *service) receive(events ...stripeEvent) {
	for _, e := range events {
		r := e.report(s.t)
		stream := domain.Stream(r.Processor, r.EventID)
		if s.log.streams[stream] > 0 {
			continue
		}
		testmust.Succeed(s.t, s.log.add(stream, r))
	}
}

// work has the worker read the log and apply what is due.
func (s *service) work() (failing int) {
	for ; s.folded < len(s.log.events); s.folded++ {
		testmust.Succeed(s.t, s.worker.Fold(&s.log.events[s.folded]))
	}
	return s.worker.Apply(context.Background())
}

func (s *service) settle(events ...stripeEvent) *service {
	s.receive(events...)
	if failing := s.work(); failing != 0 {
		s.t.Fatal(failing, "events failed")
	}
	return s
}

// open returns the reports that were not applied, as state and reason.
func (s *service) open() map[string]string {
	state := domain.NewState()
	for i := range s.log.events {
		testmust.Succeed(s.t, billing.Fold(state, &s.log.events[i]))
	}
	all := map[string]string{}
	for _, e := range state.Open() {
		all[e.Report.EventID] = e.State + ": " + e.Reason
	}
	return all
}

func (s *service) expect(t *testing.T, balance int64, on plan.ID) {
	t.Helper()
	if a := s.ledger.accounts[acme]; a.Balance() != balance || a.Plan() != on {
		t.Errorf("the account has %d credits on the plan %s, want %d on %s; open: %v", a.Balance(), a.Plan(), balance, on, s.open())
	}
}

func TestPack_PaidOnce_GrantsOnce(t *testing.T) {
	s := newService(t)
	s.settle(packSession("evt_1", "unpaid", 0, "checkout.session.completed")) // a delayed method
	s.expect(t, 0, plan.Free)
	s.settle(packSession("evt_2", "paid", 9, "checkout.session.async_payment_succeeded"), packSession("evt_3", "paid", 9, "checkout.session.completed"))
	s.expect(t, 500, plan.Free)
	if open := s.open(); len(open) != 0 {
		t.Errorf("open: %v, want none", open)
	}
}

func TestFailedInvoice_RaisesANoticeUnlessItWasPaid(t *testing.T) {
	s := newService(t).settle(invoiceFailed("evt_1", "in_1", 1, 5))
	if open := s.open(); len(s.ledger.failed) != 0 || !strings.Contains(open["evt_1"], "cus_2 is not linked") {
		t.Fatalf("%d notices, open: %v, want the event of an unknown customer in the inbox", len(s.ledger.failed), open)
	}
	s.settle(subscriptionSession("evt_2", 0), invoiceFailed("evt_3", "in_1", 2, 6))
	for i, failed := range s.ledger.failed {
		want := eventschemas.PaymentFailed{PaymentID: "in_1", Attempt: int64(i + 1), FailedAt: start.Add(time.Duration(5+i) * time.Second), Money: &eventschemas.Money{Minor: 9900, Currency: "EUR"}}
		if failed.AccountID != acme || !reflect.DeepEqual(failed.Failed, want) {
			t.Errorf("failure %d: %+v, want %+v of %s", i, failed, want, acme)
		}
	}
	s.settle(invoicePaid("evt_4", "in_1", "price_starter", 7), invoiceFailed("evt_5", "in_1", 3, 6))
	s.expect(t, 1000, plan.Free)
	s.settle(invoicePaid("evt_6", "in_2", "price_unmapped", 8), invoiceFailed("evt_7", "in_2", 1, 7)) // in the inbox
	unsold := invoiceFailed("evt_8", "in_3", 1, 7)
	unsold.object = strings.Replace(unsold.object, "price_starter", "price_of_another_product", 1)
	s.settle(unsold)
	if open := s.open(); len(s.ledger.failed) != 2 || len(open) != 1 {
		t.Errorf("%d notices, open: %v, want those of the two attempts before the payment, and the payment with an unmapped price", len(s.ledger.failed), open)
	}
}

func TestFailedDelayedPayment_RaisesANotice(t *testing.T) {
	s := newService(t).settle(packSession("evt_1", "unpaid", 0, "checkout.session.completed"), packSession("evt_2", "unpaid", 9, "checkout.session.async_payment_failed"))
	s.expect(t, 0, plan.Free)
	want := eventschemas.PaymentFailed{PaymentID: "pi_1", FailedAt: start.Add(9 * time.Second), Money: &eventschemas.Money{Minor: 4900, Currency: "EUR"}}
	if len(s.ledger.failed) != 1 || !reflect.DeepEqual(s.ledger.failed[0].Failed, want) {
		t.Errorf("notices of %+v, want one of %+v", s.ledger.failed, want)
	}
}

func TestRefundBeforePayment_WaitsAndAppliesByItself(t *testing.T) {
	s := newService(t).settle(refunded("evt_1", "re_1", "pi_1", "succeeded", 490, 5))
	if open := s.open(); len(open) != 1 {
		t.Errorf("open: %v, want the refund", open)
	}
	s.settle(packSession("evt_2", "paid", 0, "checkout.session.completed"))
	s.expect(t, 450, plan.Free)
	s = newService(t).settle(refunded("evt_1", "re_1", "pi_9", "succeeded", 990, 5), invoicePaid("evt_2", "in_1", "price_starter", 1), subscriptionSession("evt_3", 0))
	s.expect(t, 1000, plan.Free) // the payment of the refund is not known yet
	s.settle(invoicePaidBy("evt_4", "in_1", "pi_9", 1))
	s.expect(t, 900, plan.Free)
	if open := s.open(); len(open) != 0 {
		t.Errorf("open: %v, want none", open)
	}
}

// A checkout of a pack may create an invoice, which is not granted.
func TestRefund_PackWithInvoice_TakesItsShareInAnyOrder(t *testing.T) {
	events := []stripeEvent{
		packSession("evt_1", "paid", 0, "checkout.session.completed"), invoicePaidBy("evt_2", "in_1", "pi_1", 1),
		refunded("evt_3", "re_1", "pi_1", "succeeded", 490, 5),
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		s := newService(t)
		for _, i := range order {
			s.settle(events[i])
		}
		s.expect(t, 450, plan.Free)
		if open := s.open(); len(open) != 0 {
			t.Errorf("in the order %v, open: %v, want none", order, open)
		}
	}
}

func TestRefund_PendingOrFailed_TakesNothing(t *testing.T) {
	s := newService(t).settle(packSession("evt_1", "paid", 0, "checkout.session.completed"), refunded("evt_2", "re_1", "pi_1", "pending", 490, 1))
	s.expect(t, 500, plan.Free)
	s.settle(refunded("evt_3", "re_1", "pi_1", "succeeded", 490, 2))
	s.expect(t, 450, plan.Free)
	s.settle(refunded("evt_4", "re_1", "pi_1", "failed", 490, 3))
	s.expect(t, 500, plan.Free)
}

func TestDispute_TakesOnceCountingRefunds_AndReturnsWhenWon(t *testing.T) {
	paid := []stripeEvent{packSession("evt_1", "paid", 0, "checkout.session.completed"), refunded("evt_2", "re_1", "pi_1", "succeeded", 490, 1)}
	s := newService(t).settle(paid...).settle(disputed("evt_3", "charge.dispute.created", "warning_needs_response", "pi_1", 2))
	s.expect(t, 450, plan.Free) // an inquiry takes no money
	s.settle(disputed("evt_4", "charge.dispute.updated", "needs_response", "pi_1", 3), disputed("evt_5", "charge.dispute.funds_withdrawn", "under_review", "pi_1", 4))
	s.expect(t, 0, plan.Free)
	s.settle(disputed("evt_6", "charge.dispute.closed", "won", "pi_1", 5), disputed("evt_7", "charge.dispute.funds_reinstated", "won", "pi_1", 5))
	s.expect(t, 450, plan.Free)
	s = newService(t).settle(paid...).settle(disputed("evt_3", "charge.dispute.created", "needs_response", "pi_1", 2), disputed("evt_4", "charge.dispute.closed", "lost", "pi_1", 3))
	s.expect(t, 0, plan.Free)
}

func TestSubscription_GivesItsPlanUntilItsEnd(t *testing.T) {
	s := newService(t).settle(subscriptionSession("evt_1", 0), subscribed("evt_2", 0, "customer.subscription.created", "incomplete", "price_starter"))
	s.expect(t, 0, plan.Free)
	s.settle(subscribed("evt_3", 0, "customer.subscription.updated", "active", "price_starter"), invoicePaid("evt_4", "in_1", "price_starter", 1))
	s.expect(t, 1000, plan.Starter)
	s.settle(subscribed("evt_5", 100, "customer.subscription.updated", "active", "price_growth"))
	s.expect(t, 1000, plan.Growth) // at once; its credits come with the next invoice
	s.settle(subscribed("evt_6", 90, "customer.subscription.updated", "active", "price_starter"))
	s.expect(t, 1000, plan.Growth) // it is older
	s.settle(subscribed("evt_7", 110, "customer.subscription.updated", "past_due", "price_growth"))
	s.expect(t, 1000, plan.Growth)
	s.settle(subscribed("evt_8", 120, "customer.subscription.deleted", "canceled", "price_growth"))
	s.expect(t, 1000, plan.Free)
	s.settle(subscribed("evt_9", 130, "customer.subscription.updated", "active", "price_growth"))
	s.expect(t, 1000, plan.Free) // the end is final
}

func TestSubscription_WithoutPlan_LeavesOperatorsPlan(t *testing.T) {
	s := newService(t)
	testmust.Succeed(t, testmust.Err(s.ledger.ChangePlan(t.Context(), commands.ChangePlan{AccountID: acme, Plan: plan.Custom})))
	s.settle(subscriptionSession("evt_1", 0), subscribed("evt_2", 0, "customer.subscription.created", "incomplete", "price_starter"))
	s.expect(t, 0, plan.Custom)
}

func TestInbox_HasWhatCannotBeApplied(t *testing.T) {
	s := newService(t).settle(
		stripeEvent{"evt_type", "treasury.transaction.created", "{}", 0},
		invoicePaid("evt_customer", "in_1", "price_starter", 1),
		stripeEvent{"evt_price", "checkout.session.completed", strings.Replace(packSession("", "paid", 0, "").object, "price_small", "price_new", 1), 0},
		stripeEvent{"evt_account", "checkout.session.completed", strings.NewReplacer(acme, "3d4c1c3e-1a3c-4f6e-9d43-2f6f7c1f9a12", "pi_1", "pi_2").Replace(packSession("", "paid", 0, "").object), 0},
		subscribed("evt_plan", 0, "customer.subscription.created", "active", "price_small"),
	)
	want := map[string]string{
		"evt_type": "unknown", "evt_customer": "cus_2 is not linked", "evt_price": "price_new is not in LETTERHEAD_BILLING_FILE",
		"evt_account": "no such account", "evt_plan": "cus_2 is not linked",
	}
	open := s.open()
	for id, reason := range want {
		if !strings.HasPrefix(open[id], "inbox: ") || !strings.Contains(open[id], reason) {
			t.Errorf("%s is %q, want in the inbox with %q", id, open[id], reason)
		}
	}
	if len(open) != len(want) {
		t.Errorf("open: %v", open)
	}
	s.expect(t, 0, plan.Free)
	events := len(s.log.events)
	s.settle()
	if len(s.log.events) != events {
		t.Errorf("%d events without a change", len(s.log.events)-events)
	}

	// The customer becomes known: the invoice applies by itself, but the price is that of no plan.
	s.settle(subscriptionSession("evt_link", 0))
	s.expect(t, 1000, plan.Free)
	if open = s.open(); !strings.Contains(open["evt_plan"], "price_small") || open["evt_customer"] != "" {
		t.Errorf("after the link: %v", open)
	}

	// The price is added, and the event is replayed.
	s.offers = moreOffers
	s.restart()
	s.settle()
	s.expect(t, 1000, plan.Free)
	testmust.Succeed(t, s.log.add(domain.Stream("stripe", "evt_price"), eventschemas.BillingReopened{}))
	s.settle()
	s.expect(t, 1070, plan.Free)
	if _, still := s.open()["evt_price"]; still {
		t.Error("the replayed event is still open")
	}
}

func TestDismissed_IsNotAppliedAgain(t *testing.T) {
	s := openStores(t)
	by := commands.Request{ID: "r1", Actor: "operator:test"}
	report := invoicePaid("evt_1", "in_1", "price_starter", 0).report(t)
	testmust.Succeed(t, s.billing.Record(t.Context(), by, report))
	err := s.billing.Dismiss(t.Context(), by, domain.Stream("stripe", "evt_1"), "ann@example.com paid")
	if !errors.As(err, new(*text.EmailError)) {
		t.Errorf("a reason with an address: %v, want an EmailError", err)
	}
	testmust.Succeed(t, s.billing.Dismiss(t.Context(), by, domain.Stream("stripe", "evt_1"), "a test"))
	link := eventschemas.BillingReported{Processor: "stripe", EventID: "link", Kind: domain.KindCustomer, AccountID: acme, Customer: "cus_2"}
	testmust.Succeed(t, s.billing.Record(t.Context(), by, link))
	before := s.balance(t)
	w := testmust.Get(billing.New(billing.Config{Catalog: catalog(t, offers)}, s.log, s.accounts, s.notices, s.billing))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	await(t, "the link is applied", func() bool {
		return len(s.open(t)) == 0
	})
	stop()
	if err := <-ended; err != nil || s.balance(t) != before {
		t.Errorf("the balance is %d, want %d; %v", s.balance(t), before, err)
	}
}

func (s *service) append(id string, ev eventschemas.Event) {
	testmust.Succeed(s.t, s.log.add(domain.Stream("stripe", id), ev))
}

func TestReopenedProblem_ThenUnderstood_IsApplied(t *testing.T) {
	for _, of := range []struct {
		known   stripeEvent
		balance int64
	}{
		{packSession("evt_1", "paid", 0, "checkout.session.completed"), 500},
		{refunded("evt_1", "re_1", "pi_1", "succeeded", 490, 1), 450},
	} {
		s := newService(t)
		s.append("evt_1", eventschemas.BillingReported{Processor: "stripe", EventID: "evt_1", Type: of.known.eventType, Problem: "unknown", CreatedAt: start})
		s.settle()
		s.append("evt_1", eventschemas.BillingReopened{})
		s.settle()
		s.append("evt_1", of.known.report(t))
		s.settle(packSession("evt_2", "paid", 0, "checkout.session.completed"))
		s.expect(t, of.balance, plan.Free)
		if open := s.open(); len(open) != 0 {
			t.Errorf("open: %v, want none", open)
		}
	}
}

func TestDismissed_SaysNothing(t *testing.T) {
	dismissed := eventschemas.BillingSettled{Outcome: domain.Dismissed, Reason: "a test"}
	s := newService(t).settle(refunded("evt_1", "re_1", "pi_1", "succeeded", 490, 1))
	s.append("evt_1", dismissed)
	s.settle(packSession("evt_2", "paid", 0, "checkout.session.completed"), refunded("evt_3", "re_2", "pi_1", "succeeded", 49, 2))
	s.expect(t, 495, plan.Free)

	// What an earlier event said counts again.
	s = newService(t).settle(subscriptionSession("evt_1", 0), subscribed("evt_2", 1, "customer.subscription.created", "active", "price_starter"),
		subscribed("evt_3", 2, "customer.subscription.updated", "active", "price_small"))
	s.append("evt_3", dismissed)
	second := subscribed("evt_4", 3, "customer.subscription.created", "incomplete", "price_growth")
	second.object = strings.Replace(second.object, "sub_1", "sub_2", 1)
	s.settle(second)
	s.expect(t, 0, plan.Starter)

	// So does the account of a customer, and the payment of an invoice.
	s = newService(t).settle(invoicePaidBy("evt_1", "in_9", "pi_9", 9))
	s.append("link", eventschemas.BillingReported{Processor: "stripe", EventID: "link", Kind: domain.KindPayment, PaymentID: "pi_8", GrantKind: "topup", AccountID: acme, Customer: "cus_2", CreatedAt: start})
	s.settle()
	s.append("link", dismissed)
	s.settle(invoicePaid("evt_2", "in_1", "price_starter", 1))
	s.expect(t, 0, plan.Free)
	if open := s.open(); !strings.Contains(open["evt_2"], "cus_2 is not linked") {
		t.Errorf("open: %v, want the invoice", open)
	}
}

func TestUnknownState_GoesToInbox(t *testing.T) {
	s := newService(t).settle(packSession("evt_1", "paid", 0, "checkout.session.completed"), refunded("evt_2", "re_1", "pi_1", "succeeded", 490, 1),
		subscriptionSession("evt_3", 0), subscribed("evt_4", 1, "customer.subscription.created", "active", "price_starter"))
	s.expect(t, 450, plan.Starter)
	s.settle(refunded("evt_5", "re_1", "pi_1", "reconsidered", 490, 2), disputed("evt_6", "charge.dispute.created", "reconsidered", "pi_1", 2),
		subscribed("evt_7", 2, "customer.subscription.updated", "reconsidered", "price_growth"),
		refunded("evt_8", "re_2", "pi_1", "won", 490, 2), disputed("evt_9", "charge.dispute.created", "succeeded", "pi_1", 2)) // states of the other kind
	s.expect(t, 450, plan.Starter)
	open := s.open()
	for _, id := range []string{"evt_5", "evt_6", "evt_7", "evt_8", "evt_9"} {
		if !strings.HasPrefix(open[id], "inbox: the state ") {
			t.Errorf("%s is %q, want in the inbox because of its state", id, open[id])
		}
	}
	s.settle(refunded("evt_10", "re_1", "pi_1", "failed", 490, 3), subscribed("evt_11", 3, "customer.subscription.updated", "paused", "price_growth"),
		disputed("evt_12", "charge.dispute.updated", "prevented", "pi_1", 3), refunded("evt_13", "re_3", "pi_1", "requires_action", 490, 3))
	s.expect(t, 500, plan.Free)
	if open := s.open(); len(open) != 5 {
		t.Errorf("open: %v, want the events with unknown states", open)
	}
}

func TestUnusableClaim_LeavesTheOthers(t *testing.T) {
	dollars := refunded("evt_usd", "re_usd", "pi_1", "succeeded", 490, 1)
	dollars.object = strings.Replace(dollars.object, "eur", "usd", 1)
	second := packSession("evt_2", "paid", 0, "checkout.session.completed")
	second.object = strings.Replace(second.object, "pi_1", "pi_2", 1)
	s := newService(t).settle(packSession("evt_1", "paid", 0, "checkout.session.completed"), second, dollars, refunded("evt_3", "re_1", "pi_2", "succeeded", 490, 1))
	s.expect(t, 950, plan.Free)
	s.settle(refunded("evt_other", "re_1", "pi_1", "succeeded", 490, 2), refunded("evt_4", "re_2", "pi_1", "succeeded", 490, 3))
	s.expect(t, 900, plan.Free)
	if open := s.open(); len(open) != 2 || !strings.Contains(open["evt_usd"], "currency") || !strings.Contains(open["evt_other"], "re_1") {
		t.Errorf("open: %v, want the refunds that cannot be used", open)
	}
	for i := range account.MaxClaims + 10 {
		s.receive(refunded(fmt.Sprint("evt_many", i), fmt.Sprint("re_many", i), "pi_1", "succeeded", 9, 4))
	}
	s.settle()
	s.expect(t, 900-account.MaxClaims-10, plan.Free)
}

// Reports of other processors name the account. One that names another than that of its payment moves nothing, then and with
// the claims that follow.
func TestReport_NamesAnotherAccount_GoesToInbox(t *testing.T) {
	euros := func(minor int64) *eventschemas.Money { return &eventschemas.Money{Minor: minor, Currency: "EUR"} }
	s := newService(t)
	report := func(id, accountID string, r eventschemas.BillingReported) {
		r.Processor, r.EventID, r.AccountID, r.PaymentID, r.CreatedAt = "other", id, accountID, "p1", start
		s.append(id, r)
	}
	report("z1", other, eventschemas.BillingReported{Kind: domain.KindRefund, Subject: "re_1", State: "succeeded", Money: euros(490)})
	paid := eventschemas.BillingReported{Kind: domain.KindPayment, State: "paid", GrantKind: account.KindTopup, Credits: 1000, Money: euros(4900)}
	report("p1", acme, paid)
	report("p2", other, paid)
	s.settle()
	s.expect(t, 1000, plan.Free)
	report("r2", acme, eventschemas.BillingReported{Kind: domain.KindRefund, Subject: "re_2", State: "succeeded", Money: euros(490)})
	s.settle()
	s.expect(t, 900, plan.Free)
	report("r3", acme, eventschemas.BillingReported{Kind: domain.KindRefund, Subject: "re_1", State: "succeeded", Money: euros(980)})
	s.settle()
	s.expect(t, 700, plan.Free)
	if b := s.ledger.accounts[other].Balance(); b != 0 {
		t.Errorf("the other account has %d credits", b)
	}
	if open := s.open(); len(open) != 2 || !strings.Contains(open["z1"], "another account") || !strings.Contains(open["p2"], "another account") {
		t.Errorf("open: %v, want both reports of the other account", open)
	}
}

func TestOtherVersion_IsAppliedByReplay(t *testing.T) {
	s := newService(t)
	report, ok := domain.FromStripe(domain.StripeEvent{
		ID: "evt_1", Type: "checkout.session.completed", APIVersion: "2024-01-01", Created: 1, Object: []byte(packSession("", "paid", 0, "").object),
	})
	if !ok || report.Problem == "" {
		t.Fatalf("%+v", report)
	}
	stream := domain.Stream("stripe", "evt_1")
	testmust.Succeed(t, s.log.add(stream, report))
	s.settle(refunded("evt_2", "re_1", "pi_1", "succeeded", 490, 1))
	s.expect(t, 0, plan.Free)
	testmust.Succeed(t, s.log.add(stream, eventschemas.BillingReopened{}))
	s.settle()
	s.expect(t, 450, plan.Free)
}

// TestCrash_BetweenAppendAndEffect_CatchesUp fails each step once, and continues with a new worker.
// Rule 1.
func TestCrash_BetweenAppendAndEffect_CatchesUp(t *testing.T) {
	for _, failOutcome := range []bool{false, true} {
		s := newService(t)
		s.receive(packSession("evt_1", "paid", 0, "checkout.session.completed"), refunded("evt_2", "re_1", "pi_1", "succeeded", 490, 1))
		if failOutcome {
			s.log.failures = 1
		} else {
			s.ledger.failures = 1
		}
		if failing := s.work(); failing == 0 {
			t.Fatal("nothing failed")
		}
		s.restart()
		s.settle()
		s.expect(t, 450, plan.Free)
		calls := s.ledger.calls
		s.restart()
		s.settle()
		if s.ledger.calls != calls {
			t.Errorf("a worker that starts again has %d effects", s.ledger.calls-calls)
		}
	}
}
