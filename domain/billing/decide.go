package billing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// Grant is a payment's grant of credits.
type Grant struct {
	PaymentID string
	Kind      string
	Credits   int64
	Money     *eventschemas.Money
	Tax       int64
}

// Decision is what to do with a report: the effects on an account, which are repeatable, and then the outcome.
type Decision struct {
	Outcome   string // Applied, Waiting or Inbox
	Reason    string
	AccountID string
	Grant     *Grant
	Settle    *account.Settle
	Failure   *eventschemas.PaymentFailed // changes no account
	// Plan is what the account's subscriptions give, empty for other reports. Change reports whether it differs from
	// what they gave before.
	Plan   plan.ID
	Change bool

	linkStays bool
}

// Settled returns the outcome of a decision.
func (d *Decision) Settled() eventschemas.BillingSettled {
	reason := d.Reason
	if d.linkStays {
		reason = strings.TrimPrefix(reason+"; "+LinkStays, "; ")
	}
	return eventschemas.BillingSettled{Outcome: d.Outcome, Reason: reason, AccountID: d.AccountID, Plan: string(d.Plan)}
}

// Refused returns the decision to put a report into the inbox, because an effect of this one was refused.
func (d *Decision) Refused(err error) Decision {
	return Decision{Outcome: Inbox, Reason: err.Error(), AccountID: d.AccountID, linkStays: d.linkStays}
}

func inbox(format string, args ...any) Decision {
	return Decision{Outcome: Inbox, Reason: fmt.Sprintf(format, args...)}
}

// Due reports whether a report should be decided: it is new, was reopened, waits, or is in the inbox only because its
// customer was not linked to its account, which it is now.
func (s *State) Due(e *Entry) bool {
	switch {
	case e.State != Inbox:
		return true
	case e.Reason == LinkStays:
		return !s.replaces(e.Report)
	case !e.learned:
		return s.confirmed(e.Report)
	}
	return e.Reason == s.noAccount(e).Reason && s.accountOf(e.Report) != ""
}

// Decide decides a report.
func (s *State) Decide(e *Entry, c *Catalog) Decision {
	d := s.decide(e, c)
	d.linkStays = e.learned && s.replaces(e.Report)
	return d
}

func (s *State) decide(e *Entry, c *Catalog) Decision {
	r := e.Report
	if s.confirmed(r) {
		return Decision{Outcome: Applied, AccountID: r.AccountID}
	}
	if r.Problem != "" && (!e.reopened || r.Kind == "") {
		return inbox("%s", r.Problem)
	}
	if err := Validate(r); err != nil {
		return inbox("%v", err)
	}
	if !knownState(r) {
		return inbox("the state %s of the %s is unknown", r.State, r.Kind)
	}
	switch r.Kind {
	case KindLink:
		return Decision{Outcome: Applied} // the claims against the payment wait themselves
	case KindCustomer:
		accountID := s.accountOf(r)
		switch {
		case accountID == "":
			return s.noAccount(e)
		case s.replaces(r):
			return Decision{Outcome: Inbox} // an operator links it
		}
		return Decision{Outcome: Applied, AccountID: accountID}
	case KindPayment:
		return s.decidePayment(e, c)
	case KindFailure:
		return s.decideFailure(e, c)
	case KindRefund, KindDispute:
		return s.decideClaims(key{r.Processor, r.PaymentID}, r)
	}
	return s.decidePlan(e, c)
}

func (s *State) noAccount(e *Entry) Decision {
	if e.Report.Customer == "" {
		return inbox("it names neither a customer nor an account (client_reference_id, metadata account_id)")
	}
	return inbox("the customer %s is not linked to an account", e.Report.Customer)
}

// accountOf returns the account that a report names, or else the account of its customer.
func (s *State) accountOf(r eventschemas.BillingReported) string {
	if r.AccountID != "" || r.Customer == "" {
		return r.AccountID
	}
	return s.linkedTo(r)
}

