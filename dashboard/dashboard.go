package dashboard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/commands"
	"letterhead/dashboard/audit"
	"letterhead/domain/plan"
	"letterhead/domain/statement"
	"letterhead/internal/ratelimit"
	"letterhead/operations"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// Limits of requests.
const (
	// requestTimeout limits the work for a request. A new key is confirmed by every node within ten seconds.
	requestTimeout = 15 * time.Second
	// freshWithin limits how long a page waits for the latest events. After that it shows what there is, and says so.
	freshWithin = 3 * time.Second
	// maxForm limits the body of a form.
	maxForm = 16 << 10
	// maxRunning limits the requests that run at a time.
	maxRunning = 64
	// maxAccountRunning limits those of one account, so that it does not use up the capacity of all.
	maxAccountRunning = 8
)

// Config configures the dashboard. All fields are required.
type Config struct {
	// BaseURL is the URL of the service for its clients, without a trailing slash. If it is https, cookies are sent
	// over https only.
	BaseURL string
	Plans   plan.Table
	Logger  *slog.Logger
	Now     func() time.Time
	// Visitor returns the identity by which limits count a client: its network address, whatever proxies are between.
	Visitor func(*http.Request) string
}

// Deps are the parts that the dashboard uses. All are required.
type Deps struct {
	Sessions   Sessions
	API        API
	Operations *operations.Operations
	Writer     *commands.AccountWriter
	Quotas     *commands.QuotaWriter
	Accounts   audit.Accounts
	Names      audit.Names
	Keys       audit.Keys
	Usage      *usage.Model
	Ledger     *ledger.Model
	Audit      *audit.Auditor
}

// Dashboard serves the pages.
type Dashboard struct {
	Config
	Deps
	base       string // path of BaseURL
	secure     bool   // cookies are sent over https only
	protection *http.CrossOriginProtection
	pages      *pages
	statements *statement.Page
	router     http.Handler
	running    *semaphore.Weighted
	accounts   *ratelimit.Shares
	ledgers    *semaphore.Weighted
}

// New returns the dashboard, or an error that names the part that is missing or wrong.
func New(cfg Config, deps Deps) (*Dashboard, error) {
	if cfg.Logger == nil || cfg.Now == nil || cfg.Visitor == nil || deps.Audit == nil {
		return nil, errors.New("dashboard: Logger, Now, Visitor or Audit is missing")
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("dashboard: BaseURL %q is not an http or https URL", cfg.BaseURL)
	}
	d := &Dashboard{
		Config: cfg, Deps: deps, base: u.EscapedPath(), secure: u.Scheme == "https",
		protection: http.NewCrossOriginProtection(), running: semaphore.NewWeighted(maxRunning),
		accounts: ratelimit.NewShares(maxAccountRunning), ledgers: semaphore.NewWeighted(audit.LedgerReads()),
	}
	// A proxy may have replaced the host of a request, with which the origin of its page is compared.
	if err := d.protection.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
		return nil, fmt.Errorf("dashboard: BaseURL %q: %w", cfg.BaseURL, err)
	}
	if d.pages, err = newPages(d.base); err != nil {
		return nil, err
	}
	if d.statements, err = statement.NewPage(cfg.BaseURL); err != nil {
		return nil, err
	}
	d.route()
	return d, nil
}

// Handler returns the handler of the paths /dashboard, below it, and /static/dashboard/.
func (d *Dashboard) Handler() http.Handler { return http.HandlerFunc(d.serve) }
