package audit

import (
	"fmt"
	"slices"

	"letterhead/domain/timeline"
)

const (
	// maxParts limits the parts of a curve, each of which is a link of about 100 bytes.
	maxParts = 100
	// maxMonths limits the months below a curve and in its table.
	maxMonths = 20
	// labelWidth is the width of a month's label on a phone, in percent of the curve.
	labelWidth = 20
	// curveSide is the width, and the height, in which the outline is drawn before it is stretched.
	curveSide = 1000
)

// Curve is the balances of an account over its revisions, to be drawn. Places and widths are in percent.
type Curve struct {
	Outline   string // of the lowest and highest balances, as the path of an SVG
	Zero      int    // height of the balance 0 in the outline
	Low, High int64  // 0 and the balances are between them
	Here      string // place of the position
	Width     string // of a part
	Parts     []CurvePart
	Months    []CurveMonth
}

// CurvePart is a link from a place on the curve to a revision.
type CurvePart struct {
	timeline.Part
	Left string
}

// CurveMonth is a month at whose first event the curve has a mark.
type CurveMonth struct {
	timeline.Month
	Place string
	Label bool // there is room for its name
}

// newCurve draws the curve of more than one event: along the highest balances, and back along the lowest.
func newCurve(t *timeline.Timeline, position uint64) *Curve {
	parts, last := t.Parts(maxParts), t.Next()-1
	place := func(revision uint64) float64 { return float64(revision) / float64(last) * 100 }
	percent := func(place float64) string { return fmt.Sprintf("%.2f%%", place) }
	half := 50 / float64(len(parts)-1)
	c := &Curve{Here: percent(place(position)), Width: percent(2 * half)}
	for _, p := range parts {
		c.Low, c.High = min(c.Low, p.Low), max(c.High, p.High)
		c.Parts = append(c.Parts, CurvePart{p, percent(place(p.Revision) - half)})
	}
	x := func(revision uint64) int { return int(place(revision) * curveSide / 100) }
	y := func(balance int64) int {
		return int(float64(c.High-balance) / float64(max(c.High-c.Low, 1)) * curveSide)
	}
	c.Zero, c.Outline = y(0), fmt.Sprintf("M0 %d", y(parts[0].High))
	for _, p := range parts {
		c.Outline += fmt.Sprintf("H%dV%d", x(p.Revision), y(p.High))
	}
	for _, p := range slices.Backward(parts) {
		c.Outline += fmt.Sprintf("V%dH%d", y(p.Low), x(p.Revision))
	}
	free, months := 0.0, t.Months()
	for i, m := range months {
		if step := (len(months) + maxMonths - 1) / maxMonths; (len(months)-1-i)%step != 0 {
			continue // of longer histories not every month
		}
		at := place(m.First)
		label := at >= free && at <= 100-labelWidth
		if label {
			free = at + labelWidth
		}
		c.Months = append(c.Months, CurveMonth{m, percent(at), label})
	}
	return c
}
