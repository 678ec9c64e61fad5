package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/eventschemas"
	"letterhead/workers/crawl"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/logofinder"
)

// Crawl is the crawl to report.
type Crawl struct {
	Domain string
	Status string // ready, partial
	At     time.Time
	Took   time.Duration
	Stats  crawl.Stats // zero for a saved page
	Result *crawl.Result
}

// Limits of the report. More candidates would not help.
const (
	maxTrials     = 60
	maxFieldRows  = 12  // of one field
	maxShownRunes = 160 // of one value or URL
)

// field is the candidates for one field, best first.
type field struct {
	Name string
	Rows []extract.Weighed
	More int // that are not shown
}

// fields groups the weighed candidates by field, in the order of the crawl.
func (c Crawl) fields() []field {
	var out []field
	for _, w := range c.Result.Weighed {
		i := slices.IndexFunc(out, func(f field) bool { return f.Name == w.Field })
		if i < 0 {
			i = len(out)
			out = append(out, field{Name: w.Field})
		}
		if len(out[i].Rows) >= maxFieldRows && !w.Won {
			out[i].More++
			continue
		}
		out[i].Rows = append(out[i].Rows, w)
	}
	return out
}

// trials returns the logo candidates: the chosen ones in their order, then the others by score.
func (c Crawl) trials() (shown []logofinder.Trial, more int) {
	shown = slices.Clone(c.Result.Trials)
	slices.SortStableFunc(shown, func(a, b logofinder.Trial) int {
		return cmp.Or(cmp.Compare(uint(a.Chosen), uint(b.Chosen)), cmp.Compare(b.Score, a.Score)) // -1 is the largest
	})
	if len(shown) > maxTrials {
		more = len(shown) - maxTrials
		shown = shown[:maxTrials]
	}
	return shown, more
}

// address returns the source of a candidate, for people.
func address(t logofinder.Trial) string {
	if t.URL == nil {
		return ""
	}
	if t.URL.Scheme == "data" {
		return "data: in the page"
	}
	return short(t.URL.String())
}

// fate returns the result of a candidate, in a few words.
func fate(t logofinder.Trial) string {
	if t.Chosen < 0 {
		return "no: " + t.Rejected
	}
	parts := []string{fmt.Sprintf("logos[%d]", t.Chosen), t.Type}
	if t.Theme != "" {
		parts = append(parts, t.Theme+" ink")
	}
	return strings.Join(parts, ", ")
}

// size describes a candidate's file, in a few words.
func size(t logofinder.Trial) string {
	switch {
	case t.Format == "":
		return ""
	case t.Width == 0 || t.Height == 0:
		return t.Format
	}
	return fmt.Sprintf("%s %d×%d", t.Format, t.Width, t.Height)
}

// sum writes the parts of a score.
func sum(reasons []logofinder.Reason) string {
	parts := make([]string, 0, len(reasons))
	for _, r := range reasons {
		parts = append(parts, fmt.Sprintf("%+.4g %s", r.Points, r.Sign))
	}
	return strings.Join(parts, ", ")
}

func short(text string) string {
	runes := []rune(text)
	if len(runes) <= maxShownRunes {
		return text
	}
	return string(runes[:maxShownRunes-1]) + "…"
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// cost describes the requests and the time of the crawl.
func (c Crawl) cost() string {
	if c.Stats.Requests == 0 {
		return "a saved page, nothing fetched"
	}
	return fmt.Sprintf("%d requests, %d kB, %s", c.Stats.Requests, (c.Stats.Bytes+999)/1000,
		c.Took.Round(time.Millisecond))
}

// evidence returns the evidence for everything but logos.
func (c Crawl) evidence() []eventschemas.Evidence {
	return slices.DeleteFunc(slices.Clone(c.Result.Evidence),
		func(e eventschemas.Evidence) bool { return strings.HasPrefix(e.Field, "logos[") })
}
