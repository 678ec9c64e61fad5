package judge

import (
	"cmp"
	"slices"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// Weights of what declares a color, and thresholds of what it is called. Source: the extraction notes'
// pool, tuned on nothing but them.
const (
	paletteWeight    = 3.0
	themeWeight      = 2.0
	maskWeight       = 2.0
	tileWeight       = 1.0
	manifestWeight   = 2.0
	backgroundWeight = 0.5
	knownWeight      = 3.0 // a data set's accent was chosen by people

	sameColor    = 8.0 // ΔE2000 below which two colors are one
	minChromatic = 40  // channel distance of a color that is not grey
	darkBelow    = 80  // brightness
	lightAbove   = 200
	nearlyWhite  = 245
	greyShare    = 0.4 // of its weight that a color without any chroma would keep
	maxColors    = 8
	minShare     = 0.03 // of a picture's ink that a color needs
)

// Palette is the colors of one logo.
type Palette struct {
	Source string // the address of the logo
	Inks   []imaging.Swatch
}

// pooled is one color of the pool with all that speaks for it.
type pooled struct {
	color  imaging.RGB
	weight float64
	top    float64 // the largest single weight, whose color it keeps
	method string
	source string
}

// Colors decides the brand's colors: the accent first, then at most one dark and one light, then others.
func Colors(in Input, palettes []Palette) Found[[]eventschemas.Color] {
	pool := poolColors(in, palettes)
	out := Found[[]eventschemas.Color]{Value: []eventschemas.Color{}}
	if len(pool) == 0 {
		return out
	}
	accent := -1
	for i, p := range pool {
		if p.color.Chroma() >= minChromatic && p.color.Brightness() <= nearlyWhite && (accent < 0 || p.vivid() > pool[accent].vivid()) {
			accent = i
		}
	}
	if accent < 0 {
		// A brand without a chromatic color: its accent is its ink, the strongest color that is not the page's white.
		accent = max(0, slices.IndexFunc(pool, func(p pooled) bool { return p.color.Brightness() <= lightAbove }))
	}
	first := pool[accent]
	out.Source, out.Method = first.source, first.method
	out.Confidence = round2(min(0.95, 0.4+first.weight/8))
	rest := slices.Delete(slices.Clone(pool), accent, accent+1)
	dark, rest := takeExtreme(rest, func(b int) bool { return b < darkBelow }, func(a, b int) bool { return a < b })
	light, rest := takeExtreme(rest, func(b int) bool { return b > lightAbove }, func(a, b int) bool { return a > b })
	out.Value = append(out.Value, named(first.color, "accent"))
	if dark != nil {
		out.Value = append(out.Value, named(dark.color, "dark"))
	}
	if light != nil {
		out.Value = append(out.Value, named(light.color, "light"))
	}
	for _, p := range rest[:min(len(rest), maxColors-len(out.Value))] {
		out.Value = append(out.Value, named(p.color, "brand"))
	}
	return out
}

// vivid is a color's weight, the greyer the less: of a logo's red and its shadow, the red is the brand's.
func (p pooled) vivid() float64 {
	return p.weight * (greyShare + (1-greyShare)*float64(p.color.Chroma())/255)
}

// takeExtreme takes the color of the most extreme brightness out of a list.
func takeExtreme(list []pooled, is func(int) bool, further func(a, b int) bool) (*pooled, []pooled) {
	best := -1
	for i, p := range list {
		b := p.color.Brightness()
		if is(b) && (best < 0 || further(b, list[best].color.Brightness())) {
			best = i
		}
	}
	if best < 0 {
		return nil, list
	}
	taken := list[best]
	return &taken, slices.Delete(slices.Clone(list), best, best+1)
}

func named(c imaging.RGB, kind string) eventschemas.Color {
	return eventschemas.Color{Hex: c.Hex(), Type: kind, Brightness: c.Brightness()}
}

// poolColors gathers everything that declares or shows a color and merges what looks the same. The
// strongest come first.
func poolColors(in Input, palettes []Palette) []pooled {
	var pool []pooled
	add := func(c imaging.RGB, weight float64, method, source string) {
		pool = append(pool, pooled{color: c, weight: weight, top: weight, method: method, source: source})
	}
	declared := func(text string, weight float64, method, source string, extremes bool) {
		c, ok := ParseColor(text)
		if !ok || !extremes && (c == imaging.White || c == imaging.Black) {
			return // white and black are the page's, not the brand's
		}
		add(c, weight, method, source)
	}
	for _, p := range palettes {
		for _, ink := range p.Inks {
			if ink.Share >= minShare {
				add(ink.Color, paletteWeight*ink.Share/float64(len(palettes)), "logo palette", p.Source)
			}
		}
	}
	for _, m := range in.Page.Metas {
		if m.Key == "theme-color" {
			declared(m.Content, themeWeight, "theme-color", in.source(), false)
			break // the first is meant for light pages
		}
	}
	for _, icon := range in.Page.Icons {
		if icon.Rel == "mask-icon" {
			declared(icon.Color, maskWeight, "mask-icon color", in.source(), true)
		}
	}
	declared(in.Page.Meta("msapplication-tilecolor"), tileWeight, "tile color", in.source(), false)
	if in.Config != nil {
		declared(in.Config.TileColor, tileWeight, "tile color", in.source(), false)
	}
	if in.Manifest != nil {
		declared(in.Manifest.ThemeColor, manifestWeight, "manifest theme_color", in.manifestSource(), false)
		declared(in.Manifest.BackgroundColor, backgroundWeight, "manifest background_color", in.manifestSource(), true)
	}
	if in.Known != nil {
		for _, c := range in.Known.Colors {
			if c.Type == "accent" {
				declared(c.Hex, knownWeight, "data set", "data set", true)
			}
		}
	}
	return merge(pool)
}

// merge joins colors that look the same into the one that weighs most.
func merge(pool []pooled) []pooled {
	strongest := func(a, b pooled) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.color.Hex(), b.color.Hex()))
	}
	slices.SortStableFunc(pool, strongest)
	var out []pooled
next:
	for _, p := range pool {
		for i := range out {
			if imaging.DeltaE(out[i].color, p.color) < sameColor {
				out[i].weight += p.weight
				continue next
			}
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, strongest)
	return out
}
