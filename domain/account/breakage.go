package account

import "letterhead/eventschemas"

// RecognizeBreakage removes all remaining credits of a closed account, which is in the books the last use of them. The
// policy says why they will not be used. It is a repeat if no credits remain. A charge can still be reversed
// afterwards; the credits that it returns can be removed again. Errors: ErrInvalid, ErrNotFound, ErrNotClosed,
// ErrOpenHolds.
func (a *Account) RecognizeBreakage(policy string) (Outcome, error) {
	if err := firstError(text("policy", policy, true), a.exists()); err != nil {
		return Outcome{}, err
	}
	switch {
	case a.core.status != Closed:
		return Outcome{}, ErrNotClosed
	case len(a.open) > 0:
		return Outcome{}, ErrOpenHolds
	case a.core.balance <= 0:
		return repeated(), nil
	}
	if err := kept("policy", policy); err != nil {
		return Outcome{}, err
	}
	return decided(eventschemas.BreakageRecognized{Credits: a.core.balance, Policy: policy}), nil
}
