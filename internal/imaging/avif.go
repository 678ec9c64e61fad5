package imaging

import (
	"errors"
	"fmt"
	"image"

	"letterhead/internal/avif"
)

// avifOrientations are the orientations by which an image is turned and then mirrored, by the quarter turns.
var avifOrientations = map[avif.Mirror][4]orientation{
	avif.NoMirror:   {1, 8, 3, 6},
	avif.UpsideDown: {4, 5, 2, 7},
	avif.LeftRight:  {2, 7, 4, 5},
}

func avifHeader(data []byte) (avif.Header, orientation, error) {
	h, err := avif.Probe(data)
	return h, avifOrientations[h.Mirror][h.Turns], malformed(err)
}

func decodeAVIF(data []byte) (*image.NRGBA, error) {
	h, turned, err := avifHeader(data)
	if err != nil {
		return nil, err
	}
	img, err := avif.Decode(data, h.Width, h.Height)
	switch {
	case err == nil:
		return turned.apply(toNRGBA(img)), nil
	case errors.Is(err, avif.ErrMalformed):
		return nil, malformed(err)
	case errors.Is(err, avif.ErrTooLarge):
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnsupported, err) // the decoder cannot be compiled
}

// avifCost returns the memory of decodeAVIF.
func avifCost(data []byte, pixels int64) (decoded, turned int64) {
	h, o, err := avifHeader(data)
	if err != nil {
		return 0, 0
	}
	if o >= 2 {
		turned = 4 * pixels
	}
	return avif.Memory(h.Width, h.Height), turned
}
