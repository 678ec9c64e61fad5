package main

import (
	"encoding/base64"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"

	"letterhead/eventschemas"
)

const (
	// maxEmbedded limits an image in the contact sheet, in bytes.
	maxEmbedded = 256 << 10
	// maxTiles limits the missed logo files of one group that are shown.
	maxTiles = 300
)

// sheetPage is one page on the contact sheet.
type sheetPage struct {
	Label   Label
	Outcome string
	Name    string
	Text    string
	Logos   []sheetLogo
	Colors  []eventschemas.Color
	Fonts   []eventschemas.Font
	Links   []eventschemas.Link
	Company string
	Misses  []Verdict
}

// sheetFile is one logo file with a wrong result.
type sheetFile struct {
	Verdict
	Data   template.URL
	Colors []string // ours, for accents
}

type sheetLogo struct {
	Data         template.URL // the image itself
	Source, Kind string
}

// writeSheet writes a page that shows the results of all crawls at a glance.
func writeSheet(file string, r *report) error {
	misses := map[string][]Verdict{}
	for _, v := range r.verdicts {
		if v.Kind == Wrong || v.Kind == Missing {
			misses[v.Group+"/"+v.ID] = append(misses[v.Group+"/"+v.ID], v)
		}
	}
	var pages []sheetPage
	for i := range r.pages {
		pages = append(pages, r.pages[i].sheet(misses[r.pages[i].label.Group+"/"+r.pages[i].label.ID]))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := sheetTemplate.Execute(f,
		map[string]any{"Pages": pages, "Files": r.missedFiles(), "Tallies": tally(r.verdicts, r.groups)}); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return f.Close()
}

// missedFiles returns the logo files with wrong results, for the sheet.
func (r *report) missedFiles() []sheetFile {
	drawn := map[string]string{}
	for _, l := range r.files {
		drawn[l.Name] = l.SVG
	}
	shown := map[string]int{}
	var out []sheetFile
	for _, v := range r.verdicts {
		if v.Kind != Wrong && v.Kind != Missing || !slices.Contains(fileGroups, v.Group) || v.Field == "accent top 5" ||
			shown[v.Group] == maxTiles {
			continue
		}
		shown[v.Group]++
		f := sheetFile{Verdict: v, Data: embed("svg", []byte(drawn[v.ID]))}
		if v.Group == accentFiles {
			f.Colors = []string{v.Ours, v.Truth}
		}
		out = append(out, f)
	}
	return out
}

func (c *crawled) sheet(misses []Verdict) sheetPage {
	p := sheetPage{Label: c.label, Outcome: c.outcome, Misses: misses}
	if c.result == nil {
		return p
	}
	r := c.result.Record
	p.Name, p.Text = text(r.Name), text(r.Description)
	p.Colors, p.Fonts, p.Links = r.Colors, r.Fonts, r.Links
	if r.NSFW {
		p.Outcome = "nsfw"
	}
	if k := r.Company; k != nil {
		for _, fact := range []*string{year(k.FoundedYear), year(k.Employees), k.Kind, k.Ticker} {
			if fact != nil {
				p.Company += *fact + " · "
			}
		}
		if l := k.Location; l != nil {
			p.Company += text(l.City) + " " + text(l.CountryCode) + " · "
		}
		for _, i := range k.Industries {
			p.Company += fmt.Sprintf("%s %.2f · ", i.Slug, i.Score)
		}
	}
	for _, l := range c.chosenLogos() {
		p.Logos = append(p.Logos,
			sheetLogo{Data: c.embedded(l.logo), Source: l.name(), Kind: l.logo.Type + " " + text(l.logo.Theme)})
	}
	return p
}

// embedded returns the first stored form of a logo that is small enough for the sheet.
func (c *crawled) embedded(l eventschemas.Logo) template.URL {
	for _, f := range l.Formats {
		if data := c.files.get(f.ID); len(data) > 0 && len(data) <= maxEmbedded {
			return embed(f.Format, data)
		}
	}
	return ""
}

func embed(format string, data []byte) template.URL {
	kind := "image/" + format
	if format == "svg" {
		kind = "image/svg+xml"
	}
	return template.URL("data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

var sheetTemplate = template.Must(template.New("sheet").Funcs(template.FuncMap{
	"percent": percent,
	"swatch":  func(hex string) template.CSS { return template.CSS("background:" + hex) },
	"font":    func(name string) template.CSS { return template.CSS("font-family:" + fmt.Sprintf("%q", name)) },
}).Parse(`<!doctype html><meta charset="utf-8"><title>Accuracy of the crawl</title>
<style>
body{font:14px/1.35 system-ui,sans-serif;margin:16px;color:#111}
table{border-collapse:collapse}td,th{padding:2px 10px;text-align:right}td:first-child,td:nth-child(2){text-align:left}
article{display:grid;grid-template-columns:190px 250px 250px 1fr;gap:12px;padding:8px 0;border-top:1px solid #ddd}
article>div{overflow:hidden}.p{height:84px;display:flex;align-items:center;justify-content:center;border:1px solid #ccc;margin-bottom:4px}
.p img{max-width:230px;max-height:72px;min-height:16px}.light{background:#fff}.dark{background:#1b1b1f}
.more img{max-width:60px;max-height:36px;margin:2px;padding:3px;border:1px solid #ccc;background:linear-gradient(90deg,#fff 50%,#1b1b1f 50%)}
.s{display:inline-block;width:26px;height:26px;border:1px solid #999;vertical-align:middle}.s.a{width:52px}
.f{display:inline-block;width:150px;vertical-align:top;margin:0 8px 8px 0;font-size:11px}.f img{width:70px;height:56px;object-fit:contain;padding:2px}
b{font-size:18px}.miss{color:#b00020;font-size:12px}small{color:#666;word-break:break-all}
</style>
<h1>Accuracy of the crawl</h1>
<p>Each page: its primary logo on light and on dark ground with all of its logos below, then its name, accent and other colors, fonts and links. Red is what the label says otherwise. The pictures of saved pages were not kept: they are shown as drawings, and the address says so.</p>
<table><tr><th>group<th>field<th>judged<th>right<th>false<th>missing<th>rightly none<th>precision<th>recall<th>correct</tr>
{{range .Tallies}}<tr><td>{{.Group}}<td>{{.Field}}<td>{{.Total}}<td>{{.Right}}<td>{{.Wrong}}<td>{{.Missing}}<td>{{.None}}<td>{{percent .Precision}}<td>{{percent .Recall}}<td>{{percent .Share}}</tr>{{end}}</table>
{{range .Pages}}<article>
<div>{{.Label.Group}}/<strong>{{.Label.ID}}</strong><br><small>{{.Label.URL}}</small><br>{{.Outcome}}</div>
<div>{{with .Logos}}{{with index . 0}}<div class="p light"><img src="{{.Data}}" alt=""></div><div class="p dark"><img src="{{.Data}}" alt=""></div><small>{{.Kind}} {{.Source}}</small>{{end}}{{end}}</div>
<div><b>{{.Name}}</b><br>{{range .Colors}}<span class="s{{if eq .Type "accent"}} a{{end}}" style="{{swatch .Hex}}" title="{{.Type}} {{.Hex}}"></span> {{end}}
<br>{{range .Fonts}}<span style="{{font .Name}}">{{.Type}}: {{.Name}}</span> <small>{{.Origin}}</small><br>{{end}}
<span class="more">{{range .Logos}}<img src="{{.Data}}" title="{{.Kind}} {{.Source}}" alt="">{{end}}</span></div>
<div>{{.Text}}<br><small>{{.Company}}{{range .Links}} {{.Name}}: {{.URL}}{{end}}</small>
{{range .Misses}}<div class="miss">{{.Field}} {{.Kind}}: ours “{{.Ours}}”, truth “{{.Truth}}”</div>{{end}}</div>
</article>{{end}}
{{if .Files}}<h2>Logo files that were not read right</h2><p>On light and on dark ground; of two swatches the first is ours.</p>{{end}}
{{range .Files}}<div class="f"><img class="light" src="{{.Data}}" alt=""><img class="dark" src="{{.Data}}" alt=""><br>{{range .Colors}}<span class="s" style="{{swatch .}}"></span> {{end}}
{{.Group}}/{{.ID}}<br>{{.Ours}}, truth {{.Truth}}</div>{{end}}
`))
