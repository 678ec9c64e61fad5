package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"letterhead/domain/brand"
	"letterhead/internal/css"
	"letterhead/internal/membudget"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Ranks of the work on images: the lowest goes first. Work that ends a crawl goes before work that others have just
// begun, so that a crawl near its deadline does not wait behind every icon of all others; and the best candidate of one
// crawl goes before the second best of another.
const (
	rankPrimary = -2  // storing the logo without which a record is partial
	rankStore   = -1  // storing the other logos
	rankRead    = 0   // reading the best candidate; the next one has 1
	rankBanner  = 100 // converting the share image
	rankImage   = 101 // converting an image of the page
)

// gate limits the images that all crawls decode and encode at the same time.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []*waiter // in the order of their arrival
}

func newGate(slots int) *gate { return &gate{free: slots} }

// waiter waits for a slot.
type waiter struct {
	rank int
	in   chan struct{}
}

// enter waits for a slot; it returns false if ctx ends first. A free slot is
// given even if ctx has ended. A caller that entered must call leave.
func (g *gate) enter(ctx context.Context, rank int) bool {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return true
	}
	v := g.queue(rank)
	g.mu.Unlock()
	return g.await(ctx, v)
}

// queue requires the lock.
func (g *gate) queue(rank int) *waiter {
	v := &waiter{rank: rank, in: make(chan struct{})}
	g.waiting = append(g.waiting, v)
	return v
}

func (g *gate) await(ctx context.Context, v *waiter) bool {
	select {
	case <-v.in:
		return true
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, v)
	if i < 0 {
		return true // it was admitted at the same moment
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	return false
}

// yield lets waiters of lower rank go first. It returns false if ctx ends
// before it is back in; the slot is released then.
func (g *gate) yield(ctx context.Context, rank int) bool {
	g.mu.Lock()
	if !slices.ContainsFunc(g.waiting, func(v *waiter) bool { return v.rank < rank }) {
		g.mu.Unlock()
		return true
	}
	v := g.queue(rank) // before the slot is released, so that later ones do not overtake
	g.next()
	g.mu.Unlock()
	return g.await(ctx, v)
}

// leave gives the slot to the waiting waiter with the lowest rank.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.free++
		return
	}
	g.next()
}

// next admits the waiter with the lowest rank, the first of equals. It requires the lock and a waiter.
func (g *gate) next() {
	first := slices.MinFunc(g.waiting, func(a, b *waiter) int { return cmp.Compare(a.rank, b.rank) })
	g.waiting = slices.DeleteFunc(g.waiting, func(v *waiter) bool { return v == first })
	close(first.in)
}

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
