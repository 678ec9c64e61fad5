package logo

import (
	"bytes"
	"context"
	"image"
	"math"

	"letterhead/internal/imaging"
	"letterhead/internal/svg"
)

// outfit changes a stored logo for a background. The zero value is the logo itself.
type outfit struct {
	turned  bool        // the inks that a page swallows are replaced
	page    imaging.RGB // the page, if turned
	plated  bool        // on a rounded tile
	plate   imaging.RGB // color of the tile
	squared bool        // in the middle of a square
}

// Margins of a logo on its plate, as shares of the longest side of the image. That of icons is the one
// of app icons; a wordmark would be too small with it.
const (
	squareMargin = 0.17
	wideMargin   = 0.08
)

func (f outfit) margin() float64 {
	switch {
	case !f.plated:
		return 0
	case f.squared:
		return squareMargin
	}
	return wideMargin
}

// inner returns the maximum of the logo's longest side in an image of some size.
func (f outfit) inner(size int) int {
	return max(int(math.Round(float64(size)*(1-2*f.margin()))), 1)
}

// frame puts a logo on its canvas, which is no larger than size, or than the logo needs.
func (f outfit) frame(img *image.NRGBA, size int) *image.NRGBA {
	canvas := img.Rect.Size()
	longest := max(canvas.X, canvas.Y)
	whole := longest
	if f.plated {
		if whole = size; longest < f.inner(size) {
			whole = min(int(math.Round(float64(longest)/(1-2*f.margin()))), size)
		}
		canvas = canvas.Add(image.Pt(whole-longest, whole-longest))
	}
	if f.squared {
		canvas = image.Pt(whole, whole)
	}
	if f.plated {
		return imaging.OnPlate(img, canvas, f.plate)
	}
	return imaging.Centered(img, canvas)
}

// appendTo adds the outfit to a key. The zero value adds nothing, so the keys of stored logos are those
// of releases without outfits.
func (f outfit) appendTo(key []byte) []byte {
	if f == (outfit{}) {
		return key
	}
	flag := func(set bool) byte {
		if set {
			return 1
		}
		return 0
	}
	return append(key, 0, flag(f.turned), f.page.R, f.page.G, f.page.B, flag(f.plated), f.plate.R, f.plate.G, f.plate.B, flag(f.squared))
}

// turn replaces the inks of a vector that a page swallows. Errors: those of svg.Recolor.
func turn(data []byte, page imaging.RGB) ([]byte, error) {
	return svg.Recolor(data, func(c imaging.RGB) imaging.RGB { return c.TurnedFor(page) })
}

// drawDressed draws a vector in its outfit. Errors: those of drawFrom.
func (r *Renderer) drawDressed(ctx context.Context, data []byte, v variant) ([]byte, error) {
	f := v.outfit
	if f.turned {
		turned, err := turn(data, f.page)
		if err != nil {
			return nil, err
		}
		data = turned
	}
	if v.format == imaging.SVG {
		frame := svg.Frame{Square: f.squared, Margin: f.margin()}
		if f.plated {
			frame.Plate = &f.plate
		}
		return svg.Framed(data, frame)
	}
	inside := v
	inside.size = f.inner(v.size)
	img, err := r.drawVector(ctx, inside, data)
	if err != nil {
		return nil, err
	}
	return v.output(imaging.Scale(img, inside.size))
}

// Stored results of trying to turn a vector.
const (
	resultTurnable = "yes"
	resultFixed    = "no"
)

// turnable tries to turn a vector for the page in v.background, and reports whether it is legible then
// and keeps its shape and the edges between its inks.
func (r *Renderer) turnable(ctx context.Context, data []byte, v variant) ([]byte, error) {
	turned, err := turn(data, v.background)
	if err != nil || bytes.Equal(turned, data) {
		return []byte(resultFixed), err
	}
	before, err := r.vectors.Render(ctx, data, v.size)
	if err != nil {
		return nil, err
	}
	after, err := r.vectors.Render(ctx, turned, v.size)
	if err != nil {
		return nil, err
	}
	if imaging.SwallowedBy(after, v.background).TooMuch() || !imaging.KeepsShape(before, after) {
		return []byte(resultFixed), nil
	}
	return []byte(resultTurnable), nil
}
