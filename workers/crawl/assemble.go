package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/membudget"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/adult"
	"letterhead/workers/crawl/extract/colors"
	"letterhead/workers/crawl/extract/company"
	"letterhead/workers/crawl/extract/fonts"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Limits that keep the record's event, including evidence, within 64 KiB.
const (
	maxKnownLogos  = 6   // the starter index has five at most
	maxETag        = 200 // bytes
	maxSourceBytes = 500 // of the URL in one piece of evidence
)

// assemble stores the images and builds the record with its evidence.
//
// Errors: *Failure if nothing was found; *StoreError.
func (r *run) assemble(ctx context.Context, h *home, f *found) (*Result, error) {
	out := &Result{FinalURL: cut(h.response.FinalURL.String(), page.MaxURLBytes), Withheld: r.withheld.Load()}
	if !h.indirect && r.ownAnswer(h.response) {
		out.ETag, out.LastModified = validator(h.response, "ETag"), validator(h.response, "Last-Modified")
	}
	if sign, isAdult := adult.Sign(f.input); isAdult {
		out.Record = adult.Restricted()
		out.Record.Complete = true // there is nothing else to find
		out.Evidence = []eventschemas.Evidence{{Field: "restriction", Source: out.FinalURL, Method: sign.Method,
			Confidence: sign.Confidence}}
		return out, nil
	}
	b := &builder{input: f.input, stored: map[*logofinder.Image]logofinder.Stored{}, stock: map[*logofinder.Image]bool{}}
	assets := r.store()
	selection := logofinder.Select(f.logoImages())
	for p := range selection.Dropped {
		p.Raster = nil
	}
	b.texts()
	b.at = cmp.Or(site.Registrable(h.response.FinalURL.Hostname()), r.target.Domain)
	// The slowest step stops when the crawl's time is up.
	whole, err := r.logos(ctx, b, assets, f, selection.Chosen)
	if err != nil {
		return nil, err
	}
	chosen := slices.DeleteFunc(selection.Chosen, func(p *logofinder.Image) bool { return b.stock[p] })
	for p := range b.stock {
		selection.Dropped[p] = "the stock icon of a template"
	}
	out.ByConvention = b.byConvention
	palettes := logofinder.Palettes(chosen)
	b.record.Colors = listed(b, "colors", colors.Decide(f.input, palettes))
	b.record.Fonts = listed(b, "fonts", fonts.Decide(f.input))
	if err := r.images(ctx, b, assets, f); err != nil {
		return nil, err
	}
	switch {
	case h.bare && !b.record.HasLogo():
		return nil, h.otherwise
	case !b.hasBrandData():
		return nil, noData("Neither a name nor a description nor a logo was found.")
	}
	b.finish()
	b.record.Complete = b.record.Complete && whole && !h.bare && !h.partial
	out.Record, out.Evidence = b.record, b.evidence
	out.Trials = logofinder.Trials(f.candidates, f.read, f.rejected, selection, b.stored)
	if r.explained {
		out.Weighed = slices.Concat(
			extract.NamesWeighed(f.input), extract.DescriptionsWeighed(f.input), extract.LinksWeighed(f.input),
			colors.Weighed(f.input, palettes), fonts.Weighed(f.input), company.IndustriesWeighed(f.input),
		)
		out.Files = assets.files
	}
	return out, nil
}

// validator returns a header for a later crawl's conditional request, or "" if it is too long to keep.
func validator(r *safehttp.Response, name string) string {
	if v := r.Header.Get(name); len(v) <= maxETag {
		return v
	}
	return ""
}

// logoImages returns the candidates that are images.
func (f *found) logoImages() []*logofinder.Image {
	return slices.DeleteFunc(slices.Clone(f.read), func(p *logofinder.Image) bool { return p == nil })
}

// builder builds one record.
type builder struct {
	input      extract.Input
	record     eventschemas.Record
	evidence   []eventschemas.Evidence
	nameMethod string
	nameAgreed bool
	stored     map[*logofinder.Image]logofinder.Stored
	at         string // the registrable domain of the home page

	byConvention *eventschemas.IconsByConvention
	stock        map[*logofinder.Image]bool // dropped icons
}

func (b *builder) note(field, source, method string, confidence float64) {
	b.evidence = append(b.evidence, eventschemas.Evidence{Field: field, Source: cut(source, maxSourceBytes),
		Method: method, Confidence: confidence})
}

