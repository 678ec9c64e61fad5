package main

import (
	"fmt"
	"image"
	"math"
	"regexp"
	"strconv"
	"strings"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
)

// maxSVG limits one stored drawing, in bytes. Larger ones are a few images traced from bitmaps.
const maxSVG = 32 << 10

// markSide is the side of the grid that simple-icons draws on.
const markSide = 24

// Shape rules, the same as those of a crawl.
const (
	wideFrom    = 2.0  // width over height of the ink from which it is a wordmark or lockup
	squareSlack = 0.1  // tolerance of the sides of a square
	opaqueFrom  = 0.9  // share of its box that an opaque square covers, with round corners
	clearBelow  = 8.0  // alpha of 255 below which a pixel is clear
	clearShare  = 0.02 // share of clear pixels from which the background is transparent
)

// art is a drawing with its analysis.
type art struct {
	svg     string
	logo    eventschemas.Logo // its only format has no id, because ids follow from the bytes
	palette []share
	tone    tone
	mark    bool                 // in one color, from simple-icons
	inks    int                  // distinguishable colors of its ink
	lost    map[imaging.RGB]bool // pages on which it is invisible
	drawn   *image.NRGBA         // drawn like in the service
}

// tone is the brightness of a drawing without its own filled square.
type tone string

const (
	onPlate tone = ""
	bright  tone = "bright" // more light than dark
	dim     tone = "dim"
)

// look is the result of analyzing the pixels of a drawing.
type look struct {
	aspect      float64 // width over height of the ink
	opaque      bool    // a filled square
	transparent bool
	luma        float64 // mean of the ink
	palette     []share
}

func (c *canvas) look() (look, error) {
	x0, y0, x1, y1 := c.w, c.h, -1, -1
	var ink, covered, luma float64
	clear := 0
	weights := map[rgb]float64{}
	for i, a := range c.alpha {
		if a*255 < clearBelow {
			clear++
		}
		if a <= 0.5 || c.top[i] < 0 {
			continue
		}
		x, y := i%c.w, i/c.w
		x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x), max(y1, y)
		covered++
		p := c.paints[c.top[i]]
		for _, s := range p.stops {
			part := a / float64(len(p.stops))
			weights[s] += part
			luma += part * s.luma()
			ink += part
		}
	}
	if ink == 0 {
		return look{}, fmt.Errorf("nothing is painted")
	}
	var palette []share
	for col, w := range weights {
		palette = append(palette, share{col, w / ink})
	}
	w, h := float64(x1-x0+1), float64(y1-y0+1)
	l := look{aspect: w / h, luma: luma / ink, palette: mainColors(palette)}
	l.opaque = math.Abs(l.aspect-1) < squareSlack && covered/(w*h) >= opaqueFrom
	corners := 0
	for _, i := range []int{0, c.w - 1, c.w * (c.h - 1), c.w*c.h - 1} {
		if c.alpha[i]*255 < clearBelow {
			corners++
		}
	}
	l.transparent = corners >= 3 && float64(clear) > clearShare*float64(len(c.alpha))
	return l, nil
}

// art analyzes a drawing. wordmark is set for a drawing that has an icon variant.
func (e *renderer) art(svg string, left, top, width, height float64, wordmark bool) (art, error) {
	if len(svg) > maxSVG {
		return art{}, fmt.Errorf("drawing of %d bytes, more than %d", len(svg), maxSVG)
	}
	c, err := paintSVG(svg, left, top, width, height)
	if err != nil {
		return art{}, err
	}
	l, err := c.look()
	if err != nil {
		return art{}, err
	}
	logo := eventschemas.Logo{Type: "symbol", Tags: []string{}}
	switch {
	case wordmark || l.aspect >= wideFrom:
		logo.Type = "logo"
	case l.opaque:
		logo.Type = "icon"
	}
	a := art{svg: svg, palette: l.palette}
	if a.tone = dim; l.opaque {
		a.tone = onPlate
	} else if l.luma > brightInk {
		a.tone = bright
	}
	if err := e.lay(&a); err != nil {
		return art{}, err
	}
	// a drawing with its own background fits any page; one cut out of a single ink has none
	if !l.opaque || a.inks == 1 {
		theme := "dark"
		// white pages are more common, for a drawing that suits neither
		if a.lost[imaging.White] && !a.lost[imaging.DarkPage] {
			theme = "light"
		}
		logo.Theme = &theme
	}
	file := eventschemas.Asset{Format: "svg", Size: int64(len(svg))}
	w, h := int(math.Round(width)), int(math.Round(height))
	file.Width, file.Height = &w, &h
	if l.transparent {
		transparent := "transparent"
		file.Background = &transparent
	}
	logo.Formats = []eventschemas.Asset{file}
	a.logo = logo
	return a, nil
}

// mark returns a mark of simple-icons in its brand's color.
func (e *renderer) mark(m *mark) (art, error) {
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"><path fill="#%s" d="%s"/></svg>`,
		markSide, markSide, m.Hex, m.Path)
	svg, err := canonical(svg)
	if err != nil {
		return art{}, err
	}
	a, err := e.art(svg, 0, 0, markSide, markSide, false)
	a.mark = true
	return a, err
}

// drawing returns a full-color drawing of iconify.
func (e *renderer) drawing(d drawing, siblings []drawing) (art, error) {
	svg := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="%s %s %s %s">%s</svg>`,
		num(d.Left), num(d.Top), num(d.Width), num(d.Height),
		strings.ReplaceAll(shortIDs(d.Body), "xlink:href=", "href="))
	svg, err := canonical(svg)
	if err != nil {
		return art{}, err
	}
	return e.art(svg, d.Left, d.Top, d.Width, d.Height, hasIcon(d.Name, siblings))
}

// hasIcon reports whether a drawing's name also exists with the suffix -icon, so that the drawing includes words.
func hasIcon(name string, siblings []drawing) bool {
	for _, s := range siblings {
		if s.Name == name+"-icon" {
			return true
		}
	}
	return false
}

func num(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

var idPattern = regexp.MustCompile(`\bid="([^"]+)"`)

// shortIDs renames the ids of a drawing to a, b, c …, which compress better than random ones.
func shortIDs(body string) string {
	names := idPattern.FindAllStringSubmatch(body, -1)
	if len(names) == 0 {
		return body
	}
	var pairs []string
	for i, m := range names {
		short := "i" + strconv.Itoa(i)
		pairs = append(pairs, `"`+m[1]+`"`, `"`+short+`"`, `#`+m[1]+`"`, `#`+short+`"`, `#`+m[1]+`)`, `#`+short+`)`)
	}
	return strings.NewReplacer(pairs...).Replace(body)
}

// paletteHas reports whether a full-color drawing contains the color declared by the other source, which distinguishes
// two brands of one name. A gray is inconclusive.
func paletteHas(hex rgb, palette []share) bool {
	if !hex.chromatic() {
		return false
	}
	for _, s := range palette {
		if distance(hex, s.color) < 2*mergeWithin {
			return true
		}
	}
	return false
}
