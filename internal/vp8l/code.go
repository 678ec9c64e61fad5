package vp8l

import (
	"math/bits"
	"slices"
)

type codeword struct {
	bits   uint16 // the first one lowest
	length uint8
}

const (
	maxLength       = 15 // bits of a codeword
	maxLengthLength = 7  // bits of a codeword for the length of another
	lengthSymbols   = 19
	// Symbols for runs of equal lengths.
	repeatLength, fewZeros, manyZeros = 16, 17, 18
)

// code writes the prefix code for the counted symbols and returns it.
func (o *writer) code(counts []uint32) []codeword {
	used := make([]uint32, 0, 3)
	for s, n := range counts {
		if n > 0 && len(used) < cap(used) {
			used = append(used, uint32(s))
		}
	}
	if len(used) == 0 {
		used = append(used, 0)
	}
	// A code for one or two byte values has a short form. The greens always include a byte value, because the
	// first pixel is a literal.
	if last := used[len(used)-1]; len(used) <= 2 && last < literals {
		o.write(1, 1)
		o.write(uint32(len(used)-1), 1)
		if used[0] <= 1 {
			o.write(0, 1)
			o.write(used[0], 1)
		} else {
			o.write(1, 1)
			o.write(used[0], 8)
		}
		code := make([]codeword, len(counts))
		if len(used) == 2 {
			o.write(used[1], 8)
			code[used[0]], code[used[1]] = codeword{0, 1}, codeword{1, 1}
		}
		return code
	}
	o.write(0, 1)
	long := o.codeLengths(counts, maxLength)
	o.lengths(long)
	return codewords(long)
}

// run is a length of a codeword, or a run of equal ones.
type run struct {
	symbol, extra uint8
	n             uint8 // bits of extra
}

func (o *writer) lengths(long []uint8) {
	runs := o.runs[:0]
	for i := 0; i < len(long); {
		end := i + 1
		for end < len(long) && long[end] == long[i] {
			end++
		}
		left := end - i
		if long[i] != 0 {
			runs = append(runs, run{symbol: long[i]})
			left--
			for left >= 3 {
				n := min(left, 6)
				runs = append(runs, run{repeatLength, uint8(n - 3), 2})
				left -= n
			}
		} else {
			for left >= 3 {
				if n := min(left, 138); n > 10 {
					runs = append(runs, run{manyZeros, uint8(n - 11), 7})
					left -= n
				} else {
					runs = append(runs, run{fewZeros, uint8(n - 3), 3})
					left -= n
				}
			}
		}
		for range left {
			runs = append(runs, run{symbol: long[i]})
		}
		i = end
	}
	o.runs = runs
	var counts [lengthSymbols]uint32
	for _, r := range runs {
		counts[r.symbol]++
	}
	inner := o.codeLengths(counts[:], maxLengthLength)
	order := [lengthSymbols]uint8{fewZeros, manyZeros, 0, 1, 2, 3, 4, 5, repeatLength, 6, 7, 8, 9, 10,
		11, 12, 13, 14, 15}
	n := len(order)
	for n > 4 && inner[order[n-1]] == 0 {
		n--
	}
	o.write(uint32(n-4), 4)
	for _, s := range order[:n] {
		o.write(uint32(inner[s]), 3)
	}
	o.write(0, 1) // all symbols have a length
	code := codewords(inner)
	for _, r := range runs {
		o.write(uint32(code[r.symbol].bits), int(code[r.symbol].length))
		o.write(uint32(r.extra), int(r.n))
	}
}

// node is a leaf or a branch of the tree of a code.
type node struct {
	weight uint32
	parent int32
}

// codeLengths returns the lengths of a Huffman code, limited to most. At least two counts must be positive.
func (o *writer) codeLengths(counts []uint32, most int) []uint8 {
	const symbolBits = 16
	leaves := o.leaves[:0] // by weight, then symbol
	out := make([]uint8, len(counts))
	// Increase the minimum weight until the tree is flat enough. This ends at the latest when all weights are equal.
	for floor := uint32(1); ; floor *= 2 {
		leaves = leaves[:0]
		for s, n := range counts {
			if n > 0 {
				leaves = append(leaves, uint64(max(n, floor))<<symbolBits|uint64(s))
			}
		}
		slices.Sort(leaves)
		nodes := o.nodes[:0]
		for _, l := range leaves {
			nodes = append(nodes, node{weight: uint32(l >> symbolBits)})
		}
		// Branches are created in order of their weight and appended to the leaves, so the lightest node is
		// either the next leaf or the next branch.
		leaf, branch := 0, len(leaves)
		lightest := func() int {
			if leaf < len(leaves) && (branch == len(nodes) || nodes[leaf].weight <= nodes[branch].weight) {
				leaf++
				return leaf - 1
			}
			branch++
			return branch - 1
		}
		for range len(leaves) - 1 {
			a, b := lightest(), lightest()
			nodes[a].parent, nodes[b].parent = int32(len(nodes)), int32(len(nodes))
			nodes = append(nodes, node{weight: nodes[a].weight + nodes[b].weight})
		}
		o.leaves, o.nodes = leaves, nodes
		// From the root down, replace a node's weight by its depth.
		nodes[len(nodes)-1].weight = 0
		deepest := uint32(0)
		for i := len(nodes) - 2; i >= 0; i-- {
			nodes[i].weight = nodes[nodes[i].parent].weight + 1
			deepest = max(deepest, nodes[i].weight)
		}
		if int(deepest) <= most {
			for i, l := range leaves {
				out[l&(1<<symbolBits-1)] = uint8(nodes[i].weight)
			}
			return out
		}
	}
}

// codewords returns the codewords for the lengths. They are assigned in order of length, then of symbol.
func codewords(long []uint8) []codeword {
	var next [maxLength + 2]uint16
	for _, n := range long {
		if n > 0 {
			next[n+1]++
		}
	}
	for n := 1; n < len(next); n++ {
		next[n] = (next[n-1] + next[n]) << 1
	}
	// next[n] is now the first codeword of n bits. Each shorter codeword of m bits takes up 2^(n-m) of them.
	out := make([]codeword, len(long))
	for s, n := range long {
		if n > 0 {
			out[s] = codeword{bits.Reverse16(next[n]) >> (16 - n), n}
			next[n]++
		}
	}
	return out
}
