// Package monogram draws the replacement for an unknown logo: one or two letters of the brand's name,
// or a geometric mark if the embedded font lacks its letters, on a color derived from the domain.
package monogram

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"image"
	"image/draw"
	"math"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"

	"letterhead/internal/imaging"
)

// Monogram identifies a monogram. The same Monogram always gives the same image. Any text is valid for both fields.
type Monogram struct {
	Domain string // registrable, ASCII; determines the color
	Name   string // of the brand; "" = use the domain's label
}

// The shape, as fractions of the side.
const (
	corner = 0.1875 // radius: 3 pixels of 16
	// height of capital letters, for one letter and for two
	oneHeight, twoHeight = 0.58, 0.46
	// limits of the ink if letters are wider, or have marks
	maxWidth, maxHeight = 0.74, 0.74
)

// Limits in pixels.
const (
	// minCapital is the minimum height of two letters. If they would be smaller only the first is
	// drawn: WM at 24 pixels, and any two at 16.
	minCapital = 8
	// minFree is the smallest image whose letters need not be aligned. On smaller ones the ink's box
	// is fitted to whole pixels: misaligned edges turn a stem of two pixels into three gray ones.
	minFree = 64
	// narrow letters may be half a pixel off center: one column more or less would change their form.
	narrow = 9
	// MaxSide limits the size of an image; larger ones are never requested.
	MaxSide = 2048
)

// Draw draws a square of side pixels, 1 to MaxSide, with transparent corners.
func (m Monogram) Draw(side int) *image.NRGBA {
	side = min(max(side, 1), MaxSide)
	var shape pen
	back := mask(shape.rounded(float64(side), corner*float64(side)).done, side)
	front := mask(m.figure(side), side)
	tile := digestOf(m.Domain).tile()

	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i, share := range front.Pix {
		// The color extends beyond the edges, where only alpha decreases: no other color appears when
		// the image is scaled or flattened.
		c := imaging.Over(tile, []uint8{ink.R, ink.G, ink.B, share})
		to := img.Pix[4*i : 4*i+4]
		to[0], to[1], to[2], to[3] = c.R, c.G, c.B, back.Pix[i]
	}
	return img
}

func mask(o outline, side int) *image.Alpha {
	img := image.NewAlpha(image.Rect(0, 0, side, side))
	z := vector.NewRasterizer(side, side)
	z.DrawOp = draw.Src
	o.fill(z)
	z.Draw(img, img.Rect, image.Opaque, image.Point{})
	return img
}

// svgSide is the side of the SVG's view box.
const svgSide = 64

// SVG returns the same as an SVG, with outlines instead of text, drawn for svgSide.
func (m Monogram) SVG() []byte {
	svg := fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"><rect width="%[1]d" height="%[1]d" rx="%[3]v" fill="%s"/><path fill="#fff" d="`,
		svgSide, svgSide, corner*svgSide, digestOf(m.Domain).tile().Hex())
	svg = m.figureOf(m.letters(), svgSide, false).appendData(svg)
	return append(svg, `"/></svg>`...)
}

// figure returns the letters or the mark on the tile, for an image of side pixels.
func (m Monogram) figure(side int) outline {
	letters, free := m.letters(), float64(side)
	if len(letters) > 1 && scaleOf(word(letters), len(letters), free)*outfit().capital < minCapital {
		letters = letters[:1]
	}
	return m.figureOf(letters, free, side < minFree)
}

func (m Monogram) figureOf(letters []rune, side float64, fitted bool) outline {
	if len(letters) == 0 {
		return markOf(digestOf(m.Domain), side)
	}
	return centred(word(letters), len(letters), side, fitted)
}

// word places letters in a row, in units of the font.
func word(letters []rune) outline {
	var out outline
	at := 0.0
	for _, r := range letters {
		glyph, advance := outfit().glyph(r)
		out = append(out, glyph.moved(1, 1, at, 0)...)
		at += advance
	}
	return out
}

// scaleOf returns the scale from units of the font to the tile.
func scaleOf(word outline, letters int, side float64) float64 {
	height := oneHeight
	if letters > 1 {
		height = twoHeight
	}
	ink := word.bounds()
	return side * min(height/outfit().capital, maxWidth/ink.width(), maxHeight/ink.height())
}

// centred returns the letters with the box of their ink centered on the tile.
func centred(word outline, letters int, side float64, fitted bool) outline {
	ink := word.bounds()
	scaleX := scaleOf(word, letters, side)
	scaleY := scaleX
	if fitted {
		odd := math.Mod(side, 2)
		// equal margins on both sides
		even := func(pixels float64) float64 { return max(2*math.Round((pixels-odd)/2)+odd, 1) }
		scaleY = even(ink.height()*scaleX) / ink.height()
		columns := ink.width() * scaleY
		if columns < narrow {
			columns = max(math.Round(columns), 1)
		} else {
			columns = even(columns)
		}
		scaleX = columns / ink.width()
	}
	left, top := (side-ink.width()*scaleX)/2, (side-ink.height()*scaleY)/2
	if fitted {
		left, top = math.Floor(left+0.25), math.Round(top) // the quarter compensates for rounding
	}
	return word.moved(scaleX, scaleY, left-ink.min.x*scaleX, top-ink.min.y*scaleY)
}

