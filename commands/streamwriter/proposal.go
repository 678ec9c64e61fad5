package streamwriter

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"letterhead/internal/eventlog"
)

// Propose encodes an event of a stream for storage, complete except for the hash of the chain.
//
// The id is derived from the decision, as the design says, and a digest of the data that the chain covers. Without the
// digest two actors that race to make the same decision would use the same id at the same revision; the log would take
// the second event for a repeat of the first, and the second actor would continue from a hash that was never stored.
// With it, equal ids mean equal events: a retry is the same event, and a lost race is a conflict.
func (k *Kind[S]) Propose(encoder Encoder, stream string, ev eventlog.Body, request Request,
	at time.Time) (eventlog.Proposed, error) {
	enc, err := encoder.Encode(ev)
	if err != nil {
		return eventlog.Proposed{}, fmt.Errorf("encode %s for %s: %w", ev.EventType(), stream, err)
	}
	key, subject, err := k.Identify(ev, request)
	if err != nil {
		return eventlog.Proposed{}, fmt.Errorf("identify %s for %s: %w", enc.Type, stream, err)
	}
	p := eventlog.Proposed{Type: enc.Type, SchemaVersion: enc.SchemaVersion, OccurredAt: at, Data: enc.Data,
		Metadata: request.metadata()}
	p.ID = k.EventID(stream, key, enc.Type, withDigest(subject, &p))
	return p, nil
}

// withDigest appends 96 bits of a hash of the data that the chain covers and the id does not contain.
func withDigest(subject string, p *eventlog.Proposed) string {
	var space [1024]byte // usual events fit, and need no memory of the heap
	hashed := space[:0]
	for _, part := range [...]string{p.Metadata.Actor, p.Metadata.RequestID} {
		hashed = append(binary.BigEndian.AppendUint64(hashed, uint64(len(part))), part...)
	}
	hashed = binary.BigEndian.AppendUint64(hashed, uint64(p.OccurredAt.UnixMicro()))
	sum := sha256.Sum256(append(hashed, p.Data...))
	var text [128]byte
	return string(base64.RawURLEncoding.AppendEncode(append(append(text[:0], subject...), '/'), sum[:12]))
}
