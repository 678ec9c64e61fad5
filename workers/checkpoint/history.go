package checkpoint

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"sort"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sync/errgroup"

	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
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
	return historyTo(ctx, log, math.MaxUint64)
}

// historyTo is readHistory up to the checkpoint with a size.
func historyTo(ctx context.Context, log eventlog.Log, size uint64) (*history, error) {
	h := &history{}
	err := eventlog.ReadPages(ctx, log, eventschemas.CheckpointsStream,
		historyPage, func(page []eventlog.Recorded) error {
			for i := 0; i < len(page) && uint64(len(h.leaves)) < size; i++ {
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
	rec, _, err := eventlog.Probe(log).At(ctx, eventschemas.CheckpointsStream, 2*size-1)
	if err != nil {
		return nil, err
	}
	body, err := eventschemas.Decode(rec.Type, rec.SchemaVersion, rec.Data)
	if ev, ok := body.(eventschemas.LedgerCheckpointed); ok && err == nil {
		return proof.ParseNote(ev.Note)
	}
	return nil, fmt.Errorf("checkpoint %d is not in its place: %w", size, eventlog.ErrCorrupt)
}

// Origin returns the name of the log of checkpoints, which is empty before the first one.
func (l *Ledger) Origin(ctx context.Context) (string, error) {
	h, err := readHistory(ctx, l.Log)
	return h.origin(), err
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

const (
	// accountsPage is the number of accounts that are listed at a time.
	accountsPage = 512
	// readers is the number of streams that are read at a time. An event store on another machine answers each read
	// after about a millisecond.
	readers = 16
)

// Accounts lists accounts; *accounts.Model.
type Accounts interface {
	List(ctx context.Context, after string, limit int) ([]accounts.Account, error)
}

// Ledger is where checkpoints and proofs come from.
type Ledger struct {
	Log      eventlog.Log
	Accounts Accounts
	// CaughtUp waits until Accounts has all accounts that the log has now.
	CaughtUp func(context.Context) error
	// Progress, if it is not nil, is called with the number of accounts read so far.
	Progress func(accounts uint64)
	Keeper   Keeper
	// Witnesses keep each checkpoint outside; see WriteAll.
	Witnesses []*Witness
	// Tree, if it is not nil, keeps the tree of the last checkpoint that was proved.
	Tree *Tree
	// Keys returns the public keys that this machine knows.
	Keys func() (note.Verifiers, error)
}

// heads returns the head of each account stream before a position, in the order of the accounts' ids. Its time grows with
// the number of accounts, and little with the events after the position.
func (l *Ledger) heads(ctx context.Context, before eventlog.Position) ([]proof.Account, error) {
	all, read := []proof.Account{}, uint64(0)
	for after := ""; ; {
		page, err := l.Accounts.List(ctx, after, accountsPage)
		if err != nil {
			return nil, err
		}
		found := make([]*proof.Account, len(page))
		group, inner := errgroup.WithContext(ctx)
		group.SetLimit(readers)
		for i := range page {
			if page[i].ID <= after {
				return nil, fmt.Errorf("the read model lists account %s after %s: its database does not sort by bytes",
					page[i].ID, after)
			}
			after = page[i].ID
			group.Go(func() (err error) {
				found[i], err = l.head(inner, page[i].ID, before)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		if read += uint64(len(page)); l.Progress != nil {
			l.Progress(read)
		}
		for _, a := range found {
			if a != nil {
				all = append(all, *a)
			}
		}
		if len(page) < accountsPage {
			return all, nil
		}
	}
}

// head returns the last event of an account before a position, or nil if there is none. It reads one event, unless the
// account has events after the position.
func (l *Ledger) head(ctx context.Context, id string, before eventlog.Position) (*proof.Account, error) {
	rec, err := l.event(ctx, id, eventlog.End)
	if err != nil || rec == nil {
		return nil, err
	}
	if rec.Position < before {
		return leaf(id, rec)
	}
	var found *eventlog.Recorded
	sort.Search(int(rec.Revision), func(i int) bool { // of the revisions before it, the first that is not before the position
		if err != nil {
			return true
		}
		at, failed := l.event(ctx, id, uint64(i))
		if err = failed; err == nil && (at == nil || at.Revision != uint64(i)) {
			err = fmt.Errorf("revision %d of %s is missing: %w", i, account.Stream(id), eventlog.ErrCorrupt)
		}
		if err != nil || at.Position >= before {
			return true
		}
		found = at
		return false
	})
	if err != nil || found == nil {
		return nil, err
	}
	return leaf(id, found)
}

// event returns an account's event with a revision, which may be eventlog.End, or nil if there is none.
func (l *Ledger) event(ctx context.Context, id string, revision uint64) (*eventlog.Recorded, error) {
	page, err := l.Log.ReadStream(ctx, account.Stream(id), revision, eventlog.Backward, 1)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	return &page[0], nil
}

// leaf returns the leaf of an account whose last event is rec.
func leaf(id string, rec *eventlog.Recorded) (*proof.Account, error) {
	a := &proof.Account{ID: id, Revision: rec.Revision}
	if n, err := hex.Decode(a.Head[:], []byte(rec.Metadata.Hash)); err != nil || n != len(a.Head) {
		return nil, fmt.Errorf("revision %d of %s has no hash: %w", a.Revision, rec.Stream, eventlog.ErrCorrupt)
	}
	return a, nil
}

// Tree keeps the hashes of the accounts' leaves of one checkpoint, 32 bytes for each account, so that only the first proof
// at a checkpoint reads all accounts. The zero value has none. It is safe for concurrent use.
type Tree struct {
	mu     sync.Mutex // held while they are read
	root   proof.Hash // of the log of checkpoints
	hashes []proof.Hash
}

// leaves returns the leaves of a checkpoint's tree of accounts, as the log has them, and their hashes.
func (l *Ledger) leaves(ctx context.Context, last *Made) ([]proof.Account, []proof.Hash, error) {
	leaves, err := l.heads(ctx, last.Begun)
	if err != nil {
		return nil, nil, err
	}
	if n := uint64(len(leaves)); n < last.Accounts {
		opened, err := l.opened(ctx, last.Begun)
		switch {
		case err != nil:
			return nil, nil, err
		case opened < last.Accounts:
			return nil, nil, fmt.Errorf("%w: it has %d of %d accounts of checkpoint %d", ErrChanged, opened, last.Accounts, last.Note.Size)
		}
		return nil, nil, fmt.Errorf("it has %d of %d accounts: %w", n, last.Accounts, ErrLacks)
	}
	hashes, root, err := proof.AccountsTree(leaves)
	if err == nil && root != last.Root {
		err = fmt.Errorf("%w: the accounts have not the root of checkpoint %d", ErrChanged, last.Note.Size)
	}
	return leaves, hashes, err
}

// opened returns the number of accounts before a position, as the log has them: the read model can lack some.
func (l *Ledger) opened(ctx context.Context, before eventlog.Position) (n uint64, err error) {
	filter := eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix},
		EventTypes: []string{eventschemas.AccountOpened{}.EventType()}}
	for at := eventlog.Position(0); ; {
		page, err := l.Log.ReadAll(ctx, at, filter, accountsPage)
		if err != nil {
			return 0, err
		}
		for i := range page.Events {
			if page.Events[i].Position < before && page.Events[i].Revision == 0 {
				n++
			}
		}
		if at = page.Next; page.End || at >= before {
			return n, nil
		}
	}
}
