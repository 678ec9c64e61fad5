package imaging

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
)

const (
	icoHeader = 6
	icoEntry  = 16
	// maxEntries limits the entries of an ICO's directory that are read. Real ones have about ten images.
	maxEntries = 64
)

// isICO recognizes the header of an icon or cursor file with at least one entry, and the zero byte of every entry,
// because four bytes alone are weak magic.
func isICO(data []byte) bool {
	return len(data) >= icoHeader+icoEntry && data[0] == 0 && data[1] == 0 &&
		(data[2] == 1 || data[2] == 2) && data[3] == 0 &&
		binary.LittleEndian.Uint16(data[4:]) > 0 && data[icoHeader+3] == 0
}

// entry is one image of an ICO: a PNG, or a bitmap.
type entry struct {
	width, height int
	depth         int // bits per pixel
	png           []byte
	bitmap        dib
}

// largestEntry returns the image to decode: the most pixels within the limits, then the most bits, according to the
// images themselves; the directory is only used for offsets. Entries may overlap and be wrong: only headers are read
// here, and only one image is decoded.
func largestEntry(data []byte, limits Limits) (entry, error) {
	count := min(int(binary.LittleEndian.Uint16(data[4:])), maxEntries)
	var best entry
	var firstErr error
	for i := range count {
		at := icoHeader + i*icoEntry
		if at+icoEntry > len(data) {
			break
		}
		e, err := readEntry(data, data[at:at+icoEntry])
		if err == nil {
			err = limits.check(e.width, e.height)
		}
		if err != nil {
			firstErr = cmp.Or(firstErr, err)
			continue
		}
		pixels, most := e.width*e.height, best.width*best.height
		if pixels > most || pixels == most && e.depth > best.depth {
			best = e
		}
	}
	if best.width == 0 {
		return entry{}, cmp.Or(firstErr, fmt.Errorf("%w: no entry", ErrMalformed))
	}
	return best, nil
}

func readEntry(file, directory []byte) (entry, error) {
	length := uint64(binary.LittleEndian.Uint32(directory[8:]))
	offset := uint64(binary.LittleEndian.Uint32(directory[12:]))
	if offset >= uint64(len(file)) || length == 0 {
		return entry{}, fmt.Errorf("%w: entry at %d of %d bytes", ErrMalformed, offset, len(file))
	}
	body := file[offset:min(offset+length, uint64(len(file)))]
	if Sniff(body) == PNG {
		c, err := png.DecodeConfig(bytes.NewReader(body))
		const depth = 32 // more than any bitmap's colors
		return entry{width: c.Width, height: c.Height, depth: depth, png: body}, malformed(err)
	}
	d, err := parseIconDIB(body)
	return entry{width: d.width, height: d.height, depth: d.bits, bitmap: d}, err
}

func (e entry) decode() (*image.NRGBA, error) {
	if e.png == nil {
		return e.bitmap.decode()
	}
	img, err := png.Decode(bytes.NewReader(e.png))
	return toNRGBA(img), malformed(err)
}
