package svg

import (
	"fmt"
	"math"

	"letterhead/internal/imaging"
)

// MaxBytes limits an SVG, uncompressed, before and after it is rebuilt.
const MaxBytes = 512 << 10

// Info describes an SVG by its elements, without drawing it. A renderer and Analyze determine its appearance.
type Info struct {
	// Width and Height are its size in pixels, from width and height or else its viewBox; nil if it has none.
	Width, Height *int
	// Text is set if visible text is left, because it is in a script or with a feature that the embedded fonts lack: a
	// browser shows it in a font of its own, and a renderer without fonts draws none of it. Lost is set if visible text
	// was omitted, because it is HTML.
	Text, Lost bool
}

// Sanitize rebuilds an SVG (also svgz) from an allow-list: shapes, gradients, patterns, masks, filters, styles, and
// re-encoded rasters. The values of style sheets are written to the elements, and text becomes outlines of a similar
// font. Scripts, external resources and references are not in the list and so not in the result, nor is anything that
// takes excessive time to draw. The result is plain UTF-8 without a document type, deterministic, and sanitizing it
// again does not change it.
//
// Errors: imaging.ErrUnknown (not SVG), imaging.ErrUnsupported (unsupported encoding), imaging.ErrMalformed (not XML,
// or without visible content), imaging.ErrTooLarge (a limit of size or complexity is exceeded).
func Sanitize(data []byte) (clean []byte, info Info, err error) {
	d, isText, err := rebuilt(data, false)
	if err == nil {
		if clean = d.write(); len(clean) > MaxBytes {
			err = fmt.Errorf("%w: %d bytes", imaging.ErrTooLarge, len(clean))
		}
	}
	if err != nil {
		return nil, Info{}, fmt.Errorf("sanitize svg: %w", err)
	}
	return clean, Info{Width: d.width, Height: d.height, Text: isText, Lost: d.foreign}, nil
}

// Sketch does what Sanitize does, but draws a box for each letter that the embedded fonts lack, so that the place and
// the colors of the text can be seen. Errors: those of Sanitize.
func Sketch(data []byte) ([]byte, error) {
	d, _, err := rebuilt(data, true)
	if err != nil {
		return nil, fmt.Errorf("sketch svg: %w", err)
	}
	return d.write(), nil
}

// rebuilt returns a file as a document in the allow-list.
func rebuilt(data []byte, boxes bool) (d *document, isText bool, err error) {
	if f := imaging.Sniff(data); !f.IsVector() {
		return nil, false, imaging.ErrUnknown
	}
	text, err := readText(data)
	if err == nil {
		err = imaging.Guarded("parser", func() (err error) {
			d, isText, err = rebuild(text, boxes)
			return err
		})
	}
	return d, isText, err
}

func rebuild(text []byte, boxes bool) (d *document, isText bool, err error) {
	if d, err = parseDocument(text, nil); err != nil {
		return nil, false, err
	}
	d.boxes = boxes
	for _, step := range []func() error{d.fixRoot, d.settle, d.checkCost, d.checkRepeats} {
		if err := step(); err != nil {
			return nil, false, err
		}
	}
	draws, isText := d.paint()
	if !draws {
		return nil, false, fmt.Errorf("%w: it draws nothing", imaging.ErrMalformed)
	}
	return d, isText, nil
}

// settle computes the final values of each element.
func (d *document) settle() error {
	if err := d.bake(); err != nil {
		return err
	}
	d.placeSymbols()
	d.unfold()
	d.tidyReferences()
	d.cascade()
	if text := d.outlineText(); d.plain() || text {
		d.tidyReferences()
		d.cascade()
	}
	return nil
}

// box is a viewBox.
type box struct{ x, y, w, h float64 }

const (
	// maxAspect is the largest aspect ratio of a real image.
	maxAspect = 100
	minExtent = 1e-3
)

// parseViewBox returns false for values that renderers must ignore, and for implausible ones.
func parseViewBox(s string) (box, bool) {
	n, ok := parseNumbers(s, maxCoordinate)
	if !ok || len(n) != 4 || n[2] < minExtent || n[3] < minExtent {
		return box{}, false
	}
	return box{n[0], n[1], n[2], n[3]}, true
}

// fixRoot normalizes the size: width and height in pixels or not at all, and a
// viewBox whenever there is a size, so that the image scales.
func (d *document) fixRoot() error {
	root := d.root
	width, hasWidth := pixels(root.attr("width"))
	height, hasHeight := pixels(root.attr("height"))
	if !hasWidth || !hasHeight || width > imaging.MaxSide || height > imaging.MaxSide || width < minExtent ||
		height < minExtent {
		hasWidth, hasHeight = false, false
		root.drop("width")
		root.drop("height")
	}
	view, hasView := parseViewBox(root.attr("viewBox"))
	switch {
	case hasWidth && !hasView:
		view, hasView = box{0, 0, width, height}, true
		root.set("viewBox", "0 0 "+formatNumber(width)+" "+formatNumber(height))
	case !hasView:
		root.drop("viewBox")
	}
	if hasWidth {
		root.set("width", formatNumber(width))
		root.set("height", formatNumber(height))
	} else {
		width, height = view.w, view.h
	}
	for _, name := range []string{"x", "y"} { // meaningless on the root
		root.drop(name)
	}
	if !hasView {
		return nil
	}
	for _, ratio := range []float64{width / height, view.w / view.h} {
		if ratio > maxAspect || ratio < 1.0/maxAspect {
			return fmt.Errorf("%w: sides of 1:%.0f", imaging.ErrTooLarge, math.Max(ratio, 1/ratio))
		}
	}
	d.view, d.hasView = view, true
	d.width, d.height = wholePixels(width), wholePixels(height)
	return nil
}

func wholePixels(v float64) *int {
	n := max(1, int(math.Round(v)))
	if n > imaging.MaxSide {
		return nil
	}
	return &n
}
