package monogram

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/image/vector"
	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"

	"letterhead/internal/searchindex"
)

// maxText limits the part of a name or a domain that is used, in bytes. It includes their first two words.
const maxText = 512

// letters returns the one or two letters to draw, in upper case, or none if the font lacks them.
//
// They are the initials of the first two words of the name, or of the domain's label if there is no name: GitHub is G,
// whether its name is known or not, and Goldman Sachs is GS. Capitals inside a word are not initials: they would make
// eBay and McDonald's worse, and change the monogram of github.com on the day its name becomes known. Only a word as
// short as HP, O2 or 3M, or one that begins with digits like 23andMe, contributes two characters.
//
// A name in a script that the font lacks has no letters, even if its domain has some: readers of that
// name would not look for them.
func (m Monogram) letters() []rune {
	words := wordsOf(m.Name)
	if len(words) == 0 {
		words = wordsOf(labelOf(m.Domain))
	}
	var found []string
	var first []rune
	for _, w := range words {
		if r, ok := letter(clusters(w, 1)[0]); ok && len(found) < 2 {
			found, first = append(found, w), append(first, r)
		}
	}
	if len(found) != 1 {
		return first
	}
	all := clusters(found[0], 3)
	if len(all) < 2 {
		return first
	}
	second, ok := letter(all[1])
	one, two := unicode.IsDigit(first[0]), unicode.IsDigit(second)
	switch {
	case !ok:
		return first
	case len(all) == 2, one && !two: // HP, 1Password
		return append(first, second)
	case one && two && !unicode.IsDigit(rune(all[2][0])): // 23andMe
		return append(first, second)
	}
	return first
}

// labelOf returns a registrable domain's label, in its native script; "" if there is none.
func labelOf(domain string) string {
	domain = head(domain)
	if rest, ok := strings.CutPrefix(domain, "www."); ok && strings.Contains(rest, ".") {
		domain = rest // www.gov.uk is a registrable domain
	}
	label, _, _ := strings.Cut(domain, ".")
	own, err := idna.Punycode.ToUnicode(label)
	if err != nil {
		return "" // the letters of broken punycode are meaningless
	}
	return own
}

// wordsOf returns the words of a name that contribute initials: without legal forms, and without
// articles and particles if other words are left.
func wordsOf(name string) []string {
	words := split(head(name))
	folded := make([]string, len(words))
	for i, w := range words {
		folded[i] = searchindex.Fold(w)
	}
	from, to := searchindex.WithoutForms(folded)
	if to-from > 1 && slices.Contains(articles, folded[from]) {
		from++
	}
	var out []string
	for i := from; i < to; i++ {
		if i > from && slices.Contains(particles, folded[i]) {
			continue
		}
		out = append(out, undotted(words[i])...)
	}
	return out
}

// articles are skipped at the beginning of a name. Those of Romance languages are not: LV is Las Vegas.
var articles = strings.Fields("the der die das")

// particles have no initial after the first word.
var particles = strings.Fields("and of the for und fur et de du des del di da y e och og en и та και")

// undotted splits a word at its dots: A.P. is two words, Booking.com is one.
func undotted(word string) []string {
	parts := strings.FieldsFunc(word, func(r rune) bool { return r == '.' })
	if len(parts) == 0 || len(clusters(parts[0], 2)) > 1 {
		return parts[:min(len(parts), 1)]
	}
	return parts
}

// head truncates a text to the part that is used, as valid UTF-8.
func head(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }

// signs of a trademark would otherwise be read as letters.
var signs = strings.NewReplacer("™", " ", "℠", " ", "®", " ", "©", " ", "℗", " ")

// split splits a name into words, composed and without ligatures and letters of another width.
// Apostrophes, dots and marks belong to a word, but a word begins with a letter or digit, and ends
// where a script begins that the font supports or lacks: 株式会社LIXIL.
func split(name string) []string {
	var words []string
	var word strings.Builder
	end := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	ours := false
	for _, r := range norm.NFKC.String(signs.Replace(name)) {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if here := written(r); here != ours {
				end()
				ours = here
			}
			word.WriteRune(r)
		case unicode.Is(unicode.M, r), r == '.', r == '\'', r == '’', r == 'ʼ':
			if word.Len() > 0 {
				word.WriteRune(r)
			}
		case unicode.Is(unicode.Cf, r): // joiners and direction marks, which are invisible
		default:
			end()
		}
	}
	end()
	return words
}

// written reports whether the font supports the rune's script.
func written(r rune) bool {
	return r >= '0' && r <= '9' || unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
}

// clusters returns the first letters of a word, each with its marks, at most that many.
func clusters(word string, most int) []string {
	var out []string
	begin := 0
	for i, r := range word {
		if i == begin || unicode.Is(unicode.M, r) {
			continue
		}
		out = append(out, word[begin:i])
		if begin = i; len(out) == most {
			return out
		}
	}
	return append(out, word[begin:])
}

// letter returns the capital of a letter with as many of its marks as the font has. Capitals do not depend on a
// language: Turkish writes İ for i, but nothing shows that a name is Turkish. ß begins no word, and becomes S.
func letter(cluster string) (rune, bool) {
	upper := norm.NFD.String(cases.Upper(language.Und).String(cluster))
	base := []rune(clusters(upper, 1)[0])
	if !written(base[0]) {
		return 0, false
	}
	for n := min(len(base), maxMarks+1); n > 0; n-- {
		composed := []rune(norm.NFC.String(string(base[:n])))
		if len(composed) == 1 && outfit().has(composed[0]) {
			return composed[0], true
		}
	}
	return 0, false
}

