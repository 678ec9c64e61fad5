package vp8l

// symbol is a pixel, or a copy of earlier ones.
type symbol struct {
	length uint32 // copied pixels; 0 for a pixel
	value  uint32 // the pixel, or the code of the distance
}

const (
	minCopy = 3
	maxCopy = 4096
	// longEnough is the length of a copy that ends the search for a better one.
	longEnough = 64
	// maxDistance keeps the codes of distances below 1<<20.
	maxDistance = 1<<20 - nearCodes
	// maxCandidates limits the positions that are compared for one copy, and thereby the time for an image.
	maxCandidates = 12
	maxHashBits   = 14
)

// copier finds repeated pixels. It chains the positions at which the same three pixels begin.
type copier struct {
	pixels []uint32
	width  int
	shift  int     // of hashes
	head   []int32 // by hash: the last position, plus 1
	prev   []int32 // by position: the previous one, plus 1
	known  int     // positions below it are in the chains
}

func (c *copier) learn(until int) {
	until = min(until, len(c.pixels)-minCopy+1)
	for ; c.known < until; c.known++ {
		p := c.pixels[c.known : c.known+minCopy : c.known+minCopy]
		h := (p[0]*0x9e3779b1 ^ p[1]*0x85ebca6b ^ p[2]*0xc2b2ae35) >> c.shift
		c.prev[c.known] = c.head[h]
		c.head[h] = int32(c.known + 1)
	}
}

// find returns the longest copy for a position among the candidates, or 0 if there is none.
func (c *copier) find(at int) (length, distance int) {
	c.learn(at + 1)
	if at >= c.known {
		return 0, 0
	}
	most := min(len(c.pixels)-at, maxCopy)
	here := c.pixels[at : at+most]
	place := int(c.prev[at]) - 1
	for range maxCandidates {
		if place < 0 || at-place > maxDistance {
			break
		}
		there := c.pixels[place : place+most]
		if length == 0 || there[length] == here[length] {
			n := 0
			for n < most && there[n] == here[n] {
				n++
			}
			if n > length {
				length, distance = n, at-place
				if n >= min(longEnough, most) {
					break
				}
			}
		}
		place = int(c.prev[place]) - 1
	}
	if length < minCopy {
		return 0, 0
	}
	return length, distance
}

// copies converts pixels to symbols.
func (o *writer) copies(pixels []uint32, width int) []symbol {
	hashBits := 4
	for hashBits < maxHashBits && 1<<hashBits < len(pixels) {
		hashBits++
	}
	c := &copier{
		pixels: pixels, width: width, shift: 32 - hashBits,
		head: sized(&o.head, 1<<hashBits), prev: sized(&o.prev, len(pixels)),
	}
	clear(c.head)
	out := o.symbols[:0]
	for i := 0; i < len(pixels); {
		length, distance := c.find(i)
		// If the copy that begins one pixel later is longer, encode this pixel as a literal instead.
		for length > 0 && length < longEnough {
			next, nextDistance := c.find(i + 1)
			if next <= length+1 {
				break
			}
			out = append(out, symbol{value: pixels[i]})
			i++
			length, distance = next, nextDistance
		}
		if length == 0 {
			out = append(out, symbol{value: pixels[i]})
			i++
			continue
		}
		out = append(out, symbol{length: uint32(length), value: c.distanceCode(distance)})
		i += length
		c.learn(i)
	}
	o.symbols = out
	return out
}

// nearCodes is the number of codes for positions that are near in two dimensions. The codes of all other
// distances follow them.
const nearCodes = 120

// nearCode contains the codes, minus 1, of the positions in the rows above a pixel. Each row begins 8 columns
// to the right of the pixel (column 8-x) and ends 7 columns to its left.
var nearCode = [8 * 16]uint8{
	96, 73, 55, 39, 23, 13, 5, 1, 255, 255, 255, 255, 255, 255, 255, 255,
	101, 78, 58, 42, 26, 16, 8, 2, 0, 3, 9, 17, 27, 43, 59, 79,
	102, 86, 62, 46, 32, 20, 10, 6, 4, 7, 11, 21, 33, 47, 63, 87,
	105, 90, 70, 52, 37, 28, 18, 14, 12, 15, 19, 29, 38, 53, 71, 91,
	110, 99, 82, 66, 48, 35, 30, 24, 22, 25, 31, 36, 49, 67, 83, 100,
	115, 108, 94, 76, 64, 50, 44, 40, 34, 41, 45, 51, 65, 77, 95, 109,
	118, 113, 103, 92, 80, 68, 60, 56, 54, 57, 61, 69, 81, 93, 104, 114,
	119, 116, 111, 106, 97, 88, 84, 74, 72, 75, 85, 89, 98, 107, 112, 117,
}

func (c *copier) distanceCode(distance int) uint32 {
	y, x := distance/c.width, distance%c.width
	switch {
	case x <= 8 && y < 8:
		return uint32(nearCode[16*y+8-x]) + 1
	case x > c.width-8 && y < 7:
		return uint32(nearCode[16*(y+1)+8+c.width-x]) + 1
	}
	return uint32(distance) + nearCodes
}
