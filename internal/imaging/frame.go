package imaging

import (
	"image"
	"image/draw"
	"math"
)

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
