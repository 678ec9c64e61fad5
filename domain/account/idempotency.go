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

// standing returns the charges under an idempotency key that were made within 24 h and not handed back, of
// whatever item, in the order of the stream. Errors: ErrIdempotencyMismatch.
func (a *Account) standing(keyHash, requestHash string, now time.Time) ([]keyed, error) {
	var out []keyed
	for _, hash := range a.families[family(keyHash)] {
		k := a.charged[hash]
		if !k.known(now) {
			continue
		}
		if k.requestHash != requestHash {
			return nil, ErrIdempotencyMismatch
		}
		out = append(out, k)
	}
	return out, nil
}

// chargedFor finds the charge that stands under the idempotency key and item of another.
// Errors: ErrIdempotencyMismatch, ErrInvalid.
func (a *Account) chargedFor(in Charge, now time.Time) (first ChargeFact, found bool, err error) {
	standing, err := a.standing(in.IdempotencyKeyHash, in.RequestHash, now)
	if err != nil {
		return ChargeFact{}, false, err
	}
	if k, ok := a.charged[in.IdempotencyKeyHash]; ok && k.known(now) {
		return k.fact(), true, nil
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
}

// Recall returns the charges that stand under an idempotency key within 24 h, of whatever item, in the order
// of the stream, to be answered again. Like a repeat it keeps those of less than HoldMemory ago.
//
// Errors: ErrInvalid, ErrNotFound, ErrClosed, ErrIdempotencyMismatch.
func (a *Account) Recall(in Recall, now time.Time) (Outcome, []ChargeFact, error) {
	now = a.later(now)
	err := firstError(
		text("request id", in.RequestID, true), hexHash("idempotency key hash", in.IdempotencyKeyHash),
		hexHash("request hash", in.RequestHash), a.notClosed(),
	)
	if err != nil {
		return Outcome{}, nil, err
	}
	standing, err := a.standing(in.IdempotencyKeyHash, in.RequestHash, now)
	if err != nil || len(standing) == 0 {
		return Outcome{}, nil, err
	}
	facts := make([]ChargeFact, len(standing))
	for i, k := range standing {
		facts[i] = k.fact()
	}
	return a.answerAgain(in.RequestID, now, facts...), facts, nil
}
