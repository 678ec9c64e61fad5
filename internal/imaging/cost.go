package imaging

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
)

// MaxDecoded is the maximum memory of DecodeSmaller for one image, in bytes, excluding the file and, for a lossless
// WebP, its Huffman tables. It admits a photograph of 16 million pixels and most images of 3 million in any other form.
const MaxDecoded = 64 << 20

// maxWithTables is the maximum including those tables, of which only an upper bound is known that few files approach.
// The file of a small image may have about 300 kB, that of one with 2.5 million pixels about 170 kB.
const maxWithTables = 128 << 20

// reduceFrom is the number of pixels from which an image is reduced during
// decoding. Smaller ones are only scaled by the better filter.
const reduceFrom = 4 << 20

// DecodeCost returns the maximum memory, in bytes, of DecodeSmaller for an image, including intermediate copies and the
// result, according to the header. It does not read pixels. Errors: as ProbeWithin, and ErrTooLarge for more than
// MaxDecoded, and for a lossless WebP that may take more than 128 MiB including its tables.
func DecodeCost(data []byte, limits Limits, longest int) (int64, error) {
	info, err := ProbeWithin(data, limits)
	if err != nil {
		return 0, err
	}
	var cost, tables int64
	err = Guarded("codec", func() (err error) {
		if info.Format != WebP {
			cost = decodeCost(info, data, limits.withDefaults(), longest)
			return nil
		}
		frames, canvas := webpFrames(data)
		if frames == nil {
			frames = []frame{{file: func() ([]byte, error) { return firstWebPFrame(data) }}} // the part that is decoded
		}
		for _, f := range frames { // decoded one after the other
			still, failed := f.file()
			if failed != nil {
				err = failed
				continue // as fullest does
			}
			cost = max(cost, decodeCost(info, still, limits.withDefaults(), longest)+composeCost(canvas))
			tables = max(tables, webpTables(info, still))
		}
		if cost > 0 {
			return nil
		}
		return err
	})
	if err == nil && (cost > MaxDecoded || cost+tables > maxWithTables) {
		err = fmt.Errorf("decode %s of %d×%d pixels: %w: it takes %d bytes", info.Format, info.Width, info.Height,
			ErrTooLarge, cost+tables)
	}
	return cost + tables, err
}

func decodeCost(info Info, data []byte, limits Limits, longest int) int64 {
	size := image.Pt(info.Width, info.Height)
	pixels := int64(size.X) * int64(size.Y)
	factor := factorOf(size, longest)
	// The decoder's own image, its conversion to 8-bit pixels with alpha unless
	// it has that form, and the memory for scaling that.
	var decoded, converted int64
	switch info.Format {
	case PNG:
		h := pngHeaderOf(data)
		if streams(info, data) {
			return h.streamCost(factor) + scaleCost(reduced(size, factor), longest)
		}
		decoded, converted = h.decodedCost(), 4*pixels
		if decoded == 4*pixels {
			converted = 0
		}
	case JPEG:
		decoded, converted = jpegCost(data, pixels), 4*pixels
		turned := jpegOrientation(data) >= 2
		if factor > 1 {
			to := reduced(size, factor)
			cost := decoded + reducedCost(size, factor) + scaleCost(to, longest)
			if turned {
				cost += 4 * int64(to.X) * int64(to.Y)
			}
			return cost
		}
		if turned {
			converted *= 2
		}
	case WebP, GIF:
		decoded, converted = 2*pixels, 4*pixels // GIF: indexes, and a copy in display order
		if info.Format == WebP {
			decoded = webpCost(info, data)
		} else if composes(size) {
			converted += composeCost(size)
		}
		if factor > 1 {
			return decoded + reducedCost(size, factor) + scaleCost(reduced(size, factor), longest)
		}
	case ICO:
		best, _ := largestEntry(data, limits)
		decoded, converted = 4*pixels, 0
		if best.png != nil {
			decoded, converted = pngHeaderOf(best.png).decodedCost(), 4*pixels
		}
	case AVIF:
		decoded, converted = avifCost(data, pixels)
	default: // BMP
		decoded, converted = 4*pixels, 0
	}
	return decoded + converted + scaleCost(size, longest)
}

