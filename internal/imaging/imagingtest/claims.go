package imagingtest

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"errors"
	"slices"
)

// Claim returns a small file that declares a size of w×h pixels. Without its body only the header is valid.
type Claim func(w, h int, body bool) []byte

// jpegClaim returns a JPEG of one color: all its codes are zero bits. frame is the marker of its frame, extra the data
// before it, sampling that of each component, in their order.
func jpegClaim(frame byte, ids string, extra []byte, sampling ...byte) Claim {
	return func(w, h int, body bool) []byte {
		out := []byte{0xff, 0xd8}
		segment := func(marker byte, content []byte) {
			out = append(out, 0xff, marker)
			out = binary.BigEndian.AppendUint16(out, uint16(2+len(content)))
			out = append(out, content...)
		}
		out = append(out, extra...)
		segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...))
		header := []byte{8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), byte(len(sampling))}
		scan := []byte{byte(len(sampling))}
		for i, s := range sampling {
			header, scan = append(header, ids[i], s, 0), append(scan, ids[i], 0)
		}
		segment(frame, header)
		one := append(make([]byte, 0, 18), 0, 1) // table 0, one code of one bit
		one = append(append(one, make([]byte, 15)...), 0)
		segment(0xc4, one)
		segment(0xc4, append([]byte{0x10}, one[1:]...))
		last := byte(63)
		if frame == 0xc2 {
			last = 0
		}
		segment(0xda, append(scan, 0, last, 0))
		if body {
			out = append(out, make([]byte, (w/8+8)*(h/8+8)*len(sampling)/4)...) // two bits for each block
		}
		return append(out, 0xff, 0xd9)
	}
}

// adobe returns a segment by Adobe with the transform of the colors: 0 for red, green and blue, or inks.
func adobe(transform byte) []byte {
	return append([]byte("\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"), transform)
}

// photoshop returns the segments that Photoshop writes before an image of luma and two chroma.
func photoshop() []byte {
	const text = "http://ns.adobe.com/xap/1.0/\x00Adobe\x00\x00\x00\x00\x00\x00\x00 Photoshop"
	return append(append([]byte{0xff, 0xe1, 0, 2 + byte(len(text))}, text...), adobe(1)...)
}

func gifClaim(w, h int, body bool) []byte {
	out := []byte("GIF89a")
	size := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, uint16(w)), uint16(h))
	out = append(append(out, size...), 0x80, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff)
	const interlaced, width = 0x40, 2
	out = append(append(append(out, 0x2c, 0, 0, 0, 0), size...), interlaced, width)
	if body {
		var packed bytes.Buffer
		z := lzw.NewWriter(&packed, lzw.LSB, width)
		_, err := z.Write(make([]byte, w*h))
		if err := errors.Join(err, z.Close()); err != nil {
			panic(err) // of a buffer
		}
		for part := range slices.Chunk(packed.Bytes(), 255) {
			out = append(append(out, byte(len(part))), part...)
		}
	}
	return append(out, 0, 0x3b)
}

func bmpClaim(w, h int, _ bool) []byte {
	out := append([]byte("BM"), make([]byte, 12)...)
	out[10] = 14 + 40 + 8
	out = binary.LittleEndian.AppendUint32(out, 40)
	out = binary.LittleEndian.AppendUint32(out, uint32(w))
	out = binary.LittleEndian.AppendUint32(out, uint32(h))
	out = append(out, 1, 0, 1, 0)
	out = append(out, make([]byte, 24)...)
	out = append(out, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0)
	return append(out, make([]byte, (w+31)/32*4*h)...)
}

// webpBits writes bits in the order of WebP: the lowest first.
type webpBits struct {
	out []byte
	n   int
}

func (b *webpBits) put(value, count int) {
	for i := range count {
		if b.n%8 == 0 {
			b.out = append(b.out, 0)
		}
		b.out[b.n/8] |= byte(value>>i&1) << (b.n % 8)
		b.n++
	}
}

