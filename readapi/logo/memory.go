package logo

import (
	"image"

	"letterhead/internal/imaging"
)

// Upper bounds of the memory that drawing needs in addition to its decoded input, in bytes per pixel.
// Those of the encoders are for noise, which does not compress; real logos take a third.
const (
	costRaw  = 4  // without an encoder
	costWebP = 28 // pixels, their differences, hash chains, symbols
	costPNG  = 14 // pixels, indexes, the growing file
	costJPEG = 12 // pixels, the same on a background, the file
	costCut  = 48 // a copy in a frame, regions, depths, edges and their inks, the result, parts, the scaled pixels
)

// cost returns the memory, in bytes, for making an image of some size.
func (f form) cost(size image.Point) int64 {
	pixels := int64(size.X) * int64(size.Y)
	switch f.format {
	case imaging.WebP:
		return costWebP * pixels
	case imaging.JPEG:
		return costJPEG * pixels
	case imaging.PNG:
		return costPNG * pixels
	}
	return costRaw * pixels
}

// largest returns the maximum size of the form.
func (f form) largest() image.Point { return image.Pt(f.size, f.size) }

// frameCost returns the memory, in bytes, for the frame of a logo, beside the logo.
func (v variant) frameCost() int64 {
	side := int64(v.size)
	switch {
	case v.outfit == (outfit{}):
		return 0
	case v.format == imaging.SVG:
		side = centeredSide
	}
	return costRaw * side * side
}

// costOf returns the memory, in bytes, for making the variant of a stored raster, including the file.
// Errors: those of imaging.DecodeCost.
func (v variant) costOf(data []byte, stored imaging.Info, within imaging.Limits) (int64, error) {
	side := v.decodedSide()
	cost, err := imaging.DecodeCost(data, within, max(side, v.size))
	if err != nil {
		return 0, err
	}
	w, h := stored.Width, stored.Height
	if side == imaging.CutSide {
		cost += costCut * int64(min(w, side)) * int64(min(h, side))
	}
	output := image.Pt(w, h)
	if longest := max(w, h); longest > v.size {
		output = image.Pt(w*v.size/longest+1, h*v.size/longest+1)
	}
	switch {
	case v.outfit.change != unchanged:
		output = v.largest() // the frame may be larger than the logo
	case v.outfit.squared:
		output = image.Pt(max(output.X, output.Y), max(output.X, output.Y))
	}
	cost += int64(len(data)) + v.cost(output) + v.frameCost()
	if v.fitsSmall() && max(w, h) > smallSide {
		cost += v.small().cost(image.Pt(smallSide, smallSide)) // an intermediate result
	}
	return cost, nil
}
