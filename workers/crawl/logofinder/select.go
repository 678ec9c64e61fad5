package logofinder

import (
	"cmp"
	"math"
	"slices"

	"letterhead/internal/imaging"
	"letterhead/workers/crawl/extract/colors"
)

// Limits of the selection.
const (
	MaxLogos = 8 // limits the logos of one record
	maxIcons = 3
	sameHash = 4 // the number of bits by which two perceptual hashes of one image may differ
	// relatedHash is the number of bits by which two drawings of one symbol may differ: with another margin or
	// background.
	relatedHash = 20
	sameInk     = 20.0 // the largest ΔE2000 between the main colors of two sizes of one drawing; scaling blends edges
	smallSide   = 128  // the side below which a larger image of the same drawing replaces an image
	square      = 0.1  // the largest deviation from 1 of an icon's aspect ratio
	wordmark    = 2.0  // the aspect ratio of the ink from which header art contains words
	// sureScore is the score from which a mark has the type logo; below, its type is "other". A declared logo reaches
	// it.
	sureScore = 40.0
	// letteredMinus lets a logo that can be drawn in every format precede one that only browsers draw whole, unless the
	// page shows only that one as its logo.
	letteredMinus = 30.0
)

// Selection is the result for the images that were read.
type Selection struct {
	Chosen  []*Image          // best first: the first is the primary logo
	Dropped map[*Image]string // why each of the others was not chosen
}

// Select chooses the logos of a brand among the images that were read: each
// drawing once, in the best available form, marks first.
func Select(all []*Image) Selection {
	all = slices.Clone(all)
	slices.SortStableFunc(all, better)
	s := selector{}
	var marks, icons []*Image
	for _, p := range all {
		if p.Kind == Mark {
			marks = s.keep(marks, p, MaxLogos-maxIcons)
		} else {
			icons = s.keep(icons, p, maxIcons)
		}
	}
	// A file at a known path may be a framework's or the host's: it must not contradict what the page declares.
	declared := slices.DeleteFunc(slices.Clone(icons), func(p *Image) bool { return p.Probed || p.tiny() })
	icons = s.without(icons, func(p *Image) bool {
		return p.Probed && len(declared) > 0 && !slices.ContainsFunc(declared,
			func(d *Image) bool { return imaging.HashDistance(d.Hash, p.Hash) <= relatedHash })
	}, "differs from the declared icons")
	// A tiny icon is used only if there is nothing else.
	if slices.ContainsFunc(append(marks[:len(marks):len(marks)], icons...), func(p *Image) bool { return !p.tiny() }) {
		icons = s.without(icons, (*Image).tiny, "tiny, and there is a larger one")
	}
	// An image declared both as logo and as icon is kept once, unless the icon has more signs.
	icons = s.without(icons, func(p *Image) bool {
		return slices.ContainsFunc(marks, func(have *Image) bool { return have.Sum == p.Sum })
	}, "the same file as a chosen one")
	return Selection{Chosen: append(marks, icons...), Dropped: s}
}

// selector records why images are dropped.
type selector map[*Image]string

// without drops the chosen candidates for which a rule is true.
func (s selector) without(chosen []*Image, rule func(*Image) bool, why string) []*Image {
	return slices.DeleteFunc(chosen, func(p *Image) bool {
		if !rule(p) {
			return false
		}
		s[p] = why
		return true
	})
}

// better orders images by score; ties by vector before raster and large before small.
func better(a, b *Image) int {
	return cmp.Or(cmp.Compare(b.rank(), a.rank()), cmp.Compare(b.grade(), a.grade()))
}

// grade returns the quality of a file's form: vectors are better than pixels, and more pixels are better.
func (p *Image) grade() int {
	if p.SVG != nil && !p.Lettered {
		return math.MaxInt
	}
	return p.Width * p.Height
}

// rank returns the candidate's score, corrected by the actual file: a page may declare 180 pixels and serve 32.
func (p *Image) rank() float64 {
	if p.Lettered {
		return p.Score - letteredMinus
	}
	if p.SVG != nil || p.Side == 0 && p.Kind == Mark {
		return p.Score
	}
	return p.Score - sized(p.Side) + sized(p.side())
}

// keep adds an image unless it is another size of a chosen one. If it is, and is a vector, or much larger than a small
// one, it replaces that one. A light and a dark version of one drawing are different, as are versions with and without
// a background, and versions in another color.
func (s selector) keep(chosen []*Image, p *Image, limit int) []*Image {
	i := slices.IndexFunc(chosen, func(have *Image) bool { return have.Sum == p.Sum || have.alike(p) })
	switch {
	case i >= 0:
		have := chosen[i]
		both := have.ByConvention && p.ByConvention // a drawing that the site declares in any size is its own
		have.ByConvention, p.ByConvention = both, both
		switch {
		case have.SVG == nil && p.SVG != nil && !p.Lettered, have.Lettered && !p.Lettered:
			s[have] = "the same drawing as a vector, or in full"
		case have.SVG == nil && have.side() < smallSide && p.side() >= 2*have.side():
			s[have] = "the same drawing as a larger one"
		default:
			s[p] = "the same drawing as a chosen one"
			return chosen
		}
		// It replaces the other image and takes over its signs.
		p.Score = max(p.Score, have.Score)
		chosen[i] = p
	case len(chosen) < limit:
		return append(chosen, p)
	default:
		s[p] = "there are enough better ones"
	}
	return chosen
}

// alike reports whether two images show one drawing, in any size and form.
func (p *Image) alike(q *Image) bool {
	if p.Clear != q.Clear || p.Theme != q.Theme {
		return false
	}
	a, b := p.Colors.Inks, q.Colors.Inks
	if len(a) > 0 && len(b) > 0 && imaging.DeltaE(a[0].Color, b[0].Color) > sameInk {
		return false
	}
	return imaging.HashDistance(p.Hash, q.Hash) <= sameHash && near(p.aspect, q.aspect) ||
		near(p.ratio(), q.ratio()) && p.thumb.difference(q.thumb) < sameThumb
}

func near(a, b float64) bool { return math.Abs(a-b) < square*max(a, b) }

// ratio returns width to height, or 0 if unknown.
func (p *Image) ratio() float64 {
	if p.Width == 0 || p.Height == 0 {
		return 0
	}
	return float64(p.Width) / float64(p.Height)
}

func (p *Image) tiny() bool { return p.SVG == nil && p.side() < minSide }

// side returns the longer side in pixels.
func (p *Image) side() int { return max(p.Width, p.Height) }

// Type returns the image's type in the record.
func (p *Image) Type() string {
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

// Palettes returns the colors of the chosen logos. A stencil is black by convention; its color is declared separately.
func Palettes(chosen []*Image) []colors.Palette {
	var out []colors.Palette
	for _, p := range chosen {
		if p.Kind != Stencil && len(p.Colors.Inks) > 0 {
			p.Colors.Node = p.node
			out = append(out, p.Colors)
		}
	}
	return out
}
