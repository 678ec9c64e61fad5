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
	// groundTolerance is the difference from the ground, of 255 in each channel, that noise of a JPEG makes.
	groundTolerance = 20
	// groundBorder is the share of the border that has the ground's color: ink of a tight picture may touch it.
	groundBorder = 0.97
	// lightGround is the luma from which a ground is paper. A darker one of a picture that is nearly square is a tile,
	// and one with more chroma than neutralGround a color of the brand.
	lightGround, neutralGround, tileRatio = 224, 32, 0.8
	// cleanEdge is the distance, in pixels, within which a clean edge has cleanStep of the difference that the ink has
	// at farInside, and at least leastStep, of 255. Shadows and gradients that end in the ground have less.
	cleanEdge, farInside = 4, 6
	cleanStep, leastStep = 0.5, 40
	// mostUnclean is the share of an outline that may not be clean.
	mostUnclean = 0.3
	// maxEdge limits the pixels of edges: noise has more.
	maxEdge = 1 << 18
	// textureStep is the difference of neighbors, of 255, from which they are texture, and mostTexture the share of the
	// pixels inside the ink that may be: a photograph on a flat ground has more.
	textureStep, mostTexture = 16, 0.2
	// convexShare is the share of its convex hull that the counter of a letter covers.
	convexShare = 0.85
	// smallHole is the number of pixels up to which the form of a hole is not known.
	smallHole = 24
	// roomy is the depth of a hole, in depths of the ink around it, from which that ink is an outline.
	roomy = 1.5
	// counterDepth is the least depth of a counter, in depths of its letter, and counterShare the least share of a
	// filled letter that its counters cover. A letter that has less, of a very bold font, is not deeper than sameStroke
	// of the letters beside it, of which there are leastLetters.
	counterDepth, counterShare, sameStroke, leastLetters = 0.6, 0.12, 1.4, 2
	// mixReach is the distance, in pixels, at which the pure ink of an antialiased pixel is found, and mixSlack the
	// distance of such a pixel, of 255, from the line between ink and ground.
	mixReach, mixSlack = 4, 40
	// leastMixed is the share of ink that is rounded to nothing, and that of ground, too.
	leastMixed = 0.05
)

// CutOut returns an opaque image with its ground clear, or ok = false if it has none that is flat and has clean edges,
// or if the ground is a part of the logo, as the colored tile of an app icon is. Antialiased edges become translucent
// ink. An area of the ground's color that ink encloses becomes clear if it is a counter of a letter, or the inside of
// an outline; a white letter on a colored shape stays.
func CutOut(img *image.NRGBA) (out *image.NRGBA, ok bool) {
	size := img.Rect.Size()
	ground, ok := groundOf(img)
	if !ok {
		return nil, false
	}
	// A frame of one pixel saves tests for the border.
	framed := image.NewNRGBA(image.Rect(0, 0, size.X+2, size.Y+2))
	draw.Draw(framed, framed.Rect, image.NewUniform(color.NRGBA{ground.R, ground.G, ground.B, 0xff}), image.Point{},
		draw.Src)
	draw.Draw(framed, image.Rectangle{image.Pt(1, 1), size.Add(image.Pt(1, 1))}, img, img.Rect.Min, draw.Src)
	c := cutting{pix: framed.Pix, w: framed.Rect.Dx(), h: framed.Rect.Dy(), ground: ground}
	c.divide()
	c.clear()
	if !c.unmix() {
		return nil, false
	}
	out = image.NewNRGBA(image.Rectangle{Max: size})
	draw.Draw(out, out.Rect, framed, image.Pt(1, 1), draw.Src)
	return out, true
}

// groundOf returns the one color of an opaque image's border, unless it is a color of the brand.
func groundOf(img *image.NRGBA) (ground RGB, ok bool) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	if max(w, h) > CutSide {
		return ground, false
	}
	var channels [3][]uint8
	var border []RGB
	for y := range h {
		row := img.Pix[y*img.Stride : y*img.Stride+4*w]
		for x := range w {
			p := row[4*x : 4*x+4 : 4*x+4]
			if p[3] != math.MaxUint8 {
				return ground, false
			}
			if x == 0 || y == 0 || x == w-1 || y == h-1 {
				border = append(border, RGB{p[0], p[1], p[2]})
				for k := range channels {
					channels[k] = append(channels[k], p[k])
				}
			}
		}
	}
	for k := range channels {
		slices.Sort(channels[k])
	}
	middle := len(border) / 2
	ground = RGB{channels[0][middle], channels[1][middle], channels[2][middle]}
	isTile := ground.Luma() < lightGround && float64(min(w, h)) >= tileRatio*float64(max(w, h))
	if ground.Chroma() > neutralGround || isTile || ground.apart(cornerColor(img)) > groundTolerance {
		return ground, false
	}
	same := 0
	for _, p := range border {
		if p.apart(ground) <= groundTolerance {
			same++
		}
	}
	return ground, float64(same) >= groundBorder*float64(len(border))
}

