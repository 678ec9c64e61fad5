package main

import (
	"fmt"
	"strings"
	"time"
)

// gauge is how far long work is.
type gauge struct {
	// done is a true count, 0 when nothing is counted.
	done uint64
	unit string // of done: events
	// at and end are places, and end is 0 when it is not known. With counts they are in the unit of done; else they
	// are positions of a log, which need not be counts.
	at, end uint64
	counts  bool
}

// meter says how far work is, how fast it goes and how long it will take, as far as that is known. The rate is that
// since the first gauge: work that goes on where an earlier run ended did not do all of it in this time.
type meter struct {
	began time.Time
	first gauge
}

func newMeter(first gauge) *meter { return &meter{began: time.Now(), first: first} }

// text is like "12000 events, 34 % of the log, 2100/s, about 12s left".
func (m *meter) text(g gauge) string {
	var parts []string
	switch {
	case g.counts:
		parts = append(parts, fmt.Sprintf("%d of %d %s", g.done, g.end, g.unit))
	case g.done > 0 || g.end == 0:
		parts = append(parts, fmt.Sprintf("%d %s", g.done, g.unit))
	}
	if g.end > 0 && !g.counts {
		parts = append(parts, fmt.Sprintf("%d %% of the log", min(g.at, g.end)*100/g.end))
	}
	passed := time.Since(m.began)
	if passed > 0 && g.done > m.first.done {
		parts = append(parts, m.rate(g, passed))
	}
	if passed > 0 && g.at > m.first.at && g.at < g.end {
		left := time.Duration(float64(passed) / float64(g.at-m.first.at) * float64(g.end-g.at))
		parts = append(parts, fmt.Sprintf("about %s left", max(left.Round(time.Second), time.Second)))
	}
	return strings.Join(parts, ", ")
}

func (m *meter) rate(g gauge, passed time.Duration) string {
	return fmt.Sprintf("%.0f/s", float64(g.done-m.first.done)/passed.Seconds())
}