// maxMarks limits the marks of one letter. No letter of the font has more than two.
const maxMarks = 4

// outline is the path of both the image and the SVG. Contours do not overlap.
type outline []segment

// segment is one step of a path, with the letters of SVG: M and L with one point, Q with two, C with
// three, Z with none. The last point is its end.
type segment struct {
	op     byte
	points [3]point
}

type point struct{ x, y float64 }

var pointsOf = map[byte]int{'M': 1, 'L': 1, 'Q': 2, 'C': 3} // the number of points of each step

type box struct{ min, max point }

func (b box) width() float64  { return b.max.x - b.min.x }
func (b box) height() float64 { return b.max.y - b.min.y }

// moved returns the outline scaled and then translated.
func (o outline) moved(scaleX, scaleY, x, y float64) outline {
	return o.mapped(func(p point) point { return point{p.x*scaleX + x, p.y*scaleY + y} })
}

func (o outline) mapped(to func(point) point) outline {
	out := make(outline, len(o))
	for i, s := range o {
		for j, p := range s.points {
			s.points[j] = to(p)
		}
		out[i] = s
	}
	return out
}

// bounds returns the box of the ink, which is smaller than the box of the points if a curve does not
// reach its control points. All cubic curves are quarters of circles, whose extremes are their ends.
func (o outline) bounds() box {
	b := box{point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}}
	add := func(p point) {
		b.min = point{min(b.min.x, p.x), min(b.min.y, p.y)}
		b.max = point{max(b.max.x, p.x), max(b.max.y, p.y)}
	}
	var pen point
	for _, s := range o {
		n := pointsOf[s.op]
		if n == 0 {
			continue
		}
		end := s.points[n-1]
		if s.op == 'Q' {
			c := s.points[0]
			add(point{furthest(pen.x, c.x, end.x), furthest(pen.y, c.y, end.y)})
		}
		add(end)
		pen = end
	}
	return b
}

// furthest returns the extreme of a quadratic curve on one axis, or its end if it has none.
func furthest(from, control, to float64) float64 {
	t := (from - control) / (from - 2*control + to)
	if !(t > 0 && t < 1) { // also false for NaN, for a straight line
		return to
	}
	return (1-t)*(1-t)*from + 2*t*(1-t)*control + t*t*to
}

func (o outline) fill(z *vector.Rasterizer) {
	for _, s := range o {
		var p [3][2]float32
		for i, at := range s.points {
			p[i] = [2]float32{float32(at.x), float32(at.y)}
		}
		switch s.op {
		case 'M':
			z.MoveTo(p[0][0], p[0][1])
		case 'L':
			z.LineTo(p[0][0], p[0][1])
		case 'Q':
			z.QuadTo(p[0][0], p[0][1], p[1][0], p[1][1])
		case 'C':
			z.CubeTo(p[0][0], p[0][1], p[1][0], p[1][1], p[2][0], p[2][1])
		case 'Z':
			z.ClosePath()
		}
	}
}

// appendData appends the outline as the data of an SVG path, with two decimals.
func (o outline) appendData(to []byte) []byte {
	for _, s := range o {
		to = append(to, s.op)
		for i, p := range s.points[:pointsOf[s.op]] {
			if i > 0 {
				to = append(to, ' ')
			}
			to = appendNumber(to, p.x)
			to = append(to, ' ')
			to = appendNumber(to, p.y)
		}
	}
	return to
}

func appendNumber(to []byte, v float64) []byte {
	v = math.Round(v*100)/100 + 0 // + 0 turns a negative zero into a positive one
	return strconv.AppendFloat(to, v, 'f', -1, 64)
}

// arc is the distance of the control points of a quarter of a circle from its ends, for a radius of 1
// (https://spencermortensen.com/articles/bezier-circle/).
const arc = 0.551915

// pen draws outlines of lines and quarters of circles.
type pen struct {
	done outline
	at   point
}

// add adds a step with its points.
func (p *pen) add(op byte, points ...point) *pen {
	s := segment{op: op}
	if n := copy(s.points[:], points); n > 0 {
		p.at = points[n-1]
	}
	p.done = append(p.done, s)
	return p
}

func (p *pen) move(x, y float64) *pen { return p.add('M', point{x, y}) }
func (p *pen) line(x, y float64) *pen { return p.add('L', point{x, y}) }
func (p *pen) close() *pen            { return p.add('Z') }

// quarter draws a quarter of a circle, or of an ellipse, which starts vertically or horizontally.
func (p *pen) quarter(upright bool, x, y float64) *pen {
	dx, dy := x-p.at.x, y-p.at.y
	one, two := point{p.at.x + arc*dx, p.at.y}, point{x, y - arc*dy}
	if upright {
		one, two = point{p.at.x, p.at.y + arc*dy}, point{x - arc*dx, y}
	}
	return p.add('C', one, two, point{x, y})
}

// disc draws a circle, in the opposite direction for a hole.
func (p *pen) disc(x, y, r float64, hole bool) *pen {
	side := r // the first one
	if hole {
		side = -r
	}
	return p.move(x, y-r).quarter(false, x+side, y).quarter(true, x, y+r).quarter(false, x-side, y).
		quarter(true, x, y-r).close()
}

func (p *pen) block(x, y, width, height float64) *pen {
	return p.move(x, y).line(x+width, y).line(x+width, y+height).line(x, y+height).close()
}

func (p *pen) rounded(side, r float64) *pen {
	return p.move(r, 0).line(side-r, 0).quarter(false, side, r).
		line(side, side-r).quarter(true, side-r, side).
		line(r, side).quarter(false, 0, side-r).
		line(0, r).quarter(true, r, 0).close()
}
