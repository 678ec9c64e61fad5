package imaging

import (
	"encoding/binary"
	"image"
	"image/draw"
	"math"

	"github.com/nfnt/resize"
)

// softRatio is the ratio of reduction from which the shorter filter is as good. On 71 logos drawn at 256 and 512 pixels
// and reduced, compared with the same logos drawn small, Lanczos2 is between 0.1 dB worse and 0.25 dB better than
// Lanczos3 there, and takes a third less time; at half the size it is 0.5 dB worse.
const softRatio = 4

// Scale reduces an image's longer side to at most longest pixels, keeping its aspect ratio (Lanczos). It never enlarges
// an image: if img fits, Scale returns img itself. longest below 1 counts as 1.
func Scale(img *image.NRGBA, longest int) *image.NRGBA {
	to, ok := smaller(img.Rect.Size(), longest)
	if !ok {
		return img
	}
	return to.scale(img, false)
}

// reduction reduces images of one size.
type reduction struct {
	width, height uint
	kernel        resize.InterpolationFunction
}

// smaller returns the reduction of an image's longer side to longest pixels. ok is false for an image that fits.
func smaller(size image.Point, longest int) (to reduction, ok bool) {
	longest = max(longest, 1)
	w, h := size.X, size.Y
	if max(w, h) <= longest {
		return to, false
	}
	// For Resize, a size of 0 means "keep the aspect ratio".
	width, height := longest, longest
	if w >= h {
		height = max(1, (h*longest+w/2)/w)
	} else {
		width = max(1, (w*longest+h/2)/h)
	}
	to = reduction{uint(width), uint(height), resize.Lanczos3}
	if max(w, h) >= softRatio*longest {
		to.kernel = resize.Lanczos2
	}
	return to, true
}

// scale reduces an image; if given is set, it may overwrite the input. Colors are scaled premultiplied, because clear
// pixels would otherwise darken the edges.
func (to reduction) scale(img *image.NRGBA, given bool) *image.NRGBA {
	if mix, ok := twoColors(img); ok {
		return to.mix(mix)
	}
	pre := &image.RGBA{Pix: img.Pix, Stride: img.Stride, Rect: img.Rect}
	if !given {
		pre.Pix = make([]uint8, len(img.Pix))
	}
	for i := 0; i+3 < len(img.Pix); i += 4 {
		from, into := img.Pix[i:i+4:i+4], pre.Pix[i:i+4:i+4]
		switch from[3] {
		case 0:
			clear(into)
		case 0xff:
			copy(into, from)
		default:
			p := premultiply(from)
			copy(into, p[:])
		}
	}
	return toNRGBA(resize.Resize(to.width, to.height, pre, to.kernel))
}

func (to reduction) mix(m twoColorMix) *image.NRGBA {
	return m.paint(resize.Resize(to.width, to.height, m.shares, to.kernel).(*image.Gray))
}

// twoColorMix is an image of two colors, one of which may be clear, and their mixes, as most logos are. With only one
// channel, scaling takes a third of the time, and preserves the exact colors.
type twoColorMix struct {
	shares *image.Gray             // of the second color, in 255ths
	colors [256]premultipliedColor // for each share

	channel int        // with the largest difference
	shareOf [256]uint8 // by the value of the channel; colors outside of the range are not mixes
}

type premultipliedColor [4]uint8

const (
	// minContrast is the minimum difference of the two colors in one channel for 256 steps to suffice.
	minContrast = 64
	// mixTolerance is the largest deviation of a channel, of 255, from a mix: rounding.
	mixTolerance = 1
	// sampledRows is the distance of the rows that are searched for the two colors.
	sampledRows = 8
)

