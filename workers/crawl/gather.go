package crawl

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/css"
	"letterhead/internal/imaging"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/extract/adult"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// declaredShare is the proportion of the remaining time for stylesheets and
// manifests: the files that they declare are fetched afterwards.
const declaredShare = 0.4

// found is the data that a site offers.
type found struct {
	input      extract.Input
	candidates []logofinder.Candidate
	read       []*logofinder.Image // by candidate; nil if it is not an image
	rejected   []error             // by candidate: the reason
	share      extract.Found[*url.URL]
	banner     *converted   // the share image; nil if there is no usable one
	imageURLs  []*url.URL   // images of the page
	images     []*converted // by URL in imageURLs; nil if it is unusable
	until      time.Time    // when the allowed time of the crawl ends; zero for none

	mu sync.Mutex // guards read and rejected while tasks run
}

// converted is an image in its stored form. The original is discarded.
type converted struct {
	image eventschemas.Image
	files []file
}

// gather fetches the files that the home page refers to. It ends shortly before ctx does, with the results so far; a
// file that cannot be fetched or read is skipped.
func (r *run) gather(ctx context.Context, h *home, bimi <-chan *url.URL) *found {
	until, _ := ctx.Deadline()
	ctx, cancel := r.fetching(ctx)
	defer cancel()
	f := &found{until: until, input: extract.Input{Site: r.site, Page: h.page, Header: h.response.Header,
		Known: r.target.Known, Now: r.crawler.cfg.Now()}}
	if _, isAdult := adult.Sign(f.input); isAdult {
		return f // nothing of it is kept
	}
	if h.bare {
		r.declarations(ctx, f, bimi, bareDeclarations(h))
		bare := f.input
		bare.Page = withIcons(h.declared, f.input.Manifest)
		f.candidates = logofinder.Declared(bare)
	} else {
		r.declarations(ctx, f, bimi, h.page)
		f.input.Memo = new(extract.Memo)
		f.candidates = logofinder.Candidates(f.input)
		f.share, _ = extract.ShareImage(f.input)
		f.imageURLs = logofinder.Images(f.input)
	}
	fanOut(ctx, r.crawler.cfg.Logger, r.tasks(ctx, f, h))
	for i := range f.candidates { // those that were dropped when time was over
		if f.read[i] == nil && f.rejected[i] == nil {
			f.rejected[i] = errNotInTime
		}
	}
	return f
}

// fetching limits the fetches of a crawl, which end before its time does.
func (r *run) fetching(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	reserve := min(assembleReserve, time.Until(deadline)/4)
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}

// declarations fetches the files with further declarations of the page: manifest, browserconfig and stylesheets with
// their imports; and adds the domain's BIMI record.
func (r *run) declarations(ctx context.Context, f *found, bimi <-chan *url.URL, from *page.Page) {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(float64(time.Until(deadline))*declaredShare))
	defer cancel()
	sheets := &sheets{run: r, texts: map[string][]byte{}}
	list := r.manifests(ctx, f, from)
	list = append(list, sheets.linked(ctx, from)...)
	fanOut(ctx, r.crawler.cfg.Logger, list)
	fanOut(ctx, r.crawler.cfg.Logger, sheets.imported(ctx, from))
	if from == f.input.Page {
		f.input.Style = css.New(from.Root, from.Base, sheets.texts, site.Resolve)
	}
	wait := bimiGrace
	if from != f.input.Page { // there are few other sources
		wait = bimiTime
	}
	waiting, stop := context.WithTimeout(ctx, wait)
	defer stop()
	f.input.BIMI = await(waiting, bimi)
}

// manifests returns the tasks that fetch the web app manifest and the browserconfig.
func (r *run) manifests(ctx context.Context, f *found, from *page.Page) []task {
	var out []task
	add := func(u *url.URL, parse func([]byte, *url.URL) (*manifest.Manifest, error), to **manifest.Manifest) {
		if u == nil {
			return
		}
		out = append(out, task{host: u.Hostname(), run: func(func()) {
			body, at, err := r.file(ctx, u, manifest.MaxBytes)
			if err != nil {
				return
			}
			if m, err := parse(body, at); err == nil {
				*to = m
			}
		}})
	}
	add(from.Manifest, manifest.Parse, &f.input.Manifest)
	add(from.Config, manifest.ParseBrowserConfig, &f.input.Config)
	return out
}

const knownManifest = "/site.webmanifest" // the usual path of an undeclared manifest

// bareDeclarations returns the declarations of a home page that was not shown: those about the site itself, and a
// manifest at its known path. Stylesheets of a refusal are ignored.
func bareDeclarations(h *home) *page.Page {
	p := &page.Page{URL: h.declared.URL, Base: h.declared.Base}
	if u := h.declared.Manifest; u != nil && u.Host == p.URL.Host {
		p.Manifest = u
	} else {
		p.Manifest = p.URL.ResolveReference(&url.URL{Path: knownManifest})
	}
	return p
}

// withIcons returns a page that declares the icons of a manifest as its own.
func withIcons(p *page.Page, m *manifest.Manifest) *page.Page {
	if m == nil {
		return p
	}
	more := *p
	more.Icons = slices.Clone(p.Icons)
	for _, i := range m.Icons {
		more.Icons = append(more.Icons, page.Icon{Rel: "icon", URL: i.URL, Type: i.Type, Sizes: i.Sizes, Any: i.Any})
	}
	return &more
}