// logos stores the chosen images, the primary one first, followed by a data set's logos, which remain candidates in
// addition to the site's. When the allowed time is over, it keeps the logos stored so far, and starts only the primary
// one. whole is false if the primary logo was not stored in all its formats, or if candidates were dropped for lack of
// memory. Errors:
// *StoreError.
func (r *run) logos(ctx context.Context, b *builder, assets *storing, f *found,
	chosen []*logofinder.Image) (whole bool, err error) {
	b.record.Logos = []eventschemas.Logo{}
	have := map[string]bool{}
	whole = !r.held.short.Load()
	for i, p := range chosen {
		if i > 0 && isOver(f.until) {
			break
		}
		logo, err := r.logo(ctx, assets, f.until, p, i == 0)
		p.Raster = nil // no longer needed
		late := errors.Is(err, errLate)
		if late && i == 0 {
			whole = false
		}
		if err != nil && !late && !logofinder.IsFileFault(err) {
			return false, err
		}
		if err != nil && (!late || len(logo.Formats) == 0) {
			continue
		}
		if p.ByConvention && r.isStock(ctx, b, logo.Formats[0].ID) {
			b.stock[p] = true
			continue
		}
		for _, f := range logo.Formats {
			have[f.ID] = true
		}
		b.note(fmt.Sprintf("logos[%d]", len(b.record.Logos)), p.Source(), p.Method, confidence(p.Score))
		b.stored[p] = logofinder.Stored{Place: len(b.record.Logos), Logo: logo}
		b.record.Logos = append(b.record.Logos, logo)
	}
	if b.input.Known == nil {
		return whole, nil
	}
	for _, logo := range b.input.Known.Logos[:min(len(b.input.Known.Logos), maxKnownLogos)] {
		if slices.ContainsFunc(logo.Formats, func(f eventschemas.Asset) bool { return have[f.ID] }) {
			continue
		}
		b.note(fmt.Sprintf("logos[%d]", len(b.record.Logos)), "data set", "data set", 0.8)
		b.record.Logos = append(b.record.Logos, logo)
	}
	return whole, nil
}

// maxLinked limits the domains recorded with an icon because the home page links to them.
const maxLinked = 40

// isStock records that an icon was found by convention, and reports whether it is a template's.
func (r *run) isStock(ctx context.Context, b *builder, icon string) bool {
	if b.byConvention == nil {
		b.byConvention = &eventschemas.IconsByConvention{}
		for _, a := range b.input.Page.Anchors {
			domain, err := brand.RegistrableDomain(a.URL.Hostname())
			if err == nil && domain != r.target.Domain && !slices.Contains(b.byConvention.Linked, domain) &&
				len(b.byConvention.Linked) < maxLinked {
				b.byConvention.Linked = append(b.byConvention.Linked, domain)
			}
		}
		slices.Sort(b.byConvention.Linked)
	}
	b.byConvention.Assets = append(b.byConvention.Assets, icon)
	seen := brand.Sighting{Domain: r.target.Domain, At: b.at, Linked: b.byConvention.Linked}
	if b.record.Name != nil {
		seen.Name = *b.record.Name
	}
	return r.target.IsStock != nil && r.target.IsStock(ctx, icon, seen)
}

// logo encodes and stores one logo, in as many formats as time allows. Errors: errLate, with the formats that are
// stored; *StoreError; the errors of logofinder.Store.
func (r *run) logo(ctx context.Context, assets *storing, until time.Time, p *logofinder.Image,
	primary bool) (eventschemas.Logo, error) {
	rank := rankStore
	if primary {
		rank = rankPrimary
	}
	ctx, cancel := r.storeTime(ctx, until, primary)
	defer cancel()
	files := &encoded{until: until}
	logo, err := r.encode(ctx, rank, files, p)
	// The renderer's own deadline means that the machine is busy, not that the logo is broken.
	if err != nil && (ctx.Err() != nil || errors.Is(err, errLate) || errors.Is(err, context.DeadlineExceeded)) {
		err = errLate
	}
	if err != nil && !errors.Is(err, errLate) {
		return logo, err
	}
	formats, putErr := assets.all(ctx, files.files, logo.Formats)
	logo.Formats = formats
	switch {
	case putErr != nil && ctx.Err() != nil:
		return logo, errLate
	case putErr != nil:
		return logo, putErr
	}
	return logo, err
}

// encode encodes the formats of a logo when its turn comes.
func (r *run) encode(ctx context.Context, rank int, to *encoded, p *logofinder.Image) (eventschemas.Logo, error) {
	if !r.crawler.gate.enter(ctx, rank) {
		return eventschemas.Logo{}, errLate
	}
	in := true
	defer func() {
		if in {
			r.crawler.gate.leave()
		}
	}()
	needed := r.crawler.cfg.MemoryBudget.Share(p.StoreCost())
	if needed.Acquire(ctx) != nil {
		return eventschemas.Logo{}, errLate
	}
	taken := needed
	defer func() { taken.Release() }()
	storeCtx, stop := context.WithCancel(ctx)
	defer stop()
	to.yield = func() { // one format of every crawl's primary logo comes before the second of any
		taken.Release() // hold nothing while waiting at the gate
		taken = membudget.Share{}
		if in = r.crawler.gate.yield(ctx, rankStore); !in || needed.Acquire(ctx) != nil {
			stop()
			return
		}
		taken = needed
	}
	logo, err := p.Store(storeCtx, to)
	if err != nil && storeCtx.Err() != nil {
		err = errLate
	}
	return logo, err
}

