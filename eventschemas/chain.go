package eventschemas

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// Hash is the hash of one event in an account stream's hash chain. The hash before the first event is all zeros.
type Hash = [sha256.Size]byte

// ChainLink contains the hashed fields of an event. The position is not included, because a migration
// to another store assigns new positions. Data is the stored body, not the upcast one.
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

// Next returns the hash of the event that follows previous. It is the SHA-256 of the previous hash and the
// fields of the link, in order, each prefixed with its length (8 bytes, big endian).
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
