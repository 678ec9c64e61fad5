package reconcile

import (
	"slices"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// Ledger is the payments, refunds and fees that the events of all accounts record.
type Ledger struct {
	payments  []*payment
	byAccount map[key]*payment
	byID      map[string][]*payment // payments of different accounts may have the same id
	refunds   map[string][]*refund
	hasFees   bool
}

type key struct{ account, payment string }

// payment is a payment of the ledger, and the rows of the export about it.
type payment struct {
	key
	at                time.Time
	credits, refunded int64
	paid              eventschemas.Money // with tax; zero if the grant has no money
	returned          int64
	refunds           []*refund          // that were not reversed
	claims            map[string]*refund // by id, also those that were reversed; nil if there are none
	fees              []*fee
	found             found
}

// refund is a refund of the ledger, with those that were recorded later for the same claim, under its id with a number.
// Its money is below zero.
type refund struct {
	*payment
	id    string
	at    time.Time // of the first
	money eventschemas.Money
	parts map[string]int64 // the money of the refunds that were not reversed, by their ids
	found *found           // nil if no row is about it
}

// fee is a fee of the ledger.
type fee struct {
	id    string
	at    time.Time
	money eventschemas.Money
	found bool
}

// NewLedger returns the Ledger of no events.
func NewLedger() *Ledger {
	return &Ledger{byAccount: map[key]*payment{}, byID: map[string][]*payment{}, refunds: map[string][]*refund{}}
}

// Types returns the event types that a Ledger folds; it ignores others.
func Types() []string {
	return []string{eventschemas.CreditsGranted{}.EventType(), eventschemas.PaymentRefunded{}.EventType(),
		eventschemas.RefundReversed{}.EventType(), eventschemas.PaymentFeeRecorded{}.EventType()}
}

// Apply folds an event of an account's stream. The events of a stream must be applied in order.
func (l *Ledger) Apply(accountID string, ev eventschemas.Event, at time.Time) {
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		if ev.PaymentID != "" {
			l.grant(key{accountID, ev.PaymentID}, ev, at)
		}
	case eventschemas.PaymentRefunded:
		if p, ok := l.byAccount[key{accountID, ev.PaymentID}]; ok {
			l.refund(p, ev, at)
		}
	case eventschemas.PaymentFeeRecorded:
		if p, ok := l.byAccount[key{accountID, ev.PaymentID}]; ok {
			p.fees = append(p.fees, &fee{id: ev.FeeID, at: at, money: ev.Money})
			l.hasFees = true
		}
	case eventschemas.RefundReversed:
		if p, ok := l.byAccount[key{accountID, ev.PaymentID}]; ok {
			l.reverse(p, ev)
		}
	}
}

func (l *Ledger) grant(k key, ev eventschemas.CreditsGranted, at time.Time) {
	p := &payment{key: k, at: at, credits: ev.Credits}
	if ev.Money != nil {
		p.paid = *ev.Money
	}
	l.payments = append(l.payments, p)
	l.byAccount[k] = p
	l.byID[k.payment] = append(l.byID[k.payment], p)
}

func (l *Ledger) refund(p *payment, ev eventschemas.PaymentRefunded, at time.Time) {
	money := account.Returned(p.paid, p.returned, p.credits-p.refunded, ev)
	p.returned += money
	p.refunded += ev.Credits
	r := p.claim(ev.RefundID)
	if r == nil {
		r = &refund{payment: p, id: ev.RefundID, at: at, money: eventschemas.Money{Currency: p.paid.Currency},
			parts: map[string]int64{}}
		if p.claims == nil {
			p.claims = map[string]*refund{}
		}
		p.claims[r.id] = r
	}
	if len(r.parts) == 0 {
		p.refunds = append(p.refunds, r)
		l.refunds[r.id] = append(l.refunds[r.id], r)
	}
	r.parts[ev.RefundID] = money
	r.money.Minor -= money
}

// claim returns the refund that a refund id belongs to, or nil.
func (p *payment) claim(refundID string) *refund {
	if id, ok := account.ClaimOf(refundID); ok && p.claims[id] != nil {
		return p.claims[id]
	}
	return p.claims[refundID]
}

// reverse removes a refund: one that failed, and a dispute that was won, are not expected in the ledger.
func (l *Ledger) reverse(p *payment, ev eventschemas.RefundReversed) {
	r := p.claim(ev.RefundID)
	if r == nil {
		return
	}
	money, ok := r.parts[ev.RefundID]
	if !ok {
		return
	}
	delete(r.parts, ev.RefundID)
	r.money.Minor += money
	p.returned -= money
	p.refunded -= ev.Credits
	if len(r.parts) > 0 {
		return
	}
	same := func(other *refund) bool { return other == r }
	p.refunds = slices.DeleteFunc(p.refunds, same)
	l.refunds[r.id] = slices.DeleteFunc(l.refunds[r.id], same)
}