// storeTime limits storing one image to the allowed time; the primary logo may take Config.AssembleTime more.
func (r *run) storeTime(ctx context.Context, until time.Time, primary bool) (context.Context, context.CancelFunc) {
	switch {
	case until.IsZero():
		return context.WithCancel(ctx)
	case primary:
		if now := time.Now(); until.Before(now) {
			until = now
		}
		until = until.Add(r.crawler.cfg.AssembleTime)
	}
	return context.WithDeadline(ctx, until)
}

// confidence converts a candidate's score to a confidence.
func confidence(score float64) float64 { return min(0.99, max(0.05, float64(int(score))/100)) }

// images stores the share image and images of the page within the allowed time.
func (r *run) images(ctx context.Context, b *builder, assets *storing, f *found) error {
	b.record.Images = []eventschemas.Image{}
	if u := f.share.Value; u != nil {
		b.record.OGImage = new(u.String())
		b.note("og_image", f.share.Source, f.share.Method, f.share.Confidence)
	}
	ctx, cancel := r.storeTime(ctx, f.until, false)
	defer cancel()
	put := func(c *converted, source, method string, confidence float64) error {
		if c == nil || isOver(f.until) {
			return nil
		}
		formats, err := assets.all(ctx, c.files, c.image.Formats)
		if err != nil && ctx.Err() == nil {
			return err
		}
		c.image.Formats = formats
		b.image(c.image, source, method, confidence)
		return nil
	}
	if f.banner != nil {
		if err := put(f.banner, f.share.Value.String(), f.share.Method, f.share.Confidence); err != nil {
			return err
		}
	}
	for i, img := range f.images {
		if err := put(img, f.imageURLs[i].String(), "page picture", imageConfidence); err != nil {
			return err
		}
	}
	return nil
}

const imageConfidence = 0.5 // the confidence that a large image of the page shows the brand's activity

// image adds a stored image.
func (b *builder) image(image eventschemas.Image, source, method string, confidence float64) {
	if len(image.Formats) == 0 {
		return
	}
	b.note(fmt.Sprintf("images[%d]", len(b.record.Images)), source, method, confidence)
	b.record.Images = append(b.record.Images, image)
}

// texts decides the fields of text.
func (b *builder) texts() {
	if e := b.input.Page.Detected; e.Name != "" {
		b.note("encoding", b.input.PageURL(), e.Name+" detected", e.Confidence)
	}
	name, agreed := extract.Name(b.input)
	b.nameMethod, b.nameAgreed = name.Method, agreed
	if name.Value != "" {
		b.record.Name = &name.Value
		b.note("name", name.Source, name.Method, name.Confidence)
	}
	short := ""
	if d, ok := extract.Description(b.input); ok {
		short = d.Value
		b.record.Description = &d.Value
		b.note("description", d.Source, d.Method, d.Confidence)
	}
	if d, ok := extract.LongDescription(b.input, short); ok {
		b.record.LongDescription = &d.Value
		b.note("long_description", d.Source, d.Method, d.Confidence)
	}
	b.record.Links = listed(b, "links", extract.Links(b.input))
	facts, evidence := company.Decide(b.input)
	b.record.Company = facts
	b.evidence = append(b.evidence, evidence...)
}

// listed returns the entries of a field, and notes where they were found.
func listed[T any](b *builder, field string, found extract.Found[[]T]) []T {
	if len(found.Value) > 0 {
		b.note(field, found.Source, found.Method, found.Confidence)
	}
	return found.Value
}

// hasBrandData reports whether the record contains anything beyond the domain.
func (b *builder) hasBrandData() bool {
	return b.record.HasLogo() || b.record.Description != nil ||
		b.record.Name != nil && b.nameMethod != extract.FromDomain
}

// finish grades the record and sorts the evidence.
func (b *builder) finish() {
	b.record.Complete = extract.Complete(&b.record)
	b.record.QualityScore = extract.Score(&b.record, b.nameAgreed)
	slices.SortStableFunc(b.evidence, func(x, y eventschemas.Evidence) int { return cmp.Compare(x.Field, y.Field) })
}

// cut limits a text in bytes without splitting a rune.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}
