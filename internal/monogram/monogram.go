// Package monogram draws the replacement for an unknown logo: one or two letters of the brand's name,
// or a geometric mark if the embedded font lacks its letters, on a color derived from the domain.
package monogram

import (
	"fmt"
	"image"
	"image/draw"
	"math"

	"golang.org/x/image/vector"
)

// Monogram identifies a monogram. The same Monogram always gives the same image. Any text is valid for both fields.
type Monogram struct {
	Domain string // registrable, ASCII; determines the color
	Name   string // of the brand; "" = use the domain's label
}

// The shape, as fractions of the side.
const (
	corner = 0.1875 // radius: 3 pixels of 16
	// height of capital letters, for one letter and for two
	oneHeight, twoHeight = 0.58, 0.46
	// limits of the ink if letters are wider, or have marks
	maxWidth, maxHeight = 0.74, 0.74
)

// Limits in pixels.
const (
	// minCapital is the minimum height of two letters. If they would be smaller only the first is
	// drawn: WM at 24 pixels, and any two at 16.
	minCapital = 8
	// minFree is the smallest image whose letters need not be aligned. On smaller ones the ink's box
	// is fitted to whole pixels: misaligned edges turn a stem of two pixels into three gray ones.
	minFree = 64
	// narrow letters may be half a pixel off center: one column more or less would change their form.
	narrow = 9
	// MaxSide limits the size of an image; larger ones are never requested.
	MaxSide = 2048
)

// Draw draws a square of side pixels, 1 to MaxSide, with transparent corners.
func (m Monogram) Draw(side int) *image.NRGBA {
	side = min(max(side, 1), MaxSide)
	var shape pen
	back := mask(shape.rounded(float64(side), corner*float64(side)).done, side)
	front := mask(m.figure(side), side)
	tile := digestOf(m.Domain).tile()

	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	mix := func(a, b, share uint8) uint8 {
		return uint8((int(a)*(math.MaxUint8-int(share)) + int(b)*int(share) + math.MaxUint8/2) / math.MaxUint8)
	}
	for i, share := range front.Pix {
		// The color extends beyond the edges, where only alpha decreases: no other color appears when
		// the image is scaled or flattened.
		px := img.Pix[4*i : 4*i+4 : 4*i+4]
		px[0], px[1], px[2], px[3] = mix(tile.R, ink.R, share), mix(tile.G, ink.G, share),
			mix(tile.B, ink.B, share), back.Pix[i]
	}
	return img
}

// mask draws an outline.
func mask(o outline, side int) *image.Alpha {
	img := image.NewAlpha(image.Rect(0, 0, side, side))
	z := vector.NewRasterizer(side, side)
	z.DrawOp = draw.Src
	o.fill(z)
	z.Draw(img, img.Rect, image.Opaque, image.Point{})
	return img
}

// svgSide is the side of the SVG's view box.
const svgSide = 64

// SVG returns the same as an SVG, with outlines instead of text, drawn for svgSide.
func (m Monogram) SVG() []byte {
	tile := digestOf(m.Domain).tile()
	svg := fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"><rect width="%[1]d" height="%[1]d" rx="%[3]v" fill="#%02x%02x%02x"/><path fill="#fff" d="`,
		svgSide, svgSide, corner*svgSide, tile.R, tile.G, tile.B)
	svg = m.figureOf(m.letters(), svgSide, false).appendData(svg)
	return append(svg, `"/></svg>`...)
}

// figure returns the letters or the mark on the tile, for an image of side pixels.
func (m Monogram) figure(side int) outline {
	letters, free := m.letters(), float64(side)
	if len(letters) > 1 && scaleOf(word(letters), len(letters), free)*outfit().capital < minCapital {
		letters = letters[:1]
	}
	return m.figureOf(letters, free, side < minFree)
}

func (m Monogram) figureOf(letters []rune, side float64, fitted bool) outline {
	if len(letters) == 0 {
		return markOf(digestOf(m.Domain), side)
	}
	return centred(word(letters), len(letters), side, fitted)
}

// word places letters in a row, in units of the font.
func word(letters []rune) outline {
	var out outline
	at := 0.0
	for _, r := range letters {
		glyph, advance := outfit().glyph(r)
		out = append(out, glyph.moved(1, 1, at, 0)...)
		at += advance
	}
	return out
}

// scaleOf returns the scale from units of the font to the tile.
func scaleOf(word outline, letters int, side float64) float64 {
	height := oneHeight
	if letters > 1 {
		height = twoHeight
	}
	ink := word.bounds()
	return side * min(height/outfit().capital, maxWidth/ink.width(), maxHeight/ink.height())
}

// centred returns the letters with the box of their ink centered on the tile.
func centred(word outline, letters int, side float64, fitted bool) outline {
	ink := word.bounds()
	scaleX := scaleOf(word, letters, side)
	scaleY := scaleX
	if fitted {
		odd := math.Mod(side, 2)
		// equal margins on both sides
		even := func(pixels float64) float64 { return max(2*math.Round((pixels-odd)/2)+odd, 1) }
		scaleY = even(ink.height()*scaleX) / ink.height()
		columns := ink.width() * scaleY
		if columns < narrow {
			columns = max(math.Round(columns), 1)
		} else {
			columns = even(columns)
		}
		scaleX = columns / ink.width()
	}
	left, top := (side-ink.width()*scaleX)/2, (side-ink.height()*scaleY)/2
	if fitted {
		left, top = math.Floor(left+0.25), math.Round(top) // the quarter compensates for rounding
	}
	return word.moved(scaleX, scaleY, left-ink.min.x*scaleX, top-ink.min.y*scaleY)
}
