package account

import (
	"time"

	"letterhead/domain/plan"
	"letterhead/eventschemas"
)

// Apply folds one event of the stream. It never fails: a stored event is a fact. An event of a type
// that does not belong on an account stream only increments the revision.
func (a *Account) Apply(ev eventschemas.Event, at time.Time) {
	revision := a.core.revisions
	a.core.revisions++
	if at = at.UTC(); at.After(a.core.lastAt) {
		a.core.lastAt = at
	}
	a.core.balance += Delta(ev)
	switch ev := ev.(type) {
	case eventschemas.CreditsCharged:
		a.applyCharged(ev, revision, at)
	case eventschemas.CreditsHeld:
		a.applyHeld(ev)
	case eventschemas.HoldReleased:
		a.applyReleased(ev, revision, at)
	case eventschemas.ChargeReversed:
		a.applyReversed(ev, at)
	case eventschemas.ChargeKept:
		a.applyKept(ev, revision, at)
	case eventschemas.CreditsGranted:
		a.applyGranted(ev)
	case eventschemas.PaymentRefunded:
		a.applyRefunded(ev)
	case eventschemas.PaymentFeeRecorded:
		put(a, a.fees, ev.FeeID, fee{PaymentID: ev.PaymentID, Money: ev.Money})
	case eventschemas.RefundReversed:
		a.applyRefundReversed(ev)
	case eventschemas.AccountNoted:
		if ev.NoteID != "" { // of an earlier build
			put(a, a.notes, ev.NoteID, struct{}{})
		}
	case eventschemas.KeyIssued:
		a.applyKeyIssued(ev)
	case eventschemas.KeyRevoked:
		a.applyKeyRevoked(ev)
	case eventschemas.KeyLimitSet:
		a.applyKeyLimitSet(ev)
	default:
		a.applyLife(ev)
	}
	a.forgetBounded()
	if !a.tentative {
		a.forget()
	}
}

// Link sets the head of the hash chain to the hash of the event applied last.
func (a *Account) Link(head eventschemas.Hash) { a.core.head = head }

func (a *Account) applyLife(ev eventschemas.Event) {
	switch ev := ev.(type) {
	case eventschemas.AccountOpened:
		a.core.status, a.core.holder, a.core.plan = Active, ev.Holder, plan.ID(ev.Plan)
	case eventschemas.PlanChanged:
		a.core.plan = plan.ID(ev.To)
	case eventschemas.AccountSuspended:
		a.core.status = Suspended
	case eventschemas.AccountReinstated:
		a.core.status = Active
	case eventschemas.AccountClosed:
		a.core.status = Closed
	}
}

func (a *Account) applyCharged(ev eventschemas.CreditsCharged, revision uint64, at time.Time) {
	a.countLookup(at)
	a.count(ev.KeyID, ev.Credits, 0)
	fact := ChargeFact{
		ChargeID: ev.ChargeID, Credits: ev.Credits, BrandID: ev.BrandID, Domain: ev.Domain,
		RecordRevision: ev.RecordRevision, Revision: revision, At: at,
	}
	a.remember(recentCharge{ChargeFact: fact})
	if ev.HoldID != "" {
		a.applyCapture(ev, revision, at)
	}
	if ev.IdempotencyKeyHash != "" {
		a.applyKeyed(ev.IdempotencyKeyHash, keyed{ev.RequestHash, fact})
	}
}

func (a *Account) applyCapture(ev eventschemas.CreditsCharged, revision uint64, at time.Time) {
	mark := capture{ChargeID: ev.ChargeID, Credits: ev.Credits, Revision: revision, At: at}
	if h, ok := a.open[ev.HoldID]; ok {
		covered := min(ev.Credits, h.Left)
		h.Left -= covered
		a.core.held -= covered
		a.count(h.KeyID, 0, -covered)
		h.Captures = append(h.Captures, mark)
		if h.Left > 0 {
			put(a, a.open, ev.HoldID, h)
			return
		}
		a.endHold(ev.HoldID, h, revision, at)
		return
	}
	if e, ok := a.ended[ev.HoldID]; ok {
		e.Captures = append(e.Captures, mark)
		put(a, a.ended, ev.HoldID, e)
	}
}