// twoColors decomposes an image. ok is false if it does not consist of two colors.
func twoColors(img *image.NRGBA) (m twoColorMix, ok bool) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	if img.Stride != 4*w {
		return m, false // a part of another image
	}
	second := farthest(img, premultiply(img.Pix))
	first := farthest(img, second)
	if !m.between(first, second) {
		return m, false
	}
	m.shares = &image.Gray{Pix: make([]uint8, w*h), Stride: w, Rect: image.Rect(0, 0, w, h)}
	last, share := ^binary.NativeEndian.Uint32(img.Pix), uint8(0) // most pixels equal their predecessor
	for i := range m.shares.Pix {
		pixel := img.Pix[4*i : 4*i+4 : 4*i+4]
		if n := binary.NativeEndian.Uint32(pixel); n != last {
			last = n
			var ok bool
			if share, ok = m.share(premultiply(pixel)); !ok {
				return m, false
			}
		}
		m.shares.Pix[i] = share
	}
	return m, true
}

// between computes the mixes of two colors. ok is false if they are too similar.
func (m *twoColorMix) between(first, second premultipliedColor) (ok bool) {
	contrast := 0
	for c := range 4 {
		if d := int(second[c]) - int(first[c]); max(d, -d) > max(contrast, -contrast) {
			m.channel, contrast = c, d
		}
	}
	if max(contrast, -contrast) < minContrast {
		return false
	}
	for share := range 256 {
		for c := range 4 {
			m.colors[share][c] = uint8((int(first[c])*(255-share) + int(second[c])*share + 127) / 255)
		}
	}
	for v := range 256 {
		m.shareOf[v] = uint8(min(max((2*255*(v-int(first[m.channel]))+contrast)/(2*contrast), 0), 255))
	}
	return true
}

// share returns the share of the second color in a color. ok is false if the color is not a mix.
func (m *twoColorMix) share(p premultipliedColor) (share uint8, ok bool) {
	share = m.shareOf[p[m.channel]]
	want := &m.colors[share]
	return share, !(far(p[0], want[0]) || far(p[1], want[1]) || far(p[2], want[2]) || far(p[3], want[3]))
}

func premultiply(pixel []uint8) premultipliedColor {
	a := uint32(pixel[3])
	times := func(v uint8) uint8 { return uint8((uint32(v)*a + 0x7f) / 0xff) }
	return premultipliedColor{times(pixel[0]), times(pixel[1]), times(pixel[2]), uint8(a)}
}

// distance returns the squared distance of two colors.
func (p premultipliedColor) distance(q premultipliedColor) int {
	d := 0
	for c := range 4 {
		delta := int(p[c]) - int(q[c])
		d += delta * delta
	}
	return d
}

func far(a, b uint8) bool { return uint(int(a)-int(b)+mixTolerance) > 2*mixTolerance }

// farthest returns the color in the sampled rows that is farthest from another.
func farthest(img *image.NRGBA, from premultipliedColor) premultipliedColor {
	best, distance := from, 0
	for y := 0; y < img.Rect.Dy(); y += sampledRows {
		row := img.Pix[y*img.Stride : y*img.Stride+4*img.Rect.Dx()]
		last := ^binary.NativeEndian.Uint32(row)
		for ; len(row) >= 4; row = row[4:] {
			n := binary.NativeEndian.Uint32(row)
			if n == last {
				continue
			}
			last = n
			p := premultiply(row)
			if d := p.distance(from); d > distance {
				best, distance = p, d
			}
		}
	}
	return best
}

// paint converts scaled shares to an image.
func (m *twoColorMix) paint(shares *image.Gray) *image.NRGBA {
	colors := &image.RGBA{Pix: make([]uint8, 0, 4*256), Stride: 4 * 256, Rect: image.Rect(0, 0, 256, 1)}
	for _, c := range m.colors {
		colors.Pix = append(colors.Pix, c[:]...)
	}
	plain := toNRGBA(colors).Pix
	out := image.NewNRGBA(shares.Rect)
	for i, share := range shares.Pix {
		copy(out.Pix[4*i:4*i+4], plain[4*int(share):])
	}
	return out
}

// PlateRadius is the radius of a plate's corners as a share of its shorter side, as app icons have it.
const PlateRadius = 0.22

// Ink returns the bounding box of the pixels that are not clear, or the whole image if all of them are.
func Ink(img *image.NRGBA) image.Rectangle {
	if box := inkBox(img, true, clearAlpha); !box.Empty() {
		return box
	}
	return image.Rectangle{Max: img.Rect.Size()}
}