func (s *State) decidePayment(e *Entry, c *Catalog) Decision {
	r := e.Report
	if accountID, granted := s.payments[key{r.Processor, r.PaymentID}]; granted {
		if names(r.AccountID, accountID) {
			return Decision{Outcome: Applied, Reason: GrantedBefore, AccountID: accountID}
		}
		return ofAnother(r.PaymentID, accountID)
	}
	accountID := s.accountOf(r)
	if accountID == "" {
		return s.noAccount(e)
	}
	credits := r.Credits
	if credits == 0 {
		for _, p := range r.Prices {
			offer, ok := c.Offer(p.Price)
			if !ok {
				return inbox("the price %s is not in LETTERHEAD_BILLING_FILE", p.Price)
			}
			if p.Quantity < 0 || offer.Credits > 0 && p.Quantity > (math.MaxInt64-credits)/offer.Credits {
				return inbox("%d times the price %s is too much", p.Quantity, p.Price)
			}
			credits += p.Quantity * offer.Credits
		}
	}
	if credits == 0 {
		return inbox("the payment gives no credits: its prices are unknown or give none")
	}
	grant := &Grant{r.PaymentID, r.GrantKind, credits, r.Money, r.Tax}
	return Decision{Outcome: Applied, AccountID: accountID, Grant: grant}
}

// decideFailure raises a notice of a failed payment that was not paid since.
func (s *State) decideFailure(e *Entry, c *Catalog) Decision {
	r := e.Report
	if accountID, granted := s.payments[key{r.Processor, r.PaymentID}]; granted {
		return Decision{Outcome: Applied, Reason: GrantedBefore, AccountID: accountID}
	}
	for _, other := range s.open {
		if o := other.Report; o.Kind == KindPayment && o.Processor == r.Processor && o.PaymentID == r.PaymentID {
			return Decision{Outcome: Applied, Reason: PaidSince}
		}
	}
	isSold := func(p eventschemas.BillingPrice) bool { _, ok := c.Offer(p.Price); return ok }
	if len(r.Prices) > 0 && !slices.ContainsFunc(r.Prices, isSold) {
		return Decision{Outcome: Applied, Reason: NotSoldHere}
	}
	accountID := s.accountOf(r)
	if accountID == "" {
		return s.noAccount(e)
	}
	failed := &eventschemas.PaymentFailed{
		PaymentID: r.PaymentID, Attempt: r.Attempt, FailedAt: r.CreatedAt, Money: r.Money,
	}
	return Decision{Outcome: Applied, AccountID: accountID, Failure: failed}
}

// names reports whether a report that names an account, or none, can be about something of an account.
func names(named, accountID string) bool { return named == "" || named == accountID }

func ofAnother(paymentID, accountID string) Decision {
	return inbox("the payment %s is one of another account, %s", paymentID, accountID)
}

// latestOf returns the latest claim of a history that can be about a payment of an account.
func latestOf(h history[claim], accountID string) (latest claim) {
	for _, said := range h {
		if names(said.value.accountID, accountID) {
			latest = said.value
		}
	}
	return latest
}

// decideClaims settles the claim of a report against a payment, and with it what changes for its other claims. Those
// that cannot be used do not keep it from being settled.
func (s *State) decideClaims(of key, r eventschemas.BillingReported) Decision {
	// A payment of an invoice counts as the invoice, unless the payment itself was granted: a checkout of a pack may
	// create an invoice, too.
	whole := of
	if h := s.invoices[of]; len(h) > 0 {
		_, invoiceGranted := s.payments[h.latest()]
		if _, itselfGranted := s.payments[of]; invoiceGranted || !itselfGranted {
			whole = h.latest()
		}
	}
	accountID, granted := s.payments[whole]
	if !granted {
		return Decision{Outcome: Waiting, Reason: NotGranted(of.id)}
	}
	if !names(r.AccountID, accountID) {
		return ofAnother(of.id, accountID)
	}
	d := Decision{Outcome: Applied, AccountID: accountID}
	var all []claim
	for _, part := range append([]key{whole}, s.parts[whole]...) {
		if part != whole && s.invoices[part].latest() != whole {
			continue
		}
		for _, h := range s.claims[part] {
			all = append(all, latestOf(h, accountID))
		}
	}
	slices.SortFunc(all, func(a, b claim) int {
		return cmp.Or(-strings.Compare(a.kind, b.kind), strings.Compare(a.id, b.id)) // refunds before disputes
	})
	all = slices.DeleteFunc(all, func(c claim) bool { return c.effect == none })
	for i := len(all) - 1; i >= 0 && len(all) > account.MaxClaims; i-- {
		if all[i].id != r.Subject {
			all = slices.Delete(all, i, i+1)
		}
	}
	for _, c := range all {
		if d.Settle == nil {
			d.Settle = &account.Settle{PaymentID: whole.id, Subject: r.Subject}
		}
		d.Settle.Claims = append(d.Settle.Claims, account.Claim{ID: c.id, Money: c.money, Void: c.effect == void})
	}
	return d
}

