package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"letterhead/domain/proof"
)

// Tree keeps the leaves of the accounts' tree of one checkpoint, 32 bytes for each account, so that only the first
// proof at a checkpoint reads all accounts. The zero value has none. It is safe for concurrent use.
type Tree struct {
	mu     sync.Mutex
	root   proof.Hash
	leaves []proof.Hash // must not be changed
}

func (t *Tree) get(root proof.Hash) []proof.Hash {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.root != root {
		return nil
	}
	return t.leaves
}

func (t *Tree) put(root proof.Hash, leaves []proof.Hash) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.root, t.leaves = root, leaves
}

// ReadTree reads the tree of the last checkpoint, unless Tree has it. Errors: ErrNone, ErrChanged, the errors of the
// log and the accounts.
func (l *Ledger) ReadTree(ctx context.Context) error {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return err
	}
	if h.last == nil {
		return ErrNone
	}
	_, err = l.leaves(ctx, h)
	return err
}

// leaves returns the leaves of the last checkpoint's tree of accounts.
func (l *Ledger) leaves(ctx context.Context, h *history) ([]proof.Hash, error) {
	want := h.last.Checkpoint
	if leaves := l.Tree.get(want.Root); leaves != nil {
		return leaves, nil
	}
	var leaves []proof.Hash
	err := l.heads(ctx, h.last.Begun, func(a proof.Account) error {
		leaf, err := a.Leaf()
		leaves = append(leaves, proof.LeafHash(leaf))
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := uint64(len(leaves)); n < want.Accounts {
		return nil, fmt.Errorf("the read model of accounts has %d of %d accounts; see `letterhead projections list`",
			n, want.Accounts)
	}
	if root, err := proof.Root(leaves); err != nil || root != want.Root {
		return nil, errors.Join(ErrChanged, err)
	}
	l.Tree.put(want.Root, leaves)
	return leaves, nil
}
