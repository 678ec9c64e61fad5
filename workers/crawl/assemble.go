package crawl

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"letterhead/eventschemas"
	"letterhead/workers/crawl/judge"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/picture"
)

// Limits of the record that keep its event, with evidence, within 64 KiB.
const (
	maxKnownLogos  = 4
	maxETag        = 200 // bytes
	maxSourceBytes = 500 // of the address in one piece of evidence
)

// assemble stores the pictures and builds the record with its evidence.
//
// Errors: *Failure when nothing was found; an error of the asset store.
func (r *run) assemble(ctx context.Context, h *home, f *found) (*Result, error) {
	out := &Result{
		FinalURL:     cut(h.response.FinalURL.String(), page.MaxURLBytes),
		ETag:         cut(h.response.Header.Get("ETag"), maxETag),
		LastModified: cut(h.response.Header.Get("Last-Modified"), maxETag),
		Candidates:   f.candidates,
	}
	if method, adult := judge.Adult(f.input); adult {
		out.Record = judge.Restricted()
		out.Record.Complete = true // there is nothing more to find
		out.Evidence = []eventschemas.Evidence{{Field: "restriction", Source: out.FinalURL, Method: method, Confidence: 1}}
		return out, nil
	}
	b := &builder{input: f.input}
	chosen := picture.Select(f.pictures)
	if err := b.logos(ctx, r.crawler.assets, chosen); err != nil {
		return nil, err
	}
	if err := b.banner(ctx, r.crawler.assets, f); err != nil {
		return nil, err
	}
	b.texts()
	b.looks(chosen)
	if !b.tells() {
		if h.otherwise != nil {
			return nil, h.otherwise
		}
		return nil, noData("Neither a name nor a description nor a logo was found.")
	}
	b.finish()
	out.Record, out.Evidence = b.record, b.evidence
	return out, nil
}

// builder builds one record.
type builder struct {
	input      judge.Input
	record     eventschemas.Record
	evidence   []eventschemas.Evidence
	nameMethod string
	nameAgreed bool
}

func (b *builder) note(field, source, method string, confidence float64) {
	b.evidence = append(b.evidence, eventschemas.Evidence{Field: field, Source: cut(source, maxSourceBytes), Method: method, Confidence: confidence})
}

// logos stores the chosen pictures; a data set's logos follow, which stay candidates beside what the site
// shows itself.
func (b *builder) logos(ctx context.Context, assets picture.Assets, chosen []*picture.Picture) error {
	b.record.Logos = []eventschemas.Logo{}
	have := map[string]bool{}
	for _, p := range chosen {
		logo, err := p.Store(ctx, assets)
		if picture.IsFileFault(err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, f := range logo.Formats {
			have[f.ID] = true
		}
		source := p.URL.String()
		if p.URL.Scheme == "data" {
			source = "data:"
		}
		b.note(fmt.Sprintf("logos[%d]", len(b.record.Logos)), source, p.Method, confidence(p.Score))
		b.record.Logos = append(b.record.Logos, logo)
	}
	if b.input.Known == nil {
		return nil
	}
	for _, logo := range b.input.Known.Logos[:min(len(b.input.Known.Logos), maxKnownLogos)] {
		if slices.ContainsFunc(logo.Formats, func(f eventschemas.Asset) bool { return have[f.ID] }) {
			continue
		}
		b.note(fmt.Sprintf("logos[%d]", len(b.record.Logos)), "data set", "data set", 0.8)
		b.record.Logos = append(b.record.Logos, logo)
	}
	return nil
}

// confidence turns a candidate's score into one.
func confidence(score float64) float64 { return min(0.99, max(0.05, float64(int(score))/100)) }

func (b *builder) banner(ctx context.Context, assets picture.Assets, f *found) error {
	b.record.Images = []eventschemas.Image{}
	if u := f.share.Value; u != nil {
		address := u.String()
		b.record.OGImage = &address
		b.note("og_image", f.share.Source, f.share.Method, f.share.Confidence)
	}
	if f.shareFile == nil {
		return nil
	}
	banner, err := picture.StoreBanner(ctx, assets, f.shareFile)
	switch {
	case err == nil:
		b.record.Images = append(b.record.Images, banner)
		b.note("images[0]", f.share.Value.String(), f.share.Method, f.share.Confidence)
	case picture.IsFileFault(err):
	default:
		return err
	}
	return nil
}

// texts decides what is said about the brand.
func (b *builder) texts() {
	name, agreed := judge.Name(b.input)
	b.nameMethod, b.nameAgreed = name.Method, agreed
	if name.Value != "" {
		b.record.Name = &name.Value
		b.note("name", name.Source, name.Method, name.Confidence)
	}
	short := ""
	if d, ok := judge.Description(b.input); ok {
		short = d.Value
		b.record.Description = &d.Value
		b.note("description", d.Source, d.Method, d.Confidence)
	}
	if d, ok := judge.LongDescription(b.input, short); ok {
		b.record.LongDescription = &d.Value
		b.note("long_description", d.Source, d.Method, d.Confidence)
	}
	links := judge.Links(b.input)
	b.record.Links = links.Value
	if len(links.Value) > 0 {
		b.note("links", links.Source, links.Method, links.Confidence)
	}
	company, evidence := judge.Company(b.input)
	b.record.Company = company
	b.evidence = append(b.evidence, evidence...)
}

// looks decides colors and fonts.
func (b *builder) looks(chosen []*picture.Picture) {
	colors := judge.Colors(b.input, picture.Palettes(chosen))
	b.record.Colors = colors.Value
	if len(colors.Value) > 0 {
		b.note("colors", colors.Source, colors.Method, colors.Confidence)
	}
	fonts := judge.Fonts(b.input)
	b.record.Fonts = fonts.Value
	if len(fonts.Value) > 0 {
		b.note("fonts", fonts.Source, fonts.Method, fonts.Confidence)
	}
}

// tells says whether the record says anything beyond the domain.
func (b *builder) tells() bool {
	return b.record.HasLogo() || b.record.Description != nil || b.record.Name != nil && b.nameMethod != judge.FromDomain
}

// finish grades the record and puts the evidence in order.
func (b *builder) finish() {
	b.record.Complete = judge.Complete(&b.record)
	b.record.QualityScore = judge.Score(&b.record, b.nameAgreed)
	slices.SortStableFunc(b.evidence, func(x, y eventschemas.Evidence) int { return cmp.Compare(x.Field, y.Field) })
}

// cut bounds a text in bytes without cutting a rune in two.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xc0 == 0x80 {
		limit--
	}
	return text[:limit]
}
