package imaging

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/bits"
	"slices"
)

// A DIB is a Windows bitmap without its file header: the content of a BMP after
// 14 bytes, and of an ICO entry, where a mask follows it.
const (
	bmpFileHeader = 14
	dibCoreHeader = 12 // BITMAPCOREHEADER
	dibInfoHeader = 40 // BITMAPINFOHEADER; longer ones begin the same
	dibV3Header   = 56 // the first one with an alpha mask
	dibV5Header   = 124

	compressionNone      = 0
	compressionBitfields = 3
	compressionAlpha     = 6 // BI_ALPHABITFIELDS
)

func isDIBHeader(size uint32) bool {
	return slices.Contains([]uint32{dibCoreHeader, dibInfoHeader, 52, dibV3Header, 64, 108, dibV5Header}, size)
}

// dib is a bitmap whose header has been parsed and whose size has been checked against its data.
type dib struct {
	width, height int
	topDown       bool
	bits          int // per pixel
	palette       []color.NRGBA
	masks         [4]uint32 // red, green, blue, alpha; for 16 and 32 bits
	pixels        []byte    // rows padded to 4 bytes
	mask          []byte    // of an ICO: 1 bit per pixel, set = transparent; or nil
	inIcon        bool
}

// parseBMP parses a BMP file.
func parseBMP(data []byte) (dib, error) {
	if len(data) < bmpFileHeader+4 {
		return dib{}, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	offset := binary.LittleEndian.Uint32(data[10:])
	body := data[bmpFileHeader:]
	d, headEnd, err := parseDIB(body, false)
	if err != nil {
		return dib{}, err
	}
	// The file header gives the start of the pixels, unless it points into the header.
	start := uint64(headEnd)
	if o := uint64(offset); o >= bmpFileHeader+start {
		start = o - bmpFileHeader
	}
	return d, d.attach(body, start)
}

// parseIconDIB parses the bitmap of an ICO entry, whose height includes the mask.
func parseIconDIB(data []byte) (dib, error) {
	d, headEnd, err := parseDIB(data, true)
	if err != nil {
		return dib{}, err
	}
	return d, d.attach(data, uint64(headEnd))
}

// parseDIB parses header and palette and returns their end. It allocates no pixels.
func parseDIB(data []byte, inIcon bool) (dib, int, error) {
	if len(data) < 4 {
		return dib{}, 0, fmt.Errorf("%w: bitmap header is cut off", ErrMalformed)
	}
	size := int(binary.LittleEndian.Uint32(data))
	if !isDIBHeader(uint32(size)) || len(data) < size {
		return dib{}, 0, fmt.Errorf("%w: bitmap header of %d bytes", ErrMalformed, size)
	}
	d := dib{inIcon: inIcon}
	var planes, compression, colors uint32
	if size == dibCoreHeader {
		d.width = int(binary.LittleEndian.Uint16(data[4:]))
		d.height = int(binary.LittleEndian.Uint16(data[6:]))
		planes = uint32(binary.LittleEndian.Uint16(data[8:]))
		d.bits = int(binary.LittleEndian.Uint16(data[10:]))
	} else {
		d.width = int(int32(binary.LittleEndian.Uint32(data[4:])))
		d.height = int(int32(binary.LittleEndian.Uint32(data[8:])))
		planes = uint32(binary.LittleEndian.Uint16(data[12:]))
		d.bits = int(binary.LittleEndian.Uint16(data[14:]))
		compression = binary.LittleEndian.Uint32(data[16:])
		colors = binary.LittleEndian.Uint32(data[32:])
	}
	if d.height < 0 {
		d.topDown, d.height = true, -d.height
	}
	if inIcon {
		d.height /= 2
	}
	if d.width <= 0 || d.height <= 0 || planes > 1 {
		return dib{}, 0, fmt.Errorf("%w: %d×%d pixels in %d planes", ErrMalformed, d.width, d.height, planes)
	}
	end, err := d.readMasks(data, size, compression)
	if err != nil {
		return dib{}, 0, err
	}
	end, err = d.readPalette(data, end, size, colors)
	return d, end, err
}

// readMasks sets the channel masks and returns the end of header and masks.
func (d *dib) readMasks(data []byte, size int, compression uint32) (int, error) {
	switch d.bits {
	case 1, 4, 8, 24:
		if compression != compressionNone {
			return 0, fmt.Errorf("%w: bitmap compression %d", ErrUnsupported, compression)
		}
		return size, nil
	case 16:
		d.masks = [4]uint32{0x7c00, 0x3e0, 0x1f, 0}
	case 32:
		d.masks = [4]uint32{0xff0000, 0xff00, 0xff, 0}
		if d.inIcon {
			d.masks[3] = 0xff000000
		}
	default:
		return 0, fmt.Errorf("%w: %d bits per pixel", ErrMalformed, d.bits)
	}
	switch compression {
	case compressionNone:
		return size, nil
	case compressionBitfields, compressionAlpha:
	default:
		return 0, fmt.Errorf("%w: bitmap compression %d", ErrUnsupported, compression)
	}
	// With the shortest header the masks follow it, with longer ones they are part of it.
	count, end := 3, size
	switch {
	case size == dibInfoHeader && compression == compressionAlpha:
		count, end = 4, size+16
	case size == dibInfoHeader:
		end = size + 12
	case size >= dibV3Header && size != 64:
		count = 4
	}
	if size < dibInfoHeader || len(data) < end || dibInfoHeader+4*count > end {
		return 0, fmt.Errorf("%w: bitmap masks are cut off", ErrMalformed)
	}
	d.masks = [4]uint32{}
	for i := range count {
		d.masks[i] = binary.LittleEndian.Uint32(data[dibInfoHeader+4*i:])
	}
	return end, nil
}

func (d *dib) readPalette(data []byte, at, headerSize int, colors uint32) (int, error) {
	if d.bits > 8 {
		return at, nil // such images may carry a palette as a hint; the offset of the pixels skips it
	}
	count := 1 << d.bits
	if colors > 0 && colors < uint32(count) {
		count = int(colors)
	}
	entry := 4
	if headerSize == dibCoreHeader {
		entry, count = 3, 1<<d.bits
	}
	if len(data)-at < count*entry {
		return 0, fmt.Errorf("%w: palette is cut off", ErrMalformed)
	}
	d.palette = make([]color.NRGBA, count)
	for i := range d.palette {
		e := data[at+i*entry:]
		d.palette[i] = color.NRGBA{R: e[2], G: e[1], B: e[0], A: 0xff}
	}
	return at + count*entry, nil
}

// stride returns the bytes of a row, padded to 4.
func stride(width, bits int) uint64 { return (uint64(width)*uint64(bits) + 31) / 32 * 4 }

// attach checks that the data contains all pixels, so that a large claim in a
// header is free: an image cannot be larger than its file.
func (d *dib) attach(data []byte, start uint64) error {
	need := stride(d.width, d.bits) * uint64(d.height)
	if start > uint64(len(data)) || need > uint64(len(data))-start {
		return fmt.Errorf("%w: %d×%d pixels at %d bits in %d bytes", ErrMalformed, d.width, d.height, d.bits, len(data))
	}
	d.pixels = data[start : start+need]
	if !d.inIcon {
		return nil
	}
	// Some icons of 32 bits lack the mask required by the format.
	if rest := data[start+need:]; uint64(len(rest)) >= stride(d.width, 1)*uint64(d.height) {
		d.mask = rest
	}
	return nil
}

func (d *dib) decode() (*image.NRGBA, error) {
	img := image.NewNRGBA(image.Rect(0, 0, d.width, d.height))
	rowBytes := stride(d.width, d.bits)
	sawAlpha := false
	for y := range d.height {
		row := d.pixels[uint64(y)*rowBytes : uint64(y+1)*rowBytes]
		to := img.Pix[d.target(y)*img.Stride:]
		for x := range d.width {
			c, err := d.pixel(row, x)
			if err != nil {
				return nil, err
			}
			sawAlpha = sawAlpha || c.A != 0
			to[4*x], to[4*x+1], to[4*x+2], to[4*x+3] = c.R, c.G, c.B, c.A
		}
	}
	if !sawAlpha { // an empty alpha channel is ignored
		for i := 3; i < len(img.Pix); i += 4 {
			img.Pix[i] = 0xff
		}
	}
	if d.mask != nil && (d.masks[3] == 0 || !sawAlpha) {
		d.applyMask(img)
	}
	return img, nil
}

// target returns the row of the image for the stored row y.
func (d *dib) target(y int) int {
	if d.topDown {
		return y
	}
	return d.height - 1 - y
}

func (d *dib) pixel(row []byte, x int) (color.NRGBA, error) {
	switch d.bits {
	case 1, 4, 8:
		perByte := 8 / d.bits
		shift := 8 - d.bits*(x%perByte+1)
		i := int(row[x/perByte]>>shift) & (1<<d.bits - 1)
		if i >= len(d.palette) {
			return color.NRGBA{}, fmt.Errorf("%w: color %d of %d", ErrMalformed, i, len(d.palette))
		}
		return d.palette[i], nil
	case 16:
		return d.fromMasks(uint32(binary.LittleEndian.Uint16(row[2*x:]))), nil
	case 24:
		return color.NRGBA{R: row[3*x+2], G: row[3*x+1], B: row[3*x], A: 0xff}, nil
	}
	return d.fromMasks(binary.LittleEndian.Uint32(row[4*x:])), nil
}

func (d *dib) fromMasks(v uint32) color.NRGBA {
	c := color.NRGBA{R: channel(v, d.masks[0]), G: channel(v, d.masks[1]), B: channel(v, d.masks[2]), A: 0xff}
	if d.masks[3] != 0 {
		c.A = channel(v, d.masks[3])
	}
	return c
}

// channel extracts the bits of a mask and scales them to 8.
func channel(v, mask uint32) uint8 {
	if mask == 0 {
		return 0
	}
	v = (v & mask) >> bits.TrailingZeros32(mask)
	highest := uint64(mask >> bits.TrailingZeros32(mask))
	return uint8((uint64(v)*255 + highest/2) / highest)
}

func (d *dib) applyMask(img *image.NRGBA) {
	rowBytes := int(stride(d.width, 1))
	for y := range d.height {
		row := d.mask[y*rowBytes:]
		to := img.Pix[d.target(y)*img.Stride:]
		for x := range d.width {
			if row[x/8]>>(7-x%8)&1 == 1 {
				to[4*x], to[4*x+1], to[4*x+2], to[4*x+3] = 0, 0, 0, 0
			}
		}
	}
}

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
