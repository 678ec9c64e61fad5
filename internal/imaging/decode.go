package imaging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"

	"golang.org/x/image/webp"

	"letterhead/internal/avif"
)

// Decode decodes a raster, upright, as 8-bit pixels with straight alpha. Of an animation it takes the fullest picture.
// The result starts at the origin and has the size returned by Probe. For a vector it returns ErrUnsupported.
func Decode(data []byte, limits Limits) (*image.NRGBA, Info, error) {
	return decodeWith(data, limits, decode)
}

// DecodeSmaller is Decode followed by Scale: the same pixels, in less time and memory. A PNG, JPEG, WebP or GIF of more
// than reduceFrom pixels is reduced during decoding, to no less than the final size of Scale; the pixels are nearly the
// same. If DecodeCost rejects an image, the error is ErrTooLarge.
func DecodeSmaller(data []byte, limits Limits, longest int) (*image.NRGBA, Info, error) {
	if _, err := DecodeCost(data, limits, longest); err != nil {
		return nil, Info{Format: Sniff(data)}, err
	}
	return decodeWith(data, limits, func(info Info, data []byte, limits Limits) (*image.NRGBA, error) {
		size := image.Pt(info.Width, info.Height)
		img, err := decodeReduced(info, data, limits, factorOf(size, longest))
		if err != nil {
			return nil, err
		}
		if to, ok := smaller(img.Rect.Size(), longest); ok {
			return to.scale(img, true), nil
		}
		return img, nil
	})
}

// decodeReduced decodes an image, and combines squares of factor by factor pixels if the format allows that during
// decoding.
func decodeReduced(info Info, data []byte, limits Limits, factor int) (*image.NRGBA, error) {
	switch {
	case streams(info, data):
		return reducePNG(data, factor)
	case factor == 1:
	case info.Format == JPEG:
		return reduceJPEG(data, factor)
	case info.Format == WebP:
		img, err := decodeWebP(data)
		if err != nil {
			return nil, err
		}
		return reduceRows(img.Bounds().Size(), factor, webpRows(img)), nil
	case info.Format == GIF:
		frame, err := gif.Decode(bytes.NewReader(data))
		if err != nil {
			return nil, malformed(err)
		}
		return reduceRows(image.Pt(info.Width, info.Height), factor, gifRows(frame)), nil
	}
	return decode(info, data, limits)
}

func decodeWith(data []byte, limits Limits,
	how func(Info, []byte, Limits) (*image.NRGBA, error)) (*image.NRGBA, Info, error) {
	limits = limits.withDefaults()
	info, err := ProbeWithin(data, limits)
	if err != nil {
		return nil, info, err
	}
	var img *image.NRGBA
	err = Guarded("codec", func() (err error) {
		img, err = how(info, data, limits)
		return err
	})
	if err != nil {
		return nil, info, fmt.Errorf("decode %s: %w", info.Format, err)
	}
	return img, info, nil
}

func decode(info Info, data []byte, limits Limits) (*image.NRGBA, error) {
	switch info.Format {
	case PNG:
		img, err := png.Decode(bytes.NewReader(data))
		return toNRGBA(img), malformed(err)
	case JPEG:
		return decodeJPEG(data)
	case GIF:
		return decodeGIF(data, info)
	case WebP:
		if frames, size := webpFrames(data); frames != nil {
			return fullest(size, frames)
		}
		img, err := decodeWebP(data)
		if err != nil {
			return nil, err
		}
		return fromWebP(img), nil
	case BMP:
		h, err := parseBMP(data)
		if err != nil {
			return nil, err
		}
		return h.decode()
	case ICO:
		best, err := largestEntry(data, limits)
		if err != nil {
			return nil, err
		}
		return best.decode()
	case AVIF:
		return decodeAVIF(data)
	}
	return nil, ErrUnsupported
}

// decodeWebP decodes the first frame.
func decodeWebP(data []byte) (image.Image, error) {
	still, err := firstWebPFrame(data)
	if err != nil {
		return nil, err
	}
	img, err := webp.Decode(bytes.NewReader(still))
	return img, malformed(err)
}

func decodeJPEG(data []byte) (*image.NRGBA, error) {
	img, err := openJPEG(data)
	if err != nil {
		return nil, err
	}
	return jpegOrientation(data).apply(toNRGBA(img)), nil
}

// decodeGIF composes the frames. Of a canvas that is too large for that it decodes the first one; the rest is clear.
func decodeGIF(data []byte, info Info) (*image.NRGBA, error) {
	if size := image.Pt(info.Width, info.Height); composes(size) {
		return fullest(size, gifFrames(data))
	}
	frame, err := gif.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, malformed(err)
	}
	canvas := image.NewNRGBA(image.Rect(0, 0, info.Width, info.Height))
	draw.Draw(canvas, frame.Bounds(), frame, frame.Bounds().Min, draw.Src)
	return canvas, nil
}

