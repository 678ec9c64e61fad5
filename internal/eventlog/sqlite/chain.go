package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"letterhead/internal/eventlog"
)

// chain is a running digest over the events of a log: that of an empty log is zero, and each event hashes
// the digest before it, its place and all it holds. It names streams and types, not their numbers in the
// file, and leaves the row's checksum out, so that a copy of the events has the same digests.
type chain struct {
	position int64
	digest   [sha256.Size]byte
}

// chainer extends chains. It belongs to one goroutine.
type chainer struct {
	hash hash.Hash
	buf  []byte
}

func newChainer() *chainer { return &chainer{hash: sha256.New()} }

// add extends the chain by the event that follows. Every part is prefixed by its length.
func (h *chainer) add(c *chain, e *eventlog.Recorded, envelope []byte) {
	c.position = int64(e.Position)
	b := append(h.buf[:0], c.digest[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Position))
	b = binary.BigEndian.AppendUint64(b, e.Revision)
	for _, name := range [...]string{e.Stream, e.Type} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
	}
	envelope = envelope[envelopeID:]
	b = binary.BigEndian.AppendUint32(b, uint32(len(envelope)))
	b = append(b, envelope...)
	h.buf = b
	h.hash.Reset()
	h.hash.Write(b)
	h.hash.Write(e.Data) // the last part needs no length
	h.hash.Sum(c.digest[:0])
}