// code writes a Huffman code, whose highest bit comes first.
func (b *webpBits) code(value, count int) {
	for i := count - 1; i >= 0; i-- {
		b.put(value>>i, 1)
	}
}

// only writes tables of one symbol each, which takes no bits afterwards.
func (b *webpBits) only(tables int) {
	for range tables {
		b.put(1, 4) // simple, one symbol, of one bit, 0
	}
}

// table writes a table with two lengths, each for a number of symbols; the rest of the alphabet is unused.
func (b *webpBits) table(alphabet, short, shorts, long, longs int) {
	b.put(0, 1)
	b.put(19-4, 4)
	lengths := map[int]int{16: 1, 0: 3, 18: 3, short: 3, long: 3} // of the codes below
	codes := map[int]int{}
	next := 4 // of three bits, after the one of one bit
	for symbol := range 19 {
		switch lengths[symbol] {
		case 1:
			codes[symbol] = 0
		case 3:
			codes[symbol] = next
			next++
		}
	}
	for _, symbol := range []int{17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} {
		b.put(lengths[symbol], 3)
	}
	b.put(0, 1) // the whole alphabet follows
	run := func(length, count int) {
		if count == 0 {
			return
		}
		b.code(codes[length], 3)
		for count--; count > 0; {
			switch n := min(count, 6); {
			case n >= 3:
				b.code(codes[16], 1)
				b.put(n-3, 2)
				count -= n
			default:
				b.code(codes[length], 3)
				count--
			}
		}
	}
	run(short, shorts)
	run(long, longs)
	for rest := alphabet - shorts - longs; rest > 0; {
		n := min(rest, 138)
		b.code(codes[18], 3)
		b.put(n-11, 7)
		rest -= n
	}
}

func (b *webpBits) vp8lHeader(w, h int) {
	b.put(0x2f, 8)
	b.put(w-1, 14)
	b.put(h-1, 14)
	b.put(0, 4)
}

// colorIndexed writes a lossless image of one color with a palette.
func (b *webpBits) colorIndexed() {
	b.put(1, 1)
	b.put(3, 2)
	b.put(255, 8)
	b.put(0, 1)
	b.only(5)
	b.put(0, 3) // no more transforms, no cache, one group
	b.only(5)
}