func (a *Account) applyKeyed(keyHash string, charge keyed) {
	if old, ok := a.charged[keyHash]; ok {
		remove(a, a.chargeKey, old.ChargeID)
	}
	put(a, a.charged, keyHash, charge)
	put(a, a.chargeKey, charge.ChargeID, keyHash)
	a.joinKey(keyHash)
	a.chargedOrder = append(a.chargedOrder, remembered{ID: keyHash, Revision: charge.Revision, At: charge.At})
}

func (a *Account) applyHeld(ev eventschemas.CreditsHeld) {
	deadline := ev.Deadline.UTC()
	old := a.open[ev.HoldID] // no decision places a hold twice, but the sums must stay correct
	a.core.held -= old.Left
	a.count(old.KeyID, 0, -old.Left)
	put(a, a.open, ev.HoldID, hold{
		Credits:   ev.Credits,
		Left:      ev.Credits,
		Deadline:  deadline,
		RequestID: ev.RequestID,
		Domain:    ev.Domain,
		KeyID:     ev.KeyID,
	})
	a.core.held += ev.Credits
	a.count(ev.KeyID, 0, ev.Credits)
	if a.core.earliest.IsZero() || deadline.Before(a.core.earliest) {
		a.core.earliest = deadline
	}
}

func (a *Account) applyReleased(ev eventschemas.HoldReleased, revision uint64, at time.Time) {
	h, ok := a.open[ev.HoldID]
	if !ok {
		return
	}
	a.core.held -= h.Left // the remainder is released; the event contains the same amount
	a.count(h.KeyID, 0, -h.Left)
	h.Left = 0
	a.endHold(ev.HoldID, h, revision, at)
}

func (a *Account) endHold(id string, h hold, revision uint64, at time.Time) {
	remove(a, a.open, id)
	put(a, a.ended, id, ending{hold: h, Revision: revision, At: at})
	a.endedOrder = append(a.endedOrder, remembered{ID: id, Revision: revision, At: at})
	if len(a.open) == 0 {
		a.core.earliest = time.Time{}
	}
}

func (a *Account) applyReversed(ev eventschemas.ChargeReversed, at time.Time) {
	if a.chargedThisMonth(ev.ChargeID, a.core.lastAt) {
		a.core.lookups--
	}
	a.count(ev.KeyID, -ev.Credits, 0)
	a.rememberReversed(ev.ChargeID, at)
	if keyHash, ok := a.chargeKey[ev.ChargeID]; ok {
		a.dropKey(keyHash)
	}
}

// countLookup counts a lookup in the month in which the charge occurred.
func (a *Account) countLookup(at time.Time) {
	if month := monthOf(at); month != a.core.month {
		a.core.month, a.core.lookups = month, 0
	}
	a.core.lookups++
}

func (a *Account) applyGranted(ev eventschemas.CreditsGranted) {
	if ev.PaymentID == "" {
		put(a, a.grants, ev.GrantID, ev.Credits)
		return
	}
	p := a.payments[ev.PaymentID]
	p.granted += ev.Credits
	if ev.Money != nil {
		p.paid, p.tax = *ev.Money, ev.Tax // a payment grants once
	}
	put(a, a.payments, ev.PaymentID, p)
}

func (a *Account) applyRefunded(ev eventschemas.PaymentRefunded) {
	p, r := a.payments[ev.PaymentID], refund{paymentID: ev.PaymentID, credits: ev.Credits}
	r.returned = Returned(p.paid, p.returned, p.granted-p.refunded, ev)
	p.returned += r.returned
	p.refunded += ev.Credits
	r.rest, r.restMoney = p.refunded >= p.granted, p.returned >= p.paid.Minor
	if ev.Money != nil {
		r.money = *ev.Money
	}
	put(a, a.payments, ev.PaymentID, p)
	put(a, a.refunds, ev.RefundID, r)
}

