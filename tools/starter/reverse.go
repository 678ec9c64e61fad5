package main

import (
	"errors"
	"fmt"
	"image"
	"regexp"
	"slices"
	"strings"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// reversal is the replacement for ink that is invisible on a page.
type reversal struct {
	page  imaging.RGB
	ink   imaging.RGB
	theme string
}

var reversedInks = []reversal{
	{imaging.DarkPage, imaging.White, "light"},
	{imaging.White, imaging.Black, "dark"},
}

// reversals returns the replacements for a brand's logos. If a type's logo for a page is invisible there, the first one
// of that type with a single ink is redrawn in a visible ink. Marks of one ink are meant to be colored, and their
// owners print them in white or black; for a drawing in several inks only its owner can decide which of them change.
// leftOut is called for drawings that cannot be recolored.
func (e *renderer) reversals(arts []art, leftOut func(name string, err error)) []art {
	var out []art
	for _, r := range reversedInks {
		for _, kind := range []string{"icon", "symbol", "logo"} {
			var all []art
			for _, a := range arts {
				if a.logo.Type == kind {
					all = append(all, a)
				}
			}
			if len(all) == 0 || shownFor(all, r.theme).isSeenOn(r.page) {
				continue
			}
			for _, a := range all {
				if a.inks != 1 {
					continue
				}
				turned, err := e.reverse(a, r)
				if err == nil {
					out = append(out, turned)
					break
				}
				leftOut("a reversed "+kind, err)
			}
		}
	}
	return out
}

// shownFor returns the logo of a type that the endpoint shows for a requested ink: the first in that ink, else the
// first with its own background, else the first.
func shownFor(all []art, theme string) art {
	at := slices.IndexFunc(all, func(a art) bool { return a.logo.Theme != nil && *a.logo.Theme == theme })
	if at < 0 {
		at = slices.IndexFunc(all, func(a art) bool { return a.logo.Theme == nil })
	}
	return all[max(at, 0)]
}

// isSeenOn reports whether a logo is visible on a page. A logo without a theme has its own background; on a page of a
// similar color its content remains visible.
func (a art) isSeenOn(page imaging.RGB) bool { return a.logo.Theme == nil || !a.lost[page] }

// painted matches the attributes with a color, other than none and references.
var painted = regexp.MustCompile(`\b(fill|stroke|stop-color)="(?:#[^"]*|[a-z]+\([^"#]*\)|[A-Za-z]+)"`)

// reverse returns the same drawing in another ink.
func (e *renderer) reverse(a art, r reversal) (art, error) {
	ink := r.ink.Hex()
	svg := painted.ReplaceAllStringFunc(a.svg, func(attr string) string {
		name, value, _ := strings.Cut(attr, "=")
		if value == `"none"` {
			return attr
		}
		return name + `="` + ink + `"`
	})
	// Elements without a color are black, unless the root sets one.
	if root, _, _ := strings.Cut(svg, ">"); !strings.Contains(root, "fill=") && r.ink != imaging.Black {
		svg = strings.Replace(svg, "<svg ", `<svg fill="`+ink+`" `, 1)
	}
	svg, err := canonical(svg)
	if err != nil {
		return art{}, err
	}
	turned := a
	turned.svg = svg
	if err := e.lay(&turned); err != nil {
		return art{}, err
	}
	switch {
	case !sameShape(a.drawn, turned.drawn):
		return art{}, errors.New("it has another shape in another color")
	case turned.inks != 1, turned.lost[r.page]:
		return art{}, fmt.Errorf("it cannot be painted %s", ink)
	}
	turned.logo.Theme = &r.theme
	turned.logo.Tags = []string{eventschemas.TagReversed}
	file := a.logo.Formats[0]
	file.Size = int64(len(svg))
	turned.logo.Formats = []eventschemas.Asset{file}
	return turned, nil
}

// sameShape reports whether two drawings cover the same area.
func sameShape(a, b *image.NRGBA) bool {
	if a.Rect != b.Rect {
		return false
	}
	for i := 3; i < len(a.Pix); i += 4 {
		if a.Pix[i] != b.Pix[i] {
			return false
		}
	}
	return true
}
