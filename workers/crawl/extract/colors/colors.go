// Package colors decides a brand's colors, from its logos, from the page's
// declarations (pool.go) and from its style sheets (css.go).
package colors

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/internal/lazyregexp"
	"letterhead/workers/crawl/extract"
)

// Limits for naming colors and choosing the accent. The thresholds of the accent were fitted on 703 logos of brands
// with a known color (gilbarbara/logos against simple-icons): 68 % correct. Thresholds fitted on one half were correct
// on 63 and 69 % of the other.
const (
	sameColor    = 8.0 // ΔE2000 below which two colors count as one
	minChromatic = 40  // channel distance of a color that is not grey
	darkBelow    = 80  // brightness
	// darkLightness is the OKLCH lightness below which a color looks dark: pure red, with a brightness of 76, does not.
	darkLightness = 0.45
	lightAbove    = 200
	nearlyWhite   = 245 // brightness above which a color looks white

	sameHue       = 15.0 // degrees of OKLCH hue within which colors are shades of one
	fullChroma    = 0.25 // OKLCH chroma from which a color counts as fully vivid
	greyShare     = 0.35 // proportion of its weight that a color without chroma keeps
	glaring       = 180  // brightness above which a color, usually a yellow, is less likely a brand's
	glareLoss     = 0.01 // loss of weight for each step above
	maxGlareLoss  = 0.8
	maxColors     = 8
	minConfidence = 0.4
)

// Palette is the colors of one logo.
type Palette struct {
	Source string // the URL of the logo
	Inks   []imaging.Swatch
	Node   *html.Node // the element that shows the logo; nil if none does
}

// chosenColors holds the indexes of the chosen colors in a pool; -1 for none.
type chosenColors struct {
	accent, dark, light int
	rest                []int
}

// Decide decides the brand's colors: the accent first, then at most one dark and one light, then others. There is no
// accent if only white and pale greys were found: white is the usual background of a brand.
func Decide(in extract.Input, palettes []Palette) extract.Found[[]eventschemas.Color] {
	pool := poolColors(in, palettes)
	out := extract.Found[[]eventschemas.Color]{Value: []eventschemas.Color{}}
	if len(pool) == 0 {
		return out
	}
	list := choose(pool).list()
	first := pool[list[0].index]
	out.Source, out.Method = first.source, first.method
	out.Confidence = extract.Round2(min(0.95, minConfidence+first.weight/8))
	for _, at := range list {
		out.Value = append(out.Value, eventschemas.Color{Hex: pool[at.index].color.Hex(), Type: at.kind,
			Brightness: pool[at.index].color.Brightness()})
	}
	return out
}

// Weighed lists all colors that were found, the accent first, the others by their strength as the accent.
func Weighed(in extract.Input, palettes []Palette) []extract.Weighed {
	pool := poolColors(in, palettes)
	if len(pool) == 0 {
		return nil
	}
	kinds := map[int]string{}
	for _, at := range choose(pool).list() {
		kinds[at.index] = at.kind
	}
	var out []extract.Weighed
	for i, p := range pool {
		note := "past the limit"
		if kind := kinds[i]; kind != "" {
			note = kind
		}
		if !p.chromatic() {
			note += "; nearly grey"
		}
		for _, why := range p.others {
			note += "; also " + why
		}
		out = append(out, extract.Weighed{
			Field: "colors", Value: p.color.Hex(), Source: p.source, Method: p.method,
			Score: extract.Round2(strength(pool, i)), Won: kinds[i] == "accent",
			Note: fmt.Sprintf("%s; weight %.2f", note, p.weight),
		})
	}
	slices.SortStableFunc(out, func(a, b extract.Weighed) int {
		if a.Won != b.Won {
			return map[bool]int{true: -1, false: 1}[a.Won]
		}
		return cmp.Compare(b.Score, a.Score)
	})
	return out
}

// choose assigns roles to the colors of a pool that is not empty.
func choose(pool []pooled) chosenColors {
	out := chosenColors{accent: -1, dark: -1, light: -1}
	best := 0.0
	used, bestUsed := -1, 0.0
	for i, p := range pool {
		s := strength(pool, i)
		if !p.chromatic() || yieldsToLogo(pool, i) || isScattered(pool, i) {
			continue
		}
		if s > best {
			out.accent, best = i, s
		}
		if s > bestUsed && p.isUsed() {
			used, bestUsed = i, s
		}
	}
	if used >= 0 && pool[out.accent].from(paletteMethod) && !isMain(pool, out.accent) {
		out.accent = used
	}
	if out.accent < 0 {
		// A brand without a chromatic color: its accent is its ink, the strongest color that is not white or pale.
		out.accent = slices.IndexFunc(pool, pooled.inked)
	}
	for i, p := range pool {
		b := p.color.Brightness()
		lightness, _, _ := p.color.OKLCH()
		switch {
		case i == out.accent:
		case b < darkBelow && lightness < darkLightness && (out.dark < 0 || b < pool[out.dark].color.Brightness()):
			out.dark = i
		case b > lightAbove && (out.light < 0 || b > pool[out.light].color.Brightness()):
			out.light = i
		}
	}
	for i := range pool {
		if i != out.accent && i != out.dark && i != out.light {
			out.rest = append(out.rest, i)
		}
	}
	slices.SortStableFunc(out.rest, func(a, b int) int { return cmp.Compare(strength(pool, b), strength(pool, a)) })
	return out
}

const (
	paletteMethod  = "logo palette"
	variableMethod = "css variable "
	buttonMethod   = "button background"
	linkMethod     = "link color"
)

// from reports whether a method supports a color.
func (p pooled) from(method string) bool {
	return p.method == method || slices.Contains(p.others, method)
}

