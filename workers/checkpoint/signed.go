package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/eventlog"
)

const (
	// keptFiles is the number of checkpoints that are kept outside the log.
	keptFiles = 3
	// keptHead is the number of bytes that are read of each to find the last one.
	keptHead = 64 << 10
	// maxNamed limits the changed accounts that an error names.
	maxNamed = 100
	// quickTime limits a quick comparison.
	quickTime = 10 * time.Second
)

var (
	// ErrChanged: the log is not the one that was signed. Nothing is signed until an operator accepts it.
	ErrChanged = errors.New("the log has changed after it was signed")
	// ErrLacks: the read model of accounts lacks accounts that were signed, and that the log has. An operator cannot accept it.
	ErrLacks = errors.New("the read model of accounts lacks accounts that were signed; see `letterhead projections list`")
)

// Keeper keeps files outside the log; *assets.Store.
type Keeper interface {
	Keep(ctx context.Context, name string, data []byte) error
	Kept(ctx context.Context, name string, limit int64) ([]byte, error)
}

// signed is the checkpoint that was signed last. The log is compared with it.
type signed struct {
	proof.Kept // Note is nil if nothing was signed
	*history
	root    *Made  // the last checkpoint in the log, if its root has to be compared; otherwise nil
	remarks string // what cannot be compared or checked, and why: clauses, each after a semicolon
	fork    error  // ErrChanged if the checkpoints in the log are not those that were signed
}

// signed reads the log of checkpoints after the kept ones, which are written after those in the log.
func (l *Ledger) signed(ctx context.Context) (*signed, error) {
	s := &signed{}
	kept, err := l.lastKept(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.history, err = readHistory(ctx, l.Log); err != nil {
		return nil, err
	}
	if s.root = s.last; s.last != nil {
		s.Checkpoint, s.Note = s.last.Checkpoint, s.last.Note
		s.fork = s.differs(&s.Kept)
	}
	if kept != nil {
		s.Kept = *kept
		s.fork = cmp.Or(s.fork, s.differs(kept))
	}
	switch {
	case s.Leaves != nil && s.Note.Size == uint64(len(s.leaves)):
		s.root = nil
	case s.last != nil && l.wrong(s, s.last.Note):
		s.fork = fmt.Errorf("%w: the signature of checkpoint %d is wrong", ErrChanged, s.last.Note.Size)
	}
	return s, nil
}

// differs returns ErrChanged if a checkpoint is not one of the log.
func (h *history) differs(k *proof.Kept) error {
	if n := k.Note.Size; n <= uint64(len(h.leaves)) {
		leaf, err := k.Leaf()
		root, rootErr := proof.Root(h.leaves[:n])
		if err == nil && rootErr == nil && root == k.Note.Root && h.leaves[n-1] == proof.LeafHash(leaf) {
			return nil
		}
	}
	return fmt.Errorf("%w: it lacks checkpoint %d of %s", ErrChanged, k.Note.Size, k.Note.Origin)
}

// lastKept returns the last checkpoint that is kept outside the log, or nil.
func (l *Ledger) lastKept(ctx context.Context, s *signed) (*proof.Kept, error) {
	var found []*proof.Note
	for i := range uint64(keptFiles) {
		kept, err := l.kept(ctx, i, keptHead, "")
		switch {
		case errors.Is(err, assets.ErrNotFound):
		case errors.Is(err, proof.ErrDamaged), err == nil && l.wrong(s, kept.Note):
			s.damaged(i)
		case err != nil:
			return nil, err
		default:
			found = append(found, kept.Note)
		}
	}
	slices.SortFunc(found, func(a, b *proof.Note) int { return cmp.Compare(b.Size, a.Size) })
	for _, n := range found {
		kept, err := l.kept(ctx, n.Size, 0, n.Text)
		if !errors.Is(err, proof.ErrDamaged) {
			return kept, err
		}
		s.damaged(n.Size)
	}
	return nil, nil
}

func (s *signed) damaged(size uint64) {
	s.remarks += fmt.Sprintf("; %s, which was kept outside the log, is damaged or has a wrong signature", keptName(size))
}

// kept returns the checkpoint that is kept for a size, as proof.ReadKept reads it. Errors: of Keeper, proof.ErrDamaged.
func (l *Ledger) kept(ctx context.Context, size uint64, limit int64, signed string) (*proof.Kept, error) {
	file, err := l.Keeper.Kept(ctx, keptName(size), limit)
	if err != nil {
		return nil, err
	}
	return proof.ReadKept(bytes.NewReader(file), signed)
}

func keptName(size uint64) string { return fmt.Sprintf("%d.gz", size%keptFiles) }

// wrong reports whether the signature of a checkpoint is wrong. It remarks if that cannot be checked: keys are rotated, and
// a machine need not have all of them.
func (l *Ledger) wrong(s *signed, n *proof.Note) bool {
	keys, err := l.Keys()
	if err == nil {
		_, err = proof.Open(n.Text, keys)
	}
	if err != nil && !errors.Is(err, proof.ErrSignature) {
		s.remarks += fmt.Sprintf("; the signature of checkpoint %d was not checked: %v", n.Size, err)
		return false
	}
	return err != nil
}

// Quick compares as Compare does without the root, for quickTime at most.
func (l *Ledger) Quick(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	text, err := l.Compare(limited, false, nil)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Sprintf("not all accounts were compared in %s; `letterhead ledger verify` does that", quickTime), nil
	}
	return text, err
}

