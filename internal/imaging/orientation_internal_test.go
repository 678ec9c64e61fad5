package imaging

import (
	"image"
	"testing"

	"letterhead/internal/avif"
)

// Turning counterclockwise and then mirroring must be the same as the one orientation.
func TestAVIFOrientations_AreTurnsThenMirror(t *testing.T) {
	const w, h = 3, 2
	for mirror, orientations := range avifOrientations {
		for turns, o := range orientations {
			for y := range h {
				for x := range w {
					at, size := image.Pt(x, y), image.Pt(w, h)
					for range turns {
						at, size = image.Pt(at.Y, size.X-1-at.X), image.Pt(size.Y, size.X)
					}
					switch mirror {
					case avif.UpsideDown:
						at.Y = size.Y - 1 - at.Y
					case avif.LeftRight:
						at.X = size.X - 1 - at.X
					}
					if tx, ty := o.target(x, y, w, h); image.Pt(tx, ty) != at || o.swapsSides() != (size.X == h) {
						t.Errorf("%d turns, mirror %d: pixel %d,%d goes to %d,%d, want %v", turns, mirror, x, y, tx, ty, at)
					}
				}
			}
		}
	}
}