// scaleCost returns the memory of scaling, excluding the input: the shares of an image of two colors, the rows with
// their final width, and the result in two forms.
func scaleCost(size image.Point, longest int) int64 {
	to, ok := smaller(size, longest)
	if !ok {
		return 0
	}
	w, h := int64(to.width), int64(to.height)
	return int64(size.X)*int64(size.Y) + 4*w*int64(size.Y) + 8*w*h
}

// factorOf returns how many pixels of a side become one during decoding, so that the result is no smaller than the
// scaled size. It is 1 for an image that is small enough to be decoded unreduced.
func factorOf(size image.Point, longest int) int {
	if size.X*size.Y <= reduceFrom {
		return 1
	}
	return max(1, max(size.X, size.Y)/max(longest, 1))
}

// streams reports whether a PNG is decoded row by row.
func streams(info Info, data []byte) bool {
	return info.Format == PNG && info.Width*info.Height > reduceFrom && !pngHeaderOf(data).interlaced
}

func reduced(size image.Point, factor int) image.Point {
	return image.Pt((size.X+factor-1)/factor, (size.Y+factor-1)/factor)
}

// reducedCost returns the memory of boxes.
func reducedCost(size image.Point, factor int) int64 {
	to := reduced(size, factor)
	return 4*int64(to.X)*int64(to.Y) + 32*int64(to.X) + 4*int64(size.X)
}

// webpCost returns the decoder's memory for a WebP, excluding its tables.
func webpCost(info Info, data []byte) int64 {
	// Lossless: pixels, a copy by their palette, and three images of up to a sixteenth of the pixels.
	const lossless = 9
	pixels := int64(info.Width) * int64(info.Height)
	cost := int64(2 * len(data)) // a frame as a separate file, and the parts of a lossy one
	webpParts(data, func(id string, body []byte) {
		switch {
		case id == "VP8L":
			cost += lossless * pixels
		case id == "ALPH" && len(body) > 0 && body[0]&3 != 0: // and the only channel that is used
			cost += (lossless + 1) * pixels
		case id == "ALPH":
			cost += pixels
		case id == "VP8 ":
			cost += pixels + pixels/2
		}
	})
	return cost
}

// webpTables returns the maximum size of the Huffman tables of a lossless image, or of a compressed alpha channel:
// their number is unknown before the image is half decoded. A hostile file of 640 kB has 200 MiB of them.
func webpTables(info Info, data []byte) (cost int64) {
	const (
		maxGroups = 2600    // that golang.org/x/image/vp8l decodes
		leastTile = 4       // pixels per side that share a group
		group     = 3 << 10 // of five tables without symbols
		perByte   = 400     // per byte of file: half a bit for a symbol takes its nodes, its code and its length
		mostGroup = 88 << 10
	)
	tiles := int64((info.Width+leastTile-1)/leastTile) * int64((info.Height+leastTile-1)/leastTile)
	webpParts(data, func(id string, body []byte) {
		if id == "VP8L" || id == "ALPH" && len(body) > 0 && body[0]&3 != 0 {
			length := int64(len(body))
			groups := min(maxGroups, tiles, length/2+1)
			cost += min(groups*mostGroup, groups*group+perByte*length)
		}
	})
	return cost
}

// webpParts calls visit with the chunks of a WebP that is not animated, up to
// its image. It includes a truncated one, as the decoder does.
func webpParts(data []byte, visit func(id string, body []byte)) {
	for rest := data[min(riffHeader, len(data)):]; len(rest) >= chunkHeader; {
		id, body, after, ok := riffChunk(rest)
		if !ok {
			id, body, after = string(rest[:4]), rest[chunkHeader:], nil
		}
		visit(id, body)
		if id == "VP8 " || id == "VP8L" {
			return
		}
		rest = after
	}
}

