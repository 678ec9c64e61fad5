package books

import (
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// Movement is a change of the books in one currency; movements add up. Money is in minor units. Lots without money have
// no currency: their credits are promotional.
type Movement struct {
	TaxRate    string // of the lot; empty for a fee, and in sums
	Received   int64  // paid, without tax
	Tax        int64  // of payments, less the tax of refunds
	Refunded   int64  // returned, without tax, less reversed refunds
	Recognized int64  // revenue of credits that were used, less what refunds and reversals took back
	Breakage   int64  // revenue of credits that were broken, less what refunds took back
	Fees       int64  // of the payment processor, less those that it returned

	CreditsGranted  int64
	CreditsUsed     int64 // less those that were returned to their lots
	CreditsBroken   int64 // less those whose payment was refunded
	CreditsRefunded int64
}

func (m *Movement) Add(other Movement) {
	m.Received += other.Received
	m.Tax += other.Tax
	m.Refunded += other.Refunded
	m.Recognized += other.Recognized
	m.Breakage += other.Breakage
	m.Fees += other.Fees
	m.CreditsGranted += other.CreditsGranted
	m.CreditsUsed += other.CreditsUsed
	m.CreditsBroken += other.CreditsBroken
	m.CreditsRefunded += other.CreditsRefunded
}

// Deferred returns by how much the deferred revenue grows: what is received, less refunds and revenue.
func (m *Movement) Deferred() int64 {
	return m.Received - m.Refunded - m.Recognized - m.Breakage
}

// Unspent returns by how much the unspent credits grow.
func (m *Movement) Unspent() int64 {
	return m.CreditsGranted - m.CreditsUsed - m.CreditsBroken - m.CreditsRefunded
}

// Paid returns by how much the money at the payment processor grows: what was paid and not returned, with tax, less
// fees.
func (m *Movement) Paid() int64 { return m.Received - m.Refunded + m.Tax - m.Fees }

// Holder is an account in a Ledger.
type Holder struct {
	*Account
	ID     string
	Plan   string // the current one
	Closed bool

	last uint64 // number of the last event of this account in the Ledger
}

// Ledger is the books of many accounts.
type Ledger struct {
	holders  map[string]*Holder
	events   uint64    // applied
	forgetAt time.Time // when idle accounts forget old charges
	turnover Turnover
}

// idleEvents is the number of events of other accounts after which an account is idle and may forget old charges. It is
// eventlog.MaxDisorder: copies of a log may differ in the order of events that are closer than that, and must not
// forget other charges.
const idleEvents = 4096

// NewLedger returns an empty Ledger.
func NewLedger() *Ledger {
	return &Ledger{holders: map[string]*Holder{}}
}

// Err returns an error that wraps ErrSum after an event whose amounts are too large, which earlier releases did not
// reject. Sums are wrong from then on.
func (l *Ledger) Err() error { return l.turnover.Err() }

// Types returns the event types that a Ledger folds; it ignores others.
func Types() []string {
	return []string{
		eventschemas.AccountOpened{}.EventType(), eventschemas.PlanChanged{}.EventType(),
		eventschemas.AccountClosed{}.EventType(), eventschemas.CreditsGranted{}.EventType(),
		eventschemas.CreditsCharged{}.EventType(), eventschemas.ChargeReversed{}.EventType(),
		eventschemas.PaymentRefunded{}.EventType(), eventschemas.RefundReversed{}.EventType(),
		eventschemas.PaymentFeeRecorded{}.EventType(), eventschemas.BreakageRecognized{}.EventType(),
	}
}

// Holders returns the accounts by id. The map must not be changed.
func (l *Ledger) Holders() map[string]*Holder { return l.holders }

// Apply folds an event of an account's stream. It calls report for each lot that changes, with the lot's currency, and
// for a fee, with the fee's currency.
func (l *Ledger) Apply(accountID string, ev eventschemas.Event, revision uint64, at time.Time,
	report func(h *Holder, currency string, m Movement)) {
	moved := func(h *Holder, lot *Lot, m Movement) {
		for _, amount := range []int64{m.Received, m.Tax, m.Refunded, m.Recognized, m.Breakage, m.Fees} {
			l.turnover.Add(lot.Paid.Currency, amount, accountID, revision)
		}
		m.TaxRate = lot.TaxRate
		report(h, lot.Paid.Currency, m)
	}
	l.turnover.Add(CreditUnit, account.Delta(ev), accountID, revision)
	h, ok := l.holders[accountID]
	if !ok {
		h = &Holder{Account: New(), ID: accountID}
		l.holders[accountID] = h
	}
	l.events++
	h.last = l.events
	if !at.Before(l.forgetAt) {
		for _, h := range l.holders {
			if l.events-h.last > idleEvents {
				h.Forget(at)
			}
		}
		l.forgetAt = at.Add(ReversalMemory)
	}
	switch ev := ev.(type) {
	case eventschemas.AccountOpened:
		h.Plan = ev.Plan
	case eventschemas.PlanChanged:
		h.Plan = ev.To
	case eventschemas.AccountClosed:
		h.Closed = true
	case eventschemas.PaymentFeeRecorded:
		moved(h, &Lot{Paid: ev.Money}, Movement{Fees: ev.Money.Minor})
	}
	effect := h.Account.Apply(ev, revision, at)
	if effect.Granted {
		lot := &h.lots[len(h.lots)-1]
		moved(h, lot, Movement{Received: lot.Paid.Minor - lot.Tax, Tax: lot.Tax, CreditsGranted: lot.Granted})
	}
	if effect.Lot != noLot {
		moved(h, &h.lots[effect.Lot],
			Movement{Tax: -effect.Tax, Refunded: effect.Money - effect.Tax, CreditsRefunded: effect.Credits})
	}
	for _, u := range effect.Uses {
		moved(h, &h.lots[u.Lot],
			Movement{Recognized: u.Recognized, CreditsUsed: u.Credits, Breakage: u.Breakage, CreditsBroken: u.Broken})
	}
}

// Rest is what is left of the lots of an account in one currency.
type Rest struct {
	Credits  int64 // unspent
	Deferred int64 // minor units
}

// Rests returns what is left of the lots, by currency; promotional credits have none.
func (a *Account) Rests() map[string]Rest {
	rests := map[string]Rest{}
	for i := range a.lots {
		lot := &a.lots[i]
		if lot.Unspent() == 0 && lot.Deferred() == 0 {
			continue
		}
		r := rests[lot.Paid.Currency]
		r.Credits += lot.Unspent()
		r.Deferred += lot.Deferred()
		rests[lot.Paid.Currency] = r
	}
	return rests
}
