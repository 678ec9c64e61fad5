package imaging

import (
	"image"
	"math"
	"math/bits"
)

// Thresholds of the analysis.
const (
	// clearAlpha: below it a pixel shows what is behind it.
	clearAlpha = 8
	// inkAlpha: from it on a pixel counts as ink, with its color.
	inkAlpha = 128
	// minClearShare of the pixels must be clear for a background to be transparent. A rounded corner or
	// two is not a background.
	minClearShare = 0.02
	// backgroundDeltaE: a pixel of an opaque image this far from the color of its corners is ink.
	backgroundDeltaE = 10
	// lightLuma: ink with a mean luma above it is light.
	lightLuma = 128
)

// Analysis is what an image shows.
type Analysis struct {
	// Transparent: the background is. At least three corners are clear, and more than 2 % of all pixels.
	Transparent bool
	// Blank: there is no ink; all is clear, or of one color.
	Blank bool
	// Ink is the box around the ink: what is not clear, or, in an image without clear parts, what differs
	// from the color of the corners. Empty when the image is blank.
	Ink image.Rectangle
	// Luma is the mean Rec. 709 luma of the opaque pixels, 0 to 255; of all that show, by their alpha, when
	// none is opaque; 0 for a clear image.
	Luma float64
	// Palette are the colors of the opaque pixels, largest share first, alike colors merged.
	Palette []Swatch
	// Hash is a perceptual hash: images that look the same differ in few bits (HashDistance), whatever
	// their size. A light and a dark version of one logo do not look the same.
	Hash uint64
}

// Theme names the ink: "light" or "dark", or "" when the background is not transparent and so decides
// itself what it is seen on.
func (a Analysis) Theme() string {
	switch {
	case !a.Transparent || a.Blank:
		return ""
	case a.Luma > lightLuma:
		return "light"
	}
	return "dark"
}

// Analyze looks at every pixel once or twice.
func Analyze(img *image.NRGBA) Analysis {
	cutOut := isCutOut(img)
	a := Analysis{Transparent: cutOut && clearCorners(img) >= 3}
	a.Luma, a.Palette = inkColors(img)
	a.Ink = inkBox(img, cutOut, clearAlpha)
	a.Blank = a.Ink.Empty()
	// Faint rims, which scaling leaves, would shift the grid.
	a.Hash = differenceHash(img, inkBox(img, cutOut, inkAlpha), a.Luma)
	return a
}

func clearCorners(img *image.NRGBA) int {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	count := 0
	for _, p := range []image.Point{{0, 0}, {w - 1, 0}, {0, h - 1}, {w - 1, h - 1}} {
		if img.NRGBAAt(p.X, p.Y).A < clearAlpha {
			count++
		}
	}
	return count
}

// isCutOut says that enough of an image is clear for its shape to be told by that.
func isCutOut(img *image.NRGBA) bool {
	clear := 0
	for i := 3; i < len(img.Pix); i += 4 {
		if img.Pix[i] < clearAlpha {
			clear++
		}
	}
	return float64(clear) > minClearShare*float64(len(img.Pix)/4)
}

// inkColors counts the opaque pixels in cells of 5 bits a channel, each with its own mean color.
func inkColors(img *image.NRGBA) (meanLuma float64, palette []Swatch) {
	type cell struct{ r, g, b, n uint64 }
	cells := make([]cell, 1<<15)
	var total cell
	for i := 0; i+3 < len(img.Pix); i += 4 {
		if img.Pix[i+3] < inkAlpha {
			continue
		}
		r, g, b := img.Pix[i], img.Pix[i+1], img.Pix[i+2]
		c := &cells[uint(r>>3)<<10|uint(g>>3)<<5|uint(b>>3)]
		c.r += uint64(r)
		c.g += uint64(g)
		c.b += uint64(b)
		c.n++
	}
	var colors []weighted
	for _, c := range cells {
		if c.n == 0 {
			continue
		}
		total.r, total.g, total.b, total.n = total.r+c.r, total.g+c.g, total.b+c.b, total.n+c.n
		mean := RGB{uint8((c.r + c.n/2) / c.n), uint8((c.g + c.n/2) / c.n), uint8((c.b + c.n/2) / c.n)}
		colors = append(colors, weighted{mean, float64(c.n)})
	}
	if total.n == 0 {
		return faintColors(img)
	}
	n := float64(total.n)
	return 0.2126*float64(total.r)/n + 0.7152*float64(total.g)/n + 0.0722*float64(total.b)/n, mergePalette(colors)
}

