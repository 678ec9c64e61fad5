package account

import (
	"slices"
	"time"
)

// keyDigits is the number of leading hex digits that the hashes of all items of an idempotency key share.
const keyDigits = 32

// KeyGroup returns the part of an item's hash that identifies the idempotency key.
func KeyGroup(keyHash string) string { return keyHash[:min(keyDigits, len(keyHash))] }

// joinKey appends the hash of a charge that was just folded to the hashes of its key.
func (a *Account) joinKey(keyHash string) {
	name := KeyGroup(keyHash)
	hashes := a.keyGroups[name]
	if slices.Contains(hashes, keyHash) { // charged again after a day
		hashes = without(hashes, keyHash)
	}
	put(a, a.keyGroups, name, append(hashes, keyHash))
}

func (a *Account) leaveKey(keyHash string) {
	name := KeyGroup(keyHash)
	if hashes := without(a.keyGroups[name], keyHash); len(hashes) > 0 {
		put(a, a.keyGroups, name, hashes)
		return
	}
	remove(a, a.keyGroups, name)
}

// dropKey removes a key whose charge was reversed or forgotten.
func (a *Account) dropKey(keyHash string) {
	if chargeID := a.charged[keyHash].ChargeID; a.chargeKey[chargeID] == keyHash {
		remove(a, a.chargeKey, chargeID)
	}
	remove(a, a.charged, keyHash)
	a.leaveKey(keyHash)
}

// without returns a copy, because a step of the journal may refer to the old hashes.
func without(hashes []string, keyHash string) []string {
	return slices.DeleteFunc(slices.Clone(hashes), func(h string) bool { return h == keyHash })
}

// Older holds the charges under one idempotency key that an index of the log knows. A decision needs
// them when the fold has forgotten keys that are still valid; see ForgotKeysUntil.
type Older struct {
	// Through means that the index holds all charges below this revision of the account's stream.
	Through uint64
	Charges []KeyedCharge
}

// KeyedCharge is a charge under an idempotency key.
type KeyedCharge struct {
	ChargeFact
	KeyHash     string
	RequestHash string
}

// ForgotKeysUntil returns the time until which the fold lacks idempotency keys that are still valid,
// so that a decision about a key needs Older. It is the zero time when the fold remembers all of them.
func (a *Account) ForgotKeysUntil() time.Time {
	if a.core.keysAt.IsZero() {
		return time.Time{}
	}
	return a.core.keysAt.Add(IdempotencyWindow)
}

// KeysRemembered returns the number of charges under idempotency keys that the fold remembers, at most
// MaxIdempotencyKeys.
func (a *Account) KeysRemembered() int { return len(a.charged) }

// standing returns the unreversed charges of the last 24 h under an idempotency key, of any item, in
// stream order. Errors: ErrIdempotencyMismatch, ErrKeysForgotten.
func (a *Account) standing(keyHash, requestHash string, older *Older, now time.Time) ([]KeyedCharge, error) {
	var out []KeyedCharge
	if now.Before(a.ForgotKeysUntil()) {
		if older == nil || older.Through < a.core.keysPast {
			return nil, ErrKeysForgotten
		}
		for _, c := range older.Charges {
			if c.Revision < a.core.keysPast && !a.isReversed(c.ChargeID) && KeyGroup(c.KeyHash) == KeyGroup(keyHash) &&
				now.Sub(c.At) < IdempotencyWindow {
				out = append(out, c)
			}
		}
	}
	for _, hash := range a.keyGroups[KeyGroup(keyHash)] {
		if k := a.charged[hash]; k.known(now) {
			out = append(out, KeyedCharge{k.ChargeFact, hash, k.RequestHash})
		}
	}
	for _, c := range out {
		if c.RequestHash != requestHash {
			return nil, ErrIdempotencyMismatch
		}
	}
	return out, nil
}

// chargedFor finds the unreversed charge with the same idempotency key and item. Errors:
// ErrIdempotencyMismatch, ErrKeysForgotten, ErrInvalid.
func (a *Account) chargedFor(in Charge, now time.Time) (first ChargeFact, found bool, err error) {
	standing, err := a.standing(in.IdempotencyKeyHash, in.RequestHash, in.Older, now)
	if err != nil {
		return ChargeFact{}, false, err
	}
	for _, c := range standing {
		if c.KeyHash == in.IdempotencyKeyHash {
			return c.ChargeFact, true, nil
		}
	}
	if len(standing) >= MaxKeyItems {
		return ChargeFact{}, false, &InvalidError{Field: "item", Reason: "is one too many for its idempotency key"}
	}
	return ChargeFact{}, false, nil
}

func (k keyed) known(now time.Time) bool { return now.Sub(k.At) < IdempotencyWindow }

// Recall is the query for the charges under an idempotency key.
type Recall struct {
	RequestID          string // the request to be answered
	IdempotencyKeyHash string // of any item of the key
	RequestHash        string
	Older              *Older // charges of the key; needed before ForgotKeysUntil
}

// Recall returns the unreversed charges of the last 24 h under an idempotency key, of any item, in stream order, so
// that they can be answered again. Like a repeat it keeps the charges that are younger than HoldMemory.
//
// Errors: ErrInvalid, ErrNotFound, ErrClosed, ErrIdempotencyMismatch, ErrKeysForgotten.
func (a *Account) Recall(in Recall, now time.Time) (Outcome, []ChargeFact, error) {
	now = a.later(now)
	err := firstError(
		text("request id", in.RequestID, true), hexHash("idempotency key hash", in.IdempotencyKeyHash),
		hexHash("request hash", in.RequestHash), a.notClosed(),
	)
	if err != nil {
		return Outcome{}, nil, err
	}
	standing, err := a.standing(in.IdempotencyKeyHash, in.RequestHash, in.Older, now)
	if err != nil || len(standing) == 0 {
		return Outcome{}, nil, err
	}
	facts := make([]ChargeFact, len(standing))
	for i, c := range standing {
		facts[i] = c.ChargeFact
	}
	return a.answerAgain(in.RequestID, now, facts...), facts, nil
}
