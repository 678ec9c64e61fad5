// Package books assigns the credits and the money of an account's grants to its charges.
//
// Each grant is a lot. Charges use up the lots in the order of the stream. The net money of a lot is the money that was
// paid and not returned, without the tax on it. A lot recognizes its net money in proportion to the credits used,
// rounded down to the minor unit; a lot that is used up has recognized all of it. A refund returns tax in proportion
// to the money, rounded down; the refund of all money returns all tax.
//
// A refund first takes the unspent credits of its lot. For the others, the latest charges that the lot paid for are
// covered by the next lots in order, or else become the deficit, which the next credits cover first. A reversed charge
// returns its credits to the lots that cover it at that time. A reversed refund returns its credits and its money to
// its lot; charges that other lots cover stay with them. Breakage is the last use of the credits of a closed account:
// it covers them like a charge, but counts apart. At every revision, the unspent credits of all lots minus the deficit
// are the balance of the account.
//
// The package uses no clock: the state is a function of the events. An Account is not safe for concurrent use.
package books

import (
	"cmp"
	"slices"
	"time"

	"letterhead/domain/account"
	"letterhead/eventschemas"
)

// ReversalMemory is how long a charge is remembered, so that a reversal finds the lots that cover it. It is longer than
// account.ReversalWindow, because a reversal is stored after it is decided.
const ReversalMemory = account.ReversalWindow + time.Hour

// Lot is the credits of a grant, and the money that was paid for them.
type Lot struct {
	Revision  uint64 // of the grant
	At        time.Time
	GrantID   string
	PaymentID string // empty without a payment
	Kind      string // of the grant
	Granted   int64  // credits
	Refunded  int64  // credits
	Used      int64  // credits that cover charges
	Broken    int64  // credits that cover breakage; with Used at most Granted minus Refunded
	Paid      eventschemas.Money
	Tax       int64  // the part of Paid that is tax, in minor units
	TaxRate   string // as by taxRate
	Returned  int64  // minor units, with tax
	// Recognized and Breakage are the revenue of the credits that are used and broken, in minor units.
	Recognized, Breakage int64

	touched uint64 // number of the last event that changed the lot
}

// Unspent returns the credits that cover neither a charge nor breakage.
func (l *Lot) Unspent() int64 { return l.Granted - l.Refunded - l.Used - l.Broken }

// Net returns the money of the lot that is, or will be, revenue.
func (l *Lot) Net() int64 { return l.Paid.Minor - l.Returned - l.TaxDue() }

// TaxDue returns the tax of the money that was not returned.
func (l *Lot) TaxDue() int64 { return l.Tax - account.Share(l.Tax, l.Returned, l.Paid.Minor) }

// Deferred returns the money of the lot that is not recognized yet.
func (l *Lot) Deferred() int64 { return l.Net() - l.Recognized - l.Breakage }

// recognize sets the revenue: the net money of the credits used, and of those broken after them.
func (l *Lot) recognize() {
	credits := l.Granted - l.Refunded
	l.Recognized = account.Share(l.Net(), l.Used, credits)
	l.Breakage = account.Share(l.Net(), l.Used+l.Broken, credits) - l.Recognized
}

// cover changes the credits that cover charges, or breakage.
func (l *Lot) cover(credits int64, broken bool) {
	if broken {
		l.Broken += credits
	} else {
		l.Used += credits
	}
}

// Use is a change of the credits that a lot has used, and of its revenue.
type Use struct {
	Lot        int   // index of the lot
	Credits    int64 // below zero if they were returned to the lot
	Recognized int64 // minor units; below zero if revenue was reversed
	Broken     int64 // credits of breakage
	Breakage   int64 // its revenue, in minor units
}

// Effect is what one event changes in the books of its account.
type Effect struct {
	// Uses has one entry for each lot that changes, in the order of the lots. A grant or a refund can use lots too:
	// a grant covers the deficit, and a refund makes other lots cover its charges.
	Uses []Use
	// Deficit is the change of the deficit, in credits.
	Deficit int64
	// Granted reports whether the event made the last lot.
	Granted bool
	// Lot is the index of the lot that a refund reduces, and the other fields are by how much: below zero if a refund
	// is reversed. Lot is -1 for other events.
	Lot     int
	Credits int64
	Money   int64 // minor units, with tax
	Tax     int64
}

// span is a range of charged credits, numbered in the order of the stream, and the lot that covers it.
type span struct {
	from, to int64
	lot      int  // noLot for the deficit
	broken   bool // breakage, not a charge
}

// joins reports whether a range can be a part of another one before it.
func (s span) joins(before span) bool { return s.lot == before.lot && s.broken == before.broken }

const noLot = -1

// charge is the range of a remembered charge.
type charge struct {
	from, to int64
	at       time.Time
}

// Account is the books of one account.
type Account struct {
	lots    []Lot
	open    int            // no lot before it has unspent credits
	byPay   map[string]int // index of the lot by payment id
	spans   []span         // in order; reversed charges are gaps
	end     int64          // number of the next charged credit
	deficit int64
	charges map[string]charge // by charge id
	recent  []string          // charge ids, oldest first; those that are not in charges were reversed

	compactAt int // number of spans at which they are compacted

	events uint64      // applied
	before []lotBefore // lots that the current event changes
	uses   []Use       // of the current event
}

