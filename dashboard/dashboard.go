// Package dashboard serves the pages on which customers see and manage their accounts: balance, usage, keys, ledger,
// its replay, statements, look-ups, purchases and notices.
//
// A person signs in with a one-time link, never by typing a key. The browser then has the token of a session in a
// cookie. Pages are rendered by html/template, which escapes by context, and are complete without scripts; htmx only
// replaces a part of a page by the answer to the same request.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/commands"
	"letterhead/dashboard/audit"
	"letterhead/dashboard/site"
	"letterhead/domain/plan"
	"letterhead/domain/signin"
	"letterhead/domain/statement"
	"letterhead/internal/accountnames"
	"letterhead/internal/ratelimit"
	"letterhead/internal/web"
	"letterhead/operations"
	"letterhead/projections/accounts"
	"letterhead/projections/keys"
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

// Config configures the dashboard. All fields but Service are required.
type Config struct {
	// BaseURL is the URL of the service for its clients, without a trailing slash. If it is https, cookies are sent
	// over https only.
	BaseURL string
	Service site.Service
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
	Accounts   *accounts.Model
	Names      *accountnames.Table
	Keys       *keys.Directory
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
	templates  map[string]*template.Template
	static     *site.Static
	statements *statement.Page
	router     http.Handler
	running    *semaphore.Weighted
	accounts   *ratelimit.Shares
	ledgers    *semaphore.Weighted
}

// New returns the dashboard, or an error that names the part that is wrong.
func New(cfg Config, deps Deps) (*Dashboard, error) {
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("dashboard: BaseURL %q is not an http or https URL", cfg.BaseURL)
	}
	d := &Dashboard{
		Config: cfg, Deps: deps, base: u.EscapedPath(), secure: u.Scheme == "https",
		protection: http.NewCrossOriginProtection(), running: semaphore.NewWeighted(maxRunning),
		accounts: ratelimit.NewShares(maxAccountRunning), ledgers: semaphore.NewWeighted(ledger.Reads()),
	}
	// A proxy may have replaced the host of a request, with which the origin of its page is compared.
	if err := d.protection.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
		return nil, fmt.Errorf("dashboard: BaseURL %q: %w", cfg.BaseURL, err)
	}
	if d.static, err = site.NewStatic(d.base, d.base+"/static/dashboard/", cfg.Service); err != nil {
		return nil, err
	}
	if d.templates, err = audit.Templates(names, functions, files); err != nil {
		return nil, err
	}
	if d.statements, err = statement.NewPage(cfg.BaseURL); err != nil {
		return nil, err
	}
	d.route()
	return d, nil
}

// ErrNoMail means that the service has no mail server.
var ErrNoMail = errors.New("the service sends no e-mail")

// Sessions are the sign-ins of people. Besides the errors that are listed, each method may return those of the stores.
// With commands.ErrNotSeen the change is made, and Session was not seen to follow in time.
type Sessions interface {
	// Enter uses a one-time link up and starts a session, whose token it returns. Session finds it from then on.
	// Errors: signin.ErrUnknownLink, signin.ErrLinkExpired, signin.ErrLinkUsed, signin.ErrTooManySessions,
	// account.ErrClosed.
	Enter(ctx context.Context, accountID, token string) (session string, expires time.Time, err error)
	// MailsLinks reports whether the service can send links by e-mail.
	MailsLinks() bool
	// MailLink sends a link to an e-mail address if an account has it. It does not wait for that, and does not report
	// whether the address is known. The messages for one client are limited. Errors: ErrNoMail,
	// ratelimit.ErrUnavailable.
	MailLink(ctx context.Context, address, client string) error
	// Session returns the session that has a token. Errors: sessions.ErrNotFound.
	Session(ctx context.Context, token string) (*signin.Session, error)
	// SignOut ends a session. Session does not find it any more, on any node.
	SignOut(ctx context.Context, s signin.Session) error
	// SignOutEverywhere ends every session of the person in the account, and withdraws the person's links.
	SignOutEverywhere(ctx context.Context, s signin.Session) error
}

// LookUp is a look-up of a person who has signed in.
type LookUp struct {
	AccountID  string
	Plan       plan.Plan
	Status     string // of the account
	Identifier string
	Once       string // idempotency key
	From       string // network address of the person
}

// API is the API of the service.
type API interface {
	// LookUp returns what GET /v1/brands/{identifier} answers to a request of the account. Errors: ctx.Err().
	LookUp(ctx context.Context, in LookUp) (*web.Answer, error)
}
