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
	"golang.org/x/sync/semaphore"

	"letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/internal/ratelimit"
	"letterhead/readapi/lookup"
	"letterhead/readapi/mcp"
)

// Defaults of Config.
const (
	defaultCrawlTimeout    = 8500 * time.Millisecond // below clientTimeout
	defaultCrawlsPerMinute = 240
	// defaultBesideCrawl limits the time that a look-up takes before and after its crawl, including
	// the grace for the outcome.
	defaultBesideCrawl = time.Second
	defaultUserAgent   = "LetterheadBot/1.0"
	// defaultLogoTimeout is how long a logo request with a key waits for a crawl.
	defaultLogoTimeout = 4 * time.Second
	// defaultBatchTimeout is how long a batch waits for its crawls.
	defaultBatchTimeout = 25 * time.Second
	// maxBatchTimeout limits the setting: with the time of the last items, which is at most
	// maxRequestTimeout, it stays below the 120 s that the proxies in deploy/ wait for an answer.
	maxBatchTimeout = 40 * time.Second
)

// Config configures the API.
type Config struct {
	BaseURL    string // URL of the service for clients, without a trailing slash; required
	BillingURL string // URL in 402 and quota answers; empty = the docs of insufficient_credits
	UserAgent  string // User-Agent of the crawler, for the page about it

	Plans           plan.Table    // zero = plan.Default()
	CrawlTimeout    time.Duration // of a live crawl that a request waits for; 0 = 8.5 s
	CrawlsPerMinute int           // limit of live crawls of the whole service; 0 = 240
	// RequestTimeout limits the work for one request, whatever its parts wait for; after it the answer
	// is 503. 0 = CrawlTimeout plus one second. Requests without a crawl have QuickTimeout, if that is
	// less.
	RequestTimeout time.Duration
	// QuickTimeout limits the whole of a request without a crawl, and each part before and after a
	// crawl; 0 = 5 s. A store that hangs for so long is unavailable.
	QuickTimeout time.Duration
	// BatchTimeout is how long a batch starts items; the running ones then have the time of a single
	// request. 0 = 25 s.
	BatchTimeout time.Duration

	LogoHost       string         // host that serves logos at its root; "" = none
	LogoTimeout    time.Duration  // how long a logo waits for a live crawl; 0 = 4 s
	TrustedProxies []netip.Prefix // whose X-Forwarded-For identifies the visitor

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
	NewID      func() string // request ids; nil = random UUIDs

	// Dashboard returns what serves /dashboard and below it, and /static/dashboard/, without authentication or limits of
	// the API. It finds the id of a request in the answer's header X-Request-Id, and may send requests with a context of
	// SignedIn to the API. nil = there is no dashboard.
	Dashboard func(api http.Handler) (http.Handler, error)
	// Extra are handlers of other parts that this server also serves, by path, without authentication
	// or limits: /healthz, /readyz, /metrics.
	Extra map[string]http.Handler
}

