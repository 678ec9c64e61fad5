package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/safehttp"
	"letterhead/workers/crawl/picture"
	"letterhead/workers/crawl/site"
)

// Limits of one crawl, beside those of package safehttp.
const (
	// DefaultAllowed is the time of a crawl whose caller sets none.
	DefaultAllowed = 30 * time.Second
	// assembleReserve is kept of the time allowed for judging and storing: fetches end before it.
	assembleReserve = 600 * time.Millisecond
	// assembleTime bounds judging and storing once the time allowed is over: what was found is not
	// thrown away at the last moment.
	assembleTime = 5 * time.Second
	// minAttempt is the time that another address of the home page is worth trying with.
	minAttempt = 500 * time.Millisecond
	// fileTime bounds the fetch of one picture or manifest.
	fileTime = 5 * time.Second
	// maxParallel bounds the fetches of one crawl at a time; safehttp allows four per host.
	maxParallel = 6
	// maxRetryAfter is how long a crawl waits when a site asks to come back later.
	maxRetryAfter = time.Second
)

// Config configures a Crawler.
type Config struct {
	// Decoders bounds the pictures that all crawls together decode at a time: one may take 250 MB.
	// Default: the number of processors, at least 2.
	Decoders int
	Logger   *slog.Logger     // nil: none
	Now      func() time.Time // nil: time.Now
}

const maxDecoders = 64

func (c *Config) setDefaults() {
	if c.Decoders == 0 {
		c.Decoders = min(max(2, runtime.GOMAXPROCS(0)), maxDecoders)
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

// Crawler crawls. It is safe for concurrent use.
type Crawler struct {
	cfg      Config
	client   *safehttp.Client
	assets   picture.Assets
	decoders chan struct{}
}

// New returns a Crawler that fetches with a client and keeps pictures in a store.
func New(cfg Config, client *safehttp.Client, assets picture.Assets) (*Crawler, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("crawler configuration: %w", err)
	}
	if client == nil || assets == nil {
		return nil, errors.New("crawler: client and assets are needed")
	}
	return &Crawler{cfg: cfg, client: client, assets: assets, decoders: make(chan struct{}, cfg.Decoders)}, nil
}

// Target is what to crawl.
type Target struct {
	Domain string // registrable; the record is kept under it
	// Start is where to begin; nil is the domain's home page, at any of its addresses. Without a scheme
	// https is tried first, then http.
	Start *url.URL
	// Known is a record from a data set, whose logos stay candidates; nil for none.
	Known *eventschemas.Record
}

// Result is what a crawl found.
type Result struct {
	Record             eventschemas.Record
	Evidence           []eventschemas.Evidence // sorted by field
	FinalURL           string
	ETag, LastModified string
	Candidates         []picture.Candidate // for logos, best first
}

// Stats is what a crawl cost.
type Stats struct {
	Requests int
	Bytes    int64 // of bodies, decompressed
}

// Crawl crawls a site within ctx's deadline, or DefaultAllowed. When the deadline passes after the home
// page was read, what was found by then is the result.
//
// Errors: *Failure; ctx.Err() when ctx was canceled; an error of the asset store.
func (c *Crawler) Crawl(ctx context.Context, t Target) (*Result, Stats, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultAllowed)
		defer cancel()
	}
	run := &run{crawler: c, target: t, session: c.client.NewSession(), site: site.New(t.Domain)}
	result, err := run.do(ctx)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err()
	}
	requests, bytes := run.session.Fetched()
	return result, Stats{Requests: requests, Bytes: bytes}, err
}

// run is one crawl.
type run struct {
	crawler *Crawler
	target  Target
	session *safehttp.Session
	site    site.Site
}

// do runs the stages.
func (r *run) do(ctx context.Context) (*Result, error) {
	home, err := r.fetch(ctx)
	if err != nil {
		return nil, err
	}
	found := r.gather(ctx, home)
	// What was found is worth keeping although the time allowed may be over by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), assembleTime)
	defer cancel()
	return r.assemble(ctx, home, found)
}
