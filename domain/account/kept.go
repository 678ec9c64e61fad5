package account

import (
	"time"

	"letterhead/eventschemas"
)

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
