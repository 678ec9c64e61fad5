package main

import (
	"fmt"
	"strings"
	"time"
)

// gauge is the progress of long work.
type gauge struct {
	// done is a number of items, 0 if they are not counted.
	done uint64
	unit string // of done, such as events
	// at and end are the current place and the end, which is 0 if it is not known. If counts is true, both are numbers
	// of items like done. Otherwise they are positions of a log, which may have gaps.
	at, end uint64
	counts  bool
}

// meter describes progress, rate and remaining time, as far as they are known. It computes the rate since the first
// gauge, because work that continues an earlier run begins with a count above 0.
type meter struct {
	began time.Time
	first gauge
}

func newMeter(first gauge) *meter { return &meter{began: time.Now(), first: first} }

// text returns a description such as "12000 events, 34 % of the log, 2100/s, about 12s left".
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
