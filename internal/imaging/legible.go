package imaging

import (
	"image"
	"image/draw"
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
	// sameShare is the share of an ink, in those of the largest, from which it may be taken for it.
	sameShare = 0.8
	// leastOnGround is the share of such a logo that must differ from the page.
	leastOnGround = 0.02
)

// Swallowed describes how much of a logo cannot be seen on a page, as shares of its inked cells. A cell is a pixel that
// is mostly opaque; it is swallowed if its color is not legible on the page and nothing legible encloses it.
type Swallowed struct {
	Cells float64 // all of these
	Parts float64 // those in connected parts, such as letters, that are swallowed as a whole
	Main  float64 // the contrast of the largest ink with the page
}

// TooMuch reports whether the logo is not legible on the page.
func (s Swallowed) TooMuch() bool { return s.Cells > mostSwallowed || s.Parts > mostLostParts }

// IsWeak reports whether the logo is legible with less contrast than graphics should have.
func (s Swallowed) IsWeak() bool { return s.TooMuch() || s.Main < plainlyLegible }

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
		func(pixel []uint8) bool { return pixel[3] > 0 && Over(page, pixel).IsLegibleOn(page) })
	total, gone, lost := 0, 0, 0
	box := image.Rectangle{}
	inks := image.NewNRGBA(image.Rect(0, 0, w, h)) // without what others enclose
	eachPart(opaque, w, func(part []int) {
		unseen := 0
		for _, at := range part {
			x, y := at%w, at/w
			box = box.Union(image.Rect(x, y, x+1, y+1))
			pixel := img.Pix[y*img.Stride+4*x:]
			if swallowed[at] || Over(page, pixel).IsLegibleOn(page) {
				copy(inks.Pix[4*at:4*at+4], pixel)
			}
			if swallowed[at] {
				unseen++
			}
		}
		total, gone = total+len(part), gone+unseen
		if float64(unseen) > lostPart*float64(len(part)) {
			lost += len(part)
		}
	})
	all := float64(total)
	switch {
	case total == 0:
		return Swallowed{1, 1, 1}
	case all >= groundShare*float64(box.Dx()*box.Dy()) && float64(total-gone) >= leastOnGround*all:
		return Swallowed{Main: plainlyLegible}
	}
	result := Swallowed{Cells: float64(gone) / all, Parts: float64(lost) / all}
	_, palette := inkColors(inks)
	for _, s := range palette {
		if s.Share >= sameShare*palette[0].Share {
			result.Main = max(result.Main, Contrast(s.Color, page))
		}
	}
	return result
}

