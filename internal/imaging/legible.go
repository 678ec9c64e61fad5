package imaging

import (
	"image"
	"math"
)

const (
	// LeastLegible is the WCAG contrast ratio from which a cell of a logo is seen at all. WCAG asks for 3, but many
	// brands' own colors have less: 1.5 on white is between a light gray (#d3d3d3) and the yellow of McDonald's.
	LeastLegible = 1.5
	// WCAG's ratio overstates the contrast of dark colors. On pages that are not light, ink below plainContrast is
	// therefore legible only if its hue differs, too: by plainDifference of CIEDE2000. Of 64 famous logos on
	// #000000, #121212 and #0b5fff, this separates the words of Instagram,
	// FedEx and Docker (1.6 to 1.8 and 13 to 32), which cannot be read, from
	// dark reds, and from oranges on the blue (1.9 and 31 to 58).
	plainContrast   = 1.8
	plainDifference = 32
	// mostLostParts is the share of a logo's cells that may be in parts that cannot be seen. On dark pages, the black
	// word below the circles of Mastercard is 0.07, and registered-trademark signs are 0.02 and less.
	mostLostParts = 0.03
	// mostSwallowed is the share of its cells that a logo may lose in parts that remain visible otherwise. The yellow
	// half of Python's snakes is 0.44 on white, and the logo is recognized by everyone.
	mostSwallowed = 0.5
	// lostPart is the share of a part's cells that the page swallows if the
	// part cannot be seen: the rest is the mixed color of edges.
	lostPart = 0.9
	// groundShare is the share of its box that a logo with a ground of its own
	// covers, with round corners; a disc covers 0.79.
	groundShare = 0.9
	// leastOnGround is the share of such a logo that must differ from the page.
	leastOnGround = 0.02
)

// Swallowed describes how much of a logo cannot be seen on a page, as shares of its inked cells. A cell is a pixel that
// is mostly opaque; it is swallowed if its color is not legible on the page and nothing legible encloses it.
type Swallowed struct {
	Cells float64 // all of these
	Parts float64 // those in connected parts, such as letters, that are swallowed as a whole
}

// TooMuch reports whether the logo is not legible on the page.
func (s Swallowed) TooMuch() bool { return s.Cells > mostSwallowed || s.Parts > mostLostParts }

// IsLegibleOn reports whether ink is seen on a page.
func (c RGB) IsLegibleOn(page RGB) bool {
	contrast := Contrast(c, page)
	switch {
	case contrast < LeastLegible:
		return false
	case contrast >= plainContrast, page.isLight():
		return true
	}
	return DeltaE(c, page) >= plainDifference
}

// isLight reports whether black has more contrast with a page than white.
func (c RGB) isLight() bool { return Contrast(c, Black) >= Contrast(c, White) }

// SwallowedBy measures an image on a page. Of a logo with a ground of its own the ground is no ink: its color may be
// the page's. An image without ink is swallowed.
func SwallowedBy(img *image.NRGBA, page RGB) Swallowed {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	opaque := opaqueCells(img)
	swallowed := swallowedOn(img,
		func(pixel []uint8) bool { return pixel[3] > 0 && over(page, pixel).IsLegibleOn(page) })
	total, gone, lost := 0, 0, 0
	box := image.Rectangle{}
	visited := make([]bool, w*h)
	var open []int
	for start := range visited {
		if !opaque[start] || visited[start] {
			continue
		}
		visited[start] = true
		open = append(open[:0], start)
		cells, unseen := 0, 0
		for len(open) > 0 {
			at := open[len(open)-1]
			open = open[:len(open)-1]
			x, y := at%w, at/w
			box = box.Union(image.Rect(x, y, x+1, y+1))
			cells++
			if swallowed[at] {
				unseen++
			}
			for ny := max(y-1, 0); ny <= min(y+1, h-1); ny++ {
				for nx := max(x-1, 0); nx <= min(x+1, w-1); nx++ {
					if next := ny*w + nx; opaque[next] && !visited[next] {
						visited[next] = true
						open = append(open, next)
					}
				}
			}
		}
		total, gone = total+cells, gone+unseen
		if float64(unseen) > lostPart*float64(cells) {
			lost += cells
		}
	}
	all := float64(total)
	switch {
	case total == 0:
		return Swallowed{1, 1}
	case all >= groundShare*float64(box.Dx()*box.Dy()) && float64(total-gone) >= leastOnGround*all:
		return Swallowed{}
	}
	return Swallowed{float64(gone) / all, float64(lost) / all}
}

