// Package console serves the pages on which operators run the service: its health, accounts, payments, books, brands,
// read models and tokens.
//
// The pages are a client of the admin API in the same process: each page sends the requests that a program would send,
// with the token of the operator, and shows the answers. So permissions, limits, audit and the check of input are those
// of the API, and each operation has one implementation.
package console

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/dashboard/audit"
	"letterhead/dashboard/site"
	"letterhead/domain/statement"
	"letterhead/internal/disk"
	"letterhead/internal/figures"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
)

// Limits of requests.
const (
	// requestTimeout limits the work for a page, which may take several requests of the API.
	requestTimeout = 60 * time.Second
	// maxForm limits the body of a form.
	maxForm = 64 << 10
	// maxRunning limits the requests that run at a time.
	maxRunning = 32
	// maxOpening limits the requests of visitors who are not signed in that run at a time; more wait.
	maxOpening = 8
	// maxUnknown limits the unknown links that a client may send in a minute before they get 429 instead of 404. Valid
	// links are always accepted.
	maxUnknown = 20
)

// SignIn uses a one-time link up, and returns a token of the operator for the browser. Errors: operator.ErrUnknownLink,
// operator.ErrLinkExpired, operator.ErrLinkUsed, operator.ErrTooManyTokens, and those of the stores.
type SignIn func(ctx context.Context, link string) (token string, expires time.Time, err error)

// Config configures the console. All fields but Service are required.
type Config struct {
	// BaseURL is the URL of the service for its clients, from which logos are shown.
	BaseURL string
	Service site.Service
	SignIn  SignIn
	API     http.Handler   // the admin API
	Audit   *audit.Auditor // asked only after the API has answered for the account
	// Figures returns what Count counts, of all processes that run, and the number of these.
	Figures func(context.Context) (figures.Figures, int, error)
	Space   func() (disk.Space, error) // of the file system of the data folder
	Logger  *slog.Logger
	Now     func() time.Time
	NewID   func() string // ids of requests
	// Visitor identifies the client of a request, for the limit of unknown links.
	Visitor func(*http.Request) string
}

// Console serves the pages.
type Console struct {
	Config
	protection   *http.CrossOriginProtection
	policy       string // Content-Security-Policy
	static       *site.Static
	templates    map[string]*template.Template
	statements   *statement.Page
	router       http.Handler
	running      *semaphore.Weighted
	opening      *semaphore.Weighted // for visitors who are not signed in
	unknownLinks ratelimit.Counters  // by client
}

// New returns the console, or an error that names the part that is wrong.
func New(cfg Config) (*Console, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("console: BaseURL %q is not a URL", cfg.BaseURL)
	}
	c := &Console{
		Config: cfg, protection: http.NewCrossOriginProtection(),
		running: semaphore.NewWeighted(maxRunning), opening: semaphore.NewWeighted(maxOpening),
		unknownLinks: ratelimit.NewMemory(ratelimit.Config{Now: cfg.Now}),
	}
	c.policy = strings.Replace(web.Policy, "img-src 'self'", "img-src 'self' "+base.Scheme+"://"+base.Host, 1)
	if c.static, err = site.NewStatic("", "/static/console/", cfg.Service); err != nil {
		return nil, err
	}
	if c.templates, err = audit.Templates(names, functions, files); err != nil {
		return nil, err
	}
	if c.statements, err = statement.NewPage(cfg.BaseURL); err != nil {
		return nil, err
	}
	c.route()
	return c, nil
}

// ServeHTTP implements http.Handler. It answers every path but those of the API.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	web.Protect(w.Header())
	w.Header().Set("Content-Security-Policy", c.policy)
	if !web.Clean(w, r) {
		c.router.ServeHTTP(w, r)
	}
}

// page is a page, or a form that it sends.
type page struct {
	pattern string // method and path
	open    bool   // it needs no token
	serve   func(*exchange) error
}

func (c *Console) route() {
	var routes []web.Route
	for _, p := range []page{
		{"GET /sign-in", true, (*exchange).showSignIn},
		{"POST /sign-in", true, (*exchange).signIn},
		{"POST /sign-out", false, (*exchange).signOut},
		{"GET /", false, (*exchange).showHealth},
		{"GET /projections/{name}", false, (*exchange).showRebuild},
		{"POST /projections/{name}/rebuild", false, (*exchange).rebuild},
		{"GET /accounts", false, (*exchange).showAccounts},
		{"POST /accounts", false, (*exchange).openAccount},
		{"GET /accounts/{id}", false, (*exchange).showAccount},
		{"GET /accounts/{id}/replay", false, (*exchange).showReplay},
		{"GET /accounts/{id}/requests/{request_id}", false, (*exchange).showStory},
		{"GET /accounts/{id}/{tab}", false, (*exchange).showAccount},
		{"GET /accounts/{id}/statements/{month}", false, (*exchange).showStatement},
		{"GET /accounts/{id}/statements/{month}/proof", false, (*exchange).downloadProof},
		{"POST /accounts/{id}/{action}", false, (*exchange).changeAccount},
		{"GET /payments", false, (*exchange).showPayments},
		{"GET /payments/{id}", false, (*exchange).showPayment},
		{"POST /payments/{id}/refund", false, (*exchange).refund},
		{"GET /inbox", false, (*exchange).showInbox},
		{"POST /inbox", false, (*exchange).linkCustomer},
		{"POST /inbox/{id}/{action}", false, (*exchange).settleReport},
		{"GET /books", false, (*exchange).showBooks},
		{"POST /books/{month}/close", false, (*exchange).closeMonth},
		{"GET /books/revenue", false, (*exchange).showRevenue},
		{"GET /brands", false, (*exchange).showBrands},
		{"GET /brands/{domain}", false, (*exchange).showBrand},
		{"POST /brands/{domain}/{action}", false, (*exchange).changeBrand},
		{"GET /crawls", false, (*exchange).showCrawls},
		{"GET /operators", false, (*exchange).showOperators},
		{"POST /operators", false, (*exchange).issueToken},
		{"POST /operators/{id}/revoke", false, (*exchange).revokeToken},
		{"POST /operators/links", false, (*exchange).operatorLink},
		{"GET /search", false, (*exchange).showSearch},
		{"GET /actions", false, (*exchange).showActions},
	} {
		method, path, _ := strings.Cut(p.pattern, " ")
		routes = append(routes, web.Route{Method: method, Path: path, Serve: c.handler(p)})
	}
	for name, file := range c.static.Files() {
		routes = append(routes,
			web.Route{Method: http.MethodGet, Path: "/static/console/" + name, Serve: file.ServeHTTP})
	}
	routes = append(routes, web.Route{Method: http.MethodGet, Path: c.static.HTMX, Serve: site.HTMX().ServeHTTP})
	c.router = web.NewRouter(routes, nil,
		c.handler(page{open: true, serve: func(*exchange) error { return errNoPage }}))
}

// handler passes a request through its checks to a page.
func (c *Console) handler(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		x := &exchange{Console: c}
		x.Page = web.Page{Request: r, Ctx: ctx, Token: cookieOf(r).Token(r), Protection: c.protection}
		x.ResponseWriter, x.ID = w, c.NewID()
		w.Header().Set("X-Request-Id", x.ID)
		web.Guard(func() error { return x.run(p) }, x.fail)
	}
}
