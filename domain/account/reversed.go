package account

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// Reversed charges are remembered for ReversalWindow, whatever their number: a client that keeps
// disconnecting creates hundreds of thousands of them a day. So each takes 40 bytes in memory and
// about 27 in a snapshot: a digest instead of the id, and a time.

// reversalKey is a digest of a charge's id.
type reversalKey [16]byte

func reversalKeyOf(chargeID string) reversalKey {
	sum := sha256.Sum256([]byte(chargeID))
	return reversalKey(sum[:len(reversalKey{})])
}

// reversal is a reversed charge with the time after which it expires.
type reversal struct {
	key reversalKey
	at  int64 // microseconds since 1970
}

func (a *Account) isReversed(chargeID string) bool {
	_, ok := a.reversed[reversalKeyOf(chargeID)]
	return ok
}

func (a *Account) rememberReversed(chargeID string, at time.Time) {
	key := reversalKeyOf(chargeID)
	put(a, a.reversed, key, struct{}{})
	a.reversedOrder = append(a.reversedOrder, reversal{key: key, at: at.UnixMicro()})
}

// forgetReversed drops the reversals that are at or before the limit.
func (a *Account) forgetReversed(limit time.Time) {
	for len(a.reversedOrder) > 0 && a.reversedOrder[0].at <= limit.UnixMicro() {
		delete(a.reversed, a.reversedOrder[0].key)
		a.reversedOrder = a.reversedOrder[1:]
	}
}

// packReversed encodes the reversals, oldest first: each is its key and the microseconds since the previous one.
func (a *Account) packReversed() []byte {
	out := make([]byte, 0, len(a.reversedOrder)*(len(reversalKey{})+binary.MaxVarintLen32))
	last := int64(0)
	for _, r := range a.reversedOrder {
		out = append(out, r.key[:]...)
		out = binary.AppendVarint(out, r.at-last)
		last = r.at
	}
	return out
}

func (a *Account) unpackReversed(packed []byte) error {
	last := int64(0)
	for len(packed) > 0 {
		var r reversal
		if copy(r.key[:], packed) < len(r.key) {
			return errors.New("damaged reversals")
		}
		packed = packed[len(r.key):]
		since, n := binary.Varint(packed)
		if n <= 0 {
			return errors.New("damaged reversals")
		}
		packed = packed[n:]
		last += since
		r.at = last
		a.reversed[r.key] = struct{}{}
		a.reversedOrder = append(a.reversedOrder, r)
	}
	return nil
}
