package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"letterhead/domain/brand"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/judge"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/picture"
	"letterhead/workers/crawl/site"
)

// Once crawls one address or host, outside of any stream. Pictures are read and named by their content, and
// kept nowhere. A host without a scheme is tried at all of its addresses. Errors: brand.ErrInvalidDomain, and those of Crawler.Crawl.
func Once(ctx context.Context, cfg Config, client *safehttp.Client, address string) (*Result, Stats, error) {
	start, domain, err := startOf(address)
	if err != nil {
		return nil, Stats{}, err
	}
	if !strings.Contains(address, "://") {
		if start.Scheme = ""; start.Host == domain && start.Path == "/" {
			start = nil // the home page, wherever it answers
		}
	}
	c, err := New(cfg, client, nameless{})
	if err != nil {
		return nil, Stats{}, err
	}
	return c.Crawl(ctx, Target{Domain: domain, Start: start})
}

// SavedPage is a page that was kept, with the address it came from.
type SavedPage struct {
	URL         string
	Body        []byte
	ContentType string // "" is HTML of unknown encoding
}

// Read extracts what one saved page says, without fetching anything: logos only when they are embedded in
// it, no share image, no manifest. Errors: brand.ErrInvalidDomain, *Failure.
func Read(ctx context.Context, cfg Config, saved SavedPage) (*Result, error) {
	start, domain, err := startOf(saved.URL)
	if err != nil {
		return nil, err
	}
	if saved.ContentType == "" {
		saved.ContentType = "text/html"
	}
	cfg.setDefaults()
	r := &run{
		crawler: &Crawler{cfg: cfg, assets: nameless{}, decoders: make(chan struct{}, cfg.Decoders)},
		target:  Target{Domain: domain, Start: start},
		site:    site.New(domain),
	}
	h, verdict := r.read(&safehttp.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {saved.ContentType}}, Body: saved.Body, FinalURL: start,
	})
	if h, err = r.judged(h, verdict); err != nil {
		return nil, err
	}
	f := &found{input: judge.Input{Site: r.site, Page: h.page}}
	f.candidates = picture.Candidates(f.input)
	f.share, _ = judge.ShareImage(f.input)
	for _, c := range f.candidates {
		if c.URL.Scheme == "data" {
			if p := r.candidate(ctx, c); p != nil {
				f.pictures = append(f.pictures, p)
			}
		}
	}
	return r.assemble(ctx, h, f)
}

// startOf reads an address or a bare host.
func startOf(address string) (*url.URL, string, error) {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", fmt.Errorf("address %q: %w", cut(address, page.MaxURLBytes), errors.Join(err, brand.ErrInvalidDomain))
	}
	domain, err := brand.RegistrableDomain(u.Hostname())
	if err != nil {
		return nil, "", err
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, domain, nil
}

// nameless names files by their content and keeps none.
type nameless struct{}

func (nameless) Put(_ context.Context, data []byte, _ string) (string, error) {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
