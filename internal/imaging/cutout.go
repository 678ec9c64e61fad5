package imaging

import (
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"
)

// CutSide is the longest side, in pixels, of an image that CutOut accepts: a crawl stores no larger raster.
const CutSide = 1024

const (
	groundTolerance = 20   // difference from the ground, of 255 in a channel, that noise of a JPEG makes
	groundBorder    = 0.97 // share of the border that is ground: ink of a tight picture may touch it
	lightGround     = 224  // luma from which a ground is paper; a darker one is a tile in a picture that is
	tileRatio       = 0.8  // nearly square
	neutralGround   = 32   // chroma from which a ground is a color of the brand

	// A clean edge has, within cleanEdge pixels, leastStep of 255 and cleanStep of the difference that the ink has at
	// farInside. Shadows, and gradients that end in the ground, have less at more than mostUnclean of the outline.
	cleanEdge, farInside, leastStep, cleanStep, mostUnclean = 4, 6, 40, 0.5, 0.3
	// A photograph on a flat ground has neighbors that differ by textureStep at mostTexture of its pixels.
	textureStep, mostTexture = 16, 0.2
	// maxRegions and maxEdge limit the regions, and the pixels of edges: noise has more.
	maxRegions, maxEdge = 1 << 16, 1 << 18

	compact      = 16   // size of a letter's counter, in squares of its depth; a letter in the ground's color has more
	roomy        = 1.5  // depth of a hole, in those of the ink around it, from which that ink is an outline
	counterDepth = 0.6  // least depth of a counter
	counterShare = 0.12 // or least share of a filled letter that its counters have
	sameStroke   = 1.4  // or greatest depth of a letter, in those of other letters, of which there are leastLetters
	leastLetters = 2

	mixedEdge  = 3    // width of an antialiased edge of a JPEG
	mixReach   = 4    // distance, in pixels, of the pure ink of a thin line
	mixSlack   = 40   // distance of a mixed color, of 255, from the line between ink and ground
	leastMixed = 0.05 // share of ink that is rounded to nothing, and that of ground, too
)

// CutOut returns an opaque image with its ground clear, or ok = false if it has none that is flat and has clean edges,
// or if the ground is a part of the logo, as the colored tile of an app icon is. Antialiased edges become translucent
// ink. An area of the ground's color that ink encloses becomes clear if it is a counter of a letter, or the inside of
// an outline; a white letter on a colored shape stays.
func CutOut(img *image.NRGBA) (out *image.NRGBA, ok bool) {
	size := img.Rect.Size()
	if max(size.X, size.Y) > CutSide || !hasGround(img) {
		return nil, false
	}
	ground := cornerColor(img)
	// A frame of one pixel saves tests for the border.
	framed := image.NewNRGBA(image.Rect(0, 0, size.X+2, size.Y+2))
	behind := image.NewUniform(color.NRGBA{ground.R, ground.G, ground.B, math.MaxUint8})
	draw.Draw(framed, framed.Rect, behind, image.Point{}, draw.Src)
	draw.Draw(framed, image.Rectangle{image.Pt(1, 1), size.Add(image.Pt(1, 1))}, img, img.Rect.Min, draw.Src)
	c := cutting{pix: framed.Pix, w: framed.Rect.Dx(), ground: ground}
	if !c.divide() {
		return nil, false
	}
	if c.choose(); !c.unmix() {
		return nil, false
	}
	return Cropped(framed, image.Rectangle{image.Pt(1, 1), size.Add(image.Pt(1, 1))}), true
}

// hasGround reports whether an image is opaque, and its border of one color that is no color of the brand.
func hasGround(img *image.NRGBA) bool {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	ground, border, same := cornerColor(img), 0, 0
	for y := range h {
		for x := range w {
			p := img.Pix[y*img.Stride+4*x:]
			if p[3] != math.MaxUint8 {
				return false
			}
			if x == 0 || y == 0 || x == w-1 || y == h-1 {
				if border++; ground.apart(RGB{p[0], p[1], p[2]}) <= groundTolerance {
					same++
				}
			}
		}
	}
	isTile := ground.Luma() < lightGround && float64(min(w, h)) >= tileRatio*float64(max(w, h))
	return !isTile && ground.Chroma() <= neutralGround && float64(same) >= groundBorder*float64(border)
}