// Validate reports all errors.
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
	if c.QuickTimeout < 0 || c.QuickTimeout > maxRequestTimeout {
		errs = append(errs, fmt.Errorf("API: QuickTimeout %s is not between 0 and %s", c.QuickTimeout, maxRequestTimeout))
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

// AnswerWithin returns the longest time between a charge and the last byte of its answer. It is that
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
	if c.QuickTimeout == 0 {
		c.QuickTimeout = defaultQuickTimeout
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

// Deps are the parts that the API uses. All except the functions are required.
type Deps struct {
	Credits  lookup.Credits
	Quotas   Quotas
	Recorder UsageRecorder
	Brands   lookup.Brands
	Index    lookup.Index
	Keys     KeyDirectory
	Usage    UsageCounts
	Ledger   Ledger
	Crawls   Crawls
	Search   Searcher
	Assets   AssetStore
	Logos    LogoRenderer
	Changes  lookup.Changes
	Counters ratelimit.Counters
	// Checkpoints has the checkpoints of the ledger.
	Checkpoints Checkpoints
	Reports     Reports
	Stripe      Stripe
	Catalog     *billing.Catalog // what is sold
	// CaughtUp waits until the Index has every event that the log had at the time of the call. It is
	// called before an id is reported as unknown, because another node may just have answered it.
	// Optional: nil if there are no other nodes.
	CaughtUp func(ctx context.Context) error
	// LedgerCaughtUp waits until the Ledger has every event that the log had at the time of the call, so that it shows
	// every charge that was answered before. Optional: nil if it always has.
	LedgerCaughtUp func(ctx context.Context) error
	// Filled reports whether the Index has everything that a start loads into it: the events of the
	// log and the starter index. Until then no answer may be cached that a brand is unknown. Optional:
	// nil if it always has.
	Filled func() bool
	// Answered is called with the id of each request that has ended: its charges were answered or are being reversed.
	// Optional.
	Answered func(requestID string)
}

// Validate reports all missing parts.
func (d Deps) Validate() error {
	var errs []error
	for name, part := range map[string]any{
		"Credits": d.Credits, "Quotas": d.Quotas, "Recorder": d.Recorder, "Brands": d.Brands, "Index": d.Index, "Keys": d.Keys,
		"Usage": d.Usage, "Ledger": d.Ledger, "Crawls": d.Crawls, "Search": d.Search, "Assets": d.Assets, "Logos": d.Logos, "Changes": d.Changes, "Counters": d.Counters, "Checkpoints": d.Checkpoints,
		"Reports": d.Reports, "Stripe": d.Stripe,
	} {
		if part == nil {
			errs = append(errs, fmt.Errorf("API: %s is missing", name))
		}
	}
	if d.Catalog == nil {
		errs = append(errs, errors.New("API: Catalog is missing"))
	}
	return errors.Join(errs...)
}

// API is the HTTP API of the service.
type API struct {
	baseURL     string
	secure      bool // baseURL is https
	billingURL  string
	plans       plan.Table
	keys        KeyDirectory
	recorder    UsageRecorder
	quotas      Quotas
	credits     lookup.Credits
	usage       UsageCounts
	ledger      Ledger
	crawls      Crawls
	search      Searcher
	assets      AssetStore
	logos       LogoRenderer
	logoHost    logoHost
	filled      func() bool
	answered    func(requestID string)
	logoURLs    string // prefix of a logo's URL before the domain
	counters    ratelimit.Counters
	checkpoints Checkpoints
	reports     Reports
	stripe      Stripe
	catalog     *billing.Catalog
	webhooks    webhookPlaces
	trusted     []netip.Prefix      // proxies whose X-Forwarded-For identifies the visitor of a logo request
	timeout     time.Duration       // of a request that may wait for a crawl
	logoWait    time.Duration       // of a logo request for a crawl
	quick       time.Duration       // of any other, and of everything except the crawl
	batch       time.Duration       // in which a batch starts items
	checks      *semaphore.Weighted // requests that are being checked
	batches     *ratelimit.Shares   // by account, until the answer is sent
	lookup      *lookup.Service
	pages       pages
	agents      *mcp.Server
	router      *mux.Router
	// logoEndpoint is served on the logo host, bypassing the router.
	logoEndpoint *endpoint
	// ledgerTurns are the requests that read ledgers; ledgerReads includes those that wait, by account.
	ledgerTurns *semaphore.Weighted
	ledgerReads *ratelimit.Shares
	// ledgerCaughtUp is that of Deps, never nil.
	ledgerCaughtUp func(ctx context.Context) error
	extra          map[string]http.Handler
	dashboard      http.Handler // nil = none
	log            *slog.Logger
	metrics        *metrics
	now            func() time.Time
	newID          func() string
}

// New returns the API, or all errors in its configuration and parts.
func New(cfg Config, deps Deps) (*API, error) {
	if err := errors.Join(cfg.Validate(), deps.Validate()); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if deps.Answered == nil {
		deps.Answered = func(string) {}
	}
	if deps.Filled == nil {
		deps.Filled = func() bool { return true }
	}
	if deps.LedgerCaughtUp == nil {
		deps.LedgerCaughtUp = func(context.Context) error { return nil }
	}
	quick := min(cfg.RequestTimeout, cfg.QuickTimeout)
	a := &API{
		baseURL: cfg.BaseURL, secure: schemeOf(cfg.BaseURL) == "https", billingURL: cfg.BillingURL, plans: cfg.Plans,
		keys: deps.Keys, recorder: deps.Recorder, quotas: deps.Quotas, credits: deps.Credits, usage: deps.Usage, ledger: deps.Ledger, crawls: deps.Crawls, ledgerCaughtUp: deps.LedgerCaughtUp,
		search: deps.Search, assets: deps.Assets, logos: deps.Logos, filled: deps.Filled, answered: deps.Answered,
		counters: deps.Counters, trusted: cfg.TrustedProxies, timeout: cfg.RequestTimeout, logoWait: cfg.LogoTimeout,
		logoHost: parseLogoHost(cfg.LogoHost, schemeOf(cfg.BaseURL)), logoURLs: logoURLs(cfg.BaseURL, cfg.LogoHost), quick: quick, batch: cfg.BatchTimeout,
		checks: semaphore.NewWeighted(maxChecks), batches: ratelimit.NewShares(maxAccountBatches),
		ledgerTurns: semaphore.NewWeighted(ledgerReads()), ledgerReads: ratelimit.NewShares(maxAccountLedgerReads),
		lookup: lookup.New(lookup.Config{
			CrawlTimeout: cfg.CrawlTimeout, LogoTimeout: cfg.LogoTimeout, Quick: quick, CrawlsPerMinute: cfg.CrawlsPerMinute, Logger: cfg.Logger, Now: cfg.Now,
		}, lookup.Parts{
			Credits: deps.Credits, Brands: deps.Brands, Index: deps.Index, Changes: deps.Changes, Counters: deps.Counters, CaughtUp: deps.CaughtUp,
		}),
		checkpoints: deps.Checkpoints, reports: deps.Reports, stripe: deps.Stripe, catalog: deps.Catalog, extra: cfg.Extra, log: cfg.Logger, now: cfg.Now, newID: cfg.NewID,
	}
	var err error
	if a.pages, err = newPages(cfg.BaseURL, cfg.LogoHost, cfg.UserAgent); err != nil {
		return nil, err
	}
	if a.agents, err = newAgents(cfg.BaseURL); err != nil {
		return nil, err
	}
	if a.metrics, err = newMetrics(cfg.Registerer); err != nil {
		return nil, err
	}
	a.router = a.newRouter()
	if cfg.Dashboard != nil {
		if a.dashboard, err = cfg.Dashboard(a.Handler()); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Stop announces that the server is about to stop: batches start no further items, so that the running
// ones end within the time of a single look-up.
func (a *API) Stop() { a.lookup.Stop() }

// Handler returns the handler to serve.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// docsURL returns the URL of the documentation of an error.
func (a *API) docsURL(code Code) string { return a.pages.docsURLs[code] }
