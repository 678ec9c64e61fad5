package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"letterhead/internal/eventlog"
)

// Check reads the whole log and reports all damage: the file's structure, checksums, gaps in positions and
// revisions, the index, and the digest of the writer. It calls progress, which may be nil, now and then
// with the current and the last position. Appends continue meanwhile. The last step, SQLite's own check,
// ignores the context and takes about a second per gigabyte.
//
// Errors: eventlog.ErrCorrupt, ErrUnavailable, ErrClosed, ctx.Err().
func (l *Log) Check(ctx context.Context, progress func(done, last eventlog.Position)) error {
	const attempt = "check the event log"
	if err := l.usable(ctx, attempt); err != nil {
		return err
	}
	end, err := l.beginAudit(attempt)
	if err != nil {
		return err
	}
	defer end()
	return l.check(ctx, attempt, progress, func(a *audit) (last int64, err error) {
		a.start(chain{}, l.head.current().chain())
		return a.want.position, nil
	})
}

// check verifies the whole log up to the position that begin returns.
func (l *Log) check(ctx context.Context, attempt string, progress func(done, last eventlog.Position),
	begin func(*audit) (last int64, err error)) error {
	a, err := openAudit(l.cfg.Path, l.mode)
	if err != nil {
		return classify(attempt, err)
	}
	last, err := begin(a)
	if err == nil {
		err = a.all(ctx, last, func(done int64) {
			if progress != nil {
				progress(eventlog.Position(done), eventlog.Position(last))
			}
		})
	}
	if err := errors.Join(err, a.close()); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return classify(attempt, err)
	}
	return nil
}

// beginAudit makes Close wait until end is called.
func (l *Log) beginAudit(attempt string) (end func(), err error) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.shut {
		return nil, fmt.Errorf("%s: %w", attempt, eventlog.ErrClosed)
	}
	l.audits.Add(1)
	return l.audits.Done, nil
}

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
