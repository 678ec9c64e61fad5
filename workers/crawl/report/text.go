package report

import (
	"fmt"
	"io"
	"strings"
)

// Text writes the report for a terminal. It removes control characters from the site's texts. Errors: as w.
func Text(w io.Writer, c Crawl) error {
	var b strings.Builder
	r := c.Result.Record
	fmt.Fprintf(&b, "%s  %s  %s\n%s\n", c.Domain, c.Status, c.Result.FinalURL, c.cost())
	fmt.Fprintf(&b, "quality %.2f\n", r.QualityScore)
	trials, more := c.trials()
	fmt.Fprintf(&b, "\nLOGOS  %d candidates, %d kept\n", len(c.Result.Trials), len(r.Logos))
	for _, t := range trials {
		fmt.Fprintf(&b, "%7.1f  %-22s %-18s %s\n", t.Score, t.Method, size(t), fate(t))
		fmt.Fprintf(&b, "         %s\n", address(t))
		if s := sum(t.Reasons); s != "" {
			fmt.Fprintf(&b, "         = %s\n", s)
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "         and %d more\n", more)
	}
	for _, f := range c.fields() {
		fmt.Fprintf(&b, "\n%s\n", strings.ToUpper(f.Name))
		for _, x := range f.Rows {
			mark := " "
			if x.Won {
				mark = "*"
			}
			fmt.Fprintf(&b, "%s %6.2f  %-26s %s\n", mark, x.Score, x.Method, short(x.Value))
			if x.Note != "" {
				fmt.Fprintf(&b, "          %s\n", short(x.Note))
			}
		}
		if f.More > 0 {
			fmt.Fprintf(&b, "          and %d more\n", f.More)
		}
	}
	b.WriteString("\nEVIDENCE\n")
	for _, e := range c.evidence() {
		fmt.Fprintf(&b, "  %.2f  %-22s %-26s %s\n", e.Confidence, e.Field, e.Method, short(e.Source))
	}
	_, err := io.WriteString(w, plain(b.String()))
	return err
}

// plain drops control characters other than line ends: a site must not write escape sequences to an
// operator's terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) || r == 0x202e || r == 0x2066 || r == 0x2067 || r == 0x2068 {
			return -1
		}
		return r
	}, text)
}