// toNRGBA converts any image to the form used by the rest of the package. It
// takes over the image: one with pixels of the same size is converted in place.
func toNRGBA(img image.Image) *image.NRGBA {
	if img == nil {
		return nil
	}
	b := img.Bounds()
	switch src := img.(type) {
	case *image.NRGBA:
		if b.Min == (image.Point{}) && src.Stride == 4*b.Dx() {
			return src
		}
	case *image.RGBA:
		if b.Min == (image.Point{}) && src.Stride == 4*b.Dx() {
			return Straight(src)
		}
	}
	out := image.NewNRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	switch src := img.(type) {
	case *image.Paletted:
		fromPaletted(out, src)
	case *image.YCbCr:
		// The generic path is correct but slow; draw has a fast one to RGBA, and opaque pixels are the same in both.
		opaque := &image.RGBA{Pix: out.Pix, Stride: out.Stride, Rect: out.Rect}
		draw.Draw(opaque, opaque.Rect, src, b.Min, draw.Src)
	case image.RGBA64Image: // every other image of a decoder; as color.NRGBAModel, without two allocations per pixel
		for y := range b.Dy() {
			for x := range b.Dx() {
				out.SetNRGBA(x, y, fromRGBA64(src.RGBA64At(b.Min.X+x, b.Min.Y+y)))
			}
		}
	}
	return out
}

// fromRGBA64 implements color.NRGBAModel.
func fromRGBA64(c color.RGBA64) color.NRGBA {
	if c.A == 0 {
		return color.NRGBA{}
	}
	a := uint32(c.A)
	times := func(v uint16) uint8 { return uint8(uint32(v) * 0xffff / a >> 8) }
	return color.NRGBA{times(c.R), times(c.G), times(c.B), uint8(c.A >> 8)}
}

// Straight reverses the premultiplication in place. It rounds, so that opaque and full colors are exact.
func Straight(img *image.RGBA) *image.NRGBA {
	for i := 0; i+3 < len(img.Pix); i += 4 {
		p := img.Pix[i : i+4 : i+4]
		switch a := uint32(p[3]); a {
		case 0:
			p[0], p[1], p[2] = 0, 0, 0
		case 0xff:
		default:
			for c := range 3 {
				p[c] = uint8(min((uint32(p[c])*0xff+a/2)/a, 0xff))
			}
		}
	}
	return &image.NRGBA{Pix: img.Pix, Stride: img.Stride, Rect: img.Rect}
}

func fromPaletted(out *image.NRGBA, src *image.Paletted) {
	var table [256]color.NRGBA // an index beyond the palette is transparent
	for i, c := range src.Palette {
		table[i] = color.NRGBAModel.Convert(c).(color.NRGBA)
	}
	w := out.Rect.Dx()
	for y := range out.Rect.Dy() {
		from := src.Pix[y*src.Stride : y*src.Stride+w]
		to := out.Pix[y*out.Stride : y*out.Stride+4*w]
		for x, n := range from {
			c := &table[n]
			to[4*x], to[4*x+1], to[4*x+2], to[4*x+3] = c.R, c.G, c.B, c.A
		}
	}
}

// fromWebP converts the result of the WebP decoder.
func fromWebP(img image.Image) *image.NRGBA {
	if lossless, ok := img.(*image.NRGBA); ok {
		return toNRGBA(lossless)
	}
	size := img.Bounds().Size()
	out := image.NewNRGBA(image.Rectangle{Max: size})
	row := webpRows(img)
	for y := range size.Y {
		row(y, out.Pix[y*out.Stride:(y+1)*out.Stride])
	}
	return out
}

// webpRows returns a function that writes a row of an image from the WebP decoder, as 8-bit pixels with alpha. Lossy
// WebP has luma from 16 to 235 and chroma from 16 to 240 (ITU-R BT.601, as in RFC 6386 section 9.2), but the decoder
// returns a type with a range of 0 to 255, in which white would be a light grey.
func webpRows(img image.Image) func(y int, row []byte) {
	var yuv *image.YCbCr
	var alpha func(x, y int) uint8
	switch src := img.(type) {
	case *image.YCbCr:
		yuv, alpha = src, func(int, int) uint8 { return 0xff }
	case *image.NYCbCrA:
		yuv, alpha = &src.YCbCr, func(x, y int) uint8 { return src.A[src.AOffset(x, y)] }
	default:
		return rowsOf(img)
	}
	b := yuv.Bounds()
	return func(line int, row []byte) {
		y := b.Min.Y + line
		for x := b.Min.X; x < b.Max.X; x++ {
			c, p := yuv.COffset(x, y), row[4*(x-b.Min.X):][:4]
			p[0], p[1], p[2] = studioRGB(yuv.Y[yuv.YOffset(x, y)], yuv.Cb[c], yuv.Cr[c])
			p[3] = alpha(x, y)
		}
	}
}

