package logofinder

import (
	"cmp"
	"math"
	"slices"

	"letterhead/internal/imaging"
	"letterhead/workers/crawl/extract/colors"
)

// Limits of what is kept.
const (
	// MaxLogos bounds the logos of one record.
	MaxLogos = 8
	maxIcons = 3
	// sameHash is the number of bits in which two perceptual hashes of one image may differ.
	sameHash = 4
	// sameInk is ΔE2000 of the main colors of two sizes of one drawing; scaling blends edges.
	sameInk = 20.0
	// smallSide is the side below which an image gives way to a larger one of the same drawing.
	smallSide = 128
	// square is how far from 1 an icon's ratio of sides may be.
	square = 0.1
	// wordmark is the ratio of its ink's sides from which header art has words in it.
	wordmark = 2.0
	// sureScore is what a mark needs to be called the logo; less, and it stays "other". What is declared has
	// that much.
	sureScore = 40.0
)

// Selection is what became of the images that were read.
type Selection struct {
	Chosen  []*Picture // best first: the first is the primary logo
	Dropped []Dropped
}

// Dropped is an image that was not chosen.
type Dropped struct {
	*Picture
	Why string
}

// Select chooses the logos of a brand among the images that were read: each drawing once, in the best
// form there is, marks first.
func Select(all []*Picture) Selection {
	all = slices.Clone(all)
	slices.SortStableFunc(all, better)
	var s selector
	var marks, icons []*Picture
	for _, p := range all {
		if p.Kind == Mark {
			marks = s.keep(marks, p, MaxLogos-maxIcons)
		} else {
			icons = s.keep(icons, p, maxIcons)
		}
	}
	// A tiny icon is better than none, and worse than any other.
	if slices.ContainsFunc(append(marks[:len(marks):len(marks)], icons...), func(p *Picture) bool { return !p.tiny() }) {
		icons = s.without(icons, (*Picture).tiny, "tiny, and there is a larger one")
	}
	// An image that is declared as logo and as icon is kept once, unless the icon says more.
	icons = s.without(icons, func(p *Picture) bool { return sameFile(marks, p) }, "the same file as a chosen one")
	return Selection{Chosen: append(marks, icons...), Dropped: s.dropped}
}

// selector notes what is dropped.
type selector struct{ dropped []Dropped }

func (s *selector) drop(p *Picture, why string) { s.dropped = append(s.dropped, Dropped{p, why}) }

// without drops those of the chosen that a rule is true of.
func (s *selector) without(chosen []*Picture, rule func(*Picture) bool, why string) []*Picture {
	return slices.DeleteFunc(chosen, func(p *Picture) bool {
		if !rule(p) {
			return false
		}
		s.drop(p, why)
		return true
	})
}

// better orders images: by score, and what is worth the same by vector before raster and large before
// small.
func better(a, b *Picture) int {
	return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(b.grade(), a.grade()))
}

// grade is how good a form of its drawing a file is: any vector is better than pixels, and more are better.
func (p *Picture) grade() int {
	if p.SVG != nil {
		return math.MaxInt
	}
	return p.Width * p.Height
}

// rank is the candidate's score, corrected by what the file really is: a page says 180 pixels and serves
// 32.
func (p *Picture) rank() float64 {
	if p.SVG != nil || p.Side == 0 && p.Kind == Mark {
		return p.Score
	}
	return p.Score - sized(p.Side) + sized(p.side())
}

// keep adds an image that is none of the chosen ones in another size. One that is, and a vector, or much
// larger than a small one, takes its place. A light and a dark version of one drawing are two, and so are one with a
// background and one without, and one in another color.
func (s *selector) keep(chosen []*Picture, p *Picture, limit int) []*Picture {
	i := slices.IndexFunc(chosen, func(have *Picture) bool { return have.Sum == p.Sum || have.alike(p) })
	switch {
	case i >= 0:
		have := chosen[i]
		switch {
		case have.SVG == nil && p.SVG != nil:
			s.drop(have, "the same drawing as a vector")
		case have.SVG == nil && have.side() < smallSide && p.side() >= 2*have.side():
			s.drop(have, "the same drawing as a larger one")
		default:
			s.drop(p, "the same drawing as a chosen one")
			return chosen
		}
		// It takes the place of the other, whose signs are its own.
		p.Score = max(p.Score, have.Score)
		chosen[i] = p
	case len(chosen) < limit:
		return append(chosen, p)
	default:
		s.drop(p, "there are enough better ones")
	}
	return chosen
}

// alike reports whether two images show one drawing, in whatever size and form.
func (p *Picture) alike(q *Picture) bool {
	if p.Clear != q.Clear || p.Theme != q.Theme {
		return false
	}
	a, b := p.Colors.Inks, q.Colors.Inks
	if len(a) > 0 && len(b) > 0 && imaging.DeltaE(a[0].Color, b[0].Color) > sameInk {
		return false
	}
	if imaging.HashDistance(p.Hash, q.Hash) <= sameHash && near(p.aspect, q.aspect) {
		return true
	}
	return near(p.ratio(), q.ratio()) && p.thumb.difference(q.thumb) < sameDrawing
}

func near(a, b float64) bool { return math.Abs(a-b) < square*max(a, b) }

// ratio is width to height, 0 when unknown.
func (p *Picture) ratio() float64 {
	if p.Width == 0 || p.Height == 0 {
		return 0
	}
	return float64(p.Width) / float64(p.Height)
}

func (p *Picture) tiny() bool { return p.SVG == nil && p.side() < minSide }

// side is the longer side in pixels.
func (p *Picture) side() int { return max(p.Width, p.Height) }

func sameFile(chosen []*Picture, p *Picture) bool {
	return slices.ContainsFunc(chosen, func(have *Picture) bool { return have.Sum == p.Sum })
}

// Type names what an image is for the record.
func (p *Picture) Type() string {
	ratio := p.ratio()
	isSquare := ratio == 0 || math.Abs(ratio-1) < square
	switch {
	case p.Kind == Stencil:
		return "symbol"
	case p.Kind == Icon && isSquare, !p.Clear && isSquare:
		return "icon"
	case p.Kind == Icon:
		return "other"
	case p.Score < sureScore:
		return "other"
	case p.aspect > 0 && p.aspect < wordmark:
		return "symbol"
	}
	return "logo"
}

// Palettes are the colors of the chosen logos. A stencil is drawn black by convention: its color is
// declared beside it.
func Palettes(chosen []*Picture) []colors.Palette {
	var out []colors.Palette
	for _, p := range chosen {
		if p.Kind != Stencil && len(p.Colors.Inks) > 0 {
			out = append(out, p.Colors)
		}
	}
	return out
}
