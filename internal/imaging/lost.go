package imaging

import (
	"image"
	"math"
)

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