// studioRGB converts BT.601 with studio swing, with 16 fractional bits.
func studioRGB(y, cb, cr uint8) (r, g, b uint8) {
	luma := 76309*(int32(y)-16) + 1<<15
	u, v := int32(cb)-128, int32(cr)-128
	clamp := func(n int32) uint8 { return uint8(min(max(n>>16, 0), 0xff)) }
	return clamp(luma + 104597*v), clamp(luma - 25675*u - 53279*v), clamp(luma + 132201*u)
}

const (
	riffHeader  = 12
	chunkHeader = 8
	// maxWebPChunks limits the search for the first frame, and for the image in it.
	maxWebPChunks = 1024
)

// firstWebPFrame returns a still image: data itself, or the first frame of an animation as a separate file, because the
// decoder rejects animations. The frame represents the image whatever the size of its canvas.
func firstWebPFrame(data []byte) ([]byte, error) {
	rest := data[riffHeader:]
	for range maxWebPChunks {
		id, body, after, ok := riffChunk(rest)
		if !ok {
			return data, nil // no frame: the decoder will report the error
		}
		switch id {
		case "VP8 ", "VP8L":
			return data, nil
		case "ANMF":
			return webpFromFrame(body)
		}
		rest = after
	}
	return nil, fmt.Errorf("%w: more than %d chunks", ErrMalformed, maxWebPChunks)
}

func riffChunk(data []byte) (id string, body, rest []byte, ok bool) {
	if len(data) < chunkHeader {
		return "", nil, nil, false
	}
	length := uint64(binary.LittleEndian.Uint32(data[4:]))
	if length > uint64(len(data)-chunkHeader) {
		return "", nil, nil, false
	}
	end := chunkHeader + int(length)
	return string(data[:4]), data[chunkHeader:end], data[min(end+int(length&1), len(data)):], true
}

// webpFromFrame converts an ANMF chunk to a file: its header has the frame's
// size at byte 6, and its chunks from byte 16 on form a still image.
func webpFromFrame(frame []byte) ([]byte, error) {
	const frameHeader = 16
	if len(frame) < frameHeader {
		return nil, fmt.Errorf("%w: animation frame of %d bytes", ErrMalformed, len(frame))
	}
	const alphaFlag = 1 << 4
	extended := make([]byte, 10)
	copy(extended[4:], frame[6:12]) // width and height minus one, 24 bits each
	var chunks []byte
	rest := frame[frameHeader:]
	for range maxWebPChunks {
		id, body, after, ok := riffChunk(rest)
		if !ok {
			return nil, fmt.Errorf("%w: animation frame without an image", ErrMalformed)
		}
		if id == "ALPH" {
			extended[0] |= alphaFlag
		}
		if id == "ALPH" || id == "VP8 " || id == "VP8L" {
			chunks = appendChunk(chunks, id, body)
		}
		if id == "VP8 " || id == "VP8L" {
			out := append(make([]byte, 0, len(chunks)+64), "RIFF\x00\x00\x00\x00WEBP"...)
			out = append(appendChunk(out, "VP8X", extended), chunks...)
			binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-chunkHeader))
			return out, nil
		}
		rest = after
	}
	return nil, fmt.Errorf("%w: more than %d chunks in an animation frame", ErrMalformed, maxWebPChunks)
}

func appendChunk(out []byte, id string, body []byte) []byte {
	out = append(out, id...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(body)))
	out = append(out, body...)
	if len(body)%2 == 1 {
		out = append(out, 0)
	}
	return out
}

// avifOrientations are the orientations by which an image is turned and then mirrored, by the quarter turns.
var avifOrientations = map[avif.Mirror][4]orientation{
	avif.NoMirror:   {1, 8, 3, 6},
	avif.UpsideDown: {4, 5, 2, 7},
	avif.LeftRight:  {2, 7, 4, 5},
}

func avifHeader(data []byte) (avif.Header, orientation, error) {
	h, err := avif.Probe(data)
	return h, avifOrientations[h.Mirror][h.Turns], malformed(err)
}

func decodeAVIF(data []byte) (*image.NRGBA, error) {
	h, turned, err := avifHeader(data)
	if err != nil {
		return nil, err
	}
	img, err := avif.Decode(data, h.Width, h.Height)
	switch {
	case err == nil:
		return turned.apply(toNRGBA(img)), nil
	case errors.Is(err, avif.ErrMalformed):
		return nil, malformed(err)
	case errors.Is(err, avif.ErrTooLarge):
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnsupported, err) // the decoder cannot be compiled
}

// avifCost returns the memory of decodeAVIF.
func avifCost(data []byte, pixels int64) (decoded, turned int64) {
	h, o, err := avifHeader(data)
	if err != nil {
		return 0, 0
	}
	if o >= 2 {
		turned = 4 * pixels
	}
	return avif.Memory(h.Width, h.Height), turned
}
