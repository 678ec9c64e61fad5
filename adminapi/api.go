// Package adminapi is the HTTP API of operators: what the command line does, on an address of its own. openapi.yaml
// describes it. Callers send a token; the scope of the token decides which operations it may call (see scopes.go).
// Actions are commands of package commands, whose events name the token as their actor.
package adminapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/operator"
	"letterhead/domain/plan"
	"letterhead/internal/accountnames"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/internal/repeats"
	"letterhead/internal/telemetry"
	"letterhead/operations"
	"letterhead/projections/accounts"
	"letterhead/projections/actions"
	"letterhead/projections/brands"
	"letterhead/projections/checkpoints"
	"letterhead/projections/failures"
	"letterhead/projections/inbox"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/operators"
	"letterhead/projections/payments"
	"letterhead/projections/search"
)

// Limits of requests.
const (
	// requestTimeout limits the work for a request.
	requestTimeout = 60 * time.Second
	// maxBody limits the body of a request.
	maxBody = 64 << 10
	// maxList limits the body of a request with a list of domains.
	maxList = 8 << 20
	// maxRunning limits the requests that run at a time.
	maxRunning = 32
	// maxReports limits the reports that fold the whole log at a time.
	maxReports = 1
)

// Deps are the parts that the API uses. All are required.
type Deps struct {
	Operations  *operations.Operations
	Plans       plan.Table
	Writer      *commands.AccountWriter
	Reports     *commands.Billing
	Brands      *commands.Brands
	Names       *accountnames.Table
	Accounts    *accounts.Model
	Keys        *keys.Directory
	Ledger      *ledger.Model
	Payments    *payments.Model
	Inbox       *inbox.Model
	Index       *brands.Model
	Checkpoints *checkpoints.Model
	Operators   *operators.Model
	Actions     *actions.Model
	Failures    *failures.Model
	// Search returns at most limit brands, the best first.
	Search  func(ctx context.Context, text string, limit int) ([]search.Hit, error)
	Repeats *repeats.Table
	Log     eventlog.Log
	// CountsEvents means that the position of an event in the log is its number.
	CountsEvents bool
	Ready        func() string // returns why the node does not serve everything; "" if it does
	Metrics      http.Handler  // serves /metrics; nil if it is served elsewhere
}

// Config configures the API.
type Config struct {
	BaseURL string // of the service, in brands
	URL     string // at which this process serves the API; empty if it does not
	// Hosts are names and addresses by which operators reach the API, besides localhost and the address on which a
	// request arrives.
	Hosts        []string
	CrawlTimeout time.Duration // time allowed for a crawl
	Logger       *slog.Logger
	Registerer   prometheus.Registerer
	Now          func() time.Time
	NewID        func() string // request ids
	// Visitor identifies the client of a request, for the limit of requests without a valid token.
	Visitor func(*http.Request) string
	// Pages makes what answers the paths outside the API, from the handler of the API; nil if nothing does.
	Pages func(api http.Handler) (http.Handler, error)
}

// API is the HTTP API of operators.
type API struct {
	Config
	Deps
	pages    http.Handler // nil if there are none
	hosts    map[string]bool
	failures ratelimit.Counters  // failed attempts to authenticate, by address
	lookUps  *semaphore.Weighted // of tokens
	running  *semaphore.Weighted
	reports  *semaphore.Weighted
	router   http.Handler
	metrics  *prometheus.CounterVec
}

// New returns the API.
func New(cfg Config, deps Deps) (*API, error) {
	a := &API{
		Config: cfg, Deps: deps, hosts: map[string]bool{"localhost": true}, running: semaphore.NewWeighted(maxRunning),
		lookUps: semaphore.NewWeighted(maxLookUps), reports: semaphore.NewWeighted(maxReports),
		failures: ratelimit.NewMemory(ratelimit.Config{Now: cfg.Now}),
	}
	for _, host := range cfg.Hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			host = ip.Unmap().String()
		}
		a.hosts[strings.ToLower(host)] = true
	}
	a.metrics = telemetry.Counters("letterhead_admin_requests_total",
		"Requests to the admin API, by route and status.", "route", "status")
	if cfg.Registerer != nil {
		if err := telemetry.Register(cfg.Registerer, a.metrics); err != nil {
			return nil, fmt.Errorf("admin API: %w", err)
		}
	}
	a.route()
	if cfg.Pages != nil {
		var err error
		if a.pages, err = cfg.Pages(a.Handler()); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Handler returns the handler to serve.
func (a *API) Handler() http.Handler {
	secure := strings.HasPrefix(a.BaseURL, "https://")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if secure {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000") // as on the clients' API
		}
		if a.pages == nil || r.URL.Path == "/admin" || strings.HasPrefix(r.URL.Path, "/admin/") ||
			r.URL.Path == "/metrics" {
			a.serve(w, r)
			return
		}
		if p := a.checkHost(r); p != nil {
			http.Error(w, p.Text, p.Status)
			return
		}
		a.pages.ServeHTTP(w, r)
	})
}

// Local returns the handler for the command line, which reaches it in this process or through a socket that only the
// owner of the data folder may open. Every operation is allowed, as operator:cli, and may take as long as it needs.
func (a *API) Local() http.Handler {
	token := &operators.Token{ID: "cli", Scope: operator.Admin}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Admin-Url", a.URL)
		a.answerAs(token, w, r.WithContext(streamwriter.WaitForLoading(r.Context())))
	})
}
