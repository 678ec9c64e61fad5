package logo

import (
	"image"

	"letterhead/internal/imaging"
)

// What a drawing holds at most beside what it is decoded from, in bytes for each pixel. The encoders' are of noise, of
// which nothing is repeated; real logos take a third.
const (
	heldOfMade = 4  // without an encoder
	heldAsWebP = 28 // pixels, what they differ by, the places they are found at, symbols
	heldAsPNG  = 14 // pixels, indexes, the file as it grows
	heldAsJPEG = 12 // pixels, the same on a ground, the file
)

// need is what making a picture of some size holds, in bytes.
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

// largest is the size that the form has at most.
func (f form) largest() image.Point { return image.Pt(f.size, f.size) }

// needOf is what making the variant of a stored raster holds, in bytes, with the file. Errors: those of
// imaging.DecodeCost.
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