// middle returns the place of an image on a canvas that has the box of its ink in the middle.
func middle(img *image.NRGBA, canvas image.Point) image.Point {
	ink := Ink(img)
	return canvas.Sub(ink.Min).Sub(ink.Max).Div(2)
}

// Centered returns an image with its ink in the middle of a clear canvas of some size, at its own size. A canvas that
// is smaller than the image cuts it off; an image of the canvas's size is returned unchanged.
func Centered(img *image.NRGBA, size image.Point) *image.NRGBA {
	if img.Rect.Size() == size {
		return img
	}
	out := image.NewNRGBA(image.Rectangle{Max: size})
	draw.Draw(out, img.Rect.Sub(img.Rect.Min).Add(middle(img, size)), img, img.Rect.Min, draw.Src)
	return out
}

// wideMargin is the share of the width, or of the height, that clear margins of both sides have if they are trimmed:
// the grids that icons are drawn on leave less.
const wideMargin = 0.25

// Trim returns the box of an image's ink if clear margins around it are wide, and otherwise the box of the image.
func Trim(img *image.NRGBA) image.Rectangle {
	size, ink := img.Rect.Size(), Ink(img)
	if isWide := func(ink, all int) bool { return float64(all-ink) > wideMargin*float64(all) }; isWide(ink.Dx(), size.X) ||
		isWide(ink.Dy(), size.Y) {
		return ink
	}
	return image.Rectangle{Max: size}
}

// Cropped returns a box of an image.
func Cropped(img *image.NRGBA, to image.Rectangle) *image.NRGBA {
	if to.Size() == img.Rect.Size() {
		return img
	}
	out := image.NewNRGBA(image.Rectangle{Max: to.Size()})
	draw.Draw(out, out.Rect, img, img.Rect.Min.Add(to.Min), draw.Src)
	return out
}

// plateInk is the share of a logo from which an ink decides about its plate.
const plateInk = 0.03

// PlateFor returns the gray, from DarkPage to white, whose least contrast with the inks of an image is the highest.
func PlateFor(img *image.NRGBA) RGB {
	_, palette := inkColors(img)
	best, most := White, 0.0
	for v := math.MaxUint8; v >= int(DarkPage.R); v-- {
		plate, least := RGB{uint8(v), uint8(v), uint8(v)}, math.Inf(1)
		for i, s := range palette {
			if i == 0 || s.Share >= plateInk {
				least = min(least, Contrast(s.Color, plate))
			}
		}
		if least > most {
			best, most = plate, least
		}
	}
	return best
}

// OnPlate returns an image with its ink in the middle of a plate of some size, at its own size.
func OnPlate(img *image.NRGBA, size image.Point, plate RGB) *image.NRGBA {
	out := image.NewNRGBA(image.Rectangle{Max: size})
	halfW, halfH := float64(size.X)/2, float64(size.Y)/2
	radius := PlateRadius * 2 * min(halfW, halfH)
	for y := range size.Y {
		for x := range size.X {
			// The distance to the outline of a rounded rectangle; the edge is a pixel wide.
			dx := math.Abs(float64(x)+0.5-halfW) - halfW + radius
			dy := math.Abs(float64(y)+0.5-halfH) - halfH + radius
			outside := math.Hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0) - radius
			share := min(max(0.5-outside, 0), 1)
			p := out.Pix[y*out.Stride+4*x:]
			p[0], p[1], p[2], p[3] = plate.R, plate.G, plate.B, uint8(math.Round(math.MaxUint8*share))
		}
	}
	draw.Draw(out, img.Rect.Sub(img.Rect.Min).Add(middle(img, size)), img, img.Rect.Min, draw.Over)
	return out
}

// Gray removes the colors of an image, in place, with the luma weights of ITU-R BT.601.
func Gray(img *image.NRGBA) {
	for i := 0; i+3 < len(img.Pix); i += 4 {
		r, g, b := uint32(img.Pix[i]), uint32(img.Pix[i+1]), uint32(img.Pix[i+2])
		y := uint8((299*r + 587*g + 114*b + 500) / 1000)
		img.Pix[i], img.Pix[i+1], img.Pix[i+2] = y, y, y
	}
}
