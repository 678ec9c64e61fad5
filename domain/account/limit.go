package account

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/eventschemas"
)

// KeyPeriods are the periods of a key's limit: in all, or by day or month (UTC).
var KeyPeriods = []string{"total", byDay, byMonth}

const (
	byDay   = "day"
	byMonth = "month"
)

// KeyLimit limits the credits that a key may spend. A limited key never uses more than its limit.
type KeyLimit struct {
	KeyID   string    `json:"key"`
	Credits int64     `json:"credits"`
	Period  string    `json:"period"` // one of KeyPeriods
	Since   time.Time `json:"since"`  // earlier charges do not count
	Spent   int64     `json:"spent"`  // since then, without reversed charges
	Held    int64     `json:"held"`   // of the key's open holds
}

// Used returns the credits that count against the limit.
func (l KeyLimit) Used() int64 { return l.Spent + l.Held }

// at returns the limit at a time: with a day or a month a new count begins.
func (l KeyLimit) at(now time.Time) KeyLimit {
	var begin time.Time
	switch now = now.UTC(); l.Period {
	case byDay:
		begin = now.Truncate(24 * time.Hour)
	case byMonth:
		begin = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	if begin.After(l.Since) {
		l.Since, l.Spent = begin, 0
	}
	return l
}

// KeyLimits are the limits of an account's keys. They are never changed in place, so that copies of the core, and
// readers, share them.
type KeyLimits []KeyLimit

// Of returns the limit of a key at a time.
func (all KeyLimits) Of(keyID string, now time.Time) (KeyLimit, bool) {
	for i := range all {
		if all[i].KeyID == keyID {
			return all[i].at(now), true
		}
	}
	return KeyLimit{}, false
}

// with returns the limits with that of one key replaced, or removed if it has no credits.
func (all KeyLimits) with(l KeyLimit) KeyLimits {
	out := slices.DeleteFunc(slices.Clone(all), func(old KeyLimit) bool { return old.KeyID == l.KeyID })
	if l.Credits > 0 {
		out = append(out, l)
	}
	return out
}

// KeyLimits returns the limits of the account's keys, which the caller must not change.
func (a *Account) KeyLimits() KeyLimits { return a.core.limits }

// LimitKey limits the credits that a secret key may spend in a period, or removes its limit if credits is zero. The
// count begins with the limit; another limit for the same period continues it. The same limit is a repeat.
//
// Errors: ErrInvalid, also for less than the key has used; ErrNotFound, ErrClosed, ErrUnknownKey.
func (a *Account) LimitKey(keyID string, credits int64, period string, now time.Time) (Outcome, error) {
	now = a.later(now)
	if err := firstError(text("key id", keyID, true), a.notClosed()); err != nil {
		return Outcome{}, err
	}
	known, ok := a.keys[keyID]
	if !ok {
		return Outcome{}, ErrUnknownKey
	}
	ev := eventschemas.KeyLimitSet{KeyID: keyID, Limit: credits, Period: period}
	old, _ := a.core.limits.Of(keyID, now)
	invalid := func(field, format string, args ...any) (Outcome, error) {
		return Outcome{}, &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	switch used := a.limitBy(ev, now).Used(); {
	case old.Credits == credits && (credits == 0 || old.Period == period):
		return repeated(), nil
	case credits == 0:
		return decided(eventschemas.KeyLimitSet{KeyID: keyID}), nil
	case credits < 0 || credits > MaxCredits:
		return invalid("limit", "must be from 1 to %d credits; remove the limit to allow any number", MaxCredits)
	case !slices.Contains(KeyPeriods, period):
		return invalid("period", "must be %s, not %.40q", strings.Join(KeyPeriods, ", "), period)
	case known.Kind != secretKey || known.Revoked || KeyTerms{ExpiresAt: known.ExpiresAt}.Expired(now):
		return invalid("key", "must be a valid secret key, because others spend no credits")
	case used > credits:
		return invalid("limit", "must be at least %d, which the key has used, with credits that are held; "+
			"revoke the key to stop it now", used)
	}
	return decided(ev), nil
}

// limitBy returns the limit that an event sets at a time.
func (a *Account) limitBy(ev eventschemas.KeyLimitSet, at time.Time) KeyLimit {
	l, _ := a.core.limits.Of(ev.KeyID, at)
	if l.Period != ev.Period {
		// A charge at this time may be earlier on the stream, so the reversal of none of them counts.
		l = KeyLimit{KeyID: ev.KeyID, Period: ev.Period, Since: at.Add(time.Microsecond)}
		for _, h := range a.open {
			if h.KeyID == ev.KeyID {
				l.Held += h.Left
			}
		}
	}
	l.Credits = ev.Limit
	return l
}

// applyKeyLimitSet also drops the limits of other keys that are revoked or expired, so that there are few. Until then a
// limit stays, because requests that began before the key ended may still spend.
func (a *Account) applyKeyLimitSet(ev eventschemas.KeyLimitSet) {
	all := a.core.limits.with(a.limitBy(ev, a.core.lastAt))
	a.core.limits = slices.DeleteFunc(all, func(l KeyLimit) bool {
		k := a.keys[l.KeyID]
		return l.KeyID != ev.KeyID && (k.Revoked || KeyTerms{ExpiresAt: k.ExpiresAt}.Expired(a.core.lastAt))
	})
}

// count adds credits to what counts against the limit of a key, if it has one.
func (a *Account) count(keyID string, spent, held int64) {
	if l, limited := a.core.limits.Of(keyID, a.core.lastAt); limited {
		l.Spent, l.Held = max(l.Spent+spent, 0), l.Held+held
		a.core.limits = a.core.limits.with(l)
	}
}

// keyAffords returns an *InsufficientCreditsError if the limit of a key leaves fewer credits, beside those that other
// requests with the key have reserved.
func (a *Account) keyAffords(keyID string, credits, reserved, ofKey int64, now time.Time) error {
	l, limited := a.core.limits.Of(keyID, now)
	if !limited || credits+ofKey <= l.Credits-l.Used() {
		return nil
	}
	return &InsufficientCreditsError{Balance: a.core.balance, Available: a.Spendable(reserved), Required: credits,
		KeyLimit: l.Credits, KeyUsed: min(l.Used()+ofKey, l.Credits)}
}
