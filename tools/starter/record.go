package main

import (
	"math"
	"sort"

	"letterhead/eventschemas"
	"letterhead/starter"
)

// maxLogos limits the logos of one brand, without reversed ones; the sources have a dozen drawings of some brands.
const maxLogos = 6

// Confidence of evidence, by the rule that assigned a product to its domain.
var confidence = map[string]float64{
	sameName.String(): 0.95, sameAlias.String(): 0.85, decorated.String(): 0.8, "alone, initials": 0.7,
	"alone, front page": 0.7,
}

// brandOf builds a record from all products of a domain and the statements about their owner. It returns false if
// none of its drawings is usable, and calls leftOut for each unusable one.
func brandOf(e *renderer, o owned, known library, leftOut func(name string, err error)) (starter.Brand, bool) {
	b := starter.Brand{Domain: o.Domain}
	var arts []art
	var declared *rgb
	var palette []share
	name, full := o.Claims[0].Product.Name, false
	for _, c := range o.Claims {
		p := c.Product
		if p.Mark != nil {
			a, err := e.mark(p.Mark)
			if err != nil {
				leftOut(p.Name, err)
				continue
			}
			col, _ := parseColor("#" + p.Mark.Hex)
			declared, name = &col, p.Name
			arts = append(arts, a)
		}
		for _, a := range e.drawingsOf(p, leftOut) {
			if !full {
				palette, full = a.palette, true
			}
			arts = append(arts, a)
		}
	}
	if len(arts) == 0 {
		return b, false
	}
	sort.SliceStable(arts, func(i, j int) bool { return order(arts[i]) < order(arts[j]) })
	arts = arts[:min(len(arts), maxLogos)]
	// They come last, so that the default logo does not change.
	arts = append(arts, e.reversals(arts, leftOut)...)
	b.Record = eventschemas.Record{
		Name: &name, Links: []eventschemas.Link{}, Logos: []eventschemas.Logo{}, Fonts: []eventschemas.Font{},
		Images: []eventschemas.Image{}, Company: eventschemas.EmptyCompany(),
		Colors: brandColors(declared, palette),
	}
	for _, a := range arts {
		b.Record.Logos = append(b.Record.Logos, a.logo)
		b.SVG = append(b.SVG, []byte(a.svg))
	}
	b.Evidence = evidenceOf(o, declared != nil)
	known.describe(&b)
	b.Record.QualityScore = quality(b.Record, arts, agreeing(o))
	return b, true
}

// drawingsOf returns the usable drawings of a full-color product, one bright and one dim of each type and theme: of a
// drawing in two colors, one may be for dark pages although both are visible on white.
func (e *renderer) drawingsOf(p *product, leftOut func(name string, err error)) []art {
	type kind struct {
		logo, theme string
		tone        tone
	}
	var out []art
	seen := map[kind]bool{}
	for _, d := range p.Icons {
		a, err := e.drawing(d, p.Icons)
		if err != nil {
			leftOut(d.Name, err)
			continue
		}
		k := kind{logo: a.logo.Type, tone: a.tone}
		if a.logo.Theme != nil {
			k.theme = *a.logo.Theme
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, a)
		}
	}
	return out
}

// order puts icons first, then symbols, then wordmarks; full-color drawings before marks.
func order(a art) int {
	rank := map[string]int{"icon": 0, "symbol": 2, "logo": 4}[a.logo.Type]
	if a.mark {
		rank++
	}
	return rank
}

// agreeing counts the sources that give the brand's name.
func agreeing(o owned) int {
	sources := map[string]bool{}
	for _, c := range o.Claims {
		sources[c.Product.Source] = true
	}
	return len(sources)
}

// quality returns the score of the extraction rules: 0.30 for a vector logo (half for an icon alone), 0.10 for a second
// type, 0.08 for a bright and a dim one, 0.12 for a name from two sources (half for one), 0.10 for an accent and one
// more color (half for the accent alone). Reversed logos do not count, nor do descriptions, links and facts: search
// orders equal matches by the score, and the companies that the packages describe are not those that people look for.
// The first crawl scores the whole record.
func quality(r eventschemas.Record, arts []art, sources int) float64 {
	types, tones := map[string]bool{}, map[tone]bool{}
	for _, a := range arts {
		types[a.logo.Type] = true
		if a.tone != onPlate && !a.logo.IsReversed() {
			tones[a.tone] = true
		}
	}
	score := 0.30
	if len(types) == 1 && types["icon"] {
		score *= 0.5
	}
	if len(types) > 1 {
		score += 0.10
	}
	if len(tones) == 2 {
		score += 0.08
	}
	score += 0.12 * float64(min(sources, 2)) / 2
	score += 0.10 * float64(min(len(r.Colors), 2)) / 2
	return math.Round(score*100) / 100
}

// evidenceOf returns the source of each field.
func evidenceOf(o owned, declared bool) []eventschemas.Evidence {
	var out []eventschemas.Evidence
	seen := map[eventschemas.Evidence]bool{}
	add := func(field, method string, c claim, sure float64) {
		e := eventschemas.Evidence{Field: field, Source: sourceName(c.Product), Method: method, Confidence: sure}
		if !seen[e] {
			seen[e] = true
			out = append(out, e)
		}
	}
	for _, c := range o.Claims {
		sure := confidence[o.Rule]
		add("name", c.Link.Method+", "+o.Rule, c, sure)
		add("logos", "package icon", c, sure)
		if c.Product.Mark != nil {
			add("colors", "brand hex", c, sure)
		} else {
			add("colors", "main fills", c, sure)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Field < out[j].Field })
	return out
}

func sourceName(p *product) string {
	if p.Source == simpleIcons {
		return simpleIcons + " " + simpleIconsVersion
	}
	return iconifyLogos + " " + iconifyVersion
}
