package crawl

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/domain/brand"
	"letterhead/eventschemas"
	"letterhead/internal/membudget"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/extract"
	"letterhead/workers/crawl/logofinder"
	"letterhead/workers/crawl/page"
	"letterhead/workers/crawl/site"
)

// Limits of one crawl, in addition to the limits of package safehttp.
const (
	DefaultAllowed = 30 * time.Second // the time of a crawl without a deadline
	// assembleReserve is the part of the allowed time reserved for extracting and storing: fetches end before it.
	// Encoding the sizes of eight logos takes most of it.
	assembleReserve = 1200 * time.Millisecond
	// assembleTime is the default of Config.AssembleTime: the result is not lost
	// at the last moment, and it is well within the worker's hurry.
	assembleTime  = 200 * time.Millisecond
	minAttempt    = 500 * time.Millisecond // the minimum time for trying another URL of the home page
	maxRetryAfter = time.Second            // the longest Retry-After that a crawl waits for
)

// Config configures a Crawler.
type Config struct {
	// Decoders limits the images that all crawls decode or encode at the same
	// time. Default: the number of processors, 2 to 64.
	Decoders int
	// MemoryBudget limits the bytes for decoding and encoding, of all crawls and
	// other users of the same budget. nil: a separate one.
	MemoryBudget *membudget.Budget
	Renderer     logofinder.Renderer // draws vectors; it must be set
	// Browser renders pages that are empty until their scripts have run; nil: they are not rendered.
	Browser Browser
	// AssembleTime is how long the primary logo may be waited for and stored
	// once the allowed time is over. Default: 200 ms.
	AssembleTime time.Duration
	Logger       *slog.Logger     // nil: none
	Now          func() time.Time // nil: time.Now
}

