package account

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"letterhead/eventschemas"
)

// HoldGrace is how long a hold can still be captured after the deadline of its work before it is released.
const HoldGrace = 60 * time.Second

// maxWork limits the duration of the work that a hold is placed for.
const maxWork = time.Hour

// HoldUntil returns the deadline of a hold for work that may take so long from now. Errors: ErrInvalid.
func HoldUntil(now time.Time, work time.Duration) (time.Time, error) {
	if work < 0 || work > maxWork {
		return time.Time{}, &InvalidError{Field: "work", Reason: "must be from 0 to an hour"}
	}
	return now.Add(work + HoldGrace), nil
}

// Causes of a release.
const (
	causeReleased = "handed_back"
	causeExpired  = "expired"
)

// Hold is the command to hold credits.
type Hold struct {
	HoldID    string
	Credits   int64
	Deadline  time.Time // from then on any node may release it
	RequestID string
	Domain    string
	KeyID     string // the API key of the request, if one was used
}

// Hold holds credits for work whose outcome is not known yet, while other requests have reserved credits in memory. The
// same hold is a repeat while it is known, even if it has ended. Errors: ErrInvalid, ErrNotFound, ErrClosed,
// ErrSuspended, ErrHoldMismatch, ErrTooManyHolds, ErrInsufficientCredits.
func (a *Account) Hold(in Hold, reserved int64, now time.Time) (Outcome, error) {
	err := firstError(
		text("hold id", in.HoldID, true), text("request id", in.RequestID, true), text("domain", in.Domain, true),
		amount(in.Credits), a.notClosed(),
	)
	if err != nil {
		return Outcome{}, err
	}
	now = a.later(now)
	if known, _, ok := a.knownHold(in.HoldID, now); ok {
		if known.Credits != in.Credits || known.RequestID != in.RequestID || known.Domain != in.Domain {
			return Outcome{}, ErrHoldMismatch
		}
		return repeated(), nil
	}
	if err := a.CanSpend(in.Credits, reserved, in.KeyID, 0, now); err != nil {
		return Outcome{}, err
	}
	if len(a.open) >= MaxOpenHolds {
		return Outcome{}, ErrTooManyHolds
	}
	keyID := ""
	if _, limited := a.core.limits.Of(in.KeyID, now); limited {
		keyID = in.KeyID
	}
	return decided(eventschemas.CreditsHeld{
		HoldID:    in.HoldID,
		Credits:   in.Credits,
		Deadline:  in.Deadline.UTC().Truncate(time.Microsecond), // the precision of the log
		RequestID: in.RequestID,
		Domain:    in.Domain,
		KeyID:     keyID,
	}), nil
}

// CanSpend returns nil if so many credits could be held or charged now for a request with a key, while other requests
// have reserved credits in memory, those with this key ofKey of them. Errors: ErrNotFound, ErrClosed, ErrSuspended,
// ErrInsufficientCredits.
func (a *Account) CanSpend(credits, reserved int64, keyID string, ofKey int64, now time.Time) error {
	if err := a.maySpend(); err != nil {
		return err
	}
	return firstError(a.affords(credits, reserved), a.keyAffords(keyID, credits, reserved, ofKey, now))
}

func (a *Account) affords(credits, reserved int64) error {
	if credits > a.Unheld()-reserved {
		return &InsufficientCreditsError{Balance: a.core.balance, Available: a.Spendable(reserved), Required: credits}
	}
	return nil
}

// Release returns the remainder of a hold, even if the account is suspended or closed. Releasing an
// ended hold is a repeat while the hold is known. Errors: ErrInvalid, ErrNotFound, ErrUnknownHold.
func (a *Account) Release(holdID string, now time.Time) (Outcome, error) {
	if err := firstError(text("hold id", holdID, true), a.exists()); err != nil {
		return Outcome{}, err
	}
	known, isOpen, ok := a.knownHold(holdID, a.later(now))
	if !ok {
		return Outcome{}, ErrUnknownHold
	}
	if !isOpen {
		return repeated(), nil
	}
	return decided(eventschemas.HoldReleased{HoldID: holdID, Credits: known.Left, Cause: causeReleased}), nil
}

// ReleaseOverdue releases the open holds whose deadline has passed, earliest deadline first, at most
// MaxReleases of them. It is cheap when there are none.
func (a *Account) ReleaseOverdue(now time.Time) Outcome {
	if a.core.earliest.IsZero() || !now.After(a.core.earliest) {
		return Outcome{}
	}
	ids := a.openByDeadline()
	a.core.earliest = a.open[ids[0]].Deadline // it was only a lower bound; the exact value saves the next scan
	var out Outcome
	for _, id := range ids[:min(len(ids), MaxReleases)] {
		h := a.open[id]
		if !now.After(h.Deadline) {
			break
		}
		out.Events = append(out.Events, eventschemas.HoldReleased{HoldID: id, Credits: h.Left, Cause: causeExpired})
	}
	return out
}

// openByDeadline returns the ids of the open holds, earliest deadline first.
func (a *Account) openByDeadline() []string {
	return slices.SortedFunc(maps.Keys(a.open), func(x, y string) int {
		return cmp.Or(a.open[x].Deadline.Compare(a.open[y].Deadline), cmp.Compare(x, y))
	})
}

// knownHold returns a hold that is open or ended within HoldMemory.
func (a *Account) knownHold(id string, now time.Time) (h hold, isOpen, ok bool) {
	if h, ok := a.open[id]; ok {
		return h, true, true
	}
	if e, ok := a.ended[id]; ok && now.Sub(e.At) < HoldMemory {
		return e.hold, false, true
	}
	return hold{}, false, false
}

// HoldRequest returns the request that placed a hold, for the metadata of its release. It is empty
// when the hold is not open.
func (a *Account) HoldRequest(holdID string) string { return a.open[holdID].RequestID }

// HoldLeft returns what is left of a hold; 0 when it is not open.
func (a *Account) HoldLeft(holdID string) int64 { return a.open[holdID].Left }

// HoldDeadline returns the deadline of an open hold.
func (a *Account) HoldDeadline(holdID string) (time.Time, bool) {
	h, ok := a.open[holdID]
	return h.Deadline, ok
}

// later returns the time of a decision: now, but never before the last event of the stream.
func (a *Account) later(now time.Time) time.Time {
	if now.Before(a.core.lastAt) {
		return a.core.lastAt
	}
	return now
}
