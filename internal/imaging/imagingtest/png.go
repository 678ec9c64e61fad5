// Package imagingtest contains malicious rasters.
package imagingtest

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sync"
)

// PNGBomb returns a valid image of 30000×30000 pixels of one bit in about 110
// kB: a decoder without limits would allocate its 900 million pixels.
var PNGBomb = sync.OnceValue(func() []byte {
	const side = 30000
	const size = side * (1 + side/8) // a filter byte before each row
	const segment = size / 100
	var packed bytes.Buffer
	z, _ := flate.NewWriter(&packed, flate.BestCompression) // a valid level
	var ends [2]int
	for i := range ends {
		io.CopyN(z, Zeros{}, segment)
		z.Flush()
		ends[i] = packed.Len()
	}
	// Zeros after zeros compress to the same bytes each time.
	first, next := packed.Bytes()[:ends[0]], packed.Bytes()[ends[0]:ends[1]]
	data := slices.Concat([]byte{0x78, 0xda}, first, bytes.Repeat(next, size/segment-1), []byte{3, 0})
	data = binary.BigEndian.AppendUint32(data, size%65521<<16|1) // Adler-32 of zeros
	header := binary.BigEndian.AppendUint32(nil, side)
	header = binary.BigEndian.AppendUint32(header, side)
	return pngFile(append(header, 1, 0, 0, 0, 0), data)
})

// Zeros reads as endless zeros.
type Zeros struct{}

// Read implements io.Reader.
func (Zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func pngFile(header, data []byte) []byte {
	out := []byte("\x89PNG\r\n\x1a\n")
	for _, c := range []struct {
		kind string
		data []byte
	}{{"IHDR", header}, {"IDAT", data}, {"IEND", nil}} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(c.data)))
		body := append([]byte(c.kind), c.data...)
		out = append(out, body...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	}
	return out
}