// apart returns the difference of two colors in the channel with the largest one.
func (c RGB) apart(d RGB) int {
	return max(abs(int(c.R)-int(d.R)), abs(int(c.G)-int(d.G)), abs(int(c.B)-int(d.B)))
}

// cutting is an opaque image in a frame of its ground, divided into regions of ground and of ink.
type cutting struct {
	pix     []uint8
	w       int
	ground  RGB
	of      []int    // the region of each pixel, from 1
	depth   []uint16 // the distance of each pixel from the other kind
	regions []region // the second is the ground around the logo; the first is none
}

// region is a connected area of ground or ink. One that is inside of another comes after it.
type region struct {
	isInk, holds, cleared bool // holds: ink is in it
	around                int  // the region around it
	cells, depth, peak    int  // peak: the greatest difference from the ground
}

// isSpeck reports whether the region is noise in the ground.
func (r region) isSpeck() bool { return r.peak < leastStep }

func (c *cutting) color(i int) RGB { return RGB{c.pix[4*i], c.pix[4*i+1], c.pix[4*i+2]} }

func (c *cutting) off(i int) int { return c.color(i).apart(c.ground) }

// divide finds the regions, and how deep each pixel is in its own. Ink is also connected at corners. It reports false
// if there are too many.
func (c *cutting) divide() bool {
	n := len(c.pix) / 4
	c.of, c.depth, c.regions = make([]int, n), make([]uint16, n), []region{{}}
	isInk := make([]bool, n)
	for i := range isInk {
		isInk[i] = c.off(i) > groundTolerance
	}
	steps := [8]int{1, c.w, -1, -c.w, 1 + c.w, 1 - c.w, c.w - 1, -1 - c.w}
	var open []int
	for start := range c.of {
		if c.of[start] != 0 {
			continue
		}
		number, r, near := len(c.regions), region{isInk: isInk[start]}, steps[:4]
		if r.isInk {
			near = steps[:]
		}
		if start > 0 {
			r.around = c.of[start-1]
		}
		c.of[start], open = number, append(open[:0], start)
		for len(open) > 0 {
			at := open[len(open)-1]
			open = open[:len(open)-1]
			r.cells, r.peak = r.cells+1, max(r.peak, c.off(at))
			for _, step := range near {
				if next := at + step; next >= 0 && next < n && c.of[next] == 0 && isInk[next] == r.isInk {
					c.of[next], open = number, append(open, next)
				}
			}
		}
		if c.regions = append(c.regions, r); len(c.regions) > maxRegions {
			return false
		}
		c.regions[r.around].holds = c.regions[r.around].holds || r.isInk && !r.isSpeck()
	}
	deepen := func(i int, steps ...int) {
		for _, step := range steps {
			if next := i + step; next >= 0 && next < n && isInk[next] != isInk[i] {
				c.depth[i] = 1
			} else if next >= 0 && next < n {
				c.depth[i] = min(c.depth[i], c.depth[next]+1)
			}
		}
	}
	for i := range n {
		c.depth[i] = math.MaxUint16 / 2
		deepen(i, -1, -c.w-1, -c.w, 1-c.w)
	}
	for i := n - 1; i >= 0; i-- {
		deepen(i, 1, c.w+1, c.w, c.w-1)
		r := &c.regions[c.of[i]]
		r.depth = max(r.depth, int(c.depth[i]))
	}
	return true
}

// choose marks the regions that become clear: the ground around the logo, specks in it, counters, and the insides of
// outlines. A hole that is not compact, or that holds ink, is a letter or a picture in the ground's color.
func (c *cutting) choose() {
	c.regions[1].cleared = true
	holes, filled := make([]int, len(c.regions)), make([]bool, len(c.regions)) // of ink
	var strokes []float64
	for _, r := range c.regions[2:] {
		if !r.isInk {
			holes[r.around] += r.cells
			isPicture := r.holds || r.cells > compact*r.depth*r.depth
			filled[r.around] = filled[r.around] ||
				isPicture && float64(r.depth) <= roomy*float64(c.regions[r.around].depth)
		}
	}
	for i, r := range c.regions {
		if r.isInk && r.around == 1 && !r.isSpeck() && !filled[i] {
			strokes = append(strokes, float64(r.depth))
		}
	}
	slices.Sort(strokes)
	for i := 2; i < len(c.regions); i++ {
		r := &c.regions[i]
		ink := c.regions[r.around]
		depth, all := float64(ink.depth), holes[r.around]+ink.cells
		isLetter := len(strokes) >= leastLetters && depth <= sameStroke*strokes[len(strokes)/2]
		hasCounter := !filled[r.around] && (float64(r.depth) >= counterDepth*depth ||
			float64(holes[r.around]) >= counterShare*float64(all))
		if r.isInk {
			r.cleared = ink.cleared && r.isSpeck()
		} else {
			r.cleared = c.regions[ink.around].cleared && (ink.cleared || isLetter || hasCounter)
		}
	}
}