// faintColors is inkColors for an image without an opaque pixel, such as thin lines that were scaled down:
// every pixel that shows at all counts, by its alpha.
func faintColors(img *image.NRGBA) (meanLuma float64, palette []Swatch) {
	var colors []weighted
	lumaSum, total := 0.0, 0.0
	index := map[RGB]int{}
	for i := 0; i+3 < len(img.Pix); i += 4 {
		alpha := float64(img.Pix[i+3])
		if alpha < clearAlpha {
			continue
		}
		c := RGB{img.Pix[i], img.Pix[i+1], img.Pix[i+2]}
		lumaSum += alpha * c.Luma()
		total += alpha
		// Colors of faint pixels are coarse: with little alpha few values are left of 255.
		cell := RGB{c.R | 0x0f, c.G | 0x0f, c.B | 0x0f}
		at, known := index[cell]
		if !known {
			at = len(colors)
			index[cell] = at
			colors = append(colors, weighted{color: c})
		}
		colors[at].weight += alpha
	}
	if total == 0 {
		return 0, nil
	}
	return lumaSum / total, mergePalette(colors)
}

// inkBox is the smallest box around all ink of at least an alpha.
func inkBox(img *image.NRGBA, cutOut bool, alpha uint8) image.Rectangle {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	isInk := func(i int) bool { return img.Pix[i+3] >= alpha }
	if !cutOut {
		isInk = differsFrom(img, cornerColor(img))
	}
	var box image.Rectangle
	for y := range h {
		row := y * img.Stride
		left := 0
		for left < w && !isInk(row+4*left) {
			left++
		}
		if left == w {
			continue
		}
		right := w - 1
		for right > left && !isInk(row+4*right) {
			right--
		}
		box = box.Union(image.Rect(left, y, right+1, y+1))
	}
	return box
}

// cornerColor is the color that most corners have.
func cornerColor(img *image.NRGBA) RGB {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	var colors []weighted
	for _, p := range []image.Point{{0, 0}, {w - 1, 0}, {0, h - 1}, {w - 1, h - 1}} {
		c := img.NRGBAAt(p.X, p.Y)
		colors = append(colors, weighted{RGB{c.R, c.G, c.B}, float64(c.A) + 1})
	}
	return mergePalette(colors)[0].Color
}

// differsFrom says of the pixel at an offset whether it differs visibly from a background color. The last
// answer is kept: neighbors mostly have the same color.
func differsFrom(img *image.NRGBA, background RGB) func(int) bool {
	base := background.toLab()
	last, lastDiffers := background, false
	return func(i int) bool {
		if img.Pix[i+3] < clearAlpha {
			return false
		}
		c := RGB{img.Pix[i], img.Pix[i+1], img.Pix[i+2]}
		if c != last {
			last, lastDiffers = c, ciede2000(base, c.toLab()) >= backgroundDeltaE
		}
		return lastDiffers
	}
}

const (
	hashColumns = 9
	hashRows    = 8
	// hashStep is how much brighter a cell must be, of 255: flat areas, of which logos consist, would
	// otherwise decide by rounding.
	hashStep = 5
)

// differenceHash compares neighbors of a 9×8 grid of mean grey values over the ink: a bit is set where it
// gets brighter to the right. What is clear counts as white behind dark ink and black behind light, so
// that the shape shows.
func differenceHash(img *image.NRGBA, box image.Rectangle, luma float64) uint64 {
	if box.Empty() {
		return 0
	}
	behind := 255.0
	if luma > lightLuma {
		behind = 0
	}
	var hash uint64
	for row := range hashRows {
		previous := 0.0
		for column := range hashColumns {
			v := meanGrey(img, box, column, row, behind)
			if column > 0 {
				hash <<= 1
				if v > previous+hashStep {
					hash |= 1
				}
			}
			previous = v
		}
	}
	return hash
}

// meanGrey is the mean over one cell of the grid. Pixels on its border count by how much of them is in it,
// so that the size of the image does not matter.
func meanGrey(img *image.NRGBA, box image.Rectangle, column, row int, behind float64) float64 {
	left, right := cellBounds(box.Min.X, box.Dx(), column, hashColumns)
	top, bottom := cellBounds(box.Min.Y, box.Dy(), row, hashRows)
	sum, area := 0.0, 0.0
	for y := int(top); float64(y) < bottom; y++ {
		height := math.Min(bottom, float64(y+1)) - math.Max(top, float64(y))
		for x := int(left); float64(x) < right; x++ {
			weight := height * (math.Min(right, float64(x+1)) - math.Max(left, float64(x)))
			i := y*img.Stride + 4*x
			alpha := float64(img.Pix[i+3]) / 255
			grey := RGB{img.Pix[i], img.Pix[i+1], img.Pix[i+2]}.Luma()
			sum += weight * (grey*alpha + behind*(1-alpha))
			area += weight
		}
	}
	return sum / area
}

func cellBounds(from, length, i, count int) (float64, float64) {
	step := float64(length) / float64(count)
	return float64(from) + float64(i)*step, math.Min(float64(from)+float64(i+1)*step, float64(from+length))
}

// HashDistance is the number of bits in which two hashes differ, 0 to 64. Up to 4 is the same image.
func HashDistance(a, b uint64) int { return bits.OnesCount64(a ^ b) }
