package logo

import (
	"image"

	"letterhead/internal/imaging"
)

// Upper bounds of the memory that drawing needs in addition to its decoded input, in bytes per pixel.
// Those of the encoders are for noise, which does not compress; real logos take a third.
const (
	heldOfMade = 4  // without an encoder
	heldAsWebP = 28 // pixels, their differences, hash chains, symbols
	heldAsPNG  = 14 // pixels, indexes, the growing file
	heldAsJPEG = 12 // pixels, the same on a background, the file
)

// need returns the memory, in bytes, for making an image of some size.
func (f form) need(size image.Point) int64 {
	pixels := int64(size.X) * int64(size.Y)
	switch f.format {
	case imaging.WebP:
		return heldAsWebP * pixels
	case imaging.JPEG:
		return heldAsJPEG * pixels
	case imaging.PNG:
		return heldAsPNG * pixels
	}
	return heldOfMade * pixels
}

// largest returns the maximum size of the form.
func (f form) largest() image.Point { return image.Pt(f.size, f.size) }

// needOf returns the memory, in bytes, for making the variant of a stored raster, including the file.
// Errors: those of imaging.DecodeCost.
func (v variant) needOf(data []byte, stored imaging.Info, within imaging.Limits) (int64, error) {
	held, err := imaging.DecodeCost(data, within, v.size)
	if err != nil {
		return 0, err
	}
	w, h := stored.Width, stored.Height
	made := image.Pt(w, h)
	if longest := max(w, h); longest > v.size {
		made = image.Pt(w*v.size/longest+1, h*v.size/longest+1)
	}
	held += int64(len(data)) + v.need(made)
	if v.fitsSmall() && max(w, h) > smallSide {
		held += v.small().need(image.Pt(smallSide, smallSide)) // which is made on the way
	}
	return held, nil
}