// Marks are drawn on a tile of 16 units, with straight edges on whole units, so that these are sharp at 16 pixels and
// all its multiples. They avoid signs with a meaning: no star, cross, crescent or arrow.
const grid = 16

// marks are the shapes. Some of them look the same in every rotation.
var marks = [...]func(p *pen){
	func(p *pen) { p.disc(8, 8, 5, false) },
	func(p *pen) { p.disc(8, 8, 5, false).disc(8, 8, 2, true) },
	func(p *pen) { // diamond
		p.move(8, 2.5).line(13.5, 8).line(8, 13.5).line(2.5, 8).close()
	},
	func(p *pen) { // leaf
		p.move(3, 3).line(8, 3).quarter(false, 13, 8).line(13, 13).line(8, 13).quarter(false, 3, 8).close()
	},
	func(p *pen) { // two bars, one offset
		p.block(3, 4, 8, 3).block(5, 9, 8, 3)
	},
	func(p *pen) { // four dots, one of them a square
		p.disc(5.5, 5.5, 2.5, false).disc(10.5, 10.5, 2.5, false).disc(5.5, 10.5, 2.5, false).block(8.5, 3, 4.5, 4.5)
	},
	func(p *pen) { // two domes
		p.move(3, 8).quarter(true, 8, 3).quarter(false, 13, 8).close()
		p.move(3, 13).quarter(true, 8, 8).quarter(false, 13, 13).close()
	},
	func(p *pen) { // fan
		p.move(3, 3).quarter(false, 13, 13).line(3, 13).close()
	},
	func(p *pen) { // quarter of a ring, with its disc
		p.move(3, 3).quarter(false, 13, 13).line(10, 13).quarter(true, 3, 6).close()
		p.move(3, 8).quarter(false, 8, 13).line(3, 13).close()
	},
	func(p *pen) { // two halves of a disc, moved apart along the cut
		p.move(7, 3).line(7, 11).quarter(false, 3, 7).quarter(true, 7, 3).close()
		p.move(9, 5).quarter(false, 13, 9).quarter(true, 9, 13).close()
	},
}

// markOf returns a domain's mark on a tile of the given side.
func markOf(d digest, side float64) outline {
	var p pen
	marks[int(d[3])%len(marks)](&p)
	unit := side / grid
	out := p.done.moved(unit, unit, 0, 0)
	for range d[4] % 4 { // quarter turns
		out = out.mapped(func(p point) point { return point{side - p.y, p.x} })
	}
	return out
}

// typeface is the embedded font. It is safe for concurrent use.
type typeface struct {
	font    *sfnt.Font
	size    fixed.Int26_6 // units of the em: outlines are exact at this size
	capital float64       // height of an H, in these units
}

// outfit is parsed once. It is Go Bold, which has WGL4: Latin, Greek and Cyrillic for the languages of
// Europe. It is bold because at 16 pixels the stems of other fonts are thinner than a pixel.
var outfit = sync.OnceValue(func() *typeface {
	f, err := sfnt.Parse(gobold.TTF)
	if err != nil {
		panic(fmt.Sprintf("monogram: the embedded font: %v", err)) // a broken build, which fails every test
	}
	t := &typeface{font: f, size: fixed.I(int(f.UnitsPerEm()))}
	h, _ := t.glyph('H')
	t.capital = h.bounds().height()
	return t
})

func (t *typeface) has(r rune) bool {
	var buf sfnt.Buffer
	i, err := t.font.GlyphIndex(&buf, r)
	return err == nil && i != 0
}

// glyph returns a letter's outline, on a baseline at zero with y pointing down, and its advance.
func (t *typeface) glyph(r rune) (outline, float64) {
	var buf sfnt.Buffer
	i, err := t.font.GlyphIndex(&buf, r)
	if err != nil {
		return nil, 0
	}
	segments, err := t.font.LoadGlyph(&buf, i, t.size, nil)
	if err != nil {
		return nil, 0
	}
	advance, err := t.font.GlyphAdvance(&buf, i, t.size, font.HintingNone)
	if err != nil {
		return nil, 0
	}
	var out outline
	for _, s := range segments {
		step := segment{op: "MLQC"[s.Op]}
		for j, p := range s.Args {
			step.points[j] = point{units(p.X), units(p.Y)}
		}
		if step.op == 'M' && len(out) > 0 {
			out = append(out, segment{op: 'Z'})
		}
		out = append(out, step)
	}
	if len(out) > 0 {
		out = append(out, segment{op: 'Z'})
	}
	return out, units(advance)
}

func units(v fixed.Int26_6) float64 { return float64(v) / 64 }

// ink is the color of letters and marks.
var ink = imaging.White

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

// digest determines a domain's color, and its mark and the rotation of that.
type digest [sha256.Size]byte

func digestOf(domain string) digest { return sha256.Sum256([]byte(domain)) }

func (d digest) tile() imaging.RGB {
	hue := float64(binary.BigEndian.Uint16(d[:])) / (math.MaxUint16 + 1) * (360 - (mudTo - mudFrom))
	if hue >= mudFrom {
		hue += mudTo - mudFrom
	}
	return shade(hue, tones[int(d[2])%len(tones)])
}

// shade returns the most colorful color of a hue, in degrees of OKLCH, that has the given contrast with white.
func shade(hue, contrast float64) imaging.RGB {
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
			return imaging.FromLinear(c[0], c[1], c[2])
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