// decidePlan gives an account the best plan of its subscriptions.
func (s *State) decidePlan(e *Entry, c *Catalog) Decision {
	accountID := s.accountOfPlan(e.Report)
	if accountID == "" {
		return s.noAccount(e)
	}
	own := mergedSubscription(s.subs[key{e.Report.Processor, e.Report.Subject}])
	if own.active && s.accountOfSubscription(own) == accountID && planOf(own.prices, c) == "" {
		return inbox("no price of the subscription (%s) is that of a plan in LETTERHEAD_BILLING_FILE",
			pricesOf(own.prices))
	}
	best, wasActive := s.bestPlan(accountID, key{}, c)
	before, known := s.plans[accountID]
	// Subscriptions that never gave a plan leave an operator's plan as it is.
	change := before != best || s.mayHaveChanged(accountID, before, c)
	if !known {
		change = wasActive
	}
	return Decision{Outcome: Applied, AccountID: accountID, Plan: best, Change: change}
}

// bestPlan returns the best plan that the subscriptions of an account give, but for one of them, and whether any of
// them was ever active.
func (s *State) bestPlan(accountID string, except key, c *Catalog) (best plan.ID, wasActive bool) {
	best = plan.Free
	for id, h := range s.subs {
		sub := mergedSubscription(h)
		if id == except || s.accountOfSubscription(sub) != accountID {
			continue
		}
		wasActive = wasActive || sub.wasActive
		if sub.active {
			best = better(best, planOf(sub.prices, c))
		}
	}
	return best, wasActive
}

// mayHaveChanged reports whether an account may be on another plan than the one that its subscriptions gave last: an
// open report that was the latest of its subscription, and no longer is, may have been carried out by a process that
// ended before it recorded that.
func (s *State) mayHaveChanged(accountID string, before plan.ID, c *Catalog) bool {
	for _, e := range s.open {
		r := e.Report
		if r.Kind != KindSubscription || !e.learned || e.stale || !s.Due(e) || s.accountOfPlan(r) != accountID {
			continue
		}
		id := key{r.Processor, r.Subject}
		if h := s.subs[id]; h[len(h)-1].stream == e.Stream {
			continue
		}
		gave, _ := s.bestPlan(accountID, id, c)
		if _, _, active, _ := subscriptionStage(r.State); active {
			of := planOf(r.Prices, c)
			if of == "" { // it goes to the inbox
				continue
			}
			gave = better(gave, of)
		}
		if gave != before {
			return true
		}
	}
	return false
}

// planOf returns the best plan of prices, empty if they have none.
func planOf(prices []eventschemas.BillingPrice, c *Catalog) (best plan.ID) {
	for _, p := range prices {
		if offer, ok := c.Offer(p.Price); ok && offer.Plan != "" {
			best = better(best, offer.Plan)
		}
	}
	return best
}

// accountOfPlan returns the account whose plan a report about a subscription may change.
func (s *State) accountOfPlan(r eventschemas.BillingReported) string {
	if accountID := s.accountOf(r); accountID != "" {
		return accountID
	}
	return s.accountOfSubscription(mergedSubscription(s.subs[key{r.Processor, r.Subject}]))
}

func (s *State) accountOfSubscription(sub subscription) string {
	r := eventschemas.BillingReported{Processor: sub.processor, AccountID: sub.accountID, Customer: sub.customer}
	return s.accountOf(r)
}

// better returns the plan that allows more requests; an empty one allows none.
func better(a, b plan.ID) plan.ID {
	t := plan.Default()
	pa, errA := t.Get(a)
	pb, errB := t.Get(b)
	if errA != nil || errB == nil && pb.PerMinute > pa.PerMinute {
		return b
	}
	return a
}

func pricesOf(prices []eventschemas.BillingPrice) string {
	ids := make([]string, len(prices))
	for i, p := range prices {
		ids[i] = p.Price
	}
	return strings.Join(ids, ", ")
}
