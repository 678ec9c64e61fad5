package logo

import (
	"bytes"
	"context"
	"image"
	"math"

	"letterhead/internal/imaging"
	"letterhead/internal/svg"
)

// outfit changes a stored logo for a background, or for a square. The zero value is the logo itself.
type outfit struct {
	change  change
	color   imaging.RGB // the page of a turned logo, or of the plate
	squared bool        // in the middle of a square
	cut     bool        // without a flat ground and wide margins
	gray    bool        // without colors
}

// change is what makes a logo legible.
type change byte

const (
	unchanged    change = iota
	turned              // the inks that a page swallows are replaced
	strengthened        // legible inks get enough contrast
	both                // turned and strengthened
	plated              // on a rounded tile
)

// recolors reports whether inks are replaced.
func (c change) recolors() bool { return c == turned || c == strengthened || c == both }

// replace returns the replacement of an ink.
func (f outfit) replace(ink imaging.RGB) imaging.RGB {
	switch isLegible := ink.IsLegibleOn(f.color); {
	case !isLegible && f.change != strengthened:
		return ink.TurnedFor(f.color)
	case isLegible && f.change != turned:
		return ink.StrengthenedFor(f.color)
	}
	return ink
}

// Margins of a logo on its plate, as shares of the longest side of the image. That of icons is the one
// of app icons; a wordmark would be too small with it.
const (
	squareMargin = 0.17
	wideMargin   = 0.08
)

func (f outfit) margin() float64 {
	switch {
	case f.change != plated:
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
	if f.change == plated {
		if whole = size; longest < f.inner(size) {
			whole = min(int(math.Round(float64(longest)/(1-2*f.margin()))), size)
		}
		canvas = canvas.Add(image.Pt(whole-longest, whole-longest))
	}
	if f.squared {
		canvas = image.Pt(whole, whole)
	}
	if f.change == plated {
		return imaging.OnPlate(img, canvas, f.color)
	}
	return imaging.Centered(img, canvas)
}

// keeps reports whether an image of some size is left as it is.
func (f outfit) keeps(width, height int) bool {
	return f.change == unchanged && !f.gray && (!f.squared || width == height)
}

// appendTo adds the outfit to a key. The zero value adds nothing.
func (f outfit) appendTo(key []byte) []byte {
	if f == (outfit{}) {
		return key
	}
	key = append(key, 0, byte(f.change), f.color.R, f.color.G, f.color.B)
	if f.squared {
		key = append(key, 1)
	}
	if f.cut {
		key = append(key, 2)
	}
	if f.gray {
		key = append(key, 3)
	}
	return key
}

// drawDressed draws a vector in its outfit. Errors: those of drawFrom.
func (r *Renderer) drawDressed(ctx context.Context, data []byte, v variant) ([]byte, error) {
	f := v.outfit
	if f.cut {
		var err error
		if data, err = r.trimmed(ctx, data, v); err != nil {
			return nil, err
		}
	}
	if f.change.recolors() {
		var err error
		if data, err = svg.Recolor(data, f.replace); err != nil {
			return nil, err
		}
	}
	if v.format == imaging.SVG {
		frame := svg.Frame{Square: f.squared, Margin: f.margin()}
		frame.Off = func() (x, y float64, err error) { return r.off(ctx, data) }
		if f.change == plated {
			frame.Plate = &f.color
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

// trimmed removes wide margins of a vector. Errors: those of drawFrom.
func (r *Renderer) trimmed(ctx context.Context, data []byte, v variant) ([]byte, error) {
	measured := variant{source: v.source, kind: kindTrim}
	box, err := r.drawn.GetWithin(ctx, measured.key(), func(ctx context.Context) ([]byte, error) {
		img, err := r.vectors.Render(ctx, data, centeredSide)
		if err != nil {
			return nil, err
		}
		to := imaging.Trim(img)
		if to.Size() == img.Rect.Size() {
			return []byte(resultNo), nil
		}
		return svg.Cropped(data, to, img.Rect.Size())
	})
	if err != nil || string(box.Body) == resultNo {
		return data, err
	}
	return box.Body, nil
}

// centeredSide is the size, in pixels, at which the ink of a vector is measured to trim it, and to center it in an SVG.
// Its place is exact to half a percent.
const centeredSide = 256

// off returns how far the middle of a vector's ink is from the middle of the vector, as shares of its width and height;
// zero for a vector that cannot be drawn. Errors: those of Vectors, except for faults of the file.
func (r *Renderer) off(ctx context.Context, data []byte) (x, y float64, err error) {
	if bytes.Contains(data, []byte("<text")) {
		if data, err = svg.Sketch(data); err != nil {
			return 0, 0, err
		}
	}
	img, err := r.vectors.Render(ctx, data, centeredSide)
	if err != nil {
		if isFileFault(err) {
			err = nil
		}
		return 0, 0, err
	}
	ink, size := imaging.Ink(img), img.Rect.Size()
	share := func(from, to, whole int) float64 { return float64(from+to-whole) / float64(2*whole) }
	return share(ink.Min.X, ink.Max.X, size.X), share(ink.Min.Y, ink.Max.Y, size.Y), nil
}

// turnable tries to replace the inks of a vector as v.outfit does, and returns its recoloredResult.
func (r *Renderer) turnable(ctx context.Context, data []byte, v variant) ([]byte, error) {
	recolored, err := svg.Recolor(data, v.outfit.replace)
	if err != nil || bytes.Equal(recolored, data) {
		return fixed(err)
	}
	before, err := r.vectors.Render(ctx, data, v.size)
	if err != nil {
		return fixed(err)
	}
	after, err := r.vectors.Render(ctx, recolored, v.size)
	if err != nil {
		return fixed(err)
	}
	return recoloredResult(before, after, v.outfit.color), nil
}

// recoloredResult returns resultYes for a file with enough contrast after its inks are replaced, resultWeak for one that
// is legible, and otherwise resultNo.
func recoloredResult(before, after *image.NRGBA, page imaging.RGB) []byte {
	switch swallowed := imaging.SwallowedBy(after, page); {
	case swallowed.TooMuch() || !imaging.KeepsShape(before, after):
		return []byte(resultNo)
	case swallowed.IsWeak():
		return []byte(resultWeak)
	}
	return []byte(resultYes)
}

// fixed returns the result for a vector that cannot be turned, also because of a fault of the file.
func fixed(err error) ([]byte, error) {
	if err != nil && !isFileFault(err) {
		return nil, err
	}
	return result(false), nil
}

// Cached results of inspecting a file.
const (
	resultYes  = "yes"
	resultNo   = "no"
	resultWeak = "weak"
)

func result(is bool) []byte {
	if is {
		return []byte(resultYes)
	}
	return []byte(resultNo)
}

// pale reports whether a file would be hardly visible on white. It inspects a file once and caches the
// result with the images. Errors: those of Draw, and those of isFault.
func (r *Renderer) pale(ctx context.Context, from Source) (bool, error) {
	made, err := r.get(ctx, variant{form: form{size: inspectedSide}, source: from, kind: kindPaleness})
	return err == nil && string(made.Body) == resultYes, err
}

// inspector inspects files for Choose, and keeps the error that prevented it.
type inspector struct {
	renderer *Renderer
	ctx      context.Context
	err      error
}

func (i *inspector) pale(s Source) bool {
	if i.err != nil {
		return true
	}
	pale, err := i.renderer.pale(i.ctx, s)
	if isFault(err) {
		return true // a file that cannot be drawn is not visible
	}
	i.err = err
	return pale
}