func webpOf(chunks ...any) []byte {
	out := []byte("RIFF\x00\x00\x00\x00WEBP")
	for i := 0; i < len(chunks); i += 2 {
		out = riffChunk(out, chunks[i].(string), chunks[i+1].([]byte))
	}
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

func losslessClaim(w, h int, _ bool) []byte {
	var b webpBits
	b.vp8lHeader(w, h)
	b.colorIndexed()
	return webpOf("VP8L", b.out)
}

// animatedClaim is losslessClaim as the first frame of an animation, with other chunks before the image.
func animatedClaim(before ...any) Claim {
	return func(w, h int, _ bool) []byte {
		var b webpBits
		b.vp8lHeader(w, h)
		b.colorIndexed()
		frame := append(make([]byte, 6), byte(w-1), byte((w-1)>>8), 0, byte(h-1), byte((h-1)>>8), 0, 0, 0, 0, 0)
		const fileHeader = 12
		chunks := webpOf(append(slices.Clone(before), "VP8L", b.out)...)[fileHeader:]
		return webpOf("ANMF", append(frame, chunks...))
	}
}

// WebPOfManyChunks returns an animation whose first frame has that many empty chunks before its image of w×h pixels.
func WebPOfManyChunks(w, h, chunks int) []byte {
	var before []any
	for range chunks {
		before = append(before, "none", []byte{})
	}
	return animatedClaim(before...)(w, h, true)
}

// vp8Claim returns a lossy image of zero bits.
func vp8Claim(w, h int, body bool) []byte {
	const first = 1<<19 - 1
	tag := first<<5 | 1<<4
	out := []byte{byte(tag), byte(tag >> 8), byte(tag >> 16), 0x9d, 1, 0x2a, byte(w), byte(w >> 8), byte(h), byte(h >> 8)}
	if body {
		out = append(out, make([]byte, first+w*h/5)...)
	}
	return out
}

func lossyClaim(w, h int, body bool) []byte { return webpOf("VP8 ", vp8Claim(w, h, body)) }

func lossyAlphaClaim(w, h int, body bool) []byte {
	var b webpBits
	b.put(1, 8) // compressed, not filtered
	b.colorIndexed()
	return webpOf("VP8X", []byte{1 << 4, 0, 0, 0, byte(w - 1), byte((w - 1) >> 8), 0, byte(h - 1), byte((h - 1) >> 8), 0}, "ALPH", b.out, "VP8 ", vp8Claim(w, h, body))
}

// WebPTables returns a lossless WebP of 204×204 pixels for which the decoder must build tables for that many groups of
// pixels, each of the maximum size of the format: 85 KiB for 250 bytes of the file. The decoder builds at most 2,600.
func WebPTables(groups int) []byte {
	const tiles = 51
	var b webpBits
	b.vp8lHeader(4*tiles, 4*tiles)
	b.put(0, 1)
	b.put(1, 1)
	b.put(11, 4) // the largest cache of colors
	b.put(1, 1)
	b.put(0, 3) // tiles of 4×4 pixels
	b.put(0, 1)
	b.table(280, 8, 256, 9, 0) // low byte of the group of each tile
	b.table(256, 4, 16, 5, 0)  // high byte
	b.only(3)
	for tile := range tiles * tiles {
		group := min(tile, groups-1)
		b.code(group&0xff, 8)
		b.code(group>>8, 4)
	}
	for range groups {
		b.table(280+2048, 11, 1768, 12, 560)
		for range 3 {
			b.table(256, 8, 256, 9, 0)
		}
		b.table(40, 5, 24, 6, 16)
	}
	return webpOf("VP8L", append(b.out, make([]byte, 64<<10)...))
}

// Claims returns files of every format that is decoded as a whole.
func Claims() map[string]Claim {
	const (
		gray, ycc, cmyk = "\x01", "\x01\x02\x03", "\x01\x02\x03\x04"
		full, half      = 0x11, 0x22
	)
	return map[string]Claim{
		"jpeg, gray":               jpegClaim(0xc0, gray, nil, full),
		"jpeg, half colors":        jpegClaim(0xc0, ycc, nil, half, full, full),
		"jpeg, full colors":        jpegClaim(0xc0, ycc, nil, full, full, full),
		"jpeg, red green blue":     jpegClaim(0xc0, "RGB", nil, full, full, full),
		"jpeg, rgb by adobe":       jpegClaim(0xc0, ycc, adobe(0), full, full, full),
		"jpeg, by photoshop":       jpegClaim(0xc0, ycc, photoshop(), full, full, full),
		"jpeg, inks":               jpegClaim(0xc0, cmyk, adobe(0), full, full, full, full),
		"progressive, half colors": jpegClaim(0xc2, ycc, nil, half, full, full),
		"progressive, full colors": jpegClaim(0xc2, ycc, nil, full, full, full),
		"progressive, gray":        jpegClaim(0xc2, gray, nil, full),
		"gif, interlaced":          gifClaim,
		"bmp of 1 bit":             bmpClaim,
		"webp, lossless":           losslessClaim,
		"webp, animated":           animatedClaim(),
		"webp, frame in a frame":   animatedClaim("ANMF", make([]byte, 15)),
		"webp, lossy":              lossyClaim,
		"webp, lossy, alpha":       lossyAlphaClaim,
	}
}

func riffChunk(out []byte, id string, body []byte) []byte {
	out = binary.LittleEndian.AppendUint32(append(out, id...), uint32(len(body)))
	return append(append(out, body...), make([]byte, len(body)%2)...)
}
