package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"letterhead/domain/account"
	"letterhead/domain/proof"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
)

// Compare compares the log with each checkpoint that the witness kept: its signature, the log of checkpoints up to it, and the
// tree of the accounts, in one pass over the log, which does not check their chains. It says in a sentence what it compared.
// Errors: ErrChanged with the first checkpoint that differs, ErrWitness, those of the log, the file and the client.
func (w *Witness) Compare(ctx context.Context, log eventlog.Log, keys note.Verifiers) (string, error) {
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
	slices.SortFunc(kept, func(a, b *proof.Note) int { return cmp.Compare(a.Size, b.Size) })
	text := fmt.Sprintf("the log has the %d checkpoint(s) that %s keeps, up to checkpoint %d", len(kept), w.Name, kept[len(kept)-1].Size)
	if rest != "" {
		text += fmt.Sprintf("; %d bytes after them are no whole checkpoint", len(rest))
	}
	h, accounts, root := &history{}, map[string]proof.Account{}, proof.Hash{} // root of the accounts before the last CheckpointBegun
	filter := eventlog.Filter{StreamPrefixes: []string{account.StreamPrefix, eventschemas.CheckpointsStream}}
	for at, end := eventlog.Position(0), false; len(kept) > 0 && !end; {
		page, err := log.ReadAll(ctx, at, filter, historyPage)
		if err != nil {
			return "", err
		}
		for i := 0; i < len(page.Events) && len(kept) > 0; i++ {
			rec := &page.Events[i]
			if id, ok := strings.CutPrefix(rec.Stream, account.StreamPrefix); ok {
				if _, opened := accounts[id]; opened || rec.Type == (eventschemas.AccountOpened{}).EventType() { // as in the read model
					head, err := leaf(id, rec)
					if err != nil {
						return "", err
					}
					accounts[id] = *head
				}
				continue
			}
			if err := h.apply(rec); err != nil {
				return "", err
			}
			if h.begun != nil && kept[0].Size == uint64(len(h.leaves))+1 {
				if _, root, err = proof.AccountsTree(slices.SortedFunc(maps.Values(accounts), byID)); err != nil {
					return "", err
				}
			}
			for h.begun == nil && len(kept) > 0 && kept[0].Size == uint64(len(h.leaves)) {
				if err := h.lacks(kept[0]); err != nil {
					return "", err
				}
				if root != h.last.Root {
					return "", fmt.Errorf("%w: the accounts have not the root of checkpoint %d, the first that differs", ErrChanged, kept[0].Size)
				}
				kept = kept[1:]
			}
		}
		at, end = page.Next, page.End
	}
	if len(kept) > 0 {
		return "", h.lacks(kept[0])
	}
	return text, nil
}
