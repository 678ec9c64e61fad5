package extract

import (
	"letterhead/eventschemas"
	"letterhead/internal/lazyregexp"
)

// Weights of the quality score, to be divided by their sum, 1.10. The score reads in thirds: below 1/3 a record is poor
// (at most a logo), up to 2/3 it is fair (a name, a description and an image), above that it is good (a proper logo and
// most of the rest).
const (
	logoScore        = 0.30
	secondTypeScore  = 0.10
	bothThemesScore  = 0.08
	nameScore        = 0.12
	descriptionScore = 0.12
	colorScore       = 0.10
	fontScore        = 0.05
	linkScore        = 0.08
	bannerScore      = 0.05
	companyScore     = 0.10

	sumOfScores = logoScore + secondTypeScore + bothThemesScore + nameScore + descriptionScore + colorScore +
		fontScore + linkScore + bannerScore + companyScore

	fullLinks        = 3 // links for the full weight
	companyFields    = 5
	noLogoCap        = 0.33
	waitingFactor    = 0.6 // factor of a record from a page that announces a site
	largeRaster      = 256 // pixels
	smallRaster      = 64
	vectorLogo       = 1.0
	largeRasterLogo  = 0.8
	iconOnly         = 0.5
	smallRasterLogo  = 0.2
	agreeingSources  = 2.0
	lonelyNameSource = 1.0
)

// Score returns how complete a record is, from 0 to 1. nameAgreed reports whether two sources gave the same name.
func Score(r *eventschemas.Record, nameAgreed bool) float64 {
	if r.NSFW {
		return 0
	}
	score := logoScore*bestLogo(r.Logos) + secondTypeScore*flag(logoTypes(r.Logos) >= 2) +
		bothThemesScore*flag(bothThemes(r.Logos))
	if r.Name != nil {
		sources := lonelyNameSource
		if nameAgreed {
			sources = agreeingSources
		}
		score += nameScore * sources / agreeingSources
	}
	score += descriptionScore * flag(r.Description != nil)
	score += colorScore * flag(len(r.Colors) >= 2)
	score += fontScore * flag(len(r.Fonts) > 0)
	score += linkScore * min(1, float64(len(r.Links))/fullLinks)
	score += bannerScore * flag(len(r.Images) > 0)
	score += companyScore * companyFilled(r.Company) / companyFields
	score /= sumOfScores
	if r.Description != nil && waiting.MatchString(*r.Description) {
		score *= waitingFactor
	}
	if !r.HasLogo() {
		score = min(score, noLogoCap)
	}
	return Round2(score)
}

// waiting matches descriptions of pages that announce or replace a site.
var waiting = lazyregexp.New(`(?i)\b(` + tables.Any("waiting") + `)\b`)

// Complete reports whether a record has a name, a logo file, a color and a description.
func Complete(r *eventschemas.Record) bool {
	return r.Name != nil && r.HasLogo() && len(r.Colors) > 0 && r.Description != nil
}

// bestLogo grades the best logo: vector, large, icon only, or tiny.
func bestLogo(logos []eventschemas.Logo) float64 {
	best := 0.0
	for _, l := range logos {
		for _, f := range l.Formats {
			grade := iconOnly
			side := 0
			if f.Width != nil && f.Height != nil {
				side = max(*f.Width, *f.Height)
			}
			switch {
			case f.Format == "svg":
				grade = vectorLogo
			case side >= largeRaster:
				grade = largeRasterLogo
			case side > 0 && side < smallRaster:
				grade = smallRasterLogo
			}
			best = max(best, grade)
		}
	}
	return best
}

func logoTypes(logos []eventschemas.Logo) int {
	types := map[string]bool{}
	for _, l := range logos {
		if l.Type != "other" {
			types[l.Type] = true
		}
	}
	return len(types)
}

// bothThemes ignores reversed logos: they add no information about the brand.
func bothThemes(logos []eventschemas.Logo) bool {
	var light, dark bool
	for _, l := range logos {
		if l.Theme != nil && !l.IsReversed() {
			light = light || *l.Theme == "light"
			dark = dark || *l.Theme == "dark"
		}
	}
	return light && dark
}

func companyFilled(c *eventschemas.Company) float64 {
	if c == nil {
		return 0
	}
	return flag(c.Employees != nil) + flag(c.FoundedYear != nil) + flag(c.Kind != nil) + flag(c.Location != nil) +
		flag(len(c.Industries) > 0)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