// apart returns the difference of two colors in the channel with the largest one.
func (c RGB) apart(d RGB) int {
	return max(abs(int(c.R)-int(d.R)), abs(int(c.G)-int(d.G)), abs(int(c.B)-int(d.B)))
}

// cutting is an opaque image in a frame of its ground, divided into regions of ground and of ink.
type cutting struct {
	pix     []uint8
	w, h    int
	ground  RGB
	of      []int32  // the region of each pixel, from 1
	depth   []uint16 // the distance of each pixel from the other kind
	regions []region // the second is the ground around the logo
}

// region is a connected area of ground or ink. One that is inside of another comes after it.
type region struct {
	isInk   bool
	around  int32 // the region around it
	cells   int
	depth   int  // of its middle
	peak    int  // of the difference from the ground
	bent    bool // it is far from convex
	holds   bool // other regions are inside
	cleared bool
}

func (c *cutting) color(i int) RGB { return RGB{c.pix[4*i], c.pix[4*i+1], c.pix[4*i+2]} }

func (c *cutting) inkAt(i int) bool { return c.regions[c.of[i]].isInk }

// divide finds the regions, and how deep each pixel is in its own. Ink is also connected at corners.
func (c *cutting) divide() {
	n := c.w * c.h
	c.of, c.depth, c.regions = make([]int32, n), make([]uint16, n), []region{{}}
	ink := make([]bool, n)
	for i := range ink {
		ink[i] = c.color(i).apart(c.ground) > groundTolerance
	}
	steps := [8]int{1, c.w, -1, -c.w, 1 + c.w, 1 - c.w, c.w - 1, -1 - c.w}
	var open []int
	left, right := make([]int, c.h), make([]int, c.h) // the extent of a region in its rows
	for start := range c.of {
		if c.of[start] != 0 {
			continue
		}
		number, r := int32(len(c.regions)), region{isInk: ink[start]}
		near := steps[:4]
		if r.isInk {
			near = steps[:]
		}
		if start > 0 {
			r.around = c.of[start-1]
		}
		c.of[start], open = number, append(open[:0], start)
		top, bottom := start/c.w, start/c.w
		left[top], right[top] = start%c.w, start%c.w
		for len(open) > 0 {
			at := open[len(open)-1]
			open = open[:len(open)-1]
			r.cells++
			x, y := at%c.w, at/c.w
			for bottom < y {
				bottom++
				left[bottom], right[bottom] = x, x
			}
			left[y], right[y] = min(left[y], x), max(right[y], x)
			for _, step := range near {
				next := at + step
				if next >= 0 && next < n && c.of[next] == 0 && ink[next] == r.isInk {
					c.of[next] = number
					open = append(open, next)
				}
			}
		}
		if !r.isInk && r.cells > smallHole {
			r.bent = float64(r.cells) < convexShare*float64(hullCells(left[top:bottom+1], right[top:bottom+1]))
		}
		c.regions = append(c.regions, r)
	}
	for i := range c.depth {
		c.depth[i] = math.MaxUint16 / 2
	}
	deepen := func(i int, steps ...int) {
		for _, step := range steps {
			next := i + step
			switch {
			case next < 0 || next >= n:
			case ink[next] != ink[i]:
				c.depth[i] = 1
			default:
				c.depth[i] = min(c.depth[i], c.depth[next]+1)
			}
		}
	}
	for i := range n {
		deepen(i, -1, -c.w-1, -c.w, 1-c.w)
	}
	for i := n - 1; i >= 0; i-- {
		deepen(i, 1, c.w+1, c.w, c.w-1)
		r := &c.regions[c.of[i]]
		r.depth, r.peak = max(r.depth, int(c.depth[i])), max(r.peak, c.color(i).apart(c.ground))
	}
}

// hullCells returns the number of pixels in the convex hull of an area that is given by its rows.
func hullCells(left, right []int) int {
	cells := len(left)
	for _, side := range []struct {
		edge []int
		sign int
	}{{left, -1}, {right, 1}} {
		var hull []int // rows of the corners
		for y := range side.edge {
			for len(hull) >= 2 {
				a, b := hull[len(hull)-2], hull[len(hull)-1]
				if side.sign*((side.edge[b]-side.edge[a])*(y-a)-(side.edge[y]-side.edge[a])*(b-a)) > 0 {
					break
				}
				hull = hull[:len(hull)-1]
			}
			hull = append(hull, y)
		}
		for k := range len(hull) - 1 {
			a, b := hull[k], hull[k+1]
			for y := a; y < b; y++ {
				cells += side.sign * (side.edge[a] + (side.edge[b]-side.edge[a])*(y-a)/(b-a))
			}
		}
		cells += side.sign * side.edge[hull[len(hull)-1]]
	}
	return cells
}

