package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
)

// digest computes the digest of a month's journal: the SHA-256 of a list with a line for each account, in the order of
// their ids, of the hex SHA-256 of the account's lines in JSONL, two spaces and the id. It does not depend on the order
// of different accounts in the log, which a copy to another store may change.
type digest struct {
	accounts map[string]hash.Hash
	encoder  jsonEncoder
}

func newDigest() *digest {
	return &digest{accounts: map[string]hash.Hash{}, encoder: jsonEncoder{chart: DefaultChart()}}
}

func (d *digest) entry(e *entry) error {
	h, ok := d.accounts[e.account]
	if !ok {
		h = sha256.New()
		d.accounts[e.account] = h
	}
	d.encoder.w = h
	return d.encoder.entry(e)
}

// sum returns the digest in hex.
func (d *digest) sum() string {
	list := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(d.accounts)) {
		fmt.Fprintf(list, "%x  %s\n", d.accounts[id].Sum(nil), id)
	}
	return hex.EncodeToString(list.Sum(nil))
}
