package account

import (
	"time"

	"letterhead/eventschemas"
)

// remember stores a charge, so that it is not made twice. It runs for every charge. Unlike put it
// needs an undo step only if the id was charged before, which no decision produces.
func (a *Account) remember(c recentCharge) {
	c.number = a.core.charges
	a.core.charges++
	if _, again := a.recentAt[c.ChargeID]; again {
		stepBack(a, a.recentAt, c.ChargeID)
	}
	a.recentAt[c.ChargeID] = c.number
	a.recent = append(a.recent, c)
}

// undoRecent forgets all but the first kept charges, after the journal's steps were undone.
func (a *Account) undoRecent(kept int) {
	for _, c := range a.recent[kept:] {
		if a.recentAt[c.ChargeID] == c.number {
			delete(a.recentAt, c.ChargeID)
		}
	}
	clear(a.recent[kept:])
	a.recent = a.recent[:kept]
}

// recentCharge returns a charge that is still remembered at now, which is not before the last event.
func (a *Account) recentCharge(chargeID string, now time.Time) (recentCharge, bool) {
	number, ok := a.recentAt[chargeID]
	if !ok || a.core.charges-number > MaxRecentCharges {
		return recentCharge{}, false
	}
	c := a.recent[number-a.recent[0].number]
	return c, now.Sub(c.At) < HoldMemory
}

// forgetRecent drops the charges that are at or before the limit, and those beyond MaxRecentCharges.
func (a *Account) forgetRecent(limit time.Time) {
	n := max(a.recentGone, len(a.recent)-MaxRecentCharges)
	for n < len(a.recent) && !a.recent[n].At.After(limit) {
		n++
	}
	for _, c := range a.recent[a.recentGone:n] {
		if a.recentAt[c.ChargeID] == c.number {
			delete(a.recentAt, c.ChargeID)
		}
	}
	// Compact in place, and rarely: reslicing would reallocate everything again and again.
	if a.recentGone = n; 2*n >= len(a.recent) {
		left := copy(a.recent, a.recent[n:])
		clear(a.recent[left:])
		a.recent, a.recentGone = a.recent[:left], 0
	}
}

// chargedThisMonth reports whether a charge that is reversed now was certainly made in the month (UTC) of now. After
// the first ReversalWindow of a month no older charge can be reversed; before, the charge must be remembered.
func (a *Account) chargedThisMonth(chargeID string, now time.Time) bool {
	if monthOf(now) != a.core.month {
		return false // no charge in this month yet
	}
	now = now.UTC()
	if now.Sub(time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)) >= ReversalWindow {
		return true
	}
	c, ok := a.recentCharge(chargeID, now)
	return ok && monthOf(c.At) == a.core.month
}

// answerAgain returns the outcome of a repeat. The node that made these charges, this one or another, may have seen the
// client disconnect and may be about to reverse them; the events record that the charges are kept. One event per charge
// is enough, and none is needed after HoldMemory, when charges are no longer reversed.
func (a *Account) answerAgain(requestID string, now time.Time, charges ...ChargeFact) Outcome {
	out := repeated()
	for _, c := range charges {
		if now.Sub(c.At) < HoldMemory && !a.isKept(c.ChargeID, c.At) {
			out.Events = append(out.Events, eventschemas.ChargeKept{ChargeID: c.ChargeID, RequestID: requestID})
		}
	}
	return out
}

func (a *Account) isKept(chargeID string, chargedAt time.Time) bool {
	_, ok := a.kept[chargeID]
	return ok || !chargedAt.After(a.core.keptPast)
}

func (a *Account) applyKept(ev eventschemas.ChargeKept, revision uint64, at time.Time) {
	if _, again := a.kept[ev.ChargeID]; again {
		return
	}
	put(a, a.kept, ev.ChargeID, struct{}{})
	a.keptOrder = append(a.keptOrder, remembered{ID: ev.ChargeID, Revision: revision, At: at})
}

// forgetKeptPast forgets the oldest marks. Charges made before these were kept may be among the forgotten ones.
func (a *Account) forgetKeptPast(most int) {
	for len(a.keptOrder) > most {
		a.forgetMark(a.keptOrder[0])
		a.core.keptPast = a.keptOrder[0].At
		a.keptOrder = a.keptOrder[1:]
	}
}

func (a *Account) forgetMark(r remembered) { remove(a, a.kept, r.ID) }