// tasks returns the files to fetch, the most important ones first: candidates
// for logos, further pages, the share image, images of the page.
func (r *run) tasks(ctx context.Context, f *found, h *home) []task {
	f.read = make([]*logofinder.Image, len(f.candidates))
	f.rejected = make([]error, len(f.candidates))
	r.readings.sprites = slices.ContainsFunc(f.candidates, func(c logofinder.Candidate) bool { return c.Crop != nil })
	var out []task
	for i, c := range f.candidates {
		if c.Data == nil {
			r.answers.expect(c.Files()[0].String())
		}
		out = append(out, task{host: hostOf(c), run: func(fetched func()) { r.readInto(ctx, f, i, fetched) }})
	}
	if !h.bare {
		out = append(out, r.further(ctx, f, h)...)
	}
	if u := f.share.Value; u != nil {
		r.answers.expect(u.String())
		out = append(out, task{host: u.Hostname(), run: func(fetched func()) {
			f.banner = r.convert(ctx, u, rankBanner, (*logofinder.File).StoreBanner, fetched)
		}})
	}
	f.images = make([]*converted, len(f.imageURLs))
	for i, u := range f.imageURLs {
		r.answers.expect(u.String())
		out = append(out, task{host: u.Hostname(), run: func(fetched func()) {
			f.images[i] = r.convert(ctx, u, rankImage+i, (*logofinder.File).StoreImage, fetched)
		}})
	}
	return out
}

// hostOf returns the host from which a candidate is fetched, or "" if the page contains it.
func hostOf(c logofinder.Candidate) string {
	if c.Data != nil || c.URL.Scheme == "data" {
		return ""
	}
	return c.URL.Hostname()
}

// readInto fetches and reads one of the candidates.
func (r *run) readInto(ctx context.Context, f *found, i int, fetched func()) {
	p, err := r.candidate(ctx, f.candidates[i], i, fetched)
	if err == nil {
		f.keep(&r.held, i, p)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rejected[i] = err
}

// convert fetches one image and converts it to its stored form; it returns nil if the image is unusable.
func (r *run) convert(ctx context.Context, u *url.URL, rank int,
	store func(*logofinder.File, context.Context, logofinder.Assets) (eventschemas.Image, error),
	fetched func()) *converted {
	data, _, err := r.file(ctx, u, logofinder.MaxBytes)
	fetched()
	if err != nil || imaging.Sniff(data).IsVector() || !r.held.take(int64(len(data))) {
		return nil
	}
	defer r.held.give(int64(len(data)))
	var files encoded
	var image eventschemas.Image
	err = r.decode(ctx, rank, data, nil, logofinder.ImageCost, func(f *logofinder.File) (err error) {
		image, err = store(f, ctx, &files)
		return err
	})
	if err != nil {
		return nil
	}
	return &converted{image: image, files: files.files}
}

// candidate fetches and reads one candidate, the i-th best, from the first of its files that is an image. The error is
// the reason why it is not a logo.
func (r *run) candidate(ctx context.Context, c logofinder.Candidate, i int, fetched func()) (p *logofinder.Image,
	err error) {
	for files := c.Files(); len(files) > 0; {
		c.URL, files = files[0], files[1:]
		data, failed := r.bytesOf(ctx, c)
		if err = failed; err != nil {
			continue
		}
		if len(data) == 0 {
			err = errMissing
			continue
		}
		if len(files) == 0 {
			fetched()
		}
		p, err = r.readCandidate(ctx, c, i, data)
		if !logofinder.IsFileFault(err) || errors.Is(err, logofinder.ErrNotLogo) ||
			errors.Is(err, logofinder.ErrDefault) {
			break
		}
	}
	return p, err
}

// readCandidate reads the file of a candidate.
func (r *run) readCandidate(ctx context.Context, c logofinder.Candidate, i int, data []byte) (*logofinder.Image,
	error) {
	if !r.held.take(int64(len(data))) {
		return nil, errMemoryLimit
	}
	defer r.held.give(int64(len(data)))
	var p *logofinder.Image
	err := r.decode(ctx, rankRead+i, data, c.Part, 0, func(f *logofinder.File) (err error) {
		p, err = f.As(c)
		return err
	})
	if err != nil {
		r.crawler.cfg.Logger.Debug("candidate is not a logo", "domain", r.target.Domain,
			"method", c.Method, "error", err)
		return nil, err
	}
	return p, nil
}

// work waits for a turn at the gate, and for the memory. ok is false if
// ctx ends first. If ok, the caller must call leave.
func (r *run) work(ctx context.Context, rank int, bytes int64) (leave func(), ok bool) {
	if !r.crawler.gate.enter(ctx, rank) {
		return nil, false
	}
	share := r.crawler.cfg.MemoryBudget.Share(bytes)
	if share.Acquire(ctx) != nil {
		r.crawler.gate.leave()
		return nil, false
	}
	return func() {
		share.Release()
		r.crawler.gate.leave()
	}, true
}

// bytesOf returns a candidate's file, fetched unless the page contains it.
func (r *run) bytesOf(ctx context.Context, c logofinder.Candidate) ([]byte, error) {
	switch {
	case c.Data != nil:
		return c.Data, nil
	case c.URL.Scheme == "data":
		return logofinder.DataURL(c.URL)
	case r.session == nil: // a saved page
		return nil, errors.New("not fetched: a saved page is read without fetching")
	case c.Probed:
		data, _, err := r.probe(ctx, c.URL, logofinder.MaxBytes)
		return data, err
	}
	data, _, err := r.file(ctx, c.URL, logofinder.MaxBytes)
	return data, err
}
