package billing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"letterhead/domain/account"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// Entry is a report that has not been applied.
type Entry struct {
	Stream    string
	Report    eventschemas.BillingReported
	Revisions uint64 // events in its stream
	State     string // "" until it is decided, Waiting or Inbox
	Reason    string
	At        time.Time // of the report

	reopened bool
	learned  bool
	stale    bool // a later state of its subscription was known when it came
	number   uint64
}

// key is an id of a processor.
type key struct{ processor, id string }

// State folds the events of all billing streams.
type State struct {
	open    map[string]*Entry // by stream
	reports uint64

	customers map[key]history[string]           // their accounts
	payments  map[key]string                    // the accounts of those that were granted
	invoices  map[key]history[key]              // the payment that another one belongs to
	parts     map[key][]key                     // the reverse, with links that no longer count
	claims    map[key]map[string]history[claim] // by the payment that they name, and their id
	subs      map[key]history[subscription]
	plans     map[string]plan.ID // that the subscriptions of an account gave last
}

// version orders reports about the same thing; the largest counts.
type version struct {
	rank    int // a later stage has a higher one
	created time.Time
	stage   int // among reports of the same second
	eventID string
}

func (v version) compare(other version) int {
	return cmp.Or(cmp.Compare(v.rank, other.rank), v.created.Compare(other.created), cmp.Compare(v.stage, other.stage), strings.Compare(v.eventID, other.eventID))
}

// statement is what a report says about a thing.
type statement[T any] struct {
	version
	stream string // of the report; empty when it was applied
	value  T
}

// history has the statements about a thing of reports that are open, and at most one that was applied, in order.
type history[T any] []statement[T]

// latest returns the value that counts, and the zero value if there is none.
func (h history[T]) latest() (value T) {
	if len(h) > 0 {
		value = h[len(h)-1].value
	}
	return value
}

// add adds what a report says about a thing.
func add[K comparable, T any](m map[K]history[T], of K, said statement[T]) {
	h := m[of]
	i, _ := slices.BinarySearchFunc(h, said, func(a, b statement[T]) int { return a.compare(b.version) })
	m[of] = slices.Insert(h, i, said)
}

// remove removes what the report of a stream said about a thing.
func remove[K comparable, T any](m map[K]history[T], of K, stream string) {
	h := slices.DeleteFunc(m[of], func(said statement[T]) bool { return said.stream == stream })
	if len(h) == 0 {
		delete(m, of)
		return
	}
	m[of] = h
}

// keep makes what the report of a stream said about a thing final, and merges it with what was final before.
func keep[K comparable, T any](m map[K]history[T], of K, stream string, merge func(older, newer T) T) {
	final := -1
	h := m[of]
	for i := 0; i < len(h); i++ {
		if h[i].stream == stream {
			h[i].stream = ""
		}
		if h[i].stream != "" {
			continue
		}
		if final >= 0 {
			h[i].value = merge(h[final].value, h[i].value)
			h = slices.Delete(h, final, final+1)
			i--
		}
		final = i
	}
	if len(h) > 0 {
		m[of] = h
	}
}

// newest merges values of which the latest counts.
func newest[T any](_, newer T) T { return newer }

// claim is a state of a refund or a dispute.
type claim struct {
	kind, id  string
	accountID string // that the report names; may be empty
	money     eventschemas.Money
	effect    effect
}

type effect int

const (
	none  effect = iota // nothing was taken
	takes               // the money was taken
	void                // it was returned
)

type subscription struct {
	processor, accountID, customer string
	active, wasActive              bool
	prices                         []eventschemas.BillingPrice
}

// mergeSubscriptions returns a subscription in its newer state, with what only the older one names.
func mergeSubscriptions(older, newer subscription) subscription {
	newer.wasActive = newer.wasActive || older.wasActive
	newer.accountID, newer.customer = cmp.Or(newer.accountID, older.accountID), cmp.Or(newer.customer, older.customer)
	return newer
}

// mergedSubscription returns the subscription that a history leads to.
func mergedSubscription(h history[subscription]) (merged subscription) {
	for _, said := range h {
		merged = mergeSubscriptions(merged, said.value)
	}
	return merged
}

// NewState returns the State of no events.
func NewState() *State {
	return &State{
		open: map[string]*Entry{}, customers: map[key]history[string]{}, payments: map[key]string{}, invoices: map[key]history[key]{},
		parts: map[key][]key{}, claims: map[key]map[string]history[claim]{}, subs: map[key]history[subscription]{}, plans: map[string]plan.ID{},
	}
}