// clear marks the regions that become clear: the ground around the logo, specks in it, and counters and the insides of
// outlines. A hole that is not convex, or that holds ink, is a letter or a picture in the ground's color.
func (c *cutting) clear() {
	c.regions[1].cleared = true
	inside, filled := make([]int, len(c.regions)), make([]bool, len(c.regions)) // of ink: its holes
	var strokes []int
	for _, r := range c.regions[2:] {
		c.regions[r.around].holds = c.regions[r.around].holds || r.isInk && r.peak >= leastStep
	}
	for _, r := range c.regions[2:] {
		if ink := c.regions[r.around]; !r.isInk {
			inside[r.around] += r.cells
			filled[r.around] = filled[r.around] || (r.bent || r.holds) && float64(r.depth) <= roomy*float64(ink.depth)
		}
	}
	for i, r := range c.regions[2:] {
		if r.isInk && r.around == 1 && r.peak >= leastStep && !filled[i+2] {
			strokes = append(strokes, r.depth)
		}
	}
	slices.Sort(strokes)
	for i := 2; i < len(c.regions); i++ {
		r := &c.regions[i]
		ink := c.regions[r.around]
		if r.isInk {
			r.cleared = ink.cleared && r.peak < leastStep
			continue
		}
		isLetter := len(strokes) >= leastLetters &&
			float64(ink.depth) <= sameStroke*float64(strokes[len(strokes)/2])
		hasCounter := !filled[r.around] && (float64(r.depth) >= counterDepth*float64(ink.depth) ||
			float64(inside[r.around]) >= counterShare*float64(inside[r.around]+ink.cells))
		r.cleared = c.regions[ink.around].cleared && (ink.cleared || isLetter || hasCounter)
	}
}

// near calls visit with the pixels within a distance of one in the frame.
func (c *cutting) near(i, distance int, visit func(next int)) {
	x, y := i%c.w, i/c.w
	for ny := max(y-distance, 0); ny <= min(y+distance, c.h-1); ny++ {
		for nx := max(x-distance, 0); nx <= min(x+distance, c.w-1); nx++ {
			visit(ny*c.w + nx)
		}
	}
}

// unmix makes the cleared regions clear and the edges beside them translucent. It reports false if the edges are not
// clean, or if the ink is a photograph.
func (c *cutting) unmix() bool {
	const mixed = 3 // the width of an edge of a JPEG
	var edge []int
	outline, unclean, deep, texture := 0, 0, 0, 0
	for i, depth := range c.depth {
		if !c.inkAt(i) || c.regions[c.of[i]].cleared {
			continue
		}
		if depth > farInside {
			deep++
			if c.color(i).apart(c.color(i+1)) > textureStep {
				texture++
			}
		}
		if depth > mixed {
			continue
		}
		beside := false
		c.near(i, int(depth), func(next int) { beside = beside || c.regions[c.of[next]].cleared })
		if !beside {
			continue
		}
		if edge = append(edge, i); len(edge) > maxEdge {
			return false
		}
		if depth == 1 {
			if outline++; !c.isClean(i) {
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
		c.pix[4*i], c.pix[4*i+1], c.pix[4*i+2], c.pix[4*i+3] = p.R, p.G, p.B, p.A
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

// isClean reports whether the color at an edge reaches the ink's within a few pixels.
func (c *cutting) isClean(i int) bool {
	step := c.color(c.inward(i, cleanEdge-1)).apart(c.ground)
	step = max(step, c.color(i).apart(c.ground))
	inside := c.color(c.inward(i, farInside-1)).apart(c.ground)
	return step >= leastStep && float64(step) >= cleanStep*float64(inside)
}

// inkOf returns the ink of a pixel at an edge, without the share of the ground in it. The pure ink is the color inside
// of the edge or, of a thin line, the nearby color that is farthest from the ground.
func (c *cutting) inkOf(i int) color.NRGBA {
	at := c.color(i)
	pure, share, most := at, 1.0, 0.0
	r, g, b := c.fromGround(at)
	try := func(next int) {
		toR, toG, toB := c.fromGround(c.color(next))
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
			if c.inkAt(next) {
				try(next)
			}
		})
	}
	switch {
	case share > 1-leastMixed:
		return color.NRGBA{at.R, at.G, at.B, math.MaxUint8}
	case share < leastMixed:
		return color.NRGBA{}
	}
	return color.NRGBA{pure.R, pure.G, pure.B, uint8(math.Round(share * math.MaxUint8))}
}

func (c *cutting) fromGround(p RGB) (r, g, b float64) {
	return float64(p.R) - float64(c.ground.R), float64(p.G) - float64(c.ground.G), float64(p.B) - float64(c.ground.B)
}
