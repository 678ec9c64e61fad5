package imaging

import (
	"bytes"
	"image"
	"image/gif"

	"golang.org/x/image/webp"
)

// Limits of animations. Of a larger canvas only the first frame counts; later frames are not decoded.
const (
	maxCanvas   = 1 << 20  // pixels
	maxFrames   = 128      // of a file
	maxComposed = 16 << 20 // pixels of all composed canvases, also of those whose frame cannot be decoded
)

func composes(size image.Point) bool { return size.X*size.Y <= maxCanvas }

// composeCost returns the memory for composing frames: the canvas, the fullest one, the one before, and a frame's
// pixels.
func composeCost(canvas image.Point) int64 { return 16 * int64(canvas.X) * int64(canvas.Y) }

// frame is a part of an animation.
type frame struct {
	file     func() ([]byte, error) // a still image
	at       image.Point            // its place; that of a GIF is in the file
	replaces bool                   // its clear pixels replace what is there, too
	clears   bool                   // its area becomes clear after it
	reverts  bool                   // its area becomes what it was before it
}

// fullest composes the frames and returns the picture with the most ink: a logo that is drawn step by step, or fades
// in, is whole in some frame. Of equal pictures it returns the first. It leaves out frames that cannot be decoded, and
// fails if none can.
func fullest(size image.Point, frames []frame) (*image.NRGBA, error) {
	canvas := image.NewNRGBA(image.Rectangle{Max: size})
	var best []byte
	most := -1
	err := error(ErrMalformed) // there is no frame
	for i, f := range frames {
		if i*size.X*size.Y > maxComposed {
			break
		}
		img, at, failed := f.still()
		if failed != nil {
			if best == nil {
				err = failed
			}
			continue
		}
		var before []byte
		if f.reverts {
			before = bytes.Clone(canvas.Pix)
		}
		area := put(canvas, img, at, f.replaces)
		if n := inkOf(canvas); n > most {
			best, most = append(best[:0], canvas.Pix...), n
		}
		for y := area.Min.Y; y < area.Max.Y && (f.reverts || f.clears); y++ {
			row := canvas.Pix[canvas.PixOffset(area.Min.X, y):canvas.PixOffset(area.Max.X, y)]
			clear(row)
			if f.reverts {
				copy(row, before[canvas.PixOffset(area.Min.X, y):])
			}
		}
	}
	if best == nil {
		return nil, malformed(err)
	}
	canvas.Pix = best
	return canvas, nil
}

// still decodes a frame, and returns its place.
func (f frame) still() (*image.NRGBA, image.Point, error) {
	file, err := f.file()
	if err != nil {
		return nil, f.at, err
	}
	if Sniff(file) == WebP {
		img, err := webp.Decode(bytes.NewReader(file))
		if err != nil {
			return nil, f.at, err
		}
		return fromWebP(img), f.at, nil
	}
	img, err := gif.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, f.at, err
	}
	return toNRGBA(img), img.Bounds().Min, nil
}

// put draws an image at a place of the canvas, and returns the area that it changes. draw.Draw takes five times as
// long.
func put(canvas, img *image.NRGBA, at image.Point, replaces bool) image.Rectangle {
	area := img.Rect.Add(at).Intersect(canvas.Rect)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		from := img.Pix[img.PixOffset(area.Min.X-at.X, y-at.Y):]
		to := canvas.Pix[canvas.PixOffset(area.Min.X, y):]
		for i := 0; i < 4*area.Dx(); i += 4 {
			p, q := from[i:i+4:i+4], to[i:i+4:i+4]
			switch a := uint32(p[3]); {
			case replaces, a == 0xff, q[3] == 0:
				copy(q, p)
			case a > 0:
				below := uint32(q[3]) * (0xff - a) / 0xff
				for c := range 3 {
					q[c] = uint8((uint32(p[c])*a + uint32(q[c])*below) / (a + below))
				}
				q[3] = uint8(a + below)
			}
		}
	}
	return area
}

