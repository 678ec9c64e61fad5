package readapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"letterhead/domain/plan"
	"letterhead/internal/ratelimit"
	"letterhead/readapi/mcp"
)

// Defaults of Config.
const (
	defaultCrawlTimeout    = 8500 * time.Millisecond // readings, "Crawl outcomes"; see clientsGiveUp
	defaultCrawlsPerMinute = 240                     // readings, "limits.crawlsPerMinute"
	// defaultBesideCrawl is what a look-up may take before and after the crawl that it waits for; the grace of
	// its outcome is in it.
	defaultBesideCrawl = time.Second
	defaultUserAgent   = "LetterheadBot/1.0"
	// defaultLogoTimeout: readings, "Search and logos".
	defaultLogoTimeout = 4 * time.Second
	// defaultBatchTimeout: readings, "Batch deadline".
	defaultBatchTimeout = 25 * time.Second
	// maxBatchTimeout bounds what can be set: with the last items' own time, which is maxRequestTimeout at most, it
	// stays below the 120 s that the proxies in deploy/ wait for an answer.
	maxBatchTimeout = 40 * time.Second
)

// Config sets the API up.
type Config struct {
	BaseURL    string // how clients reach the service, without a trailing slash; required
	BillingURL string // where 402 and quota answers send people; empty = the docs of insufficient_credits
	UserAgent  string // how the crawler introduces itself, for the page about it

	Plans           plan.Table    // zero = plan.Default()
	CrawlTimeout    time.Duration // of a live crawl that a request waits for; 0 = 8.5 s
	CrawlsPerMinute int           // ceiling of live crawls of the whole service; 0 = 240
	// RequestTimeout bounds the work for one request, whatever its parts are waiting for; past it the answer
	// is 503. 0 = CrawlTimeout and a second. What needs no crawl has five seconds, if that is less.
	RequestTimeout time.Duration
	// BatchTimeout is how long a batch starts items; those under way then have a request's own time. 0 = 25 s.
	BatchTimeout time.Duration

	LogoHost       string         // host that serves logos at its root; "" = none
	LogoTimeout    time.Duration  // how long a logo waits for a live crawl; 0 = 4 s
	TrustedProxies []netip.Prefix // whose X-Forwarded-For says who asks for a logo

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
	NewID      func() string // request ids; nil = random UUIDs

	// Extra are handlers of other parts that this server serves too, by path, without authentication or
	// limits: /healthz, /readyz, /metrics.
	Extra map[string]http.Handler
}