// Apply folds an event of a billing stream. The events of a stream must be applied in order, from the first on; one that was
// applied before changes nothing.
func (s *State) Apply(stream string, revision uint64, ev eventschemas.Event, at time.Time) {
	e := s.open[stream]
	if e == nil && revision > 0 || e != nil && revision < e.Revisions {
		return
	}
	switch ev := ev.(type) {
	case eventschemas.BillingReported:
		if e == nil {
			s.reports++
			e = &Entry{Stream: stream, number: s.reports}
			s.open[stream] = e
		}
		s.forget(e)
		e.Report, e.At, e.State, e.Reason, e.reopened = ev, at, "", "", false // a second one is a copy that can be used
		s.learn(e)
	case eventschemas.BillingReopened:
		if e == nil {
			return
		}
		e.State, e.Reason, e.reopened = "", "", true
		s.learn(e)
	case eventschemas.BillingSettled:
		if e == nil {
			return
		}
		s.settle(e, ev)
	default:
		return
	}
	e.Revisions = revision + 1
}

// settle records the outcome of a report.
func (s *State) settle(e *Entry, ev eventschemas.BillingSettled) {
	r := e.Report
	if e.learned && ev.Outcome != Dismissed {
		if remove(s.customers, key{r.Processor, r.Customer}, e.Stream); !strings.HasSuffix(ev.Reason, LinkStays) {
			s.link(e)
		}
	}
	if ev.Outcome == Inbox {
		e.State, e.Reason = Inbox, ev.Reason
		return
	}
	delete(s.open, e.Stream)
	if ev.Outcome == Dismissed {
		s.forget(e)
		return
	}
	s.keep(e)
	if ev.Plan != "" {
		s.plans[ev.AccountID] = plan.ID(ev.Plan)
	}
	if r.Kind == KindPayment {
		s.payments[key{r.Processor, r.PaymentID}] = ev.AccountID
	}
}

// forget removes what a report said.
func (s *State) forget(e *Entry) {
	if !e.learned {
		return
	}
	e.learned = false
	r := e.Report
	of := func(id string) key { return key{r.Processor, id} }
	remove(s.customers, of(r.Customer), e.Stream)
	remove(s.invoices, of(r.PaymentID), e.Stream)
	remove(s.claims[of(r.PaymentID)], r.Subject, e.Stream)
	remove(s.subs, of(r.Subject), e.Stream)
}

// keep makes what a report said final.
func (s *State) keep(e *Entry) {
	r := e.Report
	of := func(id string) key { return key{r.Processor, id} }
	keep(s.customers, of(r.Customer), e.Stream, newest)
	keep(s.invoices, of(r.PaymentID), e.Stream, newest)
	keep(s.claims[of(r.PaymentID)], r.Subject, e.Stream, newest)
	keep(s.subs, of(r.Subject), e.Stream, mergeSubscriptions)
}

// learn folds what a report says.
func (s *State) learn(e *Entry) {
	r := e.Report
	if e.learned || !Usable(r, e.reopened) {
		return
	}
	e.learned = true
	of := func(id string) key { return key{r.Processor, id} }
	v := version{created: r.CreatedAt, eventID: r.EventID}
	if !s.replaces(r) {
		s.link(e)
	}
	switch r.Kind {
	case KindLink:
		part, whole := of(r.PaymentID), of(r.InvoiceID)
		add(s.invoices, part, statement[key]{v, e.Stream, whole})
		if !slices.Contains(s.parts[whole], part) {
			s.parts[whole] = append(s.parts[whole], part)
		}
	case KindRefund, KindDispute:
		c := claim{kind: r.Kind, id: r.Subject, accountID: r.AccountID, money: *r.Money}
		v.rank, c.effect, _ = claimStage(r.Kind, r.State)
		if s.claims[of(r.PaymentID)] == nil {
			s.claims[of(r.PaymentID)] = map[string]history[claim]{}
		}
		add(s.claims[of(r.PaymentID)], c.id, statement[claim]{v, e.Stream, c})
	case KindSubscription:
		sub := subscription{processor: r.Processor, accountID: r.AccountID, customer: r.Customer, prices: r.Prices}
		v.rank, v.stage, sub.active, _ = subscriptionStage(r.State)
		sub.wasActive = sub.active
		h := s.subs[of(r.Subject)]
		e.stale = len(h) > 0 && h[len(h)-1].compare(v) > 0
		add(s.subs, of(r.Subject), statement[subscription]{v, e.Stream, sub})
	}
}

// link makes the account that a report names, if any, that of its customer.
func (s *State) link(e *Entry) {
	if r := e.Report; r.AccountID != "" && r.Customer != "" {
		add(s.customers, key{r.Processor, r.Customer}, statement[string]{version{created: r.CreatedAt, eventID: r.EventID}, e.Stream, r.AccountID})
	}
}

// replaces reports whether a report would link its customer to another account than the one that it has. Operators may.
func (s *State) replaces(r eventschemas.BillingReported) bool {
	linked := s.linkedTo(r)
	return r.AccountID != "" && linked != "" && linked != r.AccountID && !(r.Kind == KindCustomer && r.Type == LinkedByOperator)
}

