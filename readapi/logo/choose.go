package logo

import (
	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// Choose returns the stored file that is drawn from: of the best logo for the options its vector, else the
// smallest raster that is large enough, else the largest. ok is false when there is nothing to draw from.
func Choose(logos []eventschemas.Logo, o Options) (logo eventschemas.Logo, file eventschemas.Asset, ok bool) {
	for _, l := range logos {
		for _, f := range l.Formats {
			if f.Format == string(imaging.SVG) {
				return l, f, true
			}
			if !ok {
				logo, file, ok = l, f, true
			}
		}
	}
	return logo, file, ok
}
