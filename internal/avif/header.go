package avif

import (
	"encoding/binary"
	"fmt"
)

// Header is what the boxes of a file state about its primary image (ISO/IEC 23008-12, HEIF, and 23000-22).
type Header struct {
	Width, Height int // pixels, before the image is turned
	// Turns is the number of quarter turns counterclockwise by which the image is turned, from 0 to 3; then it is
	// mirrored.
	Turns  int
	Mirror Mirror
}

// Mirror is how an image is mirrored.
type Mirror int

// The values are the property's, imir, plus one.
const (
	NoMirror   Mirror = iota
	UpsideDown        // top and bottom are exchanged
	LeftRight         // left and right are exchanged
)

// Limits of boxes that are read.
const (
	maxBoxes      = 1024 // in one box
	maxProperties = 64   // of the primary image
)

// Probe returns the header of a file. It reads no pixels. Errors: ErrMalformed.
func Probe(data []byte) (h Header, err error) {
	defer func() { // reader panics beyond the end
		if p := recover(); p != nil {
			h, err = Header{}, fmt.Errorf("%w: %v", ErrMalformed, p)
		}
	}()
	meta := reader(child(data, "meta"))
	meta.full()
	pitm := reader(child(meta, "pitm"))
	var primary uint32
	if version, _ := pitm.full(); version == 0 {
		primary = uint32(pitm.u16())
	} else {
		primary = pitm.u32()
	}
	iprp := child(meta, "iprp")
	var properties []box
	for b := range boxes(child(iprp, "ipco")) {
		properties = append(properties, b)
	}
	for b := range boxes(iprp) {
		if b.kind != "ipma" {
			continue
		}
		for _, index := range associated(b.body, primary) {
			if index < 1 || index > len(properties) {
				continue // 0 means none
			}
			switch p := properties[index-1]; p.kind {
			case "ispe":
				r := reader(p.body)
				r.full()
				h.Width, h.Height = int(r.u32()), int(r.u32())
			case "irot":
				r := reader(p.body)
				h.Turns = int(r.u8() & 3)
			case "imir":
				r := reader(p.body)
				h.Mirror = UpsideDown + Mirror(r.u8()&1)
			}
		}
	}
	if h.Width < 1 || h.Height < 1 {
		return Header{}, fmt.Errorf("%w: the primary image has no size", ErrMalformed)
	}
	return h, nil
}

// associated returns the numbers of an item's properties, from 1, according to a box ipma.
func associated(body []byte, item uint32) (indexes []int) {
	r := reader(body)
	version, flags := r.full()
	for range r.u32() {
		var id uint32
		if version == 0 {
			id = uint32(r.u16())
		} else {
			id = r.u32()
		}
		for range r.u8() {
			index := int(r.u8() & 0x7f) // the first bit means that it is essential
			if flags&1 == 1 {
				index = index<<8 | int(r.u8())
			}
			if id == item && len(indexes) < maxProperties {
				indexes = append(indexes, index)
			}
		}
	}
	return indexes
}

// box is a part of a file with a type.
type box struct {
	kind string
	body []byte
}

// boxes yields the boxes that follow each other in data.
func boxes(data []byte) func(yield func(box) bool) {
	return func(yield func(box) bool) {
		r := reader(data)
		for range maxBoxes {
			if len(r) == 0 {
				return
			}
			rest := uint64(len(r))
			size, kind := uint64(r.u32()), string(r.take(4))
			header := uint64(8)
			switch size {
			case 0: // to the end of the file
				size = rest
			case 1:
				size, header = r.u64(), 16
			}
			if size < header || size > rest {
				panic(fmt.Sprintf("a box %q of %d bytes", kind, size))
			}
			if !yield(box{kind, r.take(size - header)}) {
				return
			}
		}
	}
}

// child returns the content of the first box of a type. It panics if there is none.
func child(data []byte, kind string) []byte {
	for b := range boxes(data) {
		if b.kind == kind {
			return b.body
		}
	}
	panic("no box " + kind)
}

// reader reads numbers. It panics beyond the end; Probe recovers.
type reader []byte

// take returns the next bytes. The second slice panics if there are fewer, although the first may reach the capacity.
func (r *reader) take(n uint64) []byte {
	taken := (*r)[:n]
	*r = (*r)[n:]
	return taken
}

func (r *reader) u8() byte    { return r.take(1)[0] }
func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// full reads the version and flags of a full box.
func (r *reader) full() (version byte, flags uint32) {
	v := r.u32()
	return byte(v >> 24), v & 0xffffff
}