// near calls visit with the pixels within a distance of one.
func (c *cutting) near(i, distance int, visit func(next int)) {
	for y := -distance; y <= distance; y++ {
		for x := max(-distance, -(i % c.w)); x <= min(distance, c.w-1-i%c.w); x++ {
			if next := i + y*c.w + x; next >= 0 && next < len(c.of) {
				visit(next)
			}
		}
	}
}

// unmix makes the cleared regions clear and the edges beside them translucent. It reports false if the edges are not
// clean, or if the ink is a photograph.
func (c *cutting) unmix() bool {
	var edge []int
	outline, unclean, deep, texture := 0, 0, 0, 0
	for i, depth := range c.depth {
		if r := c.regions[c.of[i]]; !r.isInk || r.cleared {
			continue
		}
		if depth > farInside {
			if deep++; c.color(i).apart(c.color(i+1)) > textureStep {
				texture++
			}
		}
		isBeside := false
		if depth <= mixedEdge {
			c.near(i, int(depth), func(next int) { isBeside = isBeside || c.regions[c.of[next]].cleared })
		}
		if !isBeside {
			continue
		}
		if edge = append(edge, i); len(edge) > maxEdge {
			return false
		}
		if depth == 1 {
			step := max(c.off(i), c.off(c.inward(i, cleanEdge-1)))
			if outline++; step < leastStep || float64(step) < cleanStep*float64(c.off(c.inward(i, farInside-1))) {
				unclean++
			}
		}
	}
	if outline == 0 || float64(unclean) > mostUnclean*float64(outline) || float64(texture) > mostTexture*float64(deep) {
		return false
	}
	inks := make([]color.NRGBA, len(edge))
	for k, i := range edge {
		inks[k] = c.inkOf(i)
	}
	for i, number := range c.of {
		if c.regions[number].cleared {
			clear(c.pix[4*i : 4*i+4])
		}
	}
	for k, i := range edge {
		p := inks[k]
		copy(c.pix[4*i:], []uint8{p.R, p.G, p.B, p.A})
	}
	return true
}

// inward returns the pixel that is up to some steps from one at an edge, on the way to the middle of its region.
func (c *cutting) inward(i, steps int) int {
	for range steps {
		deeper := i
		c.near(i, 1, func(next int) {
			if c.of[next] == c.of[i] && c.depth[next] > c.depth[deeper] {
				deeper = next
			}
		})
		i = deeper
	}
	return i
}

// inkOf returns the ink of a pixel at an edge, without the share of the ground in it. The pure ink is the color inside
// of the edge or, of a thin line, the nearby color that is farthest from the ground.
func (c *cutting) inkOf(i int) color.NRGBA {
	fromGround := func(p RGB) (r, g, b float64) {
		return float64(p.R) - float64(c.ground.R), float64(p.G) - float64(c.ground.G), float64(p.B) - float64(c.ground.B)
	}
	at := c.color(i)
	pure, share, most := at, 1.0, 0.0
	r, g, b := fromGround(at)
	try := func(next int) {
		toR, toG, toB := fromGround(c.color(next))
		whole := toR*toR + toG*toG + toB*toB
		part := (r*toR + g*toG + b*toB) / whole
		off := math.Hypot(math.Hypot(r-part*toR, g-part*toG), b-part*toB)
		if whole > most && part <= 1 && off <= mixSlack {
			pure, share, most = c.color(next), part, whole
		}
	}
	if inside := c.inward(i, cleanEdge); c.depth[inside] >= cleanEdge {
		try(inside)
	} else {
		c.near(i, mixReach, func(next int) {
			if c.regions[c.of[next]].isInk {
				try(next)
			}
		})
	}
	switch {
	case share > 1-leastMixed:
		pure, share = at, 1
	case share < leastMixed:
		return color.NRGBA{}
	}
	return color.NRGBA{pure.R, pure.G, pure.B, uint8(math.Round(share * math.MaxUint8))}
}
