package billing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

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
	return cmp.Or(cmp.Compare(v.rank, other.rank), v.created.Compare(other.created), cmp.Compare(v.stage, other.stage),
		strings.Compare(v.eventID, other.eventID))
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
		open: map[string]*Entry{}, customers: map[key]history[string]{}, payments: map[key]string{},
		invoices: map[key]history[key]{}, parts: map[key][]key{}, claims: map[key]map[string]history[claim]{},
		subs: map[key]history[subscription]{}, plans: map[string]plan.ID{},
	}
}

// Apply folds an event of a billing stream. The events of a stream must be applied in order, from the first on; one
// that was applied before changes nothing.
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

// link links the customer of a report to the account that the report names, if any.
func (s *State) link(e *Entry) {
	if r := e.Report; r.AccountID != "" && r.Customer != "" {
		at := version{created: r.CreatedAt, eventID: r.EventID}
		add(s.customers, key{r.Processor, r.Customer}, statement[string]{at, e.Stream, r.AccountID})
	}
}

// replaces reports whether a report would link its customer to another account than the one that it has. Operators may.
func (s *State) replaces(r eventschemas.BillingReported) bool {
	linked := s.linkedTo(r)
	byOperator := r.Kind == KindCustomer && r.Type == LinkedByOperator
	return r.AccountID != "" && linked != "" && linked != r.AccountID && !byOperator
}

// linkedTo returns the account to which the customer of a report is linked, and "" if it has none.
func (s *State) linkedTo(r eventschemas.BillingReported) string {
	return s.customers[key{r.Processor, r.Customer}].latest()
}

// confirmed reports whether an operator has linked the customer of a report to the account that the report names and
// could not link.
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

// subscriptionStage returns how far a subscription has come in a state, and whether it gives its plan. Within a second,
// a subscription is created, then tried or paid for. The end is final.
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
	return slices.SortedFunc(maps.Values(s.open), func(a, b *Entry) int { return cmp.Compare(a.number, b.number) })
}
