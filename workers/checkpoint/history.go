package checkpoint

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// historyPage is the number of events of the stream of checkpoints that are read at a time.
const historyPage = 1024

// Made is a checkpoint of the ledger.
type Made struct {
	proof.Checkpoint
	Note  *proof.Note       // signed; its signature is not checked
	Begun eventlog.Position // of its CheckpointBegun in this log
}

type history struct {
	leaves []proof.Hash
	last   *Made              // nil before the first
	begun  *eventlog.Recorded // a CheckpointBegun that is not followed by its LedgerCheckpointed, or nil
}

// revisions returns the number of events of the stream.
func (h *history) revisions() uint64 {
	n := uint64(2 * len(h.leaves))
	if h.begun != nil {
		n++
	}
	return n
}

// origin returns the name of the log, which is empty before the first checkpoint.
func (h *history) origin() string {
	if h.last == nil {
		return ""
	}
	return h.last.Note.Origin
}

// readHistory reads the stream of checkpoints. It has 32 bytes in memory for each.
func readHistory(ctx context.Context, log eventlog.Log) (*history, error) {
	h := &history{}
	err := eventlog.ReadPages(ctx, log, eventschemas.CheckpointsStream,
		historyPage, func(page []eventlog.Recorded) error {
			for i := range page {
				if err := h.apply(&page[i]); err != nil {
					return fmt.Errorf("revision %d of %s: %w", page[i].Revision, page[i].Stream, err)
				}
			}
			return nil
		})
	return h, err
}

func (h *history) apply(rec *eventlog.Recorded) error {
	body, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
	if err != nil {
		return err
	}
	switch ev := body.(type) {
	case eventschemas.CheckpointBegun:
		if h.begun == nil {
			h.begun = rec
			return nil
		}
	case eventschemas.LedgerCheckpointed:
		if h.begun != nil {
			return h.add(ev, rec.OccurredAt)
		}
	}
	return fmt.Errorf("%s is not in its place: %w", rec.Type, eventlog.ErrCorrupt)
}

// storedNote returns the signed note of the checkpoint with which the log has a size.
func storedNote(ctx context.Context, log eventlog.Log, size uint64) (*proof.Note, error) {
	// see eventschemas.CheckpointSize
	page, err := log.ReadStream(ctx, eventschemas.CheckpointsStream, 2*size-1, eventlog.Forward, 1)
	if err != nil {
		return nil, err
	}
	for i := range page {
		body, err := eventschemas.Decode(page[i].Type, page[i].SchemaVersion, page[i].Data)
		if err != nil {
			return nil, err
		}
		if ev, ok := body.(eventschemas.LedgerCheckpointed); ok {
			return proof.ParseNote(ev.Note)
		}
	}
	return nil, fmt.Errorf("checkpoint %d is not in its place: %w", size, eventlog.ErrCorrupt)
}

// Origin returns the name of the log of checkpoints, which is empty before the first one.
func (l *Ledger) Origin(ctx context.Context) (string, error) {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return "", err
	}
	return h.origin(), nil
}

func (h *history) add(ev eventschemas.LedgerCheckpointed, at time.Time) error {
	made := &Made{Checkpoint: proof.Checkpoint{Time: at, Position: ev.Position, Accounts: ev.Accounts},
		Begun: h.begun.Position}
	if n, err := hex.Decode(made.Root[:], []byte(ev.Root)); err != nil || n != len(made.Root) {
		return fmt.Errorf("%q is no root: %w", ev.Root, eventlog.ErrCorrupt)
	}
	leaf, err := made.Leaf()
	if err != nil {
		return err
	}
	if made.Note, err = proof.ParseNote(ev.Note); err != nil {
		return err
	}
	h.leaves, h.last, h.begun = append(h.leaves, proof.LeafHash(leaf)), made, nil
	return nil
}
