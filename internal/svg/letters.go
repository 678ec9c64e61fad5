package svg

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/text/unicode/norm"
)

// maxLetters limits the letters of a document that become outlines.
const maxLetters = 2000

// letter is a glyph at its place.
type letter struct {
	leaf    *node // the text
	style   lettering
	glyph   sfnt.GlyphIndex
	x, y    float64
	scale   float64 // horizontal; see textLength
	advance float64
	blank   bool // a space
	box     bool // instead of a letter that the font lacks
}

// typesetter places the letters of a text element (SVG 2, section 11).
type typesetter struct {
	buf     sfnt.Buffer
	letters []letter
	chunk   int // the first letter of the chunk that is anchored together
	x, y    float64
	places  []*places
	space   bool // the last character was a space
	failed  bool
	boxes   bool // see Sketch
}

// places are the positions that an element gives its characters.
type places struct {
	lists [4][]float64 // x, y, dx, dy
	at    int
}

// outlineText replaces each text by outlines of an embedded font, because an image has no fonts of its page, neither in
// our renderer nor in a browser. A text with a letter, or a feature, that is missing here stays text.
func (d *document) outlineText() (changed bool) {
	left := maxLetters
	for at := range d.order {
		n := d.order[at]
		if n.name != "text" || left <= 0 {
			continue
		}
		l := lettering{size: defaultFontSize}
		for _, up := range n.parent.lineage() {
			l = l.inherit(up)
		}
		t := &typesetter{space: true, boxes: d.boxes}
		t.element(n, l)
		if t.failed || len(t.letters) == 0 || len(t.letters) > left {
			continue
		}
		t.endChunk()
		left -= len(t.letters)
		draw(n, t.letters)
		changed = true
	}
	if changed {
		d.order, d.byID = nil, map[string]*node{}
		d.collect(d.root)
	}
	return changed
}

// collect lists an element and those in it.
func (d *document) collect(n *node) {
	if n.name == "" {
		return
	}
	d.order = append(d.order, n)
	if n.id != "" {
		d.byID[n.id] = n
	}
	for _, c := range n.children {
		d.collect(c)
	}
}

// draw replaces the text of an element by paths.
func draw(n *node, letters []letter) {
	paths := map[*node]*strings.Builder{}
	var buf sfnt.Buffer
	for _, l := range letters {
		if n.parent.name == "clipPath" || len(n.children) == 1 && n.children[0].name == "" {
			l.leaf = n // a clip has no groups, nor has what it uses
		}
		if paths[l.leaf] == nil {
			paths[l.leaf] = &strings.Builder{}
		}
		l.write(paths[l.leaf], &buf)
	}
	var walk func(n *node)
	walk = func(n *node) {
		if n.name == "" {
			n.name, n.text = "path", ""
		} else {
			n.name, n.href = "g", ""
			n.attrs = slices.DeleteFunc(n.attrs, func(a attribute) bool { return textual[a.name] })
			n.inline = slices.DeleteFunc(n.inline, func(x attribute) bool { return textual[x.name] })
		}
		if data := paths[n]; data != nil {
			n.name, n.children = "path", nil
			if data.Len() > 0 { // not only spaces
				n.set("d", data.String())
			}
		}
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(n)
}

// textual are the attributes and properties that only concern text.
var textual = setOf("x", "y", "dx", "dy", "rotate", "textLength", "lengthAdjust", "xml:space", "font-family",
	"font-size", "font-style", "font-weight", "font-stretch", "font-variant", "letter-spacing", "word-spacing",
	"line-height", "text-anchor", "text-transform", "text-decoration", "dominant-baseline",
	"alignment-baseline", "baseline-shift", "writing-mode", "direction", "unicode-bidi", "text-rendering")

// element places the letters of a text or tspan.
func (t *typesetter) element(n *node, l lettering) {
	l = l.inherit(n)
	p := &places{}
	for i, name := range []string{"x", "y", "dx", "dy"} {
		if v := n.attr(name); v != "" {
			p.lists[i], _ = n.inUserUnits(name, v, l.size)
		}
	}
	switch mode := n.style["writing-mode"]; {
	case n.name == "textPath", n.attr("rotate") != "", strings.HasPrefix(mode, "tb"), strings.HasPrefix(mode, "vertical"),
		l.size <= 0, n.style["direction"] == "rtl" && !t.boxes:
		t.failed = true
		return
	case n.style["direction"] == "rtl":
		l.anchor = map[string]string{"middle": "middle", "end": "start"}[l.anchor]
		l.anchor = cmp.Or(l.anchor, "end")
	}
	t.places = append(t.places, p)
	first := len(t.letters)
	if n.style["display"] != "none" {
		for _, c := range n.children {
			if c.name == "" {
				t.text(c, l)
			} else {
				t.element(c, l)
			}
		}
	}
	t.places = t.places[:len(t.places)-1]
	if length, ok := n.inUserUnits("textLength", n.attr("textLength"), l.size); ok && len(length) == 1 {
		t.stretch(first, length[0], n.attr("lengthAdjust") == "spacingAndGlyphs")
	}
}

// text places the characters of a text.
func (t *typesetter) text(leaf *node, l lettering) {
	text := leaf.text
	switch l.capitals {
	case "uppercase":
		text = strings.ToUpper(text)
	case "lowercase":
		text = strings.ToLower(text)
	}
	for _, r := range norm.NFC.String(text) { // the fonts have whole letters only
		if unicode.Is(unicode.Cf, r) { // joiners, hyphens of line breaks, and the like show nothing
			continue
		}
		if unicode.IsSpace(r) && r != '\u00a0' {
			if r = ' '; t.space && !l.preserve {
				continue
			}
		}
		t.space = r == ' '
		glyph, err := l.face.font.GlyphIndex(&t.buf, r)
		// Letters that join or run from right to left need more than a glyph each.
		joined := unicode.In(r, unicode.Hebrew, unicode.Arabic, unicode.Mn)
		box := glyph == 0 || joined
		if err != nil || box && !t.boxes || len(t.letters) >= maxLetters {
			t.failed = true
			return
		}
		advance, err := l.face.font.GlyphAdvance(&t.buf, glyph, l.face.size, font.HintingNone)
		if err != nil {
			t.failed = true
			return
		}
		t.place()
		if last := len(t.letters) - 1; last >= t.chunk && t.letters[last].style.face == l.face {
			before := t.letters[last].glyph
			kern, err := l.face.font.Kern(&t.buf, before, glyph, l.face.size, font.HintingNone)
			if err == nil { // else the font has no such pair
				t.x += l.face.ems(kern) * l.size
			}
		}
		one := letter{leaf, l, glyph, t.x, t.y, 1, l.face.ems(advance)*l.size + l.letterSpace, t.space, box}
		switch {
		case r == ' ':
			one.advance += l.wordSpace
		case box:
			one.advance = l.letterSpace + boxSize*l.size
			if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
				one.advance = l.letterSpace + l.size
			}
		}
		t.letters = append(t.letters, one)
		t.x += one.advance
	}
}