// opaqueCells returns the pixels that are mostly opaque or, of an image without any, those that are visible.
func opaqueCells(img *image.NRGBA) []bool {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	cells := make([]bool, w*h)
	for _, least := range []uint8{inkAlpha, clearAlpha} {
		found := false
		for y := range h {
			for x := range w {
				cells[y*w+x] = img.Pix[y*img.Stride+4*x+3] >= least
				found = found || cells[y*w+x]
			}
		}
		if found {
			break
		}
	}
	return cells
}

// plainlyLegible is the contrast that WCAG 2.2 requires of graphics (1.4.11).
const plainlyLegible = 3

// TurnedFor returns a color that is legible on a page: the color itself if it is, else one of the same hue with the
// opposite lightness, so that black becomes white and navy a light blue. If that has a contrast below 3, as on pages of
// medium lightness, the lightness is the nearest one that has it.
func (c RGB) TurnedFor(page RGB) RGB {
	if c.IsLegibleOn(page) {
		return c
	}
	hue, saturation, lightness := c.hsl()
	turned := fromHSL(hue, saturation, 1-lightness)
	if Contrast(turned, page) >= plainlyLegible {
		return turned
	}
	end := 0.0 // the lightness with more contrast
	if !page.isLight() {
		end = 1
	}
	const steps = 64
	for i := range steps + 1 {
		turned = fromHSL(hue, saturation, lightness+(end-lightness)*float64(i)/steps)
		if Contrast(turned, page) >= plainlyLegible {
			break
		}
	}
	return turned
}

// hsl returns the hue in degrees, and saturation and lightness from 0 to 1.
func (c RGB) hsl() (hue, saturation, lightness float64) {
	r, g, b := float64(c.R)/math.MaxUint8, float64(c.G)/math.MaxUint8, float64(c.B)/math.MaxUint8
	high, low := max(r, g, b), min(r, g, b)
	lightness = (high + low) / 2
	chroma := high - low
	if chroma == 0 {
		return 0, 0, lightness
	}
	switch high {
	case r:
		hue = math.Mod((g-b)/chroma+6, 6)
	case g:
		hue = (b-r)/chroma + 2
	default:
		hue = (r-g)/chroma + 4
	}
	return 60 * hue, chroma / (1 - math.Abs(2*lightness-1)), lightness
}

const (
	// edgeReach is the distance, in pixels, of two cells on both sides of an edge, whose middle is antialiased.
	edgeReach = 3
	// mostMerged is the share of the edges between inks that a recolored logo may lose.
	mostMerged = 0.1
	// alphaSlack is the difference in alpha, of 255, of two equal shapes.
	alphaSlack = 2
)

// KeepsShape reports whether a recolored image has the shape of the original, and the edges between its inks: a white
// letter on a black disc vanishes if the disc becomes white, too.
func KeepsShape(original, recolored *image.NRGBA) bool {
	if original.Rect != recolored.Rect {
		return false
	}
	w, h := original.Rect.Dx(), original.Rect.Dy()
	pixel := func(img *image.NRGBA, x, y int) (RGB, uint8) {
		p := img.Pix[y*img.Stride+4*x:]
		return RGB{p[0], p[1], p[2]}, p[3]
	}
	edges, merged := 0, 0
	compare := func(x, y, nx, ny int) {
		if nx >= w || ny >= h {
			return
		}
		a, alphaA := pixel(original, x, y)
		b, alphaB := pixel(original, nx, ny)
		if alphaA < inkAlpha || alphaB < inkAlpha || Contrast(a, b) < LeastLegible {
			return
		}
		edges++
		a, _ = pixel(recolored, x, y)
		b, _ = pixel(recolored, nx, ny)
		if Contrast(a, b) < LeastLegible {
			merged++
		}
	}
	for y := range h {
		for x := range w {
			_, before := pixel(original, x, y)
			_, after := pixel(recolored, x, y)
			if max(before, after)-min(before, after) > alphaSlack {
				return false
			}
			compare(x, y, x+edgeReach, y)
			compare(x, y, x, y+edgeReach)
		}
	}
	return float64(merged) <= mostMerged*float64(edges)
}