// Validate reports everything that is wrong at once.
func (c Config) Validate() error {
	var errs []error
	u, err := url.Parse(c.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.HasSuffix(c.BaseURL, "/") {
		errs = append(errs, fmt.Errorf("API: BaseURL %q is not an http or https URL without a trailing slash", c.BaseURL))
	}
	if c.CrawlTimeout < 0 || c.CrawlTimeout > maxCrawlTimeout {
		errs = append(errs, fmt.Errorf("API: CrawlTimeout %s is not between 0 and %s", c.CrawlTimeout, maxCrawlTimeout))
	}
	if c.RequestTimeout < 0 || c.RequestTimeout > maxRequestTimeout {
		errs = append(errs, fmt.Errorf("API: RequestTimeout %s is not between 0 and %s", c.RequestTimeout, maxRequestTimeout))
	}
	if c.BatchTimeout < 0 || c.BatchTimeout > maxBatchTimeout {
		errs = append(errs, fmt.Errorf("API: BatchTimeout %s is not between 0 and %s", c.BatchTimeout, maxBatchTimeout))
	}
	if c.CrawlsPerMinute < 0 {
		errs = append(errs, fmt.Errorf("API: CrawlsPerMinute %d is below zero", c.CrawlsPerMinute))
	}
	if c.LogoTimeout < 0 || c.LogoTimeout > maxCrawlTimeout {
		errs = append(errs, fmt.Errorf("API: LogoTimeout %s is not between 0 and %s", c.LogoTimeout, maxCrawlTimeout))
	}
	if err == nil && parseLogoHost(c.LogoHost, u.Scheme).is(u.Host) {
		errs = append(errs, fmt.Errorf("API: LogoHost %q is the host of BaseURL, which would then serve nothing but logos", c.LogoHost))
	}
	for pattern, handler := range c.Extra {
		if !strings.HasPrefix(pattern, "/") || handler == nil {
			errs = append(errs, fmt.Errorf("API: extra handler %q has no path or is nil", pattern))
		}
	}
	return errors.Join(errs...)
}

// AnswerWithin returns the longest time between a charge and the last byte of the answer that it pays for. It is that
// of a batch, whose first item is charged long before the last is looked up.
func (c Config) AnswerWithin() time.Duration {
	c = c.withDefaults()
	return max(writeTimeout, c.BatchTimeout+c.RequestTimeout+batchSendWithin)
}

func (c Config) withDefaults() Config {
	if c.BillingURL == "" {
		c.BillingURL = c.BaseURL + "/docs/errors#" + string(CodeInsufficientCredits)
	}
	if c.UserAgent == "" {
		c.UserAgent = defaultUserAgent
	}
	if _, err := c.Plans.Get(plan.Free); err != nil {
		c.Plans = plan.Default()
	}
	if c.CrawlTimeout == 0 {
		c.CrawlTimeout = defaultCrawlTimeout
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = c.CrawlTimeout + defaultBesideCrawl
	}
	if c.BatchTimeout == 0 {
		c.BatchTimeout = defaultBatchTimeout
	}
	if c.LogoTimeout == 0 {
		c.LogoTimeout = defaultLogoTimeout
	}
	if c.CrawlsPerMinute == 0 {
		c.CrawlsPerMinute = defaultCrawlsPerMinute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	return c
}

// Deps are the parts that the API stands on. All but CaughtUp and Filled are required.
type Deps struct {
	Desk      Desk
	UsageDesk UsageDesk
	Recorder  UsageRecorder
	Brands    BrandCommands
	Index     BrandIndex
	Keys      KeyDirectory
	Usage     UsageCounts
	Search    Searcher
	Assets    AssetStore
	Logos     LogoStudio
	Changes   Changes
	Counters  ratelimit.Counters
	// CaughtUp waits until the Index holds all that the log held when it was called. Before an id is told to be
	// nobody's, it is asked: another node may have answered it a moment ago. Optional: nil where no other node
	// answers.
	CaughtUp func(ctx context.Context) error
	// Filled says whether the Index holds all that a start brings into it: what the log held, and the starter
	// index. Until then nothing is to remember that a brand is not known. Optional: nil where it always does.
	Filled func() bool
}

// Validate reports every part that is missing.
func (d Deps) Validate() error {
	var errs []error
	for name, part := range map[string]any{
		"Desk": d.Desk, "UsageDesk": d.UsageDesk, "Recorder": d.Recorder, "Brands": d.Brands, "Index": d.Index, "Keys": d.Keys,
		"Usage": d.Usage, "Search": d.Search, "Assets": d.Assets, "Logos": d.Logos, "Changes": d.Changes, "Counters": d.Counters,
	} {
		if part == nil {
			errs = append(errs, fmt.Errorf("API: %s is missing", name))
		}
	}
	return errors.Join(errs...)
}

// API is the HTTP door of the service.
type API struct {
	baseURL    string
	billingURL string
	plans      plan.Table
	keys       KeyDirectory
	recorder   UsageRecorder
	usageDesk  UsageDesk
	desk       Desk
	usage      UsageCounts
	search     Searcher
	assets     AssetStore
	logos      LogoStudio
	logoHost   logoHost
	filled     func() bool
	logoURLs   string // what stands before the domain in the address of a logo
	counters   ratelimit.Counters
	trusted    []netip.Prefix // proxies whose X-Forwarded-For says who asks for a logo
	timeout    time.Duration  // of a request that may wait for a crawl
	quick      time.Duration  // of any other, and of all that is not a crawl
	batch      time.Duration  // in which a batch starts items
	checks     bulkhead
	lookup     *Lookup
	pages      pages
	agents     *mcp.Server
	router     *mux.Router
	// logoEndpoint is what the logo host serves, past the router.
	logoEndpoint *endpoint
	extra        map[string]http.Handler
	log          *slog.Logger
	metrics      *metrics
	now          func() time.Time
	newID        func() string
}

// New returns the API, or everything that is wrong with what it was given.
func New(cfg Config, deps Deps) (*API, error) {
	if err := errors.Join(cfg.Validate(), deps.Validate()); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if deps.Filled == nil {
		deps.Filled = func() bool { return true }
	}
	lookup := newLookup(cfg, deps)
	a := &API{
		baseURL: cfg.BaseURL, billingURL: cfg.BillingURL, plans: cfg.Plans,
		keys: deps.Keys, recorder: deps.Recorder, usageDesk: deps.UsageDesk, desk: deps.Desk, usage: deps.Usage,
		search: deps.Search, assets: deps.Assets, logos: deps.Logos, filled: deps.Filled, counters: deps.Counters, trusted: cfg.TrustedProxies, timeout: cfg.RequestTimeout, lookup: lookup,
		logoHost: parseLogoHost(cfg.LogoHost, schemeOf(cfg.BaseURL)), logoURLs: logoURLs(cfg.BaseURL, cfg.LogoHost), quick: lookup.quick, batch: cfg.BatchTimeout, checks: bulkhead{limit: maxChecks},
		extra: cfg.Extra, log: cfg.Logger, now: cfg.Now, newID: cfg.NewID,
	}
	var err error
	if a.pages, err = renderPages(cfg.BaseURL, cfg.LogoHost, cfg.UserAgent); err != nil {
		return nil, err
	}
	if a.agents, err = newAgents(cfg.BaseURL); err != nil {
		return nil, err
	}
	if a.metrics, err = newMetrics(cfg.Registerer); err != nil {
		return nil, err
	}
	a.router = a.newRouter()
	return a, nil
}

// Lookup returns the metered use case, for the other doors that sell it.
func (a *API) Lookup() *Lookup { return a.lookup }

// Stop says that the server is about to stop: batches start no further items, so that what is under way ends
// within the time of a single look-up.
func (a *API) Stop() { a.lookup.stop() }

// Handler returns what a server serves.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// docsURL returns where an error is explained.
func (a *API) docsURL(code Code) string { return a.pages.docsURLs[code] }
