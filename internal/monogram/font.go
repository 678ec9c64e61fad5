package monogram

import (
	"fmt"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

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