// lotBefore is a lot as it was before an event.
type lotBefore struct {
	lot                                int
	used, recognized, broken, breakage int64
}

// New returns the books of an account without events.
func New() *Account {
	return &Account{byPay: map[string]int{}, charges: map[string]charge{}}
}

// Lots returns the lots in the order of the stream. The slice must not be changed, and is valid until the next event.
func (a *Account) Lots() []Lot { return a.lots }

// Deficit returns the charged credits that no lot covers: credits of refunded payments, after the balance went below
// zero.
func (a *Account) Deficit() int64 { return a.deficit }

// Remembered returns the number of entries in the state, a measure of its size in memory.
func (a *Account) Remembered() int { return len(a.lots) + len(a.spans) + len(a.recent) }

// Apply folds one event of the account's stream. The Uses of the effect are valid until the next event.
func (a *Account) Apply(ev eventschemas.Event, revision uint64, at time.Time) Effect {
	a.events++
	a.before, a.uses = a.before[:0], a.uses[:0]
	deficit, effect := a.deficit, Effect{Lot: noLot}
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		a.grant(ev, revision, at)
		effect.Granted = true
		a.touch(len(a.lots) - 1)
	case eventschemas.CreditsCharged:
		a.charge(ev.ChargeID, ev.Credits, at)
	case eventschemas.BreakageRecognized:
		a.use(ev.Credits, true)
	case eventschemas.ChargeReversed:
		a.reverse(ev.ChargeID, ev.Credits)
	case eventschemas.PaymentRefunded:
		a.refund(ev, &effect)
	case eventschemas.RefundReversed:
		a.restore(ev, &effect)
	default:
		return effect
	}
	a.cover()
	effect.Deficit = a.deficit - deficit
	for _, was := range a.before {
		l := &a.lots[was.lot]
		l.recognize()
		use := Use{Lot: was.lot, Credits: l.Used - was.used, Recognized: l.Recognized - was.recognized,
			Broken: l.Broken - was.broken, Breakage: l.Breakage - was.breakage}
		if use != (Use{Lot: was.lot}) {
			a.uses = append(a.uses, use)
		}
	}
	slices.SortFunc(a.uses, func(x, y Use) int { return cmp.Compare(x.Lot, y.Lot) })
	effect.Uses = a.uses
	return effect
}

// touch returns a lot to be changed by the current event.
func (a *Account) touch(i int) *Lot {
	l := &a.lots[i]
	if l.touched != a.events {
		l.touched = a.events
		a.before = append(a.before, lotBefore{i, l.Used, l.Recognized, l.Broken, l.Breakage})
	}
	return l
}

func (a *Account) grant(ev eventschemas.CreditsGranted, revision uint64, at time.Time) {
	l := Lot{Revision: revision, At: at, GrantID: ev.GrantID, PaymentID: ev.PaymentID, Kind: ev.Kind,
		Granted: ev.Credits}
	if ev.Money != nil {
		l.Paid, l.Tax, l.TaxRate = *ev.Money, ev.Tax, taxRate(ev.Tax, ev.Money.Minor-ev.Tax)
	}
	if ev.PaymentID != "" {
		a.byPay[ev.PaymentID] = len(a.lots)
	}
	a.lots = append(a.lots, l)
}

func (a *Account) charge(id string, credits int64, at time.Time) {
	a.Forget(at)
	a.charges[id] = charge{from: a.end, to: a.end + credits, at: at}
	a.recent = append(a.recent, id)
	a.use(credits, false)
}

// use covers the next credits, of a charge or of breakage, with the oldest unspent ones.
func (a *Account) use(credits int64, broken bool) {
	from := a.end
	a.end += credits
	for from < a.end && a.advance() {
		n := min(a.lots[a.open].Unspent(), a.end-from)
		a.touch(a.open).cover(n, broken)
		a.push(span{from, from + n, a.open, broken})
		from += n
	}
	if from < a.end {
		a.push(span{from, a.end, noLot, broken})
		a.deficit += a.end - from
	}
}

// advance moves open to the first lot with unspent credits, and reports whether there is one.
func (a *Account) advance() bool {
	for a.open < len(a.lots) && a.lots[a.open].Unspent() == 0 {
		a.open++
	}
	return a.open < len(a.lots)
}

// push appends a span, or extends the last one.
func (a *Account) push(s span) {
	if last := len(a.spans) - 1; last >= 0 && a.spans[last].to == s.from && s.joins(a.spans[last]) {
		a.spans[last].to = s.to
		return
	}
	a.spans = append(a.spans, s)
}

// Forget drops the charges that can no longer be reversed. Apply calls it for each charge.
func (a *Account) Forget(now time.Time) {
	forgot := false
	for len(a.recent) > 0 {
		c, ok := a.charges[a.recent[0]]
		if ok && now.Sub(c.at) < ReversalMemory {
			break
		}
		delete(a.charges, a.recent[0])
		a.recent, forgot = a.recent[1:], true
	}
	if forgot && len(a.spans) >= a.compactAt {
		a.compact()
		a.compactAt = 2*len(a.spans) + minSpans
	}
}

