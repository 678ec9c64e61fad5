package proof

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxKeptText limits the uncompressed text of a kept checkpoint.
const maxKeptText = 1 << 30

// ErrDamaged: a kept checkpoint cannot be read, or its accounts do not yield its root.
var ErrDamaged = errors.New("it is damaged, or its accounts do not yield its root")

// Kept is a checkpoint with the leaves of its tree of accounts.
type Kept struct {
	Checkpoint
	Note   *Note
	Leaves []Account // sorted by id
	Hashes []Hash    // of the leaves; Write does not need them
}

// AccountsTree returns the hashes of leaves, and the root of their tree.
func AccountsTree(leaves []Account) (hashes []Hash, root Hash, err error) {
	hashes = make([]Hash, len(leaves))
	for i := range leaves {
		leaf, err := leaves[i].Leaf()
		if err != nil {
			return nil, root, err
		}
		hashes[i] = LeafHash(leaf)
	}
	root, err = Root(hashes)
	return hashes, root, err
}

// Write writes a kept checkpoint, compressed: the lines of its note, its leaf, and those of the accounts.
func (k *Kept) Write(w io.Writer) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	leaf, err := k.Leaf()
	fmt.Fprintf(zip, "%s%s\n", k.Note.Text, leaf) // Close repeats a failure
	for i := 0; i < len(k.Leaves) && err == nil; i++ {
		leaf, err = k.Leaves[i].Leaf()
		fmt.Fprintf(zip, "%s\n", leaf)
	}
	return errors.Join(err, zip.Close())
}

// ReadKept reads a kept checkpoint with a signed text and checks that the accounts yield its root. If the text is empty, it
// reads any checkpoint, without its accounts, from the beginning of a file. It does not check the signature, nor whether the
// leaf is that of the signed log. Errors: ErrDamaged.
func ReadKept(r io.Reader, signed string) (*Kept, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, ErrDamaged
	}
	lines, text, k := bufio.NewScanner(io.LimitReader(zip, maxKeptText)), "", &Kept{Leaves: []Account{}}
	for range noteLines {
		lines.Scan()
		text += lines.Text() + "\n"
	}
	lines.Scan()
	k.Checkpoint, err = parseCheckpoint(lines.Bytes())
	if k.Note, _ = ParseNote(text); k.Note == nil || err != nil || signed != "" && signed != text {
		return nil, ErrDamaged
	}
	if signed == "" {
		return k, nil
	}
	for last := ""; lines.Scan(); {
		a, err := parseAccount(lines.Bytes())
		if err != nil || a.ID <= last || uint64(len(k.Leaves)) == k.Accounts {
			return nil, ErrDamaged
		}
		k.Leaves, last = append(k.Leaves, a), a.ID
	}
	root := Hash{}
	if k.Hashes, root, err = AccountsTree(k.Leaves); err != nil || root != k.Root || lines.Err() != nil {
		return nil, ErrDamaged
	}
	return k, nil
}
