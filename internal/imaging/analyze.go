package imaging

import (
	"image"
	"math"
	"math/bits"
)

// Thresholds of the analysis.
const (
	// clearAlpha is the alpha below which a pixel is clear.
	clearAlpha = 8
	// inkAlpha is the alpha from which a pixel counts as ink, with its color.
	inkAlpha = 128
	// minClearShare is the share of clear pixels from which a background is
	// transparent. One or two rounded corners are not a background.
	minClearShare = 0.02
	// backgroundDeltaE is the distance from the corners' color at which a pixel of an opaque image is ink.
	backgroundDeltaE = 10
	// lightLuma is the mean luma above which ink is light.
	lightLuma = 128
)

// Analysis describes the content of an image.
type Analysis struct {
	// Transparent is set if the background is: at least three corners are clear, and more than 2 % of all pixels.
	Transparent bool
	// Blank is set if there is no ink: the image is clear, or of one color.
	Blank bool
	// Ink is the bounding box of the ink: all pixels that are not clear, or, in an image without clear parts, those
	// that differ from the color of the corners. It is empty if the image is blank.
	Ink image.Rectangle
	// Luma is the mean Rec. 709 luma of the opaque pixels, 0 to 255; if none is
	// opaque, of all visible pixels, weighted by alpha; 0 for a clear image.
	Luma float64
	// Palette lists the colors of the opaque pixels, largest share first, with similar colors merged.
	Palette []Swatch
	// Hash is a perceptual hash: similar images differ in few bits (HashDistance), whatever their size. A light and a
	// dark version of one logo are not similar.
	Hash uint64
}

// Theme names the tone of the ink: "light" or "dark", or "" if the background
// is not transparent and the image brings its own.
func (a Analysis) Theme() string {
	switch {
	case !a.Transparent || a.Blank:
		return ""
	case a.Luma > lightLuma:
		return "light"
	}
	return "dark"
}

// Analyze analyzes an image. It visits every pixel once or twice.
func Analyze(img *image.NRGBA) Analysis {
	cutOut := ClearShare(img) > minClearShare // enough to define its shape
	a := Analysis{Transparent: cutOut && clearCorners(img) >= 3}
	a.Luma, a.Palette = inkColors(img)
	a.Ink = inkBox(img, cutOut, clearAlpha)
	a.Blank = a.Ink.Empty()
	// Faint edges, an effect of scaling, would shift the grid.
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

// ClearShare returns the share of clear pixels.
func ClearShare(img *image.NRGBA) float64 {
	clear := 0
	for i := 3; i < len(img.Pix); i += 4 {
		if img.Pix[i] < clearAlpha {
			clear++
		}
	}
	return float64(clear) / float64(max(1, len(img.Pix)/4))
}

// inkColors counts the opaque pixels in cells of 5 bits per channel, each with its own mean color.
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

// faintColors is inkColors for an image without opaque pixels, such as thin
// lines that were scaled down: every visible pixel counts, weighted by alpha.
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
		// Colors of faint pixels are coarse: a low alpha leaves few of the 255 values.
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

// inkBox returns the bounding box of all ink of at least an alpha.
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

// cornerColor returns the most frequent color of the corners.
func cornerColor(img *image.NRGBA) RGB {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	var colors []weighted
	for _, p := range []image.Point{{0, 0}, {w - 1, 0}, {0, h - 1}, {w - 1, h - 1}} {
		c := img.NRGBAAt(p.X, p.Y)
		colors = append(colors, weighted{RGB{c.R, c.G, c.B}, float64(c.A) + 1})
	}
	return mergePalette(colors)[0].Color
}

// differsFrom returns a function that reports whether the pixel at an offset differs visibly from a background color.
// It caches the last result, because neighbors usually have the same color.
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
	// hashStep is the minimum difference in brightness between cells, of 255: flat areas, which are common in logos,
	// would otherwise depend on rounding.
	hashStep = 5
)

// differenceHash compares neighbors in a 9×8 grid of mean grey values over the ink: a bit is set where brightness
// increases to the right. Clear pixels count as white behind dark ink and black behind light, so that the shape is
// visible.
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

// meanGrey returns the mean of one cell of the grid. Border pixels are weighted
// by their part in the cell, so that the size of the image does not matter.
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

// HashDistance returns the number of bits in which two hashes differ, 0 to 64. Up to 4 means the same image.
func HashDistance(a, b uint64) int { return bits.OnesCount64(a ^ b) }
