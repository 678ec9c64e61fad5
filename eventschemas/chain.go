package eventschemas

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Hash is one link of an account stream's hash chain. The link before the first event is all zero.
type Hash [sha256.Size]byte

// ChainLink is the content of one link of the chain: the decision as it was stored. The log position
// is excluded because another store or a migration assigns new ones; upcasted data is excluded because
// the stored bytes are the fact.
type ChainLink struct {
	Stream        string
	Revision      uint64
	EventID       uuid.UUID
	Type          string
	SchemaVersion int
	OccurredAt    time.Time // with microsecond precision
	Actor         string
	RequestID     string
	Data          []byte
}

// Next returns the hash of the event that follows previous: SHA-256 over the length-prefixed (8 bytes,
// big endian) previous hash and fields of the link, in order.
func (l ChainLink) Next(previous Hash) Hash {
	h := sha256.New()
	var n [8]byte
	part := func(b []byte) {
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	number := func(v uint64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], v)
		part(b[:])
	}
	part(previous[:])
	part([]byte(l.Stream))
	number(l.Revision)
	part(l.EventID[:])
	part([]byte(l.Type))
	number(uint64(l.SchemaVersion))
	number(uint64(l.OccurredAt.UnixMicro()))
	part([]byte(l.Actor))
	part([]byte(l.RequestID))
	part(l.Data)
	var out Hash
	h.Sum(out[:0])
	return out
}
