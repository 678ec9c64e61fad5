package main

import (
	"sort"
	"strings"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// rgb is an sRGB color, parsed and measured like in internal/imaging.
type rgb imaging.RGB

func (c rgb) hex() string { return imaging.RGB(c).Hex() }

// luma returns the luma, 0 to 255.
func (c rgb) luma() float64 { return imaging.RGB(c).Luma() }

// chromatic reports whether a color is not a shade of gray.
func (c rgb) chromatic() bool { return imaging.RGB(c).Chroma() >= minChroma }

// distance returns the CIEDE2000 distance.
func distance(p, q rgb) float64 { return imaging.DeltaE(imaging.RGB(p), imaging.RGB(q)) }

// Thresholds of the extraction rules, shared with a crawl.
const (
	minChroma   = 40  // difference of the largest and smallest channel from which a color is chromatic
	darkBelow   = 80  // luma
	lightAbove  = 200 // luma
	brightInk   = 128 // mean luma above which ink is more light than dark
	mergeWithin = 8   // CIEDE2000 below which two colors count as one
	minShare    = 0.04
	maxColors   = 6
)

// parseColor parses the colors of the drawings, in which currentColor is always
// black. It ignores alpha, because only the colors matter.
func parseColor(s string) (rgb, bool) {
	s = strings.TrimSpace(s)
	if s == "currentColor" {
		return rgb{}, true
	}
	c, alpha, ok := imaging.ParseColor(s)
	return rgb(c), ok && alpha > 0
}

// share is a color and its share of the ink, 0 to 1.
type share struct {
	color rgb
	part  float64
}

// mainColors merges similar colors and omits the small ones, the largest first.
func mainColors(in []share) []share {
	sorted := append([]share(nil), in...)
	sort.Slice(sorted, func(i, j int) bool {
		if sorted[i].part != sorted[j].part {
			return sorted[i].part > sorted[j].part
		}
		return sorted[i].color.hex() < sorted[j].color.hex()
	})
	var out []share
merging:
	for _, s := range sorted {
		for i := range out {
			if distance(out[i].color, s.color) < mergeWithin {
				out[i].part += s.part
				continue merging
			}
		}
		out = append(out, s)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].part > out[j].part })
	for i, s := range out {
		if s.part < minShare {
			return out[:i]
		}
	}
	return out
}

// brandColors returns the colors of a record: one accent first, then at most one dark and one light, then the rest.
// declared is the color declared by the brand; without it the accent is the largest chromatic color, and without one
// the ink.
func brandColors(declared *rgb, palette []share) []eventschemas.Color {
	var accent rgb
	switch {
	case declared != nil:
		accent = *declared
	case len(palette) == 0:
		return []eventschemas.Color{}
	default:
		accent = palette[0].color
		for _, s := range palette {
			if s.color.chromatic() {
				accent = s.color
				break
			}
		}
	}
	out := []eventschemas.Color{colorOf(accent, "accent")}
	var rest []rgb
	for _, s := range palette {
		if distance(s.color, accent) >= mergeWithin && len(rest)+1 < maxColors {
			rest = append(rest, s.color)
		}
	}
	dark, light := -1, -1
	for i, c := range rest {
		if c.luma() < darkBelow && (dark < 0 || c.luma() < rest[dark].luma()) {
			dark = i
		}
		if c.luma() > lightAbove && (light < 0 || c.luma() > rest[light].luma()) {
			light = i
		}
	}
	if dark >= 0 {
		out = append(out, colorOf(rest[dark], "dark"))
	}
	if light >= 0 {
		out = append(out, colorOf(rest[light], "light"))
	}
	for i, c := range rest {
		if i != dark && i != light {
			out = append(out, colorOf(c, "brand"))
		}
	}
	return out
}

func colorOf(c rgb, kind string) eventschemas.Color {
	return eventschemas.Color{Hex: c.hex(), Type: kind, Brightness: imaging.RGB(c).Brightness()}
}
