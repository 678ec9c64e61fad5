package timeline

import (
	"encoding/binary"
	"iter"
	"slices"
	"sort"
)

// blockRows is the number of rows that are read to find one.
const blockRows = 64

// row is a revision, and two numbers from then on.
type row [3]int64

// rows are rows in the order of their revisions. Of most of them only the difference to the one before is stored, which
// takes about three bytes.
type rows struct {
	count  int
	last   row
	blocks []block
	data   []byte // varints
}

// block begins every blockRows rows.
type block struct {
	first row
	rest  int // where its other rows begin in data
}

func (r *rows) add(x row) {
	if r.count%blockRows == 0 {
		r.blocks = append(r.blocks, block{x, len(r.data)})
	} else {
		for i := range x {
			r.data = binary.AppendVarint(r.data, x[i]-r.last[i])
		}
	}
	r.last = x
	r.count++
}

// set adds a row unless the first number stays the same; it is 0 before the first row.
func (r *rows) set(revision uint64, value int64) {
	if value != r.last[1] {
		r.add(row{int64(revision), value})
	}
}

// read returns the rows of a block.
func (r *rows) read(i int) iter.Seq[row] {
	return func(yield func(row) bool) {
		b, end := r.blocks[i], len(r.data)
		if i+1 < len(r.blocks) {
			end = r.blocks[i+1].rest
		}
		data := r.data[b.rest:end]
		for x := b.first; yield(x) && len(data) > 0; {
			for j := range x {
				d, n := binary.Varint(data)
				x[j] += d
				data = data[n:]
			}
		}
	}
}

// find returns the last block that begins at or before a revision, or -1.
func (r *rows) find(revision uint64) int {
	return sort.Search(len(r.blocks), func(i int) bool { return r.blocks[i].first[0] > int64(revision) }) - 1
}

// at returns the last row at or before a revision, or the zero row.
func (r *rows) at(revision uint64) (last row) {
	if i := r.find(revision); i >= 0 {
		for x := range r.read(i) {
			if x[0] > int64(revision) {
				break
			}
			last = x
		}
	}
	return last
}

// back returns the rows at or before a revision, the latest first.
func (r *rows) back(revision uint64) iter.Seq[row] {
	return func(yield func(row) bool) {
		for i := r.find(revision); i >= 0; i-- {
			for _, x := range slices.Backward(slices.Collect(r.read(i))) {
				if x[0] <= int64(revision) && !yield(x) {
					return
				}
			}
		}
	}
}

// size returns the bytes in memory.
func (r *rows) size() int { return cap(r.data) + cap(r.blocks)*32 }
