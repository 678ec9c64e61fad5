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

// ReadKept reads the beginning of a kept checkpoint: all but the accounts. It does not check the signature, nor whether the
// leaf is that of the signed log. Errors: ErrDamaged.
func ReadKept(r io.Reader) (*Kept, error) {
	k, _, err := readKept(r)
	return k, err
}

func readKept(r io.Reader) (*Kept, *bufio.Scanner, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, nil, ErrDamaged
	}
	lines, text, k := bufio.NewScanner(io.LimitReader(zip, maxKeptText)), "", &Kept{}
	for range noteLines {
		lines.Scan()
		text += lines.Text() + "\n"
	}
	lines.Scan()
	k.Checkpoint, err = parseCheckpoint(lines.Bytes())
	if k.Note, _ = ParseNote(text); k.Note == nil || err != nil {
		return nil, nil, ErrDamaged
	}
	return k, lines, nil
}

// ReadLeaves reads the accounts from the whole file, whose beginning was read, and checks that they yield the root. Errors:
// ErrDamaged.
func (k *Kept) ReadLeaves(r io.Reader) error {
	whole, lines, err := readKept(r)
	if err != nil || whole.Note.Text != k.Note.Text || whole.Root != k.Root {
		return ErrDamaged
	}
	leaves, last := []Account{}, ""
	for lines.Scan() {
		a, err := parseAccount(lines.Bytes())
		if err != nil || a.ID <= last || uint64(len(leaves)) == k.Accounts {
			return ErrDamaged
		}
		leaves, last = append(leaves, a), a.ID
	}
	hashes, root, err := AccountsTree(leaves)
	if err != nil || root != k.Root || lines.Err() != nil {
		return ErrDamaged
	}
	k.Leaves, k.Hashes = leaves, hashes
	return nil
}
