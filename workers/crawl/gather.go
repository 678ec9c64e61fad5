package crawl

import (
	"context"
	"net/url"
	"sync"

	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/judge"
	"letterhead/workers/crawl/manifest"
	"letterhead/workers/crawl/picture"
)

// found is what a site offers, read.
type found struct {
	input      judge.Input
	candidates []picture.Candidate
	pictures   []*picture.Picture // those of the candidates that are pictures
	share      judge.Found[*url.URL]
	shareFile  []byte // nil when the share image was not fetched
}

// gather fetches what the home page points at. It ends shortly before ctx does, with what it has; a file
// that cannot be fetched or read is left out.
func (r *run) gather(ctx context.Context, h *home) *found {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-assembleReserve))
		defer cancel()
	}
	f := &found{input: judge.Input{Site: r.site, Page: h.page, Header: h.response.Header, Known: r.target.Known}}
	if _, adult := judge.Adult(f.input); adult {
		return f // nothing of it is kept
	}
	if h.bare {
		bare := f.input
		bare.Page = h.declared
		f.candidates = picture.Declared(bare)
	} else {
		r.manifests(ctx, f)
		f.candidates = picture.Candidates(f.input)
		f.share, _ = judge.ShareImage(f.input)
	}
	r.files(ctx, f)
	return f
}

// manifests fetches the web app manifest and the browserconfig.
func (r *run) manifests(ctx context.Context, f *found) {
	var wg sync.WaitGroup
	fetch := func(u *url.URL, parse func([]byte, *url.URL) (*manifest.Manifest, error), to **manifest.Manifest) {
		if u == nil {
			return
		}
		wg.Go(func() {
			body, at := r.file(ctx, u, manifest.MaxBytes)
			if body == nil {
				return
			}
			if m, err := parse(body, at); err == nil {
				*to = m
			}
		})
	}
	fetch(f.input.Page.Manifest, manifest.Parse, &f.input.Manifest)
	fetch(f.input.Page.Config, manifest.ParseBrowserConfig, &f.input.Config)
	wg.Wait()
}

// files fetches and reads the candidates and the share image, a few at a time.
func (r *run) files(ctx context.Context, f *found) {
	var wg sync.WaitGroup
	places := make(chan struct{}, maxParallel)
	read := make([]*picture.Picture, len(f.candidates))
	for i, c := range f.candidates {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			read[i] = r.candidate(ctx, c)
		})
	}
	if u := f.share.Value; u != nil {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			f.shareFile, _ = r.file(ctx, u, picture.MaxBytes)
		})
	}
	wg.Wait()
	for _, p := range read {
		if p != nil {
			f.pictures = append(f.pictures, p)
		}
	}
}

// candidate fetches and reads one candidate, nil when it is no logo.
func (r *run) candidate(ctx context.Context, c picture.Candidate) *picture.Picture {
	var data []byte
	if c.URL.Scheme == "data" {
		data, _ = picture.DataURL(c.URL)
	} else {
		data, _ = r.file(ctx, c.URL, picture.MaxBytes)
	}
	if len(data) == 0 {
		return nil
	}
	select {
	case r.crawler.decoders <- struct{}{}:
		defer func() { <-r.crawler.decoders }()
	case <-ctx.Done():
		return nil
	}
	p, err := picture.Read(c, data)
	if err != nil {
		r.crawler.cfg.Logger.Debug("candidate is no logo", "domain", r.target.Domain, "method", c.Method, "error", err)
		return nil
	}
	return p
}

// file fetches one file, nil when it is not there or not whole.
func (r *run) file(ctx context.Context, u *url.URL, limit int64) ([]byte, *url.URL) {
	response, err := r.session.Get(ctx, u.String(), safehttp.Limits{Body: limit, Time: fileTime})
	if err != nil || response.StatusCode != 200 || response.Truncated {
		return nil, nil
	}
	return response.Body, response.FinalURL
}
