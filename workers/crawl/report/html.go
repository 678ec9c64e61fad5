package report

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/imaging"
	"letterhead/workers/crawl/logofinder"
)

//go:embed report.tmpl
var source string

const maxImageBytes = 2 << 20 // limits one image within the report; larger ones are only named

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"address": address, "fate": fate, "size": size, "short": short, "deref": deref,
	"swatch": func(hex string) template.CSS {
		if len(hex) != 7 || hex[0] != '#' || strings.Trim(hex[1:], "0123456789abcdef") != "" {
			return "transparent"
		}
		return template.CSS(hex) //nolint:gosec // seven characters of hexadecimal
	},
}).Parse(source))

// HTML writes the report as one self-contained file: images are embedded, and there are no scripts. Errors: as w.
func HTML(w io.Writer, c Crawl) error {
	trials, more := c.trials()
	return page.Execute(w, map[string]any{
		"C": c, "R": c.Result.Record, "At": c.At.UTC().Format(time.RFC3339), "Cost": c.cost(),
		"Trials": trials, "More": more, "Fields": c.fields(), "Evidence": c.evidence(),
		"Picture": c.image, "Logo": c.logo,
	})
}

// image returns a chosen candidate's image as a data URL, or "" if it was not stored.
func (c Crawl) image(t logofinder.Trial) template.URL { return c.file(t.AssetID) }

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

func (c Crawl) file(id string) template.URL {
	data := c.Result.Files[id]
	if len(data) == 0 || len(data) > maxImageBytes {
		return ""
	}
	return template.URL(fmt.Sprintf("data:%s;base64,%s", mediaTypes[imaging.Sniff(data)], base64.StdEncoding.EncodeToString(data))) //nolint:gosec // our own files
}
