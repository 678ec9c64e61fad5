package logofinder

import (
	"image"

	"letterhead/eventschemas"
)

// Trial is the result of one candidate.
type Trial struct {
	Candidate
	// Rejected is the reason why it is not a logo: missing, not an image, a
	// photograph, the same drawing as a better one. It is "" if it was chosen.
	Rejected      string
	Chosen        int    // its index among the record's logos, or -1
	Type          string // icon, symbol, logo, other; "" when no image was read
	Theme         string // of its ink; "" when its background decides, or unknown
	Format        string // of the file; "" when none was read
	Width, Height int    // pixels, 0 unknown
	AssetID       string // a stored form of it that browsers can show; "" if it was not chosen
}

// Stored is the result of a chosen image in a record.
type Stored struct {
	Place int // among the record's logos
	Logo  eventschemas.Logo
}

// Trials returns the result of each candidate, in the order of the candidates. read and rejected are parallel to the
// candidates: an image, or the reason why there is none. stored are the chosen ones that were kept.
func Trials(candidates []Candidate, read []*Image, rejected []error, s Selection, stored map[*Image]Stored) []Trial {
	out := make([]Trial, len(candidates))
	for i, c := range candidates {
		t, p := Trial{Candidate: c, Chosen: -1}, read[i]
		kept, isKept := stored[p]
		switch {
		case p == nil && rejected[i] != nil:
			t.Rejected = rejected[i].Error()
		case p == nil:
			t.Rejected = "not there"
		case isKept:
			t.Chosen = kept.Place
			if len(kept.Logo.Formats) > 0 {
				t.AssetID = kept.Logo.Formats[0].ID
			}
		case s.Dropped[p] != "":
			t.Rejected = s.Dropped[p]
		default:
			t.Rejected = "could not be stored"
		}
		if p != nil {
			t.Type, t.Theme, t.Format, t.Width, t.Height = p.Type(), p.Theme, string(p.Format), p.Width, p.Height
		}
		out[i] = t
	}
	return out
}

const thumbSide = 16 // the side of the grid on which two drawings are compared

// sameThumb is the mean difference per channel, 0 to 255, below which two grids show one drawing in two sizes.
// Perceptual hashes alone do not suffice: in flat areas their bits follow the noise of scaling.
const sameThumb = 10.0

// thumb is an image as a grid of mean colors, premultiplied, with alpha.
type thumb [thumbSide * thumbSide * 4]float32

// newThumb averages the pixels of each cell. For an image smaller than the grid it uses the nearest pixels.
func newThumb(img *image.NRGBA) *thumb {
	var t thumb
	w, h := img.Rect.Dx(), img.Rect.Dy()
	for cy := range thumbSide {
		y0, y1 := span(cy, h)
		for cx := range thumbSide {
			x0, x1 := span(cx, w)
			var sum [4]float64
			for y := y0; y < y1; y++ {
				for x := x0; x < x1; x++ {
					p := img.Pix[y*img.Stride+4*x:]
					alpha := float64(p[3]) / 255
					for c := range 3 {
						sum[c] += float64(p[c]) * alpha
					}
					sum[3] += float64(p[3])
				}
			}
			n := float64((x1 - x0) * (y1 - y0))
			for c := range sum {
				t[(cy*thumbSide+cx)*4+c] = float32(sum[c] / n)
			}
		}
	}
	return &t
}

// span returns the pixels of one cell of the grid.
func span(cell, length int) (from, to int) {
	from = cell * length / thumbSide
	to = max(from+1, (cell+1)*length/thumbSide)
	return from, to
}

// difference returns the mean difference of two grids per channel.
func (t *thumb) difference(u *thumb) float64 {
	sum := 0.0
	for i := range t {
		d := float64(t[i] - u[i])
		sum += max(d, -d)
	}
	return sum / float64(len(t))
}
