package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"letterhead/domain/brand"
	"letterhead/internal/css"
	"letterhead/internal/membudget"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Once crawls one URL or host, outside of any stream. Images are read and named by their content, and kept in
// Result.Files only. For a host without a scheme, all usual URLs are tried. Errors: brand.ErrInvalidDomain, and the
// errors of Crawler.Crawl.
func Once(ctx context.Context, cfg Config, client *safehttp.Client, address string) (*Result, Stats, error) {
	start, domain, err := startOf(address)
	if err != nil {
		return nil, Stats{}, err
	}
	if !strings.Contains(address, "://") {
		if start.Scheme = ""; start.Host == domain && start.Path == "/" {
			start = nil // the home page, at any of its URLs
		}
	}
	c, err := New(cfg, client, nowhere{})
	if err != nil {
		return nil, Stats{}, err
	}
	return c.crawl(ctx, Target{Domain: domain, Start: start}, true)
}

// SavedPage is a saved page with its original URL.
type SavedPage struct {
	URL         string
	Body        []byte
	ContentType string // "" is HTML of unknown encoding
}

// Read extracts the data of one saved page without fetching: only embedded
// logos, no share image, no manifest. Errors: brand.ErrInvalidDomain, *Failure.
func Read(ctx context.Context, cfg Config, saved SavedPage) (*Result, error) {
	start, domain, err := startOf(saved.URL)
	if err != nil {
		return nil, err
	}
	saved.ContentType = cmp.Or(saved.ContentType, "text/html")
	if cfg.Renderer == nil {
		return nil, errors.New("crawler: a renderer is needed")
	}
	cfg.setDefaults()
	r := &run{
		crawler:   &Crawler{cfg: cfg, assets: nowhere{}, gate: newGate(cfg.Decoders), pages: membudget.New(pageBytes)},
		target:    Target{Domain: domain, Start: start},
		site:      site.New(domain),
		explained: true,
	}
	h, verdict := r.read(ctx, &safehttp.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {saved.ContentType}}, Body: saved.Body,
		FinalURL: start,
	}, false)
	if h, err = r.judged(h, verdict); err != nil {
		return nil, err
	}
	in := extract.Input{Site: r.site, Page: h.page, Style: css.New(h.page.Root, h.page.Base, nil, site.Resolve), Now: cfg.Now()}
	f := &found{input: in, candidates: logofinder.Candidates(in)}
	f.share, _ = extract.ShareImage(in)
	f.read, f.rejected = make([]*logofinder.Image, len(f.candidates)), make([]error, len(f.candidates))
	for i := range f.candidates {
		r.readInto(ctx, f, i, func() {})
	}
	return r.assemble(ctx, h, f)
}

// startOf parses a URL or a bare host.
func startOf(address string) (*url.URL, string, error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", fmt.Errorf("URL %q: %w", cut(address, page.MaxURLBytes),
			errors.Join(err, brand.ErrInvalidDomain))
	}
	domain, err := brand.RegistrableDomain(u.Hostname())
	if err != nil {
		return nil, "", err
	}
	u.Path = cmp.Or(u.Path, "/")
	return u, domain, nil
}
