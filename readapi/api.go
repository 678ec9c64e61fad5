package readapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"letterhead/domain/billing"
	"letterhead/domain/plan"
	"letterhead/domain/statement"
	"letterhead/internal/assets"
	"letterhead/internal/ratelimit"
	"letterhead/projections/brands"
	"letterhead/projections/checkpoints"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/search"
	"letterhead/projections/usage"
	"letterhead/readapi/logo"
	"letterhead/readapi/lookup"
	"letterhead/readapi/mcp"
)

// defaultBesideCrawl limits the time that a look-up takes before and after its crawl, including the grace for the
// outcome.
const defaultBesideCrawl = time.Second

// Config configures the API.
type Config struct {
	BaseURL    string // URL of the service for clients, without a trailing slash; required
	BillingURL string // URL in 402 and quota answers
	UserAgent  string // User-Agent of the crawler, for the page about it
	Operator   Operator

	Plans plan.Table
	// of a live crawl that a request waits for; at most 60 s, for the sake of writeTimeout
	CrawlTimeout    time.Duration
	CrawlsPerMinute int // limit of live crawls of the whole service
	// RequestTimeout limits the work for one request, whatever its parts wait for; after it the answer is 503. 0 =
	// CrawlTimeout plus one second. Requests without a crawl have QuickTimeout, if that is less.
	RequestTimeout time.Duration
	// QuickTimeout limits the whole of a request without a crawl, and each part before and after a
	// crawl; 0 = 5 s. A store that hangs for so long is unavailable.
	QuickTimeout time.Duration
	// BatchTimeout is how long a batch starts items; the running ones then have the time of a single request. With at
	// most 40 s, the answer is sent within the 120 s for which the proxies in deploy/ wait.
	BatchTimeout time.Duration

	LogoHost        string         // host that serves logos at its root; "" = none
	LogoHosts       []LogoHost     // further ones, with their profiles
	LogosPerAddress int64          // logos in a minute of an address without a key, at profiles; 0 = no limit
	UnlimitedLogos  []netip.Prefix // addresses without such a limit
	KeylessCrawls   int64          // crawls in a day, UTC, for requests without a key at profiles; 0 = none
	LogoTimeout     time.Duration  // how long a logo waits for a live crawl
	TrustedProxies  []netip.Prefix // whose X-Forwarded-For identifies the visitor

	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
	NewID      func() string // request ids

	// Dashboard returns what serves /dashboard and below it, and /static/dashboard/, without authentication or limits
	// of the API. It finds the id of a request in the answer's header X-Request-Id, and may send requests with a
	// context of SignedIn to the API. nil = there is no dashboard.
	Dashboard func(api http.Handler) (http.Handler, error)
	// Extra are handlers of other parts that this server also serves, by path, without authentication
	// or limits: /healthz, /readyz, /metrics.
	Extra map[string]http.Handler
}

