package account

import (
	"slices"
	"time"
)

// familyDigits is how many hex digits of an idempotency key's hash all of its items have in common.
const familyDigits = 32

// family names the idempotency key behind the hash of one of its items.
func family(keyHash string) string { return keyHash[:min(familyDigits, len(keyHash))] }

// joinFamily puts the hash of a charge that was just folded behind those of its key.
func (a *Account) joinFamily(keyHash string) {
	name := family(keyHash)
	hashes := a.families[name]
	if slices.Contains(hashes, keyHash) { // charged again after a day
		hashes = without(hashes, keyHash)
	}
	put(a, a.families, name, append(hashes, keyHash))
}

func (a *Account) leaveFamily(keyHash string) {
	name := family(keyHash)
	if hashes := without(a.families[name], keyHash); len(hashes) > 0 {
		put(a, a.families, name, hashes)
		return
	}
	remove(a, a.families, name)
}

// dropKey lets a key go whose charge no longer stands.
func (a *Account) dropKey(keyHash string) {
	if chargeID := a.charged[keyHash].chargeID; a.chargeKey[chargeID] == keyHash {
		remove(a, a.chargeKey, chargeID)
	}
	remove(a, a.charged, keyHash)
	a.leaveFamily(keyHash)
}

// without copies: a step of the journal may hold on to the hashes as they were.
func without(hashes []string, keyHash string) []string {
	return slices.DeleteFunc(slices.Clone(hashes), func(h string) bool { return h == keyHash })
}

// Older are the charges under one idempotency key that an index of the log knows. A decision needs them when the
// fold has forgotten keys that still count; see ForgotKeysUntil.
type Older struct {
	// Through says that the index holds all charges below this revision of the account's stream.
	Through uint64
	Charges []OlderCharge
}

// OlderCharge is a charge that an index of the log found by its idempotency key.
type OlderCharge struct {
	ChargeFact
	KeyHash     string
	RequestHash string
}

// KeyFamily returns the part of an idempotency key's hash that all items of the key have in common.
func KeyFamily(keyHash string) string { return family(keyHash) }

// ForgotKeysUntil returns until when the fold lacks idempotency keys that still count, so that a decision about
// a key needs Older. It is the zero time when the fold remembers all.
func (a *Account) ForgotKeysUntil() time.Time {
	if a.core.keysAt.IsZero() {
		return time.Time{}
	}
	return a.core.keysAt.Add(IdempotencyWindow)
}

// KeysRemembered returns how many charges under idempotency keys the fold remembers, at most MaxIdempotencyKeys.
func (a *Account) KeysRemembered() int { return len(a.charged) }

// standingCharge is a charge under an idempotency key that was not reversed.
type standingCharge struct {
	keyHash     string
	requestHash string
	fact        ChargeFact
}

// standing returns the charges under an idempotency key that were made within 24 h and not reversed, of
// whatever item, in the order of the stream. Errors: ErrIdempotencyMismatch, ErrKeysForgotten.
func (a *Account) standing(keyHash, requestHash string, older *Older, now time.Time) ([]standingCharge, error) {
	var out []standingCharge
	if now.Before(a.ForgotKeysUntil()) {
		if older == nil || older.Through < a.core.keysPast {
			return nil, ErrKeysForgotten
		}
		for _, c := range older.Charges {
			if c.Revision < a.core.keysPast && !a.isReversed(c.ChargeID) && family(c.KeyHash) == family(keyHash) && now.Sub(c.At) < IdempotencyWindow {
				out = append(out, standingCharge{c.KeyHash, c.RequestHash, c.ChargeFact})
			}
		}
	}
	for _, hash := range a.families[family(keyHash)] {
		if k := a.charged[hash]; k.known(now) {
			out = append(out, standingCharge{hash, k.requestHash, k.fact()})
		}
	}
	for _, c := range out {
		if c.requestHash != requestHash {
			return nil, ErrIdempotencyMismatch
		}
	}
	return out, nil
}

// chargedFor finds the charge that stands under the idempotency key and item of another.
// Errors: ErrIdempotencyMismatch, ErrKeysForgotten, ErrInvalid.
func (a *Account) chargedFor(in Charge, now time.Time) (first ChargeFact, found bool, err error) {
	standing, err := a.standing(in.IdempotencyKeyHash, in.RequestHash, in.Older, now)
	if err != nil {
		return ChargeFact{}, false, err
	}
	for _, c := range standing {
		if c.keyHash == in.IdempotencyKeyHash {
			return c.fact, true, nil
		}
	}
	if len(standing) >= MaxKeyItems {
		return ChargeFact{}, false, &InvalidError{Field: "item", Reason: "is one too many for its idempotency key"}
	}
	return ChargeFact{}, false, nil
}

func (k keyed) known(now time.Time) bool { return now.Sub(k.at) < IdempotencyWindow }

func (k keyed) fact() ChargeFact {
	return ChargeFact{
		ChargeID: k.chargeID, Credits: k.credits, BrandID: k.brandID, Domain: k.domain,
		RecordRevision: k.recordRevision, Revision: k.revision, At: k.at,
	}
}

// Recall asks what was charged under an idempotency key.
type Recall struct {
	RequestID          string // that is to be answered from it
	IdempotencyKeyHash string // of any item of the key
	RequestHash        string
	Older              *Older // of the key; needed before ForgotKeysUntil
}

// Recall returns the charges that stand under an idempotency key within 24 h, of whatever item, in the order
// of the stream, to be answered again. Like a repeat it keeps those of less than HoldMemory ago.
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
		facts[i] = c.fact
	}
	return a.answerAgain(in.RequestID, now, facts...), facts, nil
}
