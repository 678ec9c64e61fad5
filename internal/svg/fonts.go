package svg

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-fonts/liberation/liberationmonobold"
	"github.com/go-fonts/liberation/liberationmonoregular"
	"github.com/go-fonts/liberation/liberationsansbold"
	"github.com/go-fonts/liberation/liberationsansregular"
	"github.com/go-fonts/liberation/liberationserifbold"
	"github.com/go-fonts/liberation/liberationserifregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// typeface is an embedded font at a size of one unit of its em for each pixel, so that outlines are exact.
type typeface struct {
	font            *sfnt.Font
	size            fixed.Int26_6
	em              float64
	ascent, descent float64 // in ems
	xHeight         float64
}

func embeddedFont(ttf []byte) func() *typeface {
	return sync.OnceValue(func() *typeface {
		f, err := sfnt.Parse(ttf)
		if err != nil {
			panic("svg: an embedded font: " + err.Error()) // a broken build, which fails every test
		}
		t := &typeface{font: f, em: float64(f.UnitsPerEm()), size: fixed.I(int(f.UnitsPerEm()))}
		m, err := f.Metrics(nil, t.size, font.HintingNone)
		if err != nil {
			panic("svg: an embedded font: " + err.Error())
		}
		t.ascent, t.descent, t.xHeight = t.ems(m.Ascent), t.ems(m.Descent), t.ems(m.XHeight)
		return t
	})
}

func (t *typeface) ems(v fixed.Int26_6) float64 { return float64(v) / 64 / t.em }

// The Liberation fonts have the widths of Arial, Times New Roman and Courier New, which browsers use if the font of a
// page is missing, and Latin, Greek and Cyrillic letters. The bold font of each kind is the second.
var (
	sans  = [2]func() *typeface{embeddedFont(liberationsansregular.TTF), embeddedFont(liberationsansbold.TTF)}
	serif = [2]func() *typeface{embeddedFont(liberationserifregular.TTF), embeddedFont(liberationserifbold.TTF)}
	mono  = [2]func() *typeface{embeddedFont(liberationmonoregular.TTF), embeddedFont(liberationmonobold.TTF)}
)

// Parts of the names of fonts of each kind, and of bold and slanted ones.
var (
	sansNames  = strings.Fields("sans arial helvetica verdana tahoma system-ui")
	serifNames = strings.Fields(`times georgia garamond palatino baskerville didot bodoni playfair merriweather cambria
		minion lora caslon century bookman cormorant crimson serif`)
	monoNames    = strings.Fields("mono courier consolas menlo code typewriter")
	boldNames    = strings.Fields("bold black heavy")
	slantedNames = strings.Fields("italic oblique")
)

// lettering is the inherited style of text.
type lettering struct {
	face          *typeface
	family        string
	size          float64
	bold, slanted bool
	letterSpace   float64
	wordSpace     float64
	anchor        string
	baseline      string
	shift         float64 // above the baseline
	capitals      string  // text-transform
	preserve      bool    // white space
}

// inherit returns the style of an element. It changes only what the element sets itself.
func (l lettering) inherit(n *node) lettering {
	parent := l.size
	if v := n.style["font-size"]; v != "" {
		if size, ok := fontSize(v, parent); ok {
			l.size = size
		}
	}
	switch v := n.style["font-weight"]; v {
	case "", "inherit":
	case "normal", "lighter":
		l.bold = false
	case "bold", "bolder":
		l.bold = true
	default:
		weight, _ := strconv.ParseFloat(v, 64)
		l.bold = weight >= 600
	}
	if v := n.style["font-style"]; v != "" && v != "inherit" {
		l.slanted = v != "normal"
	}
	for name, to := range map[string]*string{"font-family": &l.family, "text-anchor": &l.anchor,
		"text-transform": &l.capitals, "dominant-baseline": &l.baseline, "alignment-baseline": &l.baseline} {
		if v := n.style[name]; v != "" && v != "inherit" && v != "auto" {
			*to = v
		}
	}
	for name, to := range map[string]*float64{"letter-spacing": &l.letterSpace, "word-spacing": &l.wordSpace} {
		if v := n.style[name]; v == "normal" {
			*to = 0
		} else if v != "" {
			if space, ok := n.inUserUnits(name, v, l.size); ok && len(space) == 1 {
				*to = space[0]
			}
		}
	}
	switch v := n.style["baseline-shift"]; v {
	case "super":
		l.shift += parent * 0.4
	case "sub":
		l.shift -= parent * 0.2
	default:
		if by, ok := fontSize(v, parent); ok {
			l.shift += by
		}
	}
	l.preserve = l.preserve || n.attr("xml:space") == "preserve"
	l.face = l.choose()
	return l
}

// choose returns the font of the first family whose kind is known, else sans-serif, the default of designers; without
// a family a browser shows Times.
func (l *lettering) choose() *typeface {
	kind, weight := sans, 0
	name := strings.ToLower(l.family)
	has := func(name string, parts []string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
	}
	first, _, _ := strings.Cut(name, ",")
	if name == "" {
		kind = serif
	}
families:
	for family := range strings.SplitSeq(name, ",") {
		switch {
		case has(family, monoNames):
			kind = mono
		case has(family, sansNames):
		case has(family, serifNames):
			kind = serif
		default:
			continue
		}
		break families
	}
	if l.bold || has(first, boldNames) {
		weight = 1
	}
	l.slanted = l.slanted || has(first, slantedNames)
	return kind[weight]()
}

// fontSizes are the keywords of font-size in pixels (CSS Fonts 4, section 2.5).
var fontSizes = map[string]float64{"xx-small": 9, "x-small": 10, "small": 13, "medium": 16, "large": 18, "x-large": 24,
	"xx-large": 32, "xxx-large": 48}

func fontSize(value string, parent float64) (float64, bool) {
	if size, ok := fontSizes[value]; ok {
		return size, true
	}
	list, ok := parseLengths(value)
	if !ok || len(list) != 1 {
		return 0, false
	}
	return list[0].value * cmp.Or(units[list[0].unit], fontUnit(list[0].unit, parent)), true
}

// fontUnit returns the size of a relative unit: of a font of that size, whose percentages are parts of it.
func fontUnit(unit string, size float64) float64 {
	return map[string]float64{"em": size, "%": size / 100, "ex": size / 2, "ch": size / 2, "rem": defaultFontSize}[unit]
}

// inUserUnits parses a list of lengths: percentages are parts of the viewport.
func (n *node) inUserUnits(name, value string, size float64) ([]float64, bool) {
	list, ok := parseLengths(value)
	var out []float64
	for _, l := range list {
		switch factor, absolute := units[l.unit]; {
		case absolute:
			out = append(out, l.value*factor)
		case l.unit == "%":
			out = append(out, l.value/100*n.extent(strings.TrimPrefix(name, "d")))
		default:
			out = append(out, l.value*fontUnit(l.unit, size))
		}
	}
	return out, ok
}