// place moves to the position that the innermost element gives the next character.
func (t *typesetter) place() {
	var given [4]bool
	var value [4]float64
	for _, p := range t.places {
		for i, list := range p.lists {
			if p.at < len(list) {
				value[i], given[i] = list[p.at], true
			}
		}
		p.at++
	}
	if given[0] || given[1] {
		t.endChunk()
	}
	if given[0] {
		t.x = value[0]
	}
	if given[1] {
		t.y = value[1]
	}
	t.x, t.y = t.x+value[2], t.y+value[3]
}

// endChunk moves the letters since the last absolute position by their anchor.
func (t *typesetter) endChunk() {
	chunk := t.letters[t.chunk:]
	t.chunk = len(t.letters)
	ink := chunk
	for len(ink) > 0 && ink[len(ink)-1].blank && !ink[len(ink)-1].style.preserve {
		ink = ink[:len(ink)-1] // spaces at the end of a text have no width
	}
	if len(ink) == 0 {
		return
	}
	share := map[string]float64{"middle": 0.5, "end": 1}[chunk[0].style.anchor]
	last := ink[len(ink)-1]
	shift := share * (last.x + last.advance - chunk[0].x)
	for i := range chunk {
		chunk[i].x -= shift
	}
}

// stretch fits the letters from first on into a length (SVG 2, section 11.7).
func (t *typesetter) stretch(first int, length float64, glyphs bool) {
	fitted := t.letters[first:]
	if len(fitted) < 2 || t.chunk > first || length <= 0 {
		return
	}
	from, natural := fitted[0].x, t.x-fitted[0].x
	for i := range fitted {
		if glyphs {
			ratio := length / natural
			fitted[i].x = from + (fitted[i].x-from)*ratio
			fitted[i].advance *= ratio
			fitted[i].scale = ratio
		} else {
			fitted[i].x += float64(i) * (length - natural) / float64(len(fitted)-1)
		}
	}
	t.x = from + length
}

// boxSize is the width and the height of a box instead of a letter, in ems. East Asian ones are as wide as the em.
const boxSize = 0.6

// slant is the tangent of the angle of synthetic italics: 14 degrees (CSS Fonts 4, section 2.4).
const slant = 0.25

// rise returns the height of the baseline above the alphabetic one, in ems.
func (l lettering) rise() float64 {
	f := l.face
	switch l.baseline {
	case "middle":
		return f.xHeight / 2
	case "central":
		return (f.ascent - f.descent) / 2
	case "hanging":
		return f.ascent * 0.8
	case "text-before-edge", "before-edge", "text-top", "top":
		return f.ascent
	case "text-after-edge", "after-edge", "text-bottom", "bottom", "ideographic":
		return -f.descent
	}
	return 0
}

// write appends the outline of a letter to path data.
func (l *letter) write(b *strings.Builder, buf *sfnt.Buffer) {
	face, size := l.style.face, l.style.size
	segments, err := face.font.LoadGlyph(buf, l.glyph, face.size, nil)
	if err != nil {
		return // GlyphIndex found it, and all glyphs of the embedded fonts load
	}
	base := l.y + l.style.rise()*size - l.style.shift
	if l.box {
		fmt.Fprintf(b, "M%s %sv%sh%sv%sZ", formatNumber(l.x), formatNumber(base), formatNumber(-boxSize*size),
			formatNumber(0.9*(l.advance-l.style.letterSpace)), formatNumber(boxSize*size))
		return
	}
	precision := math.Pow(10, math.Ceil(math.Log10(500/size))) // of a 500th of the font size
	open := false
	for _, s := range segments {
		if s.Op == sfnt.SegmentOpMoveTo && open {
			b.WriteByte('Z')
		}
		open = true
		b.WriteByte("MLQC"[s.Op])
		for i, p := range s.Args[:[]int{1, 1, 2, 3}[s.Op]] {
			x, y := face.ems(p.X)*size*l.scale, face.ems(p.Y)*size
			if l.style.slanted {
				x -= slant * y
			}
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(formatNumber(math.Round((l.x+x)*precision) / precision))
			b.WriteByte(' ')
			b.WriteString(formatNumber(math.Round((base+y)*precision) / precision))
		}
	}
	if open {
		b.WriteByte('Z')
	}
}
