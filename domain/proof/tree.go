package proof

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"letterhead/eventschemas"
)

// Hash is a node of a Merkle tree, or the head of an account's stream.
type Hash = eventschemas.Hash

var factory = &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// LeafHash returns the hash of a leaf (RFC 6962, section 2.1).
func LeafHash(leaf []byte) Hash { return Hash(rfc6962.DefaultHasher.HashLeaf(leaf)) }

func childrenHash(left, right Hash) Hash {
	return Hash(rfc6962.DefaultHasher.HashChildren(left[:], right[:]))
}

// Tree is a Merkle tree that leaves are added to. It keeps one hash for each level.
type Tree struct{ leaves *compact.Range }

// NewTree returns a tree without leaves.
func NewTree() *Tree { return &Tree{factory.NewEmptyRange(0)} }

// Add adds the hash of a leaf.
func (t *Tree) Add(leaf Hash) error { return t.leaves.Append(leaf[:], nil) }

// Size returns the number of leaves.
func (t *Tree) Size() uint64 { return t.leaves.End() }

// Root returns the root, which without leaves is the SHA-256 of nothing.
func (t *Tree) Root() (Hash, error) {
	if t.Size() == 0 {
		return Hash(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	root, err := t.leaves.GetRootHash(nil)
	if err != nil {
		return Hash{}, err
	}
	return Hash(root), nil
}

// Root returns the root of a tree with these hashes of leaves.
func Root(leaves []Hash) (Hash, error) {
	t := NewTree()
	for _, leaf := range leaves {
		if err := t.Add(leaf); err != nil {
			return Hash{}, err
		}
	}
	return t.Root()
}

// Children are the two children of a node.
type Children struct{ Left, Right Hash }

// Path returns the children of each node from the root of a tree to a leaf.
func Path(leaves []Hash, index uint64) ([]Children, error) {
	if index >= uint64(len(leaves)) {
		return nil, fmt.Errorf("leaf %d of a tree with %d leaves", index, len(leaves))
	}
	var path []Children
	for len(leaves) > 1 {
		k := leftLeaves(uint64(len(leaves)))
		left, err := Root(leaves[:k])
		if err != nil {
			return nil, err
		}
		right, err := Root(leaves[k:])
		if err != nil {
			return nil, err
		}
		path = append(path, Children{left, right})
		if index < k {
			leaves = leaves[:k]
		} else {
			leaves, index = leaves[k:], index-k
		}
	}
	return path, nil
}

// leftLeaves returns the number of leaves below the left child of a root with size leaves: the largest power of two
// smaller than size (RFC 6962, section 2.1).
func leftLeaves(size uint64) uint64 { return 1 << (bits.Len64(size-1) - 1) }

// Consistency returns the proof that the tree of these leaves begins with the tree of the first size of them (RFC 6962,
// section 2.1.2). It has no hashes if size is the number of leaves.
func Consistency(leaves []Hash, size uint64) ([]Hash, error) {
	nodes, err := proof.Consistency(size, uint64(len(leaves)))
	if err != nil {
		return nil, err
	}
	var found [][]byte
	for _, id := range nodes.IDs {
		begin, end := id.Coverage()
		root, err := Root(leaves[begin:end])
		if err != nil {
			return nil, err
		}
		found = append(found, root[:])
	}
	if found, err = nodes.Rehash(found, factory.Hash); err != nil {
		return nil, err
	}
	hashes := make([]Hash, len(found))
	for i, h := range found {
		hashes[i] = Hash(h)
	}
	return hashes, nil
}

// verifyConsistency checks a proof of Consistency between two notes of a log.
func verifyConsistency(from, to *Note, hashes []Hash) error {
	list := make([][]byte, len(hashes))
	for i := range hashes {
		list[i] = hashes[i][:]
	}
	return proof.VerifyConsistency(rfc6962.DefaultHasher, from.Size, to.Size, list, from.Root[:], to.Root[:])
}

// Account is a leaf of the tree of a checkpoint. The leaves are sorted by id.
type Account struct {
	ID       string
	Revision uint64 // of the last event in the checkpoint
	Head     Hash   // of the chain at that event
}

type accountLeaf struct {
	Account  string `json:"account"`
	Revision uint64 `json:"revision"`
	Head     string `json:"head"`
}

// Leaf returns the leaf: one line of JSON.
func (a Account) Leaf() ([]byte, error) {
	return json.Marshal(accountLeaf{a.ID, a.Revision, hex.EncodeToString(a.Head[:])})
}

func parseAccount(leaf []byte) (a Account, err error) {
	var l accountLeaf
	if err := json.Unmarshal(leaf, &l); err != nil {
		return a, err
	}
	a = Account{ID: l.Account, Revision: l.Revision}
	a.Head, err = parseHash([]byte(l.Head))
	return a, err
}

// Checkpoint is a leaf of the log of checkpoints.
type Checkpoint struct {
	Time     time.Time // at which it began; whole microseconds
	Position uint64    // in the event log at which it began
	Accounts uint64    // leaves of its tree
	Root     Hash      // of its tree
}

type checkpointLeaf struct {
	Time     string `json:"time"`
	Position uint64 `json:"position"`
	Accounts uint64 `json:"accounts"`
	Root     string `json:"root"`
}

// Leaf returns the leaf: one line of JSON.
func (c Checkpoint) Leaf() ([]byte, error) {
	return json.Marshal(checkpointLeaf{c.Time.UTC().Format(timeLayout), c.Position, c.Accounts,
		hex.EncodeToString(c.Root[:])})
}

func parseCheckpoint(leaf []byte) (c Checkpoint, err error) {
	var l checkpointLeaf
	if err := json.Unmarshal(leaf, &l); err != nil {
		return c, err
	}
	c = Checkpoint{Position: l.Position, Accounts: l.Accounts}
	if c.Time, err = time.Parse(timeLayout, l.Time); err != nil {
		return c, err
	}
	c.Root, err = parseHash([]byte(l.Root))
	return c, err
}

// timeLayout is RFC 3339 with microseconds, in UTC.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// parseHash parses a hash in lower-case hex.
func parseHash(text []byte) (h Hash, err error) {
	if len(text) != 2*len(h) {
		return h, errors.New("a hash has 64 hex digits")
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return h, err
	}
	if hex.EncodeToString(h[:]) != string(text) {
		return h, errors.New("the digits of a hash are lower-case")
	}
	return h, nil
}
