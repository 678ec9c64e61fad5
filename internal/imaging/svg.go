package imaging

import (
	"fmt"
	"math"
)

// MaxSVGBytes limits an SVG, uncompressed, before and after it is rebuilt.
const MaxSVGBytes = 512 << 10

// SVGInfo describes an SVG by its elements, without drawing it. A renderer and
// Analyze determine its appearance.
type SVGInfo struct {
	// Width and Height are its size in pixels, from width and height or else
	// its viewBox; nil if it has none.
	Width, Height *int
	// Text is set if it is mostly text. Without its font it looks different
	// from the original, and a renderer without fonts draws little of it.
	Text bool
}

// SanitizeSVG rebuilds an SVG (also svgz) from an allow-list: shapes, text,
// gradients, patterns, masks, filters, styles, and re-encoded rasters. CSS
// variables are replaced by their values. Scripts, external resources and
// references are not in the list and so not in the result, nor is anything that
// takes excessive time to draw. The result is plain UTF-8 without a document
// type, deterministic, and sanitizing it again does not change it.
//
// Errors: ErrUnknown (not SVG), ErrUnsupported (unsupported encoding),
// ErrMalformed (not XML, or without visible content), ErrTooLarge (a limit of
// size or complexity is exceeded).
func SanitizeSVG(data []byte) (clean []byte, info SVGInfo, err error) {
	if f := Sniff(data); !f.IsVector() {
		return nil, SVGInfo{}, fmt.Errorf("sanitize svg: %w", ErrUnknown)
	}
	text, err := svgText(data)
	if err == nil {
		err = guarded(func() (err error) {
			clean, info, err = rebuild(text)
			return err
		})
	}
	if err != nil {
		return nil, SVGInfo{}, fmt.Errorf("sanitize svg: %w", err)
	}
	return clean, info, nil
}

func rebuild(text []byte) ([]byte, SVGInfo, error) {
	doc, err := parseSVG(text)
	if err != nil {
		return nil, SVGInfo{}, err
	}
	if err := doc.fixRoot(); err != nil {
		return nil, SVGInfo{}, err
	}
	doc.tidyReferences()
	if err := doc.cascade(); err != nil {
		return nil, SVGInfo{}, err
	}
	if doc.hasVariables() {
		if err := doc.resolveVariables(); err != nil {
			return nil, SVGInfo{}, err
		}
		doc.tidyReferences()
		if err := doc.cascade(); err != nil {
			return nil, SVGInfo{}, err
		}
	}
	if doc.plain() {
		if err := doc.cascade(); err != nil {
			return nil, SVGInfo{}, err
		}
	}
	if err := doc.checkCost(); err != nil {
		return nil, SVGInfo{}, err
	}
	if err := doc.checkRepeats(); err != nil {
		return nil, SVGInfo{}, err
	}
	draws, isText, err := doc.paint()
	if err != nil {
		return nil, SVGInfo{}, err
	}
	if !draws {
		return nil, SVGInfo{}, fmt.Errorf("%w: it draws nothing", ErrMalformed)
	}
	clean := doc.write()
	if len(clean) > MaxSVGBytes {
		return nil, SVGInfo{}, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(clean))
	}
	return clean, SVGInfo{Width: doc.width, Height: doc.height, Text: isText}, nil
}

// box is a viewBox.
type box struct{ x, y, w, h float64 }

const (
	// maxAspect is the largest aspect ratio of a real image.
	maxAspect = 100
	minExtent = 1e-3
)

// parseViewBox returns false for values that renderers must ignore, and for
// implausible ones.
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
	if !hasWidth || !hasHeight || width > MaxSide || height > MaxSide || width < minExtent || height < minExtent {
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
			return fmt.Errorf("%w: sides of 1:%.0f", ErrTooLarge, math.Max(ratio, 1/ratio))
		}
	}
	d.view, d.hasView = view, true
	d.width, d.height = wholePixels(width), wholePixels(height)
	return nil
}

func wholePixels(v float64) *int {
	n := max(1, int(math.Round(v)))
	if n > MaxSide {
		return nil
	}
	return &n
}

// svgSize is Probe for a vector, from the root element alone; 0 and 0 if it has
// no size.
func svgSize(data []byte) (width, height int, err error) {
	text, err := svgText(data)
	if err != nil {
		return 0, 0, err
	}
	doc, err := parseRoot(text)
	if err != nil {
		return 0, 0, err
	}
	if err := doc.fixRoot(); err != nil {
		return 0, 0, err
	}
	if doc.width == nil || doc.height == nil {
		return 0, 0, nil
	}
	return *doc.width, *doc.height, nil
}