// inkSamples is the number of pixels of a row and of a column by which pictures of an animation are compared.
const inkSamples = 256

// inkOf returns how much is drawn: the alpha of the pixels, more for those that differ from a white page; in a picture
// without clear corners their differences from the corners.
func inkOf(img *image.NRGBA) (sum int) {
	ground, cutOut := cornerColor(img), clearCorners(img) >= 3
	if cutOut {
		ground = White
	}
	size := img.Rect.Size()
	for y := 0; y < size.Y; y += max(1, size.Y/inkSamples) {
		for x := 0; x < size.X; x += max(1, size.X/inkSamples) {
			p := img.Pix[img.PixOffset(x, y):][:4]
			differs := max(abs(int(p[0])-int(ground.R)), abs(int(p[1])-int(ground.G)), abs(int(p[2])-int(ground.B)))
			if cutOut {
				differs += 0xff
			}
			sum += int(p[3]) * differs
		}
	}
	return sum
}

// gifFrames returns the frames of a GIF (GIF89a specification, sections 18 to 27).
func gifFrames(data []byte) (frames []frame) {
	const header, packed = 13, 10
	table := func(flags byte) int { // bytes of a color table
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (flags&7 + 1)
	}
	end := header + table(data[packed])
	head := data[:min(end, len(data))]
	var control []byte
	for at := end; at+1 < len(data) && len(frames) < maxFrames; {
		start := at
		switch data[at] {
		case '!':
			at = afterBlocks(data, at+2)
			if data[start+1] == 0xf9 && at-start >= 8 {
				control = data[start:at]
			}
		case ',':
			if at+9 >= len(data) {
				return frames
			}
			at = afterBlocks(data, at+11+table(data[at+9]))
			parts := [][]byte{head, control, data[start:at], []byte(";")}
			f := frame{file: func() ([]byte, error) { return bytes.Join(parts, nil), nil }}
			if control != nil {
				disposal := control[3] >> 2 & 7
				f.clears, f.reverts = disposal == 2, disposal == 3
			}
			frames, control = append(frames, f), nil
		default:
			return frames
		}
	}
	return frames
}

// afterBlocks returns the end of a sequence of sub-blocks.
func afterBlocks(data []byte, at int) int {
	for at < len(data) && data[at] > 0 {
		at += 1 + int(data[at])
	}
	return min(at+1, len(data))
}

// webpFrames returns the frames and the canvas of an animated WebP; nil for a still one and for a canvas that is too
// large to compose.
func webpFrames(data []byte) (frames []frame, canvas image.Point) {
	const animated, overwrites, clears = 1 << 1, 1 << 1, 1 << 0 // flags of the file and of a frame
	number := func(p []byte) int { return int(p[0]) | int(p[1])<<8 | int(p[2])<<16 }
	rest := data[min(riffHeader, len(data)):]
	for range maxWebPChunks {
		id, body, after, ok := riffChunk(rest)
		if !ok || len(frames) == maxFrames {
			break
		}
		switch {
		case id == "VP8X" && len(body) == 10 && body[0]&animated != 0:
			canvas = image.Pt(number(body[4:])+1, number(body[7:])+1)
		case id == "VP8 ", id == "VP8L", canvas == image.Point{}, !composes(canvas):
			return nil, image.Point{}
		case id == "ANMF" && len(body) >= 16:
			at := image.Pt(2*number(body), 2*number(body[3:]))
			size := image.Pt(number(body[6:])+1, number(body[9:])+1)
			if !(image.Rectangle{Min: at, Max: at.Add(size)}).In(image.Rectangle{Max: canvas}) {
				return nil, image.Point{} // against the specification, and its memory is unknown
			}
			frames = append(frames, frame{file: func() ([]byte, error) { return webpFromFrame(body) }, at: at,
				replaces: body[15]&overwrites != 0, clears: body[15]&clears != 0})
		}
		rest = after
	}
	return frames, canvas
}