// isUsed reports whether a color is declared as the brand's and used on buttons or links.
func (p pooled) isUsed() bool {
	return (p.from(buttonMethod) || p.from(linkMethod)) && slices.ContainsFunc(slices.Concat(p.others, []string{p.method}),
		func(m string) bool { return strings.HasPrefix(m, variableMethod) })
}

// isMain reports whether a color is the largest saturated ink of the primary logo, or a shade of it.
func isMain(pool []pooled, at int) bool {
	hue := hueOf(pool[at].color)
	return slices.ContainsFunc(pool, func(p pooled) bool { return p.main && hueDistance(hue, hueOf(p.color)) < sameHue })
}

const (
	scatterShare = 0.1 // the proportion of the logo below which a hue is small
	scatterHues  = 3   // the number of small hues that makes them decoration
)

// isScattered reports whether a color is only one of several small hues of the logo.
func isScattered(pool []pooled, at int) bool {
	small := func(p pooled) bool {
		return p.method == paletteMethod && len(p.others) == 0 && p.chromatic() && p.weight < scatterShare*paletteWeight
	}
	if !small(pool[at]) {
		return false
	}
	var hues []float64
	for _, p := range pool {
		hue := hueOf(p.color)
		if small(p) && !slices.ContainsFunc(hues, func(h float64) bool { return hueDistance(h, hue) < 2*sameHue }) {
			hues = append(hues, hue)
		}
	}
	return len(hues) >= scatterHues
}

// declarations are methods of colors that generators and templates fill in.
var declarations = []string{"theme-color", "tile color", "manifest theme_color", "manifest background_color"}

// minLogoWeight is the weight from which a chromatic color of a logo is more
// than its trimming: a tenth of the primary logo.
const minLogoWeight = 0.3

// yieldsToLogo reports whether a color is only declared for browsers' frames, while a logo has a chromatic color of
// another hue: the frame may be a template's.
func yieldsToLogo(pool []pooled, at int) bool {
	only := func(p pooled) bool {
		return slices.Contains(declarations, p.method) &&
			!slices.ContainsFunc(p.others, func(m string) bool { return !slices.Contains(declarations, m) })
	}
	if !only(pool[at]) {
		return false
	}
	hue := hueOf(pool[at].color)
	logo := false
	for i, other := range pool {
		if i == at || !other.chromatic() || only(other) {
			continue
		}
		if hueDistance(hue, hueOf(other.color)) < sameHue {
			return false
		}
		logo = logo || other.from(paletteMethod) && other.weight >= minLogoWeight
	}
	return logo
}

type kindOf struct {
	index int
	kind  string
}

// list returns the colors of the record, in its order. It is never empty.
func (c chosenColors) list() []kindOf {
	var out []kindOf
	if c.accent >= 0 {
		out = append(out, kindOf{c.accent, "accent"})
	}
	if c.dark >= 0 {
		out = append(out, kindOf{c.dark, "dark"})
	}
	if c.light >= 0 {
		out = append(out, kindOf{c.light, "light"})
	}
	for _, i := range c.rest[:min(len(c.rest), maxColors-len(out))] {
		out = append(out, kindOf{i, "brand"})
	}
	return out
}

// chromatic reports whether a color is neither grey nor white.
func (p pooled) chromatic() bool {
	return p.color.Chroma() >= minChromatic && p.color.Brightness() <= nearlyWhite
}

// inked reports whether a color is visible on white.
func (p pooled) inked() bool { return p.color.Brightness() <= lightAbove }

// strength returns how likely a color of the pool is the accent: the total weight of all shades of its hue, reduced for
// grey and glaring ones. Of a logo's red and its shadow, the red is the brand's; a gradient is represented by its most
// vivid step.
func strength(pool []pooled, at int) float64 {
	p := pool[at]
	_, chroma, hue := p.color.OKLCH()
	weight := p.weight
	if p.chromatic() {
		for i, other := range pool {
			if i != at && other.chromatic() && hueDistance(hue, hueOf(other.color)) < sameHue {
				weight += other.weight
			}
		}
	}
	vivid := greyShare + (1-greyShare)*min(1, chroma/fullChroma)
	glare := min(maxGlareLoss, glareLoss*max(0, p.color.Luma()-glaring))
	return weight * vivid * (1 - glare)
}

func hueOf(c imaging.RGB) float64 {
	_, _, hue := c.OKLCH()
	return hue
}

// hueDistance returns the shorter way around the circle, in degrees.
func hueDistance(a, b float64) float64 {
	d := math.Abs(a - b)
	return min(d, 360-d)
}

const minAlpha = 0.5 // the opacity below which a color does not count

var (
	bareHex = lazyregexp.New(`^[0-9A-Fa-f]{6}$`) // matches a color without its number sign, as in meta elements
	// newer matches additions of CSS Color 4. Declarations follow level 3: hex, rgb(), hsl() and its names.
	newer = lazyregexp.New(`(?i)^(rebeccapurple$|(hwb|lab|lch|oklab|oklch|color|color-mix)\()`)
)

// Parse parses a color declared by a page: hex, with or without its number sign, rgb(), hsl() or a name. ok is false
// for anything else and for a color that is more than half transparent.
func Parse(text string) (c imaging.RGB, ok bool) {
	text = strings.TrimSpace(text)
	if newer.MatchString(text) {
		return imaging.RGB{}, false
	}
	if bareHex.MatchString(text) {
		text = "#" + text
	}
	c, alpha, ok := imaging.ParseColor(text)
	if !ok || alpha < minAlpha {
		return imaging.RGB{}, false
	}
	return c, true
}