func (a *Account) applyRefundReversed(ev eventschemas.RefundReversed) {
	p, r := a.payments[ev.PaymentID], a.refunds[ev.RefundID]
	p.refunded -= ev.Credits
	p.returned -= Unreturned(p.paid, p.returned, ev)
	r.reversed = true
	put(a, a.payments, ev.PaymentID, p)
	put(a, a.refunds, ev.RefundID, r)
}

func (a *Account) applyKeyIssued(ev eventschemas.KeyIssued) {
	put(a, a.keys, ev.KeyID, keyOf(ev))
	a.core.validKeys++
}

func (a *Account) applyKeyRevoked(ev eventschemas.KeyRevoked) {
	k, ok := a.keys[ev.KeyID]
	if !ok || k.Revoked {
		return
	}
	k.Revoked = true
	put(a, a.keys, ev.KeyID, k)
	a.core.validKeys--
}

// forgetBounded drops entries that are limited in number as well as in time: charges under idempotency keys and kept
// charges. It runs after each event, even in a tentative group, because the effect of later events depends on it. So
// the state is a function of the events, however they were grouped, and snapshots of equal streams are equal.
func (a *Account) forgetBounded() {
	now := a.core.lastAt
	a.keptOrder = forgetOldest(a.keptOrder, now.Add(-HoldMemory), a.forgetMark)
	a.forgetKeptPast(a.most.kept)
	a.chargedOrder = forgetOldest(a.chargedOrder, now.Add(-IdempotencyWindow), a.forgetKey)
	a.forgetKeysPast(a.most.keys)
}

// forget drops the other entries that no decision from lastAt on can use. Decisions check the times themselves, so the
// moment at which it runs affects only memory: it waits for the end of a tentative group.
func (a *Account) forget() {
	now := a.core.lastAt
	a.endedOrder = forgetOldest(a.endedOrder, now.Add(-HoldMemory), func(r remembered) {
		if e, ok := a.ended[r.ID]; ok && e.Revision == r.Revision {
			delete(a.ended, r.ID)
		}
	})
	a.forgetRecent(now.Add(-HoldMemory))
	a.forgetReversed(now.Add(-ReversalWindow))
}

func (a *Account) forgetKeysPast(most int) {
	for len(a.charged) > most && len(a.chargedOrder) > 0 {
		oldest := a.chargedOrder[0]
		a.core.keysPast, a.core.keysAt = oldest.Revision+1, oldest.At
		a.forgetKey(oldest)
		a.chargedOrder = a.chargedOrder[1:]
	}
}

func (a *Account) forgetKey(r remembered) {
	if k, ok := a.charged[r.ID]; ok && k.Revision == r.Revision {
		a.dropKey(r.ID)
	}
}

// forgetOldest drops the entries that are at or before the limit. It does not change the entries
// themselves, which a rollback may need.
func forgetOldest(order []remembered, limit time.Time, drop func(remembered)) []remembered {
	for len(order) > 0 && !order[0].At.After(limit) {
		drop(order[0])
		order = order[1:]
	}
	if len(order) == 0 {
		return nil // frees the entries
	}
	return order
}

// Delta returns by how much an event moves the balance of its account.
func Delta(ev eventschemas.Event) int64 {
	switch ev := ev.(type) {
	case eventschemas.CreditsGranted:
		return ev.Credits
	case eventschemas.CreditsCharged:
		return -ev.Credits
	case eventschemas.ChargeReversed:
		return ev.Credits
	case eventschemas.PaymentRefunded:
		return -ev.Credits
	case eventschemas.BreakageRecognized:
		return -ev.Credits
	case eventschemas.RefundReversed:
		return ev.Credits
	}
	return 0
}
