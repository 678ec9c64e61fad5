package colors

import (
	"cmp"
	"slices"

	"letterhead/internal/imaging"
	"letterhead/workers/crawl/extract"
)

// Weights of the sources of a color: first estimates, not tuned further.
const (
	paletteWeight        = 3.0
	themeWeight          = 2.0
	maskWeight           = 2.0
	tileWeight           = 1.0
	manifestWeight       = 2.0
	backgroundWeight     = 0.5
	darkBackgroundWeight = 0.1 // the page's background counts if everything else is white
	variableWeight       = 2.0
	buttonWeight         = 1.0
	linkWeight           = 1.0
	panelWeight          = 0.5
	surfaceWeight        = 1.5 // behind a white logo
	knownWeight          = 3.0 // people chose the accents of the data set

	neutralShare = 0.2  // the weight factor of a grey found only in a sheet: it belongs to the page, not the brand
	minShare     = 0.02 // share of an image's area that a color needs
	maxOthers    = 6    // further methods kept of one color
)

// pooled is one color of the pool and its sources.
type pooled struct {
	color     imaging.RGB
	weight    float64
	method    string // of the largest single weight, which also gives the color
	source    string
	others    []string // further methods
	framework bool     // set if only defaults of a framework or a generator support the color
	main      bool     // set for the largest saturated ink of the primary logo
}

// colorPool collects all declared and visible colors.
type colorPool struct {
	in          extract.Input
	list        []pooled
	backgrounds []pooled      // dark ones that count only if nothing else is dark
	shown       []imaging.RGB // chromatic colors of what a visitor sees
	seen        int           // elements that were looked at for them, outside of headers and menus
	seenInHead  int           // and in them
}

// declared adds the declarations of a page. White and black belong to the page, not the brand, unless extremes is set;
// a black one is still recorded as the page's background.
func (p *colorPool) declared(text string, weight float64, method, source string, extremes bool) {
	c, ok := Parse(text)
	switch {
	case !ok:
	case !extremes && c == imaging.Black:
		p.backgrounds = append(p.backgrounds,
			pooled{color: c, weight: darkBackgroundWeight, method: method, source: source})
	case extremes || c != imaging.White:
		p.list = append(p.list,
			pooled{color: c, weight: weight, method: method, source: source, framework: templateColors[c]})
	}
}

// tile adds the color of a tile, unless it is a generator's default.
func (p *colorPool) tile(text string) {
	if c, ok := Parse(text); ok && tileColors[c] {
		p.list = append(p.list,
			pooled{color: c, weight: tileWeight, method: "tile color", source: p.in.PageURL(), framework: true})
		return
	}
	p.declared(text, tileWeight, "tile color", p.in.PageURL(), false)
}

// poolColors collects the colors of a site and merges those that look the same. The strongest come first.
func poolColors(in extract.Input, palettes []Palette) []pooled {
	p := &colorPool{in: in}
	p.logos(palettes)
	for _, m := range in.Page.Metas {
		if m.Key == "theme-color" {
			p.declared(m.Content, themeWeight, "theme-color", in.PageURL(), false)
			break // the first is for light pages
		}
	}
	for _, icon := range in.Page.Icons {
		if icon.Rel == "mask-icon" {
			// A black one is the brand's ink: browsers show it on their own background.
			if c, _ := Parse(icon.Color); c.Brightness() <= nearlyWhite {
				p.declared(icon.Color, maskWeight, "mask-icon color", in.PageURL(), true)
			}
		}
	}
	p.tile(in.Page.Meta("msapplication-tilecolor"))
	if in.Config != nil {
		p.tile(in.Config.TileColor)
	}
	if in.Manifest != nil {
		p.declared(in.Manifest.ThemeColor, manifestWeight, "manifest theme_color", in.ManifestURL(), false)
		p.declared(in.Manifest.BackgroundColor, backgroundWeight, "manifest background_color", in.ManifestURL(), true)
	}
	if in.Known != nil {
		for _, c := range in.Known.Colors {
			if c.Type == "accent" {
				p.declared(c.Hex, knownWeight, "data set", "data set", true)
			}
		}
	}
	p.sheets()
	p.behind(palettes)
	return p.withBackground(slices.DeleteFunc(merge(p.list), func(c pooled) bool { return c.framework }))
}

// withBackground adds the first dark background to a pool of only white and pale greys: the brand is shown on it.
func (p *colorPool) withBackground(pool []pooled) []pooled {
	if len(pool) == 0 || len(p.backgrounds) == 0 ||
		slices.ContainsFunc(pool, func(c pooled) bool { return c.chromatic() || c.inked() }) {
		return pool
	}
	return append(pool, p.backgrounds[0])
}

// logos adds the colors of the logos. The total weight of the logos is
// constant; the first is the primary one, and each further one counts less.
func (p *colorPool) logos(palettes []Palette) {
	total := 0.0
	for i := range palettes {
		total += 1 / float64(i+1)
	}
	for i, palette := range palettes {
		share := 1 / float64(i+1) / total
		main := -1
		for _, ink := range palette.Inks {
			if ink.Share < minShare {
				continue
			}
			one := pooled{color: ink.Color, weight: paletteWeight * ink.Share * share, method: paletteMethod,
				source: palette.Source}
			if i == 0 && one.chromatic() && (main < 0 || one.weight > p.list[main].weight) {
				main = len(p.list)
			}
			p.list = append(p.list, one)
		}
		if main >= 0 {
			p.list[main].main = true
		}
	}
}

const whiteShare = 0.5 // the proportion of white and pale grey from which a logo counts as white

// behind adds the color of the surface behind a white logo.
func (p *colorPool) behind(palettes []Palette) {
	at := slices.IndexFunc(palettes, func(l Palette) bool { return l.Node != nil })
	if at < 0 {
		return
	}
	white := 0.0
	for _, ink := range palettes[at].Inks {
		if one := (pooled{color: ink.Color}); !one.inked() && !one.chromatic() {
			white += ink.Share
		}
	}
	c, ok := p.surface(palettes[at].Node)
	one := pooled{color: c, weight: surfaceWeight, method: "surface behind the logo", source: p.in.PageURL()}
	switch {
	case !ok || white < whiteShare || !one.inked():
	case one.chromatic():
		p.list = append(p.list, one)
	case c.Brightness() < darkBelow:
		p.backgrounds = slices.Insert(p.backgrounds, 0, one)
	}
}

// merge joins colors that look the same into the one with the largest weight.
func merge(pool []pooled) []pooled {
	strongest := func(a, b pooled) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.color.Hex(), b.color.Hex()))
	}
	slices.SortStableFunc(pool, strongest)
	var out []pooled
next:
	for _, p := range pool {
		for i := range out {
			if have := &out[i]; imaging.DeltaE(have.color, p.color) < sameColor {
				have.weight += p.weight
				have.framework = have.framework && p.framework
				have.main = have.main || p.main
				if p.method != have.method && !slices.Contains(have.others, p.method) && len(have.others) < maxOthers {
					have.others = append(have.others, p.method)
				}
				continue next
			}
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, strongest)
	return out
}
