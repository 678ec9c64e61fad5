package checkpoint

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/proof"
)

// Compare compares the log with what the witness kept: the signature of each checkpoint, the log of checkpoints up to it, and
// the tree of the accounts at the last one, which includes every earlier event of each account. It says in a sentence what it
// compared. The read model of accounts must have followed the log. Errors: ErrChanged with the first checkpoint that differs,
// ErrLacks, ErrWitness, those of the log, the file and the client.
func (w *Witness) Compare(ctx context.Context, l *Ledger, keys note.Verifiers) (string, error) {
	kept, rest, err := w.read(ctx)
	if err == nil && len(kept) == 0 {
		err = fmt.Errorf("%w: it has no whole checkpoint; a file of LETTERHEAD_WITNESSES and an address that answers what was posted have", ErrWitness)
	}
	for i := 0; err == nil && i < len(kept); i++ {
		if _, err = proof.Open(kept[i].Text, keys); err != nil {
			err = fmt.Errorf("%w: number %d: %w; --key takes public keys", ErrWitness, kept[i].Size, err)
		}
	}
	if err != nil {
		return "", err
	}
	slices.SortFunc(kept, bySize)
	h, err := readHistory(ctx, l.Log)
	for i := 0; err == nil && i < len(kept); i++ {
		err = h.lacks(kept[i])
	}
	last := kept[len(kept)-1]
	if err == nil {
		if h, err = historyTo(ctx, l.Log, last.Size); err == nil {
			_, _, err = l.leaves(ctx, h.last)
		}
	}
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("the log has the %d checkpoint(s) that %s keeps, up to checkpoint %d", len(kept), w.Name, last.Size)
	if rest != "" {
		text += fmt.Sprintf("; %d bytes after them are no whole checkpoint", len(rest))
	}
	return text, nil
}
