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
	var space [1024]byte // usual links fit, and need no memory of the heap
	b := space[:0]
	part := func(text string) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...) }
	number := func(v uint64) { b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, 8), v) }
	b = append(binary.BigEndian.AppendUint64(b, uint64(len(previous))), previous[:]...)
	part(l.Stream)
	number(l.Revision)
	b = append(binary.BigEndian.AppendUint64(b, uint64(len(l.EventID))), l.EventID[:]...)
	part(l.Type)
	number(uint64(l.SchemaVersion))
	number(uint64(l.OccurredAt.UnixMicro()))
	part(l.Actor)
	part(l.RequestID)
	return sha256.Sum256(append(binary.BigEndian.AppendUint64(b, uint64(len(l.Data))), l.Data...))
}
