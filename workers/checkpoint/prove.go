package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/domain/statement"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/projections/checkpoints"
)

// Errors of Prove.
var (
	// ErrNone: the ledger has no checkpoint.
	ErrNone = checkpoints.ErrNone
	// ErrNotInCheckpoint: the account was opened after the last checkpoint, or does not exist.
	ErrNotInCheckpoint = proof.ErrNotInCheckpoint
	// ErrTooManyEvents: the account has more events than Options allow.
	ErrTooManyEvents = proof.ErrTooManyEvents
	// ErrOtherLog: an earlier checkpoint is not one of this ledger.
	ErrOtherLog = errors.New("is not one that this ledger made")
)

// Options say what to prove.
type Options struct {
	AccountID string
	Month     time.Time   // its beginning
	Since     *proof.Note // an earlier checkpoint of which the log should be shown to be a continuation, or nil
	MaxEvents uint64      // of the account; 0 for any number
}

// Prove writes a proof of an account's month at the last checkpoint. It needs some 250 bytes for each account, 32 later.
//
// Errors before it writes: ErrNone, ErrNotInCheckpoint, ErrTooManyEvents, ErrChanged, ErrOtherLog,
// statement.ErrNotBegun, statement.ErrNoEvents; later ones: *streamwriter.ChainError, and the errors of w. Errors of
// the log and the accounts may come at any time.
func (l *Ledger) Prove(ctx context.Context, o Options, w io.Writer) error {
	h, hashes, err := l.tree(ctx, o.AccountID)
	if err != nil {
		return err
	}
	p := &proof.Proof{Month: o.Month, Note: h.last.Note, Checkpoint: h.last.Checkpoint}
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
	a, err := l.head(ctx, o.AccountID, h.last.Begun)
	if err != nil {
		return err
	}
	if a == nil {
		return fmt.Errorf("account %s %w", o.AccountID, ErrNotInCheckpoint)
	}
	own, _, err := proof.AccountsTree([]proof.Account{*a})
	if err != nil {
		return err
	}
	index := slices.Index(hashes, own[0])
	if index < 0 {
		return fmt.Errorf("%w: account %s has another chain up to revision %d than in checkpoint %d", ErrChanged, a.ID,
			a.Revision, h.last.Note.Size)
	}
	p.Account, p.Index = *a, uint64(index)
	if p.Accounts, err = proof.Path(hashes, p.Index); err != nil {
		return err
	}
	if o.MaxEvents > 0 && p.Account.Revision >= o.MaxEvents {
		return fmt.Errorf("account %s has %d events, %w of %d", o.AccountID, p.Account.Revision+1,
			ErrTooManyEvents, o.MaxEvents)
	}
	if err := l.checkMonth(ctx, o, p.Checkpoint.Time); err != nil {
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

// tree returns the checkpoints and the hashes of the last one's leaves: of Tree, or after an account was compared.
func (l *Ledger) tree(ctx context.Context, id string) (*history, []proof.Hash, error) {
	t := cmp.Or(l.Tree, &Tree{})
	t.mu.Lock()
	defer t.mu.Unlock()
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return nil, nil, err
	}
	if root, err := proof.Root(h.leaves); err == nil && t.hashes != nil && t.root == root {
		return h, t.hashes, nil
	}
	s, err := l.signed(ctx)
	if err != nil || s.Note == nil {
		return nil, nil, cmp.Or(err, ErrNone)
	}
	root, hashes := s.root, s.Hashes
	s.root = nil // it is compared below
	if err := s.compare(ctx, l, func(a proof.Account) bool { return a.ID != id }); err != nil {
		return nil, nil, err
	}
	if root != nil {
		if _, hashes, err = l.leaves(ctx, root); err != nil {
			return nil, nil, err
		}
	}
	t.root, t.hashes = s.last.Note.Root, hashes
	return s.history, hashes, nil
}

// checkMonth returns an error if the account has no statement of the month at a time.
func (l *Ledger) checkMonth(ctx context.Context, o Options, at time.Time) error {
	if at.Before(o.Month) {
		return fmt.Errorf("at the last checkpoint, of %s, %w", at.UTC().Format(time.RFC3339), statement.ErrNotBegun)
	}
	opened, err := l.event(ctx, o.AccountID, 0)
	if err == nil && opened != nil && !opened.OccurredAt.Before(o.Month.AddDate(0, 1, 0)) {
		err = statement.ErrNoEvents
	}
	return err
}

// errLast ends the reading of a stream.
var errLast = errors.New("this was the last event")

// events returns the events of an account up to a revision.
func (l *Ledger) events(ctx context.Context, id string, last uint64) iter.Seq2[proof.Event, error] {
	return func(yield func(proof.Event, error) bool) {
		err := commands.Chain.Read(ctx, l.Log,
			account.Stream(id), func(rec *eventlog.Recorded, head eventschemas.Hash) error {
				if !yield(proof.Event{ChainLink: commands.ChainLink(rec), Hash: head}, nil) || rec.Revision == last {
					return errLast
				}
				return nil
			}, nil)
		if err != nil && !errors.Is(err, errLast) {
			yield(proof.Event{}, err)
		}
	}
}