// linkedTo returns the account to which the customer of a report is linked, and "" if it has none.
func (s *State) linkedTo(r eventschemas.BillingReported) string {
	return s.customers[key{r.Processor, r.Customer}].latest()
}

// confirmed reports whether an operator has linked the customer of a report to the account that the report names and could
// not link.
func (s *State) confirmed(r eventschemas.BillingReported) bool {
	return r.Kind == "" && AsksToLink(r.Problem) && s.linkedTo(r) == r.AccountID
}

// Usable reports whether what a report says counts. One with a problem counts after it was reopened, if it has a kind.
func Usable(r eventschemas.BillingReported, reopened bool) bool {
	return r.Kind != "" && (r.Problem == "" || reopened) && Validate(r) == nil && knownState(r)
}

// NotGranted returns why a refund or a dispute of a payment waits.
func NotGranted(paymentID string) string { return "its payment " + paymentID + " was not granted yet" }

// knownState reports whether a report has a state whose effect is known.
func knownState(r eventschemas.BillingReported) (known bool) {
	switch r.Kind {
	case KindRefund, KindDispute:
		_, _, known = claimStage(r.Kind, r.State)
	case KindSubscription:
		_, _, _, known = subscriptionStage(r.State)
	default:
		known = true // their states have no effect
	}
	return known
}

// claimStage returns how far a refund or a dispute has come in a state, and what it takes.
func claimStage(kind, state string) (rank int, takesMoney effect, known bool) {
	switch kind + " " + state {
	case "refund pending", "refund requires_action", "dispute warning_needs_response", "dispute warning_under_review":
		return 0, none, true
	case "refund succeeded", "dispute needs_response", "dispute under_review":
		return 1, takes, true
	case "dispute lost":
		return 2, takes, true
	case "refund failed", "refund canceled", "dispute won", "dispute warning_closed", "dispute prevented":
		return 2, void, true
	}
	return 0, none, false
}

// subscriptionStage returns how far a subscription has come in a state, and whether it gives its plan. Within a second, a
// subscription is created, then tried or paid for. The end is final.
func subscriptionStage(state string) (rank, stage int, active, known bool) {
	switch state {
	case "incomplete":
		return 0, 0, false, true
	case "trialing":
		return 0, 1, true, true
	case "active":
		return 0, 2, true, true
	case "past_due":
		return 0, 3, true, true
	case "unpaid", "paused":
		return 0, 4, false, true
	case "canceled", "incomplete_expired":
		return endedRank, 0, false, true
	}
	return 0, 0, false, false
}

// endedRank is the rank of the end of a subscription.
const endedRank = 1

// Ended reports whether a subscription in a state has ended. It never begins again.
func Ended(state string) bool {
	rank, _, _, _ := subscriptionStage(state)
	return rank == endedRank
}

// Open returns the reports that have not been applied, in the order of the log.
func (s *State) Open() []*Entry {
	all := make([]*Entry, 0, len(s.open))
	for _, e := range s.open {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *Entry) int { return cmp.Compare(a.number, b.number) })
	return all
}

// Entry returns a report that has not been applied, or nil.
func (s *State) Entry(stream string) *Entry { return s.open[stream] }

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
		reason = keepingLink(reason)
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

// accountOf returns the account that a report names, or that of its customer.
func (s *State) accountOf(r eventschemas.BillingReported) string {
	if r.AccountID != "" || r.Customer == "" {
		return r.AccountID
	}
	return s.customers[key{r.Processor, r.Customer}].latest()
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
	return Decision{Outcome: Applied, AccountID: accountID, Grant: &Grant{r.PaymentID, r.GrantKind, credits, r.Money, r.Tax}}
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
	return Decision{Outcome: Applied, AccountID: accountID, Failure: &eventschemas.PaymentFailed{PaymentID: r.PaymentID, Attempt: r.Attempt, FailedAt: r.CreatedAt, Money: r.Money}}
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

// decideClaims settles the claim of a report against a payment, and with it what changes for its other claims. Those that
// cannot be used do not keep it from being settled.
func (s *State) decideClaims(of key, r eventschemas.BillingReported) Decision {
	// A payment of an invoice counts as the invoice, unless the payment itself was granted: a checkout of a pack may create
	// an invoice, too.
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
		return inbox("no price of the subscription (%s) is that of a plan in LETTERHEAD_BILLING_FILE", pricesOf(own.prices))
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

// bestPlan returns the best plan that the subscriptions of an account give, but for one of them, and whether any of them
// was ever active.
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

// mayHaveChanged reports whether an account may be on another plan than the one that its subscriptions gave last: an open
// report that was the latest of its subscription, and no longer is, may have been carried out by a process that ended
// before it recorded that.
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
	return s.accountOf(eventschemas.BillingReported{Processor: sub.processor, AccountID: sub.accountID, Customer: sub.customer})
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
