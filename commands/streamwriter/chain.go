package streamwriter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"letterhead/internal/eventlog"
)

// ErrChainBroken reports an event whose hash does not match the chain. The error is a *ChainError and
// also matches eventlog.ErrCorrupt: no command is decided on such a stream.
var ErrChainBroken = errors.New("hash chain is broken")

// ChainError reports where the chain is broken.
type ChainError struct {
	Stream   string
	Revision uint64
	Reason   string
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("%s at revision %d of %s: %s", ErrChainBroken, e.Revision, e.Stream, e.Reason)
}

// Is makes errors.Is true for ErrChainBroken and eventlog.ErrCorrupt.
func (e *ChainError) Is(target error) bool {
	return target == ErrChainBroken || target == eventlog.ErrCorrupt
}

// verifyPage is the number of events that Chain.Read has in memory at a time.
const verifyPage = 2048

// Hash is the hash of an event in the chain of its stream. Before the first event it is zero.
type Hash = [sha256.Size]byte

// Chain returns the hash of an event that follows head, the hash of the event before it, in the chain of its stream.
type Chain func(head Hash, stream string, revision uint64, ev *eventlog.Proposed) Hash

// Verify reads a stream from its beginning and checks every link of its hash chain. It returns the number of valid
// events, even along with an error. A stream without events is valid.
//
// Errors: *ChainError, those of eventlog.Log.ReadStream.
func (c Chain) Verify(ctx context.Context, log eventlog.Log, stream string) (events int, err error) {
	err = c.Read(ctx, log, stream, func(*eventlog.Recorded, Hash) error {
		events++
		return nil
	}, nil)
	return events, err
}

// Read reads a stream from its beginning in pages, checks every link of its hash chain, and calls f for each event with
// the chain's head. progress, which may be nil, is called with the number of events of each page. Errors: *ChainError,
// those of ReadStream and of f.
func (c Chain) Read(ctx context.Context, log eventlog.Log, stream string,
	f func(rec *eventlog.Recorded, head Hash) error, progress func(events int)) error {
	var head Hash
	revision := uint64(0)
	return eventlog.ReadPages(ctx, log, stream, verifyPage, func(page []eventlog.Recorded) (err error) {
		for i := range page {
			if head, err = c.Check(head, stream, revision, &page[i]); err != nil {
				return err
			}
			if err = f(&page[i], head); err != nil {
				return err
			}
			revision++
		}
		if progress != nil {
			progress(len(page))
		}
		return nil
	})
}

// Check checks one stored event against the chain, whose head is the hash of the event before it, and returns its hash.
// Errors: *ChainError.
func (c Chain) Check(head Hash, stream string, revision uint64, rec *eventlog.Recorded) (Hash, error) {
	if rec.Revision != revision {
		return head, &ChainError{Stream: stream, Revision: revision,
			Reason: fmt.Sprintf("found revision %d in its place", rec.Revision)}
	}
	next := c(head, stream, revision, &rec.Proposed)
	if hexOf(next) != rec.Metadata.Hash {
		return head, &ChainError{Stream: stream, Revision: revision, Reason: "its hash is not that of its content"}
	}
	return next, nil
}

// Link sets the hash of an event that follows head in the chain of its stream, and returns the new head.
func (c Chain) Link(head Hash, stream string, revision uint64, ev *eventlog.Proposed) Hash {
	next := c(head, stream, revision, ev)
	ev.Metadata.Hash = hexOf(next)
	return next
}

// hexOf returns a hash as it is written in metadata.
func hexOf(h Hash) string {
	var text [2 * len(h)]byte
	hex.Encode(text[:], h[:])
	return string(text[:])
}