// Validate reports all errors of URLs, hosts and paths. Times and limits are validated as settings.
func (c Config) Validate() error {
	var errs []error
	u, err := url.Parse(c.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.HasSuffix(c.BaseURL, "/") {
		errs = append(errs,
			fmt.Errorf("API: BaseURL %q is not an http or https URL without a trailing slash", c.BaseURL))
	}
	if err == nil {
		errs = append(errs, validateHosts(c, u.Host))
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

// withDefaults sets the times that are not set.
func (c Config) withDefaults() Config {
	c.RequestTimeout = cmp.Or(c.RequestTimeout, c.CrawlTimeout+defaultBesideCrawl)
	c.QuickTimeout = cmp.Or(c.QuickTimeout, defaultQuickTimeout)
	return c
}

// Deps are the parts that the API uses. All except CaughtUp are required.
type Deps struct {
	lookup.Parts // of which New sets Keyless
	Quotas       Quotas
	Recorder     UsageRecorder
	Keys         KeyDirectory
	Usage        UsageCounts
	Ledger       Ledger
	Crawls       Crawls
	Search       Searcher
	Assets       AssetStore
	Logos        LogoRenderer
	// Checkpoints has the checkpoints of the ledger.
	Checkpoints Checkpoints
	Reports     Reports
	Stripe      Stripe
	Catalog     *billing.Catalog // what is sold
	// LedgerCaughtUp waits until the Ledger has every event that the log had at the time of the call, so that it shows
	// every charge that was answered before.
	LedgerCaughtUp func(ctx context.Context) error
	// Filled reports whether the Index has everything that a start loads into it: the events of the log and the starter
	// index. Until then no answer may be cached that a brand is unknown.
	Filled func() bool
	// Answered is called with the id of each request that has ended: its charges were answered or are being reversed.
	Answered func(requestID string)
}

// Validate reports all missing parts.
func (d Deps) Validate() error {
	var errs []error
	for name, part := range map[string]any{
		"Credits": d.Credits, "Quotas": d.Quotas, "Recorder": d.Recorder, "Brands": d.Brands, "Index": d.Index,
		"Keys": d.Keys, "Usage": d.Usage, "Ledger": d.Ledger, "Crawls": d.Crawls, "Search": d.Search,
		"Assets": d.Assets, "Logos": d.Logos, "Changes": d.Changes, "Counters": d.Counters,
		"Checkpoints": d.Checkpoints, "Reports": d.Reports, "Stripe": d.Stripe,
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
	Config
	Deps
	secure    bool          // BaseURL is https
	hosts     []profileHost // of logos
	logoURLs  string        // prefix of a logo's URL before the domain
	webhooks  webhookPlaces
	quick     time.Duration       // of a request without a crawl, and of everything except the crawl
	checks    *semaphore.Weighted // requests that are being checked
	batches   *ratelimit.Shares   // by account, until the answer is sent
	lookup    *lookup.Service
	pages     pages
	agents    *mcp.Server
	router    *mux.Router
	brand     *endpoint    // of the router, for domainOf
	dashboard http.Handler // nil = none
	metrics   *metrics
	// logoEndpoint is served on hosts of logos, and logoDevSearch on all hosts, bypassing the router.
	logoEndpoint, logoDevSearch *endpoint
	// ledgerTurns are the requests that read ledgers; ledgerReads includes those that wait, by account.
	ledgerTurns *semaphore.Weighted
	ledgerReads *ratelimit.Shares
}

// New returns the API, or all errors in its configuration and parts.
func New(cfg Config, deps Deps) (*API, error) {
	if err := errors.Join(cfg.Validate(), deps.Validate()); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	deps.Keyless = deps.Quotas
	quick := min(cfg.RequestTimeout, cfg.QuickTimeout)
	a := &API{
		Config: cfg, Deps: deps, secure: schemeOf(cfg.BaseURL) == "https", quick: quick,
		hosts: hostsOf(cfg), logoURLs: logoURLs(cfg.BaseURL, cfg.LogoHost),
		checks: semaphore.NewWeighted(maxChecks), batches: ratelimit.NewShares(maxAccountBatches),
		ledgerTurns: semaphore.NewWeighted(ledger.Reads()), ledgerReads: ratelimit.NewShares(maxAccountLedgerReads),
		lookup: lookup.New(lookup.Config{
			CrawlTimeout: cfg.CrawlTimeout, LogoTimeout: cfg.LogoTimeout, Quick: quick,
			CrawlsPerMinute: cfg.CrawlsPerMinute, Logger: cfg.Logger, Now: cfg.Now,
		}, deps.Parts),
	}
	var err error
	if a.pages, err = newPages(cfg.BaseURL, cfg.LogoHost, cfg.UserAgent, cfg.Operator); err != nil {
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

// Interfaces of the other parts, reduced to the methods used here. Their own packages document each
// method and its errors.
type (
	// Quotas counts searches and logos durably, within the plan; *commands.QuotaWriter.
	Quotas interface {
		lookup.Keyless
		CountSearch(ctx context.Context, accountID string, at time.Time, limit int64) (used int64, err error)
		CountLogo(ctx context.Context, accountID string, at time.Time, limit int64) error
		ReturnLogo(accountID string, at time.Time)
		Searches(ctx context.Context, accountID, month string) (int64, error)
		SearchesSeen(ctx context.Context, accountID, month string) (int64, error)
	}

	// UsageRecorder records usage in the background; *commands.UsageRecorder. It never blocks.
	UsageRecorder interface {
		KeyUsed(accountID, keyID string, at time.Time)
		Logo(accountID string, at time.Time)
	}

	// KeyDirectory finds keys by the hash of the sent key; projections/keys. An error means that the
	// key could not be checked, not that it is invalid.
	KeyDirectory interface {
		Lookup(ctx context.Context, hash [32]byte) (k keys.Key, found bool, err error)
	}

	// UsageCounts returns the recorded usage of a month; projections/usage.
	UsageCounts interface {
		Get(ctx context.Context, accountID, month string) (usage.Counts, error)
	}

	// Ledger shows the entries and statements of accounts; projections/ledger.
	Ledger interface {
		Entries(ctx context.Context, accountID string, f ledger.Filter) iter.Seq2[ledger.Entry, error]
		AsOf(ctx context.Context, accountID string, at time.Time) (ledger.Entry, error)
		Statement(ctx context.Context, accountID string, month, now time.Time) (*statement.Statement, error)
		StatementBefore(ctx context.Context, accountID string, month, end time.Time) (*statement.Statement, error)
	}

	// Crawls finds the crawls that requests waited for; projections/brands.
	Crawls interface {
		Crawls(ctx context.Context, waits []brands.Wait) ([]brands.Crawl, error)
	}

	// Searcher finds brands by name or domain, best first; projections/search.
	Searcher interface {
		Search(ctx context.Context, q string, limit int) ([]search.Hit, error)
	}

	// AssetStore stores logos and images; *assets.Store.
	AssetStore interface {
		Open(ctx context.Context, id, ext string) (*assets.Reader, error)
	}

	// Checkpoints has the signed checkpoints of the ledger; projections/checkpoints.
	Checkpoints interface {
		Last(ctx context.Context) (*checkpoints.Checkpoint, error)
	}

	// LogoRenderer draws logos; *logo.Renderer.
	LogoRenderer interface {
		Draw(ctx context.Context, b logo.Brand, o logo.Options) (logo.Image, error)
	}
)

const (
	// clientTimeout is how long clients wait for an answer. Every answer is sent within it, whatever
	// hangs: the sum of a crawl and the work around it, lookup.ReturnWithin and creditsWithin is less,
	// and so is that of defaultQuickTimeout, afterwardsWithin and creditsWithin.
	clientTimeout = 10 * time.Second
	// defaultQuickTimeout is the default of Config.QuickTimeout.
	defaultQuickTimeout = 5 * time.Second
	// afterwardsWithin limits work after a request's end that must not be left half done.
	afterwardsWithin = 4 * time.Second
)
