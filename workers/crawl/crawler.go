package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/eventschemas"
	"letterhead/internal/room"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Limits of one crawl, beside those of package safehttp.
const (
	// DefaultAllowed is the time of a crawl whose caller sets none.
	DefaultAllowed = 30 * time.Second
	// assembleReserve is kept of the time allowed for judging and storing: fetches end before it. Encoding
	// the sizes of eight logos takes most of it.
	assembleReserve = 1200 * time.Millisecond
	// assembleTime is how long the primary logo may be waited for and stored once the time allowed is over:
	// what was found is not thrown away at the last moment. It is well within the worker's hurry.
	assembleTime = 200 * time.Millisecond
	// minAttempt is the time that another address of the home page is worth trying with.
	minAttempt = 500 * time.Millisecond
	// maxRetryAfter is how long a crawl waits when a site asks to come back later.
	maxRetryAfter = time.Second
)

// Config configures a Crawler.
type Config struct {
	// Decoders bounds the images that all crawls together decode or encode at a time.
	// Default: the number of processors, at least 2.
	Decoders int
	// Room bounds the bytes that decoding and encoding hold, of all crawls together and of all else that shares it.
	// nil: one of its own.
	Room *room.Room
	// Renderer draws vectors; it must be set.
	Renderer logofinder.Renderer
	// Browser draws pages that are empty until their scripts have run; nil: they are read as they are.
	Browser Browser
	Logger  *slog.Logger     // nil: none
	Now     func() time.Time // nil: time.Now
}

const maxDecoders = 64

func (c *Config) setDefaults() {
	if c.Decoders == 0 {
		c.Decoders = min(max(2, runtime.GOMAXPROCS(0)), maxDecoders)
	}
	if c.Room == nil {
		c.Room = room.New(0)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	if c.Decoders < 0 || c.Decoders > maxDecoders {
		return fmt.Errorf("crawler: Decoders is %d, must be 1 to %d", c.Decoders, maxDecoders)
	}
	return nil
}

// Browser runs the scripts of a page. It fetches nothing itself: every request of the page goes through
// package safehttp. Package browser has one.
type Browser interface {
	// Render returns the document as it stands when the page has come to rest, or when ctx is about to
	// end, and its address.
	Render(ctx context.Context, address *url.URL) (html []byte, at *url.URL, err error)
}

// Crawler crawls. It is safe for concurrent use.
type Crawler struct {
	cfg    Config
	client *safehttp.Client
	assets logofinder.Assets
	gate   *gate
	memory *semaphore.Weighted // bytes that all crawls hold beyond what each has for itself
	spares *semaphore.Weighted // of them, those that they can do without
	pages  *room.Room          // that home pages are parsed in
	rules  *rulebook
}

// New returns a Crawler that fetches with a client and keeps images in a store.
func New(cfg Config, client *safehttp.Client, assets logofinder.Assets) (*Crawler, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("crawler configuration: %w", err)
	}
	if client == nil || assets == nil || cfg.Renderer == nil {
		return nil, errors.New("crawler: client, assets and a renderer are needed")
	}
	rules, err := newRulebook(cfg.Now)
	if err != nil {
		return nil, err
	}
	return &Crawler{cfg: cfg, client: client, assets: assets, gate: newGate(cfg.Decoders), memory: semaphore.NewWeighted(commonBytes), spares: semaphore.NewWeighted(spareBytes), pages: room.New(pageBytes), rules: rules}, nil
}

// Target is what to crawl.
type Target struct {
	Domain string // registrable; the record is kept under it
	// Start is where to begin; nil is the domain's home page, at any of its addresses. Without a scheme
	// https is tried first, then http.
	Start *url.URL
	// Known is a record from a data set, whose logos stay candidates; nil for none.
	Known *eventschemas.Record
	// ETag and LastModified are those that a crawl of this target gave before, of a record that is held and
	// complete: when the home page has not changed since, nothing is fetched again. "" for none.
	ETag, LastModified string
	// Scheduled: nobody waits for this crawl, and nobody asked for it. It goes by what robots.txt says to
	// everybody.
	Scheduled bool
}

// Result is what a crawl found.
type Result struct {
	// NotModified: the home page is the one that Target.ETag or Target.LastModified came with. There is no
	// Record then, nor anything else but FinalURL.
	NotModified bool

	// Withheld: robots.txt kept files from this crawl that the site declares, so that Record may hold less
	// than one that somebody waited for.
	Withheld bool

	Record             eventschemas.Record
	Evidence           []eventschemas.Evidence // sorted by field
	FinalURL           string
	ETag, LastModified string
	Candidates         []logofinder.Candidate // for logos, best first
	// Trials are what became of each candidate, in the order of Candidates.
	Trials []logofinder.Trial
	// Weighed are the candidates for the other fields, best first in each, of a crawl that somebody looks at
	// (Once, Read); else nil.
	Weighed []extract.Weighed
	// Files are the stored files by their asset id, of a crawl that keeps them nowhere else (Once, Read); else nil.
	Files map[string][]byte
}

// Stats is what a crawl cost.
type Stats struct {
	Requests int
	Bytes    int64 // of bodies, decompressed
	Decoded  int   // files of images, each as often as it was decoded
}

// Crawl crawls a site within ctx's deadline, or DefaultAllowed. When the deadline passes after the home
// page was read, what was found by then is the result.
//
// Errors: *Failure; ctx.Err() when ctx was canceled; *StoreError when the asset store failed.
func (c *Crawler) Crawl(ctx context.Context, t Target) (*Result, Stats, error) {
	return c.crawl(ctx, t, false)
}

// crawl is Crawl; explained also gives the candidates of all fields.
func (c *Crawler) crawl(ctx context.Context, t Target, explained bool) (*Result, Stats, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultAllowed)
		defer cancel()
	}
	run := &run{crawler: c, target: t, session: c.client.NewSession(), site: site.New(t.Domain), explained: explained}
	run.held.common, run.held.spares = c.memory, c.spares
	defer run.held.end()
	defer func() { run.page.Give() }()
	result, err := run.do(ctx)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err()
	}
	requests, bytes := run.session.Fetched()
	return result, Stats{Requests: requests, Bytes: bytes, Decoded: run.readings.decoded}, err
}

// run is one crawl.
type run struct {
	crawler   *Crawler
	target    Target
	session   *safehttp.Session // nil of a saved page
	site      site.Site
	explained bool
	ruling    ruling       // the rules that were learned last: those of the home page's server
	asking    asking       // the rules that were asked for last
	files     atomic.Int32 // fetched so far, of maxFiles
	answers   answers
	held      held
	readings  readings
	page      room.Part   // of the home page that was parsed last
	withheld  atomic.Bool // robots.txt kept a file from this crawl
}

// do runs the stages.
func (r *run) do(ctx context.Context) (*Result, error) {
	fetching, cancel := context.WithCancel(ctx)
	defer cancel() // what runs beside the stages
	bimi := r.lookUpBIMI(fetching)
	home, err := r.fetch(fetching)
	if err != nil {
		return nil, err
	}
	if home.unchanged {
		return r.unchanged(home), nil
	}
	found := r.gather(ctx, home, bimi)
	if err := r.lastWord(home.response.FinalURL); err != nil {
		return nil, err
	}
	// What was found is worth keeping although the time allowed may be over by now: found knows when it is.
	return r.assemble(context.WithoutCancel(ctx), home, found)
}

// unchanged is the result of a home page that is the one that is held.
func (r *run) unchanged(h *home) *Result {
	return &Result{NotModified: true, FinalURL: cut(h.response.FinalURL.String(), page.MaxURLBytes)}
}