func (c *Config) setDefaults() {
	c.Decoders = cmp.Or(c.Decoders, min(max(2, runtime.GOMAXPROCS(0)), 64))
	if c.MemoryBudget == nil {
		c.MemoryBudget = membudget.New(0)
	}
	c.AssembleTime = cmp.Or(c.AssembleTime, assembleTime)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Browser runs the scripts of a page. It does not fetch: every request of the
// page goes through package safehttp. Package browser implements it.
type Browser interface {
	// Render returns the document once the page is idle, or shortly before ctx ends, and its URL.
	Render(ctx context.Context, address *url.URL) (html []byte, at *url.URL, err error)
}

// Crawler crawls. It is safe for concurrent use.
type Crawler struct {
	cfg    Config
	client *safehttp.Client
	assets logofinder.Assets
	gate   *gate
	memory *semaphore.Weighted // bytes that all crawls hold beyond their own shares
	spares *semaphore.Weighted // the part of memory for dispensable files
	pages  *membudget.Budget   // for parsing home pages
	rules  *rulebook
}

// New returns a Crawler that fetches with a client and stores images in a store.
func New(cfg Config, client *safehttp.Client, assets logofinder.Assets) (*Crawler, error) {
	cfg.setDefaults()
	if client == nil || assets == nil || cfg.Renderer == nil {
		return nil, errors.New("crawler: client, assets and a renderer are needed")
	}
	rules, err := newRulebook(cfg.Now)
	if err != nil {
		return nil, err
	}
	return &Crawler{
		cfg: cfg, client: client, assets: assets, gate: newGate(cfg.Decoders),
		memory: semaphore.NewWeighted(commonBytes), spares: semaphore.NewWeighted(spareBytes),
		pages: membudget.New(pageBytes), rules: rules,
	}, nil
}

// Target describes what to crawl.
type Target struct {
	Domain string // registrable; the key of the record
	// Start is the first URL; nil is the domain's home page at any of its usual
	// URLs. Without a scheme https is tried first, then http.
	Start *url.URL
	Known *eventschemas.Record // a record from a data set, whose logos remain candidates; nil for none
	// ETag and LastModified come from an earlier crawl of this target whose record is stored and complete: if the home
	// page has not changed since, nothing else is fetched. "" for none.
	ETag, LastModified string
	// Scheduled is set for a crawl that no user requested. It obeys the rules of robots.txt for all agents.
	Scheduled bool
	// IsStock reports whether an icon that was found by convention, with the id of its first format, is the stock icon of
	// a template; nil: none is.
	IsStock func(ctx context.Context, icon string, seen brand.Sighting) bool
}

// Result is the result of a crawl.
type Result struct {
	// NotModified is set if the home page has not changed since Target.ETag or
	// Target.LastModified. Only FinalURL is set then.
	NotModified bool

	// Withheld is set if robots.txt blocked files that the site declares, so
	// that Record may contain less than the record for a user's request.
	Withheld bool

	Record             eventschemas.Record
	Evidence           []eventschemas.Evidence // sorted by field
	ByConvention       *eventschemas.IconsByConvention
	FinalURL           string
	ETag, LastModified string
	Trials             []logofinder.Trial // the candidates for logos and their results, best first
	// Weighed are the candidates for the other fields, best first in each, for
	// an interactive crawl (Once, Read); else nil.
	Weighed []extract.Weighed
	Files   map[string][]byte // the stored files by asset id, for a crawl without a store (Once, Read); else nil
}

// Stats is the cost of a crawl.
type Stats struct {
	Requests int
	Bytes    int64 // of bodies, decompressed
	Decoded  int   // image files, counted each time they were decoded
}

// Crawl crawls a site within ctx's deadline, or DefaultAllowed. If the deadline passes after the home page was read,
// the result contains everything found so far.
//
// Errors: *Failure; ctx.Err() if ctx was canceled; *StoreError if the asset store failed.
func (c *Crawler) Crawl(ctx context.Context, t Target) (*Result, Stats, error) {
	return c.crawl(ctx, t, false)
}

// crawl is Crawl; explained also returns the candidates of all fields.
func (c *Crawler) crawl(ctx context.Context, t Target, explained bool) (*Result, Stats, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultAllowed)
		defer cancel()
	}
	run := &run{crawler: c, target: t, session: c.client.NewSession(), site: site.New(t.Domain), explained: explained}
	run.held.common, run.held.spares = c.memory, c.spares
	defer run.held.end()
	defer func() {
		run.page.Release()
		for _, share := range run.framed {
			share.Release()
		}
	}()
	result, err := run.do(ctx)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err()
	}
	requests, bytes := run.session.Fetched()
	return result, Stats{Requests: requests, Bytes: bytes, Decoded: int(run.readings.decoded.Load())}, err
}

// run is one crawl.
type run struct {
	crawler   *Crawler
	target    Target
	session   *safehttp.Session // nil for a saved page
	site      site.Site
	explained bool
	ruling    ruling       // the rules that were received last: the home page's server sent them
	asking    asking       // the rules that were requested last
	files     atomic.Int32 // fetched so far, of maxFiles
	answers   answers
	held      held
	readings  readings
	page      membudget.Share   // of the last parsed home page
	framed    []membudget.Share // of the frames that were read into it
	withheld  atomic.Bool       // robots.txt blocked a file
}

// do runs the stages.
func (r *run) do(ctx context.Context) (*Result, error) {
	fetching, cancel := context.WithCancel(ctx)
	defer cancel() // for the concurrent lookups
	bimi := r.lookUpBIMI(fetching)
	home, err := r.fetch(fetching)
	if err != nil {
		return nil, err
	}
	if home.unchanged {
		return r.unchanged(home), nil
	}
	found := r.gather(ctx, home, bimi)
	if err := r.checkLateRules(home.response.FinalURL); err != nil {
		return nil, err
	}
	// The result is worth keeping even if the allowed time is over by now; found knows the deadline.
	return r.assemble(context.WithoutCancel(ctx), home, found)
}

// unchanged returns the result for a home page that has not changed.
func (r *run) unchanged(h *home) *Result {
	return &Result{NotModified: true, FinalURL: cut(h.response.FinalURL.String(), page.MaxURLBytes)}
}
