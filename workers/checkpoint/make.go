// Package checkpoint makes checkpoints of the ledger, and proofs from them. docs/proofs.md and decision 26 describe
// both; package domain/proof has the trees and the format of a proof.
package checkpoint

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/note"

	"letterhead/commands"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// maxTurns limits the attempts to append. Others that make checkpoints at the same time take turns.
const maxTurns = 20

// ErrBusy: others made checkpoints all the time.
var ErrBusy = errors.New("others make checkpoints at the same time")

// Maker makes checkpoints.
type Maker struct {
	Ledger
	Encoder  eventschemas.Encoder
	Metadata eventlog.Metadata // of the events
	Now      func() time.Time
	// Key returns the key that signs checkpoints. Its name must be origin, unless that is empty.
	Key func(origin string) (note.Signer, error)
}

// Make makes a checkpoint of all events that the log has now. Errors: as Ensure.
func (m *Maker) Make(ctx context.Context) (*Made, error) {
	before, err := readHistory(ctx, m.Log)
	if err != nil {
		return nil, err
	}
	// one that began before does not count
	return m.until(ctx, func(h *history) bool { return h.revisions() >= before.revisions()+2 })
}

// Ensure returns the last checkpoint. If there is none that began at a time or later, it makes one; for the zero time,
// any checkpoint will do. A checkpoint that was interrupted is continued.
//
// Errors: ErrBusy; eventschemas.ErrNotYet before an upgrade is finished; the errors of Key, the log and the accounts.
func (m *Maker) Ensure(ctx context.Context, since time.Time) (*Made, error) {
	if now := m.Now().Truncate(time.Microsecond); now.Before(since) {
		since = now
	}
	return m.until(ctx, func(h *history) bool { return h.last != nil && !h.last.Time.Before(since) })
}

// until makes checkpoints until there is none that has only begun, and the history is enough.
func (m *Maker) until(ctx context.Context, enough func(*history) bool) (*Made, error) {
	for range maxTurns {
		h, err := readHistory(ctx, m.Log)
		if err != nil {
			return nil, err
		}
		if h.begun == nil && enough(h) {
			return h.last, nil
		}
		key, err := m.Key(h.origin())
		if err != nil {
			return nil, err
		}
		if h.begun != nil {
			err = m.complete(ctx, h, key)
		} else {
			err = m.begin(ctx, h)
		}
		if err != nil && !errors.Is(err, eventlog.ErrWrongRevision) {
			return nil, fmt.Errorf("make a checkpoint: %w", err)
		}
	}
	return nil, ErrBusy
}

// begin marks the events of the next checkpoint.
func (m *Maker) begin(ctx context.Context, h *history) error {
	at := m.Now()
	if h.last != nil && at.Before(h.last.Time) { // the clocks of nodes differ
		at = h.last.Time
	}
	return m.append(ctx, h, at, eventschemas.CheckpointBegun{})
}

// complete makes the tree of the checkpoint that has begun. All who do so make the same one.
func (m *Maker) complete(ctx context.Context, h *history, key note.Signer) error {
	if err := m.CaughtUp(ctx); err != nil {
		return err
	}
	tree := proof.NewTree()
	err := m.heads(ctx, h.begun.Position, func(a proof.Account) error {
		leaf, err := a.Leaf()
		if err != nil {
			return err
		}
		return tree.Add(proof.LeafHash(leaf))
	})
	if err != nil {
		return err
	}
	c := proof.Checkpoint{Time: h.begun.OccurredAt, Position: uint64(h.begun.Position), Accounts: tree.Size()}
	if c.Root, err = tree.Root(); err != nil {
		return err
	}
	leaf, err := c.Leaf()
	if err != nil {
		return err
	}
	size := len(h.leaves)
	root, err := proof.Root(append(h.leaves[:size:size], proof.LeafHash(leaf)))
	if err != nil {
		return err
	}
	signed, err := proof.Sign(key, uint64(size)+1, root)
	if err != nil {
		return err
	}
	return m.append(ctx, h, c.Time, eventschemas.LedgerCheckpointed{Accounts: c.Accounts,
		Root: hex.EncodeToString(c.Root[:]), Position: c.Position, Note: signed})
}

func (m *Maker) append(ctx context.Context, h *history, at time.Time, event eventschemas.Event) error {
	revision, stream := h.revisions(), eventschemas.CheckpointsStream
	proposed, err := commands.Proposal(m.Encoder, stream, strconv.FormatUint(revision, 10), event, at, m.Metadata)
	if err == nil {
		_, err = m.Log.Append(ctx, stream, eventlog.After(revision), []eventlog.Proposed{proposed})
	}
	return err
}