// Compare compares the log with what was signed last, with its root if only that is left, and says in a sentence what it
// compared. Accounts that were seen as they were signed are not read. Errors: ErrChanged, ErrLacks, those of the log, Keeper
// and the accounts.
func (l *Ledger) Compare(ctx context.Context, root bool, seen func(proof.Account) bool) (string, error) {
	s, err := l.signed(ctx)
	if err != nil || s.Note == nil {
		return "no checkpoint was signed", err
	}
	text := fmt.Sprintf("%d account(s) are as they were signed in checkpoint %d", len(s.Leaves), s.Note.Size)
	switch {
	case s.root != nil && !root:
		text, s.root = "the accounts of the last checkpoint are not kept; `letterhead ledger verify` compares its root", nil
	case s.root != nil:
		text += fmt.Sprintf("; only the root of checkpoint %d was compared, because its accounts are not kept", s.root.Note.Size)
	}
	return text + s.remarks, s.compare(ctx, l, seen)
}

// compare compares the log with what was signed, except the accounts that were seen.
func (s *signed) compare(ctx context.Context, l *Ledger, seen func(proof.Account) bool) error {
	changed := make([]bool, len(s.Leaves))
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, leaf := range s.Leaves {
		if seen == nil || !seen(leaf) {
			group.Go(func() (err error) {
				changed[i], err = l.changed(inner, leaf)
				return err
			})
		}
	}
	err, n, named := group.Wait(), 0, ""
	for i, leaf := range s.Leaves {
		if changed[i] {
			if n++; n <= maxNamed {
				named += fmt.Sprintf(", account %s up to revision %d", leaf.ID, leaf.Revision)
			}
		}
	}
	if n > 0 { // even if others could not be read
		err = fmt.Errorf("%w: %d account(s) have another chain than in checkpoint %d%s", ErrChanged, n, s.Note.Size, named)
	}
	switch {
	case s.fork != nil && errors.Is(err, ErrChanged):
		return fmt.Errorf("%w; %w", err, s.fork)
	case s.fork != nil:
		return s.fork
	case err != nil:
		return err
	case s.root != nil:
		_, _, err = l.leaves(ctx, s.root)
	}
	return err
}

func byID(a, b proof.Account) int { return cmp.Compare(a.ID, b.ID) }

// changed reports whether an account has not the chain that is in its leaf.
func (l *Ledger) changed(ctx context.Context, signed proof.Account) (bool, error) {
	rec, err := l.event(ctx, signed.ID, signed.Revision)
	if err != nil || rec == nil {
		return err == nil, err
	}
	is, err := leaf(signed.ID, rec)
	return err != nil || *is != signed, nil
}

// accept records that an operator accepts an ErrChanged, unless there are fewer leaves than accounts before the position.
func (m *Maker) accept(ctx context.Context, s *signed, leaves int, before eventlog.Position, why error) error {
	if m.Accept == "" || !errors.Is(why, ErrChanged) {
		return why
	}
	if n, err := m.opened(ctx, before); err != nil || n > uint64(leaves) {
		return cmp.Or(err, fmt.Errorf("it has %d of %d accounts: %w", leaves, n, ErrLacks))
	}
	end, _, err := eventlog.Probe(m.Log).Last(ctx) // there is at least a CheckpointBegun
	if err != nil {
		return err
	}
	last, err := m.Log.ReadStream(ctx, eventschemas.LogStream, eventlog.End, eventlog.Backward, 1)
	if err != nil {
		return err
	}
	next := uint64(len(last))
	if next > 0 {
		next += last[0].Revision
	}
	return m.append(ctx, eventschemas.LogStream, next, m.Now(), eventschemas.LossAccepted{
		Head: uint64(end.Position), LastEventID: end.ID.String(), Reason: m.Accept,
		Witnesses: []eventschemas.LossWitness{{Name: fmt.Sprintf("checkpoint %d of %s", s.Note.Size, s.Note.Origin),
			Remembered: s.Position, Detail: fmt.Sprintf("its signed root is %x; %v", s.Note.Root, why)}}})
}
