package commands

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// proposal encodes an event for storage, complete except for the hash of the chain.
//
// The id is derived from the decision, as the design says, and a digest of the data that the chain
// covers. Without the digest two desks that race to release the same hold would use the same id at the
// same revision; the log would take the second event for a repeat of the first, and the second desk
// would continue from a hash that was never stored. With it, equal ids mean equal events: a retry is
// the same event, and a lost race is a conflict.
func proposal(encoder eventschemas.Encoder, stream string, a authored, p eventlog.Proposed) (eventlog.Proposed, error) {
	enc, err := encoder.Encode(a.event)
	if err != nil {
		return p, fmt.Errorf("encode %s for %s: %w", a.event.EventType(), stream, err)
	}
	p.Type, p.SchemaVersion, p.Data = enc.Type, enc.SchemaVersion, enc.Data
	p.Metadata = a.request.metadata()
	key, subject := decisionOf(a.event, a.request)
	p.ID = eventschemas.EventID(stream, key, enc.Type, subject+"/"+digest(&p))
	return p, nil
}

// digest returns 96 bits of a hash of the data that the chain covers and the id does not contain.
func digest(p *eventlog.Proposed) string {
	h := sha256.New()
	var n [8]byte
	for _, part := range []string{p.Metadata.Actor, p.Metadata.RequestID} {
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(n[:], uint64(p.OccurredAt.UnixMicro()))
	h.Write(n[:])
	h.Write(p.Data)
	var sum [sha256.Size]byte
	return base64.RawURLEncoding.EncodeToString(h.Sum(sum[:0])[:12])
}

// decisionOf returns the identity of the decision behind an event of an account or usage stream.
func decisionOf(ev eventschemas.Event, request Request) (key, subject string) {
	switch ev := ev.(type) {
	case eventschemas.CreditsCharged:
		if ev.IdempotencyKeyHash != "" {
			return ev.IdempotencyKeyHash, ev.ChargeID
		}
		return ev.RequestID, ev.ChargeID
	case eventschemas.CreditsHeld:
		return ev.HoldID, ""
	case eventschemas.HoldReleased:
		return ev.HoldID, ""
	case eventschemas.ChargeReversed:
		return ev.ChargeID, ""
	case eventschemas.ChargeKept:
		return ev.ChargeID, ""
	case eventschemas.CreditsGranted:
		if ev.PaymentID != "" {
			return ev.PaymentID, "payment"
		}
		return ev.GrantID, "grant"
	case eventschemas.PaymentRefunded:
		return ev.RefundID, ev.PaymentID
	case eventschemas.KeyIssued:
		return ev.KeyID, ""
	case eventschemas.KeyRevoked:
		return ev.KeyID, ""
	default:
		return request.ID, ""
	}
}
