package monogram

import (
	"crypto/sha256"
	"encoding/binary"
	"image/color"
	"math"

	"letterhead/internal/imaging"
)

// ink is the color of letters and marks.
var ink = color.NRGBA{R: 0xff, G: 0xff, B: 0xff, A: 0xff}

// tones are the contrasts between ink and tile. The letters need 4.5 to 1 (WCAG 2.2, 1.4.3). A
// contrast of c with white is one of 18.9/c with a page of #111111, where a tile needs 3 to 1
// (1.4.11): that leaves the range from 4.5 to 6.3, which has room for two distinguishable tones.
var tones = [...]float64{4.7, 6.1}

const (
	// maxChroma is in OKLCH: most hues have no more at these tones within sRGB, and those that do would stand out.
	maxChroma = 0.17
	// Between these hues a color as dark as the tones looks muddy: few brands are khaki, so no domain gets it.
	mudFrom, mudTo = 88.0, 128.0
)

// digest determines a domain's color and mark.
type digest [sha256.Size]byte

func digestOf(domain string) digest { return sha256.Sum256([]byte(domain)) }

// tile returns the color behind the letters.
func (d digest) tile() color.NRGBA {
	hue := float64(binary.BigEndian.Uint16(d[:])) / (math.MaxUint16 + 1) * (360 - (mudTo - mudFrom))
	if hue >= mudFrom {
		hue += mudTo - mudFrom
	}
	return shade(hue, tones[int(d[2])%len(tones)])
}

// mark and turn choose a mark and its rotation.
func (d digest) mark() int { return int(d[3]) }
func (d digest) turn() int { return int(d[4]) }

// shade returns the most colorful color of a hue, in degrees of OKLCH, that has the given contrast with white.
func shade(hue, contrast float64) color.NRGBA {
	luminance := 1.05/contrast - 0.05
	chroma := maxChroma
	for {
		low, high := 0.0, 1.0
		for range 20 { // to one millionth
			if mid := (low + high) / 2; oklch(mid, chroma, hue).luminance() < luminance {
				low = mid
			} else {
				high = mid
			}
		}
		if c := oklch(low, chroma, hue); c.shown() || chroma <= 0 {
			return c.color()
		}
		chroma -= 0.005
	}
}

// linear is a color in linear-light sRGB; channels from 0 to 1 can be displayed.
type linear [3]float64

// oklch converts lightness, chroma and hue in degrees.
func oklch(lightness, chroma, hue float64) linear {
	sin, cos := math.Sincos(hue * math.Pi / 180)
	r, g, b := imaging.OKLabToLinear(lightness, chroma*cos, chroma*sin)
	return linear{r, g, b}
}

// luminance is the relative luminance of WCAG.
func (c linear) luminance() float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }

// shown reports whether the color is within sRGB, except for rounding.
func (c linear) shown() bool {
	const rounding = 0.0005
	return min(c[0], c[1], c[2]) > -rounding && max(c[0], c[1], c[2]) < 1+rounding
}

func (c linear) color() color.NRGBA {
	rgb := imaging.FromLinear(c[0], c[1], c[2])
	return color.NRGBA{R: rgb.R, G: rgb.G, B: rgb.B, A: math.MaxUint8}
}
