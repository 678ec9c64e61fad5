package imaging

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// RGB is an sRGB color.
type RGB struct{ R, G, B uint8 }

// White and Black are backgrounds for flattening.
var (
	White = RGB{0xff, 0xff, 0xff}
	Black = RGB{}
)

// Hex returns the color as #rrggbb in lower case.
func (c RGB) Hex() string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

// Luma returns the Rec. 709 luma of the sRGB bytes, 0 to 255.
func (c RGB) Luma() float64 {
	return 0.2126*float64(c.R) + 0.7152*float64(c.G) + 0.0722*float64(c.B)
}

// Brightness returns Luma, rounded.
func (c RGB) Brightness() int { return int(math.Round(c.Luma())) }

// Chroma returns the difference of the largest and the smallest channel, from 0 for greys to 255.
func (c RGB) Chroma() int {
	return int(max(c.R, c.G, c.B)) - int(min(c.R, c.G, c.B))
}

type lab struct{ l, a, b float64 }

// toLab converts through linear sRGB and CIE XYZ at D65 (IEC 61966-2-1, CIE 15).
func (c RGB) toLab() lab {
	r, g, b := linearLight[c.R], linearLight[c.G], linearLight[c.B]
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124564*r + 0.3575761*g + 0.1804375*b) / 0.95047)
	y := f(0.2126729*r + 0.7151522*g + 0.0721750*b)
	z := f((0.0193339*r + 0.1191920*g + 0.9503041*b) / 1.08883)
	return lab{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// DeltaE returns the perceptual difference of two colors: CIEDE2000, where 1 is just visible and 100 is black to white.
func DeltaE(a, b RGB) float64 { return ciede2000(a.toLab(), b.toLab()) }

// ciede2000 follows Sharma, Wu, Dalal: The CIEDE2000 Color-Difference Formula, 2005, with all weights 1.
func ciede2000(p, q lab) float64 {
	const pow25to7 = 6103515625.0
	meanC := (math.Hypot(p.a, p.b) + math.Hypot(q.a, q.b)) / 2
	c7 := math.Pow(meanC, 7)
	g := 0.5 * (1 - math.Sqrt(c7/(c7+pow25to7)))
	a1, a2 := (1+g)*p.a, (1+g)*q.a
	c1, c2 := math.Hypot(a1, p.b), math.Hypot(a2, q.b)
	h1, h2 := hueAngle(a1, p.b), hueAngle(a2, q.b)

	dL, dC := q.l-p.l, c2-c1
	dh, meanH := 0.0, h1+h2
	if c1*c2 != 0 {
		dh = h2 - h1
		switch {
		case dh > 180:
			dh -= 360
		case dh < -180:
			dh += 360
		}
		switch {
		case math.Abs(h1-h2) <= 180:
			meanH = (h1 + h2) / 2
		case h1+h2 < 360:
			meanH = (h1 + h2 + 360) / 2
		default:
			meanH = (h1 + h2 - 360) / 2
		}
	}
	dH := 2 * math.Sqrt(c1*c2) * math.Sin(radians(dh/2))

	meanL, meanC2 := (p.l+q.l)/2, (c1+c2)/2
	t := 1 - 0.17*math.Cos(radians(meanH-30)) + 0.24*math.Cos(radians(2*meanH)) +
		0.32*math.Cos(radians(3*meanH+6)) - 0.20*math.Cos(radians(4*meanH-63))
	c7 = math.Pow(meanC2, 7)
	rotation := -2 * math.Sqrt(c7/(c7+pow25to7)) * math.Sin(radians(60*math.Exp(-math.Pow((meanH-275)/25, 2))))
	l50 := (meanL - 50) * (meanL - 50)
	sL, sC, sH := 1+0.015*l50/math.Sqrt(20+l50), 1+0.045*meanC2, 1+0.015*meanC2*t
	l, c, h := dL/sL, dC/sC, dH/sH
	return math.Sqrt(l*l + c*c + h*h + rotation*c*h)
}

func hueAngle(a, b float64) float64 {
	if a == 0 && b == 0 {
		return 0
	}
	h := math.Atan2(b, a) * 180 / math.Pi
	if h < 0 {
		h += 360
	}
	return h
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }

// Swatch is one color of an image and its share of the ink.
type Swatch struct {
	Color RGB
	Share float64 // of all ink, 0 to 1
}

const (
	// mergeDeltaE is the distance below which two colors count as one brand color.
	mergeDeltaE = 8
	// minShare drops remains of anti-aliasing and JPEG noise.
	minShare = 0.005
	// maxSwatches limits a palette. A photo has thousands of colors, a brand has few.
	maxSwatches = 12
	// maxMerged limits the colors that are compared: the heaviest ones decide.
	maxMerged = 512
)

// weighted is a color with its weight.
type weighted struct {
	color  RGB
	weight float64
}

// mergePalette merges similar colors into the heaviest of them and returns the
// palette, largest share first. It does not depend on the order of its input.
func mergePalette(colors []weighted) []Swatch {
	total := 0.0
	for _, c := range colors {
		total += c.weight
	}
	if total <= 0 {
		return nil
	}
	slices.SortFunc(colors, func(a, b weighted) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), rank(a.color)-rank(b.color))
	})
	var merged []weighted
	var labs []lab
	for _, c := range colors[:min(len(colors), maxMerged)] {
		cl := c.color.toLab()
		if i := slices.IndexFunc(labs, func(l lab) bool { return ciede2000(l, cl) < mergeDeltaE }); i >= 0 {
			merged[i].weight += c.weight
			continue
		}
		merged, labs = append(merged, c), append(labs, cl)
	}
	var palette []Swatch
	for _, m := range merged {
		if share := m.weight / total; share >= minShare {
			palette = append(palette, Swatch{m.color, share})
		}
	}
	slices.SortFunc(palette, func(a, b Swatch) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), rank(a.Color)-rank(b.Color))
	})
	return palette[:min(len(palette), maxSwatches)]
}

// rank orders colors of equal weight, so that a palette does not depend on map order.
func rank(c RGB) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }
