package imaging

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"iter"
	"strings"
)

// maxScans limits the passes over a progressive JPEG. Encoders write about ten; each scan takes a pass over all pixels,
// however short it is, so a small file could take hours.
const maxScans = 64

// JPEG markers.
const (
	markerSOS  = 0xda
	markerEOI  = 0xd9
	markerAPP1 = 0xe1
)

// jpegSegments visits each marker segment and its payload. It skips the coded data after a scan header. Broken files end
// early.
func jpegSegments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(marker byte, payload []byte) bool) {
		for at := 2; at+1 < len(data); {
			if data[at] != 0xff {
				at++
				continue
			}
			marker := data[at+1]
			switch {
			case marker == 0xff: // fill byte
				at++
				continue
			case marker == 0 || marker == 1 || marker >= 0xd0 && marker <= 0xd8: // stuffing and restarts: no payload
				at += 2
				continue
			case marker == markerEOI:
				return
			}
			if at+4 > len(data) {
				return
			}
			length := int(binary.BigEndian.Uint16(data[at+2:]))
			if length < 2 || at+2+length > len(data) || !yield(marker, data[at+4:at+2+length]) {
				return
			}
			at += 2 + length
		}
	}
}

// openJPEG decodes a JPEG as stored, before it is turned upright.
func openJPEG(data []byte) (image.Image, error) {
	if err := checkScans(data); err != nil {
		return nil, err
	}
	img, err := jpeg.Decode(withInks(data))
	return img, malformed(err)
}

// plainInks is the segment that declares four components to be inks as Adobe stores them, which image/jpeg requires.
// Browsers assume it in its absence.
const plainInks = "\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00"

// withInks reads a file, and inserts plainInks after its first marker if it has four components. A segment of the file
// itself comes later and prevails.
func withInks(data []byte) io.Reader {
	for marker, p := range jpegSegments(data) {
		isFrame := marker >= 0xc0 && marker <= 0xc2
		if isFrame && len(p) > 5 && p[5] == 4 {
			return io.MultiReader(bytes.NewReader(data[:2]), strings.NewReader(plainInks), bytes.NewReader(data[2:]))
		}
		if isFrame || marker == markerSOS {
			break
		}
	}
	return bytes.NewReader(data)
}

func checkScans(data []byte) error {
	scans := 0
	for marker := range jpegSegments(data) {
		if marker == markerSOS {
			scans++
		}
		if scans > maxScans {
			return fmt.Errorf("%w: more than %d scans", ErrTooLarge, maxScans)
		}
	}
	return nil
}

// orientation is the EXIF tag 0x0112: 1 is upright, 2 to 8 are mirrored and turned. 0 is unknown, upright.
type orientation uint16

func (o orientation) swapsSides() bool { return o >= 5 }

// jpegOrientation reads the orientation from the first EXIF segment.
func jpegOrientation(data []byte) orientation {
	for marker, payload := range jpegSegments(data) {
		tiff, isEXIF := bytes.CutPrefix(payload, []byte("Exif\x00\x00"))
		if marker == markerAPP1 && isEXIF && len(tiff) > 0 {
			return tiffOrientation(tiff)
		}
		if marker == markerSOS {
			break
		}
	}
	return 0
}

func tiffOrientation(tiff []byte) orientation {
	const (
		tag, typeShort = 0x0112, 3
		entrySize      = 12
		maxEntries     = 256
	)
	if len(tiff) < 8 {
		return 0
	}
	var order binary.ByteOrder = binary.LittleEndian
	if string(tiff[:2]) == "MM" {
		order = binary.BigEndian
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return 0
	}
	count := int(order.Uint16(tiff[at:]))
	entries := tiff[at+2:]
	for range min(count, maxEntries) {
		if len(entries) < entrySize {
			return 0
		}
		if order.Uint16(entries) == tag && order.Uint16(entries[2:]) == typeShort {
			if o := orientation(order.Uint16(entries[8:])); o >= 1 && o <= 8 {
				return o
			}
			return 0
		}
		entries = entries[entrySize:]
	}
	return 0
}

// apply rotates an image upright.
func (o orientation) apply(img *image.NRGBA) *image.NRGBA {
	if o < 2 {
		return img
	}
	w, h := img.Rect.Dx(), img.Rect.Dy()
	size := image.Rect(0, 0, w, h)
	if o.swapsSides() {
		size = image.Rect(0, 0, h, w)
	}
	out := image.NewNRGBA(size)
	for y := range h {
		for x := range w {
			tx, ty := o.target(x, y, w, h)
			out.SetNRGBA(tx, ty, img.NRGBAAt(x, y))
		}
	}
	return out
}

// target returns the position of the stored pixel (x, y) of a w×h image (EXIF 2.3, Orientation).
func (o orientation) target(x, y, w, h int) (int, int) {
	if o.swapsSides() {
		x, y, w, h = y, x, h, w
	}
	if o == 2 || o == 3 || o == 6 || o == 7 {
		x = w - 1 - x
	}
	if o == 3 || o == 4 || o == 7 || o == 8 {
		y = h - 1 - y
	}
	return x, y
}
