package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"letterhead/commands/streamwriter"
	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections/checkpoints"
)

// Errors of Prove.
var (
	// ErrNone: the ledger has no checkpoint.
	ErrNone = checkpoints.ErrNone
	// ErrNotInCheckpoint: the account was opened after the last checkpoint, or does not exist.
	ErrNotInCheckpoint = errors.New("is not in the last checkpoint")
	// ErrChanged: the events before the last checkpoint are not those of which it was made.
	ErrChanged = errors.New("the last checkpoint is not that of the events before it")
	// ErrOtherLog: an earlier checkpoint is not one of this ledger.
	ErrOtherLog = errors.New("is not one that this ledger made")
)

// Options say what to prove.
type Options struct {
	AccountID string
	Month     time.Time   // its beginning
	Since     *proof.Note // an earlier checkpoint of which the log should be shown to be a continuation, or nil
}

// Prove writes a proof of an account's month at the last checkpoint. It has 32 bytes in memory for each account.
//
// Errors: ErrNone, ErrNotInCheckpoint, ErrChanged, ErrOtherLog, statement.ErrNotBegun, statement.ErrNoEvents,
// *streamwriter.ChainError, those of the log, the accounts and w.
func (l *Ledger) Prove(ctx context.Context, o Options, w io.Writer) error {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return err
	}
	if h.last == nil {
		return ErrNone
	}
	p := &proof.Proof{Month: o.Month, Note: h.last.Note, Checkpoint: h.last.Checkpoint}
	if root, err := proof.Root(h.leaves); err != nil || root != p.Note.Root {
		return errors.Join(ErrChanged, err)
	}
	if p.Log, err = proof.Path(h.leaves, uint64(len(h.leaves)-1)); err != nil {
		return err
	}
	if o.Since != nil {
		if p.Consistency, err = h.consistency(o.Since); err != nil {
			return err
		}
		if p.Since, err = storedNote(ctx, l.Log, o.Since.Size); err != nil { // the signature of o.Since was not checked
			return err
		}
	}
	if err := l.proveAccount(ctx, h, o.AccountID, p); err != nil {
		return err
	}
	return proof.Write(w, p, l.events(ctx, o.AccountID, p.Account.Revision))
}

// consistency returns the proof that the log continues an earlier checkpoint.
func (h *history) consistency(since *proof.Note) ([]proof.Hash, error) {
	if since.Origin == h.origin() && since.Size > 0 && since.Size <= uint64(len(h.leaves)) {
		root, err := proof.Root(h.leaves[:since.Size])
		if err != nil {
			return nil, err
		}
		if root == since.Root {
			return proof.Consistency(h.leaves, since.Size)
		}
	}
	return nil, fmt.Errorf("checkpoint %d of %s %w", since.Size, since.Origin, ErrOtherLog)
}

// proveAccount sets the parts of a proof that lead from the root of the last checkpoint's tree to the account.
func (l *Ledger) proveAccount(ctx context.Context, h *history, id string, p *proof.Proof) error {
	var leaves []proof.Hash
	found := false
	err := l.heads(ctx, h.last.Begun, func(a proof.Account) error {
		if a.ID == id {
			found, p.Account, p.Index = true, a, uint64(len(leaves))
		}
		leaf, err := a.Leaf()
		leaves = append(leaves, proof.LeafHash(leaf))
		return err
	})
	if err != nil {
		return err
	}
	if n := uint64(len(leaves)); n < p.Checkpoint.Accounts {
		return fmt.Errorf("the read model of accounts has %d of %d accounts; see `letterhead projections list`", n, p.Checkpoint.Accounts)
	}
	if root, err := proof.Root(leaves); err != nil || root != p.Checkpoint.Root {
		return errors.Join(ErrChanged, err)
	}
	if !found {
		return fmt.Errorf("account %s %w", id, ErrNotInCheckpoint)
	}
	p.Accounts, err = proof.Path(leaves, p.Index)
	return err
}

// errLast ends the reading of a stream.
var errLast = errors.New("this was the last event")

// events returns the events of an account up to a revision.
func (l *Ledger) events(ctx context.Context, id string, last uint64) iter.Seq2[proof.Event, error] {
	return func(yield func(proof.Event, error) bool) {
		err := streamwriter.ReadChain(ctx, l.Log, account.Stream(id), func(rec *eventlog.Recorded, head eventschemas.Hash) error {
			if !yield(proof.Event{ChainLink: streamwriter.ChainLink(rec), Hash: head}, nil) || rec.Revision == last {
				return errLast
			}
			return nil
		}, nil)
		if err != nil && !errors.Is(err, errLast) {
			yield(proof.Event{}, err)
		}
	}
}
