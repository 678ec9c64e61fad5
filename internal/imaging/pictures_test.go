package imaging_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// pngBomb is 30000×30000 pixels of one bit in about 110 kB.
func pngBomb() []byte {
	const side = 30000
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := io.CopyN(z, zeros{}, side*(1+side/8)); err != nil {
		panic(err)
	}
	z.Close()
	header := binary.BigEndian.AppendUint32(nil, side)
	header = binary.BigEndian.AppendUint32(header, side)
	return pngFile(append(header, 1, 0, 0, 0, 0), packed.Bytes())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
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