// eachPart visits the connected parts of a picture with a width, each as the indexes of its cells.
func eachPart(cells []bool, w int, visit func(part []int)) {
	visited := make([]bool, len(cells))
	var part []int
	for start := range cells {
		if !cells[start] || visited[start] {
			continue
		}
		visited[start] = true
		part = append(part[:0], start)
		for k := 0; k < len(part); k++ {
			x, y := part[k]%w, part[k]/w
			for ny := max(y-1, 0); ny <= min(y+1, len(cells)/w-1); ny++ {
				for nx := max(x-1, 0); nx <= min(x+1, w-1); nx++ {
					if next := ny*w + nx; cells[next] && !visited[next] {
						visited[next] = true
						part = append(part, next)
					}
				}
			}
		}
		visit(part)
	}
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

// plainlyLegible is the contrast that WCAG 2.2 requires of graphics (1.4.11), readable that of text (1.4.3).
const plainlyLegible, readable = 3, 4.5

// TurnedFor returns a color that is legible on a page: the color itself if it is, else one of the same hue with the
// opposite lightness, so that black becomes white and navy a light blue. If that has a contrast below 3, as on pages of
// medium lightness, the lightness is the nearest one that has it.
func (c RGB) TurnedFor(page RGB) RGB {
	if c.IsLegibleOn(page) {
		return c
	}
	hue, saturation, lightness := c.hsl()
	if turned := fromHSL(hue, saturation, 1-lightness); Contrast(turned, page) >= plainlyLegible {
		return turned
	}
	return c.StrengthenedFor(page)
}

// StrengthenedFor returns the color of the same hue and the nearest lightness with a contrast of 3 on a page.
func (c RGB) StrengthenedFor(page RGB) RGB { return c.withContrast(plainlyLegible, page) }

// ReadableOn is StrengthenedFor with the contrast that text must have.
func (c RGB) ReadableOn(page RGB) RGB { return c.withContrast(readable, page) }

func (c RGB) withContrast(least float64, page RGB) (strong RGB) {
	hue, saturation, lightness := c.hsl()
	end := 0.0 // the lightness with more contrast
	if !page.isLight() {
		end = 1
	}
	const steps = 64
	for i := range steps + 1 {
		if strong = c; i > 0 {
			strong = fromHSL(hue, saturation, lightness+(end-lightness)*float64(i)/steps)
		}
		if Contrast(strong, page) >= least {
			break
		}
	}
	return strong
}

// Recolor returns an image whose parts of one ink have another one, or ok = false if none is changed.
func Recolor(img *image.NRGBA, replace func(RGB) RGB) (out *image.NRGBA, ok bool) {
	w := img.Rect.Dx()
	out = image.NewNRGBA(image.Rectangle{Max: img.Rect.Size()})
	draw.Draw(out, out.Rect, img, img.Rect.Min, draw.Src)
	cells := make([]bool, w*img.Rect.Dy())
	for i := range cells {
		cells[i] = out.Pix[4*i+3] >= clearAlpha
	}
	eachPart(cells, w, func(part []int) {
		var r, g, b, n int
		for _, at := range part {
			p := out.Pix[4*at:]
			alpha := int(p[3])
			r, g, b, n = r+alpha*int(p[0]), g+alpha*int(p[1]), b+alpha*int(p[2]), n+alpha
		}
		ink, other := RGB{uint8(r / n), uint8(g / n), uint8(b / n)}, 0
		for _, at := range part {
			if p := out.Pix[4*at:]; p[3] >= inkAlpha && ink.apart(RGB{p[0], p[1], p[2]}) > oneInk {
				other++
			}
		}
		to := replace(ink)
		if to == ink || float64(other) > mostOther*float64(len(part)) {
			return
		}
		ok = true
		for _, at := range part {
			out.Pix[4*at], out.Pix[4*at+1], out.Pix[4*at+2] = to.R, to.G, to.B
		}
	})
	return out, ok
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
	// oneInk is the difference, of 255, of colors that are one ink with noise of a JPEG, and mostOther the share of a
	// part that may differ more.
	oneInk, mostOther = 48, 0.03
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

// DarkPage is the lightest background of dark pages: they range from black over
// #0d1117 and #121212 to #1c1c1c, which is about as light as iOS's raised views.
// Ink that is visible on it is even more visible on the darker ones.
var DarkPage = RGB{0x1c, 0x1c, 0x1c}

const (
	// leastContrast is the minimum contrast with the page, according to WCAG, of visible ink. APCA, which defines a
	// minimum where WCAG does not, calls Lc 15 the point of invisibility; for gray on white that is 1.31 (#e1e1e1).
	// Yellow like Python's (#ffd43b) has 1.4. On DarkPage 1.3 is
	// #303030. There APCA would require more, 2.5 on #121212, and reject reds
	// and blues (#8f0000, #003e95) that are clearly visible: of 120 marks of the starter index on #121212, sorted by
	// contrast, those below about 1.4 are hard to see, which is this limit again.
	leastContrast = 1.3
	// mostUnseen is the share of its ink that a logo may lose on a page. In the starter index the white rims of marks,
	// and white letters open to the edge of their plate, are up to 0.36 on white, and those logos are clearly visible;
	// white words next to a mark are 0.8 and more.
	mostUnseen = 0.4
)

// LostOn reports whether an image is hardly visible on a page of one color because too much of its ink is not.
func LostOn(img *image.NRGBA, page RGB) bool { return unseenOn(img, page) > mostUnseen }

// unseenOn returns the share of an image's ink that is invisible on a page.
func unseenOn(img *image.NRGBA, page RGB) float64 {
	swallowed := swallowedOn(img,
		func(pixel []uint8) bool { return Contrast(page, Over(page, pixel)) >= leastContrast })
	w, h := img.Rect.Dx(), img.Rect.Dy()
	ink, unseen := 0, 0
	for y := range h {
		for x := range w {
			alpha := int(img.Pix[y*img.Stride+4*x+3])
			ink += alpha
			if swallowed[y*w+x] {
				unseen += alpha
			}
		}
	}
	if ink == 0 {
		return 1
	}
	return float64(unseen) / float64(ink)
}

// swallowedOn returns, row by row, the pixels that a page swallows: those that are not seen on it and not enclosed by
// others that are. White within an outline or on a plate is visible on white.
func swallowedOn(img *image.NRGBA, seen func(pixel []uint8) bool) []bool {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	swallowed := make([]bool, w*h)
	var edge []image.Point
	swallow := func(x, y int) {
		if x < 0 || y < 0 || x >= w || y >= h || swallowed[y*w+x] || seen(img.Pix[y*img.Stride+4*x:]) {
			return
		}
		swallowed[y*w+x] = true
		edge = append(edge, image.Pt(x, y))
	}
	for x := range w {
		swallow(x, 0)
		swallow(x, h-1)
	}
	for y := range h {
		swallow(0, y)
		swallow(w-1, y)
	}
	for len(edge) > 0 {
		p := edge[len(edge)-1]
		edge = edge[:len(edge)-1]
		swallow(p.X-1, p.Y)
		swallow(p.X+1, p.Y)
		swallow(p.X, p.Y-1)
		swallow(p.X, p.Y+1)
	}
	return swallowed
}

// Over returns the color of a pixel on a page.
func Over(page RGB, pixel []uint8) RGB {
	alpha := int(pixel[3])
	mix := func(v, ground uint8) uint8 {
		return uint8((int(v)*alpha + int(ground)*(math.MaxUint8-alpha) + math.MaxUint8/2) / math.MaxUint8)
	}
	return RGB{mix(pixel[0], page.R), mix(pixel[1], page.G), mix(pixel[2], page.B)}
}

// Contrast returns the WCAG contrast ratio of two colors, 1 to 21.
func Contrast(a, b RGB) float64 {
	x, y := a.luminance()+0.05, b.luminance()+0.05
	return max(x/y, y/x)
}

// luminance returns the relative luminance of WCAG, 0 to 1.
func (c RGB) luminance() float64 {
	return 0.2126*linearLight[c.R] + 0.7152*linearLight[c.G] + 0.0722*linearLight[c.B]
}

// linearLight maps the bytes of sRGB to linear light.
var linearLight = func() (table [math.MaxUint8 + 1]float64) {
	for i := range table {
		if v := float64(i) / math.MaxUint8; v <= 0.04045 {
			table[i] = v / 12.92
		} else {
			table[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return table
}()
