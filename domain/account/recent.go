package account

import "time"

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