// jpegCost returns the decoder's memory for a JPEG: its planes, and the coefficients of a progressive one.
func jpegCost(data []byte, pixels int64) int64 {
	const (
		baseline, extended, progressive = 0xc0, 0xc1, 0xc2
		header                          = 6 // depth, height, width, number of components
		perComponent                    = 3
	)
	adobe := adobeUntransformed(data)
	cost := 8 * pixels // unknown forms are assumed to be expensive
	for marker, p := range jpegSegments(data) {
		if marker == markerSOS {
			break
		}
		if marker != baseline && marker != extended && marker != progressive {
			continue
		}
		if len(p) < header || len(p) < header+perComponent*int(p[5]) {
			break
		}
		var samples, most int64 // of all components, and of the largest
		for i := range int(p[5]) {
			sampling := p[header+perComponent*i+1]
			n := int64(sampling>>4) * int64(sampling&15)
			samples, most = samples+n, max(most, n)
		}
		if most == 0 {
			break
		}
		planes := pixels * samples / most
		cost = planes
		if p[5] == 4 || p[5] == 3 &&
			(adobe || string([]byte{p[header], p[header+perComponent], p[header+2*perComponent]}) == "RGB") {
			cost += 4 * pixels // inks, or red, green and blue, are combined
		}
		if marker == progressive {
			cost += 4 * planes
		}
		break
	}
	return cost
}

// adobeUntransformed reports whether a JPEG may have an APP14 segment by Adobe that declares untransformed colors. The
// decoder uses the last such segment, even after a scan, and its detection of restarts cannot be predicted, so all
// bytes are searched.
func adobeUntransformed(data []byte) bool {
	const (
		name      = "Adobe"
		header    = 4  // marker and length
		transform = 11 // of the segment's content
	)
	for {
		at := bytes.Index(data, []byte("\xff\xee"))
		if at < 0 || len(data)-at <= header+transform {
			return false
		}
		content := data[at+header:]
		if bytes.HasPrefix(content, []byte(name)) && content[transform] == 0 {
			return true
		}
		data = data[at+2:]
	}
}

// pngHeader is the content of the first chunk of a PNG, and whether a color is declared as clear.
type pngHeader struct {
	width, height int
	depth, color  byte
	interlaced    bool
	clear         bool // there is a tRNS chunk
}

// Color types of PNG (specification, section 11.2.1).
const (
	pngGray      = 0
	pngRGB       = 2
	pngPalette   = 3
	pngGrayAlpha = 4
	pngRGBA      = 6
)

// pngHeaderOf parses the header of a PNG accepted by Probe.
func pngHeaderOf(data []byte) (h pngHeader) {
	const at = 16 // after the signature, and the length and the name of the chunk
	if len(data) < at+13 {
		return h
	}
	h = pngHeader{
		width: int(binary.BigEndian.Uint32(data[at:])), height: int(binary.BigEndian.Uint32(data[at+4:])),
		depth: data[at+8], color: data[at+9], interlaced: data[at+12] != 0,
	}
	pngChunks(data, func(kind string, _ []byte) bool {
		h.clear = h.clear || kind == "tRNS"
		return kind != "IDAT"
	})
	return h
}

// decodedCost returns the memory of image/png: the image, of which an interlaced one has up to one more copy.
func (h pngHeader) decodedCost() int64 {
	each := int64(4)
	switch {
	case h.depth == 16 && h.color == pngGray && !h.clear:
		each = 2
	case h.depth == 16:
		each = 8
	case h.color == pngPalette, h.color == pngGray && !h.clear:
		each = 1
	}
	cost := each * int64(h.width) * int64(h.height)
	if h.interlaced {
		cost *= 2
	}
	return cost
}

// streamCost returns the memory of reducing row by row: two rows, the decompressor's window, and the boxes.
func (h pngHeader) streamCost(factor int) int64 {
	const window = 64 << 10
	return window + 2*int64(h.rowBytes()) + reducedCost(image.Pt(h.width, h.height), factor)
}
