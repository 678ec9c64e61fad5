package report

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	text "text/template"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
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

func short(value string) string {
	runes := []rune(value)
	if len(runes) <= maxShownRunes {
		return value
	}
	return string(runes[:maxShownRunes-1]) + "…"
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

//go:embed report.txt.tmpl
var textSource string

var lines = text.Must(text.New("report").Funcs(text.FuncMap{
	"address": address, "fate": fate, "size": size, "short": short, "sum": sum, "upper": strings.ToUpper,
}).Parse(textSource))

// Text writes the report for a terminal. It removes control characters from the site's texts. Errors: as w.
func Text(w io.Writer, c Crawl) error {
	var b strings.Builder
	if err := lines.Execute(&b, c.content()); err != nil {
		return err
	}
	_, err := io.WriteString(w, plain(b.String()))
	return err
}

// content has what the templates show.
func (c Crawl) content() map[string]any {
	trials, more := c.trials()
	return map[string]any{
		"C": c, "R": c.Result.Record, "At": c.At.UTC().Format(time.RFC3339), "Cost": c.cost(),
		"Trials": trials, "More": more, "Fields": c.fields(), "Evidence": c.evidence(),
		"Picture": func(t logofinder.Trial) template.URL { return c.file(t.AssetID) }, "Logo": c.logo,
	}
}

// plain drops control characters other than line ends: a site must not write escape sequences to an
// operator's terminal.
func plain(report string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) || r == 0x202e || r == 0x2066 || r == 0x2067 || r == 0x2068 {
			return -1
		}
		return r
	}, report)
}

//go:embed report.tmpl
var source string

const maxImageBytes = 2 << 20 // limits one image within the report; larger ones are only named

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"address": address, "fate": fate, "size": size, "short": short,
	"swatch": func(hex string) template.CSS {
		if len(hex) != 7 || hex[0] != '#' || strings.Trim(hex[1:], "0123456789abcdef") != "" {
			return "transparent"
		}
		return template.CSS(hex) //nolint:gosec // seven characters of hexadecimal
	},
}).Parse(source))

// HTML writes the report as one self-contained file: images are embedded, and there are no scripts. Errors: as w.
func HTML(w io.Writer, c Crawl) error { return page.Execute(w, c.content()) }

// logo returns the first stored form of a logo or an image.
func (c Crawl) logo(formats []eventschemas.Asset) template.URL {
	if len(formats) == 0 {
		return ""
	}
	return c.file(formats[0].ID)
}

// mediaTypes are the media types of the stored formats. A vector was rebuilt from an
// allow-list, and browsers do not run scripts in img elements.
var mediaTypes = map[imaging.Format]string{imaging.SVG: "image/svg+xml", imaging.PNG: "image/png",
	imaging.WebP: "image/webp", imaging.JPEG: "image/jpeg"}

// file returns an image as a data URL, or "" if it was not stored.
func (c Crawl) file(id string) template.URL {
	data := c.Result.Files[id]
	if len(data) == 0 || len(data) > maxImageBytes {
		return ""
	}
	return template.URL(fmt.Sprintf("data:%s;base64,%s", mediaTypes[imaging.Sniff(data)], base64.StdEncoding.EncodeToString(data))) //nolint:gosec // our own files
}
