package sqlite

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"letterhead/internal/eventlog"
)

// chain is a running digest over the events of a log. The digest of an empty log is zero; each event hashes the
// previous digest, its position, its revision and its whole content as it is stored. It uses the names of streams and
// types instead of their numbers in the file, and omits the row's checksum, so that a copy of the events, in the same
// form, has the same digests.
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

// add extends the chain by the next event. Each part is prefixed with its length.
func (h *chainer) add(c *chain, e *eventlog.Recorded, envelope, data []byte) {
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
	h.hash.Write(data) // the last part needs no length
	h.hash.Sum(c.digest[:0])
}