// minSpans is the least number of ranges that are compacted.
const minSpans = 64

// compact joins neighboring ranges of one lot that were separated by reversed charges. The numbers of charges that can
// no longer be reversed do not matter, only their order.
func (a *Account) compact() {
	kept := a.end // the first number that a remembered charge may have
	if len(a.recent) > 0 {
		kept = a.firstRemembered()
	}
	joined := a.spans[:0]
	for _, s := range a.spans {
		if last := len(joined) - 1; last >= 0 && s.joins(joined[last]) && s.to <= kept {
			joined[last] = span{s.from - (joined[last].to - joined[last].from), s.to, s.lot, s.broken}
			continue
		}
		joined = append(joined, s)
	}
	a.spans = joined
}

func (a *Account) firstRemembered() int64 {
	for _, id := range a.recent {
		if c, ok := a.charges[id]; ok {
			return c.from
		}
	}
	return a.end
}

// reverse returns the credits of a charge to the lots that cover it. A charge that is not remembered, which no decision
// reverses, is taken to have the latest credits.
func (a *Account) reverse(id string, credits int64) {
	c, ok := a.charges[id]
	if !ok {
		c = charge{from: a.end, to: a.end}
		for i := len(a.spans) - 1; i >= 0 && credits > 0; i-- {
			n := min(credits, a.spans[i].to-a.spans[i].from)
			c.from = a.spans[i].to - n
			credits -= n
		}
	}
	delete(a.charges, id)
	first, _ := slices.BinarySearchFunc(a.spans, c.from,
		func(s span, from int64) int { return cmp.Compare(s.to, from+1) })
	var kept []span
	last := first
	for ; last < len(a.spans) && a.spans[last].from < c.to; last++ {
		s := a.spans[last]
		from, to := max(s.from, c.from), min(s.to, c.to)
		if s.lot == noLot {
			a.deficit -= to - from
		} else {
			a.touch(s.lot).cover(from-to, s.broken)
			a.open = min(a.open, s.lot)
		}
		if s.from < from {
			kept = append(kept, span{s.from, from, s.lot, s.broken})
		}
		if to < s.to {
			kept = append(kept, span{to, s.to, s.lot, s.broken})
		}
	}
	a.spans = slices.Replace(a.spans, first, last, kept...)
}

// refund takes credits and money from the lot of a payment.
func (a *Account) refund(ev eventschemas.PaymentRefunded, effect *Effect) {
	lot, ok := a.byPay[ev.PaymentID]
	if !ok {
		return
	}
	l := a.touch(lot)
	effect.Lot, effect.Tax = lot, l.TaxDue()
	effect.Credits = min(ev.Credits, l.Granted-l.Refunded) // no decision refunds more
	effect.Money = account.Returned(l.Paid, l.Returned, l.Granted-l.Refunded, ev)
	spent := max(effect.Credits-l.Unspent(), 0)
	l.Refunded += effect.Credits
	l.Returned += effect.Money
	effect.Tax -= l.TaxDue()
	for i := len(a.spans) - 1; i >= 0 && spent > 0; i-- {
		s := a.spans[i]
		if s.lot != lot {
			continue
		}
		n := min(spent, s.to-s.from)
		spent -= n
		a.deficit += n
		l.cover(-n, s.broken)
		a.spans[i].to -= n
		uncovered := span{s.to - n, s.to, noLot, s.broken}
		if n == s.to-s.from {
			a.spans[i] = uncovered
		} else {
			a.spans = slices.Insert(a.spans, i+1, uncovered)
		}
	}
}

// restore returns the credits and the money of a reversed refund to the lot of the payment.
func (a *Account) restore(ev eventschemas.RefundReversed, effect *Effect) {
	lot, ok := a.byPay[ev.PaymentID]
	if !ok {
		return
	}
	l := a.touch(lot)
	// no decision returns more
	credits, money, tax := min(ev.Credits, l.Refunded), account.Unreturned(l.Paid, l.Returned, ev), l.TaxDue()
	l.Refunded -= credits
	l.Returned -= money
	a.open = min(a.open, lot)
	effect.Lot, effect.Credits, effect.Money, effect.Tax = lot, -credits, -money, tax-l.TaxDue()
}

// cover covers the deficit, oldest charges first, with unspent credits, oldest lots first.
func (a *Account) cover() {
	for i := 0; a.deficit > 0 && i < len(a.spans) && a.advance(); i++ {
		s := a.spans[i]
		if s.lot != noLot {
			continue
		}
		n := min(a.lots[a.open].Unspent(), s.to-s.from)
		a.touch(a.open).cover(n, s.broken)
		a.deficit -= n
		a.spans[i] = span{s.from, s.from + n, a.open, s.broken}
		if rest := (span{s.from + n, s.to, noLot, s.broken}); rest.from < rest.to {
			a.spans = slices.Insert(a.spans, i+1, rest)
		}
	}
}
