package adminapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/domain/books"
	"letterhead/domain/notices"
	"letterhead/domain/operator"
	"letterhead/domain/plan"
	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/apikey"
	"letterhead/internal/download"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/internal/repeats"
	"letterhead/internal/telemetry"
	"letterhead/projections/accounts"
	"letterhead/projections/actions"
	"letterhead/projections/brands"
	"letterhead/projections/checkpoints"
	"letterhead/projections/engine"
	"letterhead/projections/failures"
	"letterhead/projections/inbox"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/operators"
	"letterhead/projections/payments"
	"letterhead/projections/usage"
)

// Limits of requests.
const (
	// requestTimeout limits the work for a request.
	requestTimeout = 60 * time.Second
	// maxBody limits the body of a request.
	maxBody = 64 << 10
	// maxRunning limits the requests that run at a time.
	maxRunning = 32
	// maxReports limits the reports that fold the whole log at a time.
	maxReports = 1
)

// Errors of Operations.
var (
	// ErrNotSeen is commands.ErrNotSeen.
	ErrNotSeen = commands.ErrNotSeen
	// ErrNotCharged means that a request was not charged.
	ErrNotCharged = errors.New("was not charged")
	// ErrNotClosed means that a month cannot be closed, for the reason that follows.
	ErrNotClosed = errors.New("was not closed")
	// ErrNoNoticesKey means that nodes that share an event store have no key that signs webhooks.
	ErrNoNoticesKey = errors.New(`nodes that share an event store sign webhooks with the same key: set LETTERHEAD_NOTICES_KEY on all of them ("letterhead account notices --new-key" prints a key)`)
)

// NewAccount is an account with keys that were just issued.
type NewAccount struct {
	Account Account `json:"account"`
	Credits struct {
		Balance int64 `json:"balance"`
	} `json:"credits"`
	Keys []Key `json:"keys"`
}

// Account is an account as it is shown.
type Account struct {
	ID     string `json:"id"`
	Name   string `json:"name"` // empty if it was erased
	Plan   string `json:"plan"`
	Status string `json:"status"`
}

// Key is an API key as it is shown.
type Key struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"` // only once, when it is issued
	Last string `json:"last4"`
	account.KeyTerms
}

// NewKey describes a key to issue.
type NewKey struct {
	Kind  apikey.Kind
	Name  string // to recognize it; may be empty
	Terms account.KeyTerms
}

// Token is a token of an operator as it is shown.
type Token struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Scope     operator.Scope  `json:"scope"`
	Token     string          `json:"token,omitempty"` // only once, when it is issued
	Last4     string          `json:"last4"`
	State     operators.State `json:"state"` // active, expired, revoked
	IssuedAt  time.Time       `json:"issued_at,omitzero"`
	IssuedBy  string          `json:"issued_by,omitempty"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	RevokedAt time.Time       `json:"revoked_at,omitzero"`
	RevokedBy string          `json:"revoked_by,omitempty"`
}

// LoginLink is a link with which a person signs in to the dashboard of an account.
type LoginLink struct {
	URL       string    `json:"url,omitempty"` // only once, when the link is issued
	ExpiresAt time.Time `json:"expires_at"`
}

// Notices are the settings of an account's notices, and its last notices as they were delivered.
type Notices struct {
	LowBalance int64              `json:"low_balance"` // credits below which the balance is low; 0 for no notice of it
	Webhook    string             `json:"webhook"`     // URL; empty if there is none
	Email      string             `json:"email"`       // address; empty if there is none
	Notices    []notices.Delivery `json:"notices"`     // the newest first
}

// Month is a month of the books as it is shown.
type Month struct {
	Month        string                     `json:"month"`
	State        string                     `json:"state"` // open, closed, running
	ClosedAt     time.Time                  `json:"closed_at,omitzero"`
	Position     uint64                     `json:"position,omitempty"`
	Digest       string                     `json:"digest,omitempty"`
	Transactions *uint64                    `json:"transactions,omitempty"`
	Totals       []eventschemas.PeriodTotal `json:"totals,omitempty"`
}

// Operations are use cases that take several parts of a node. The command line uses the same.
type Operations interface {
	// CreateAccount, IssueKey and IssueToken return the texts of new keys and tokens, but not when the request is
	// repeated. With ErrNotSeen they return everything as well.
	CreateAccount(ctx context.Context, by commands.Request, name string, id plan.ID) (NewAccount, error)
	IssueKey(ctx context.Context, by commands.Request, accountID string, in NewKey) (Key, error)
	IssueToken(ctx context.Context, by commands.Request, name string, scope operator.Scope, expires time.Time) (Token, error)
	RevokeToken(ctx context.Context, by commands.Request, id string) (repeated bool, err error)
	// Tokens uses the present time instead of s.At. It returns operators.ErrNotFound if there is no token s.Before.
	Tokens(ctx context.Context, s operators.Selection, limit int) ([]Token, error)
	CloseAccount(ctx context.Context, by commands.Request, id string) (commands.Done, error)
	// IssueLoginLink issues another link each time.
	IssueLoginLink(ctx context.Context, by commands.Request, accountID, person string) (LoginLink, error)
	// SignOutEverywhere ends the sessions and withdraws the links of a person, or of all people of the account if person is
	// empty; repeated reports whether there were none.
	SignOutEverywhere(ctx context.Context, by commands.Request, accountID, person string) (repeated bool, err error)
	// SignInEmails returns the addresses to which links of the account's people are sent, the owner's first, and
	// SetSignInEmail sets one.
	SignInEmails(ctx context.Context, accountID string) ([]commands.Email, error)
	SetSignInEmail(ctx context.Context, by commands.Request, of signin.Person, address string) (commands.Done, error)
	// SetNotices replaces what is not nil.
	SetNotices(ctx context.Context, in commands.SetNotices) (commands.Done, error)
	NoticesOf(ctx context.Context, accountID string) (Notices, error)
	// RetryNotice has the dead-lettered deliveries of a notice attempted again, and returns how many there were.
	RetryNotice(ctx context.Context, by commands.Request, accountID, noticeID string) (int, error)
	// ReverseRequest returns ErrNotCharged if there is nothing to reverse. repeated reports whether all charges had been reversed
	// before.
	ReverseRequest(ctx context.Context, by commands.Request, accountID, requestID string) (charges int, repeated bool, err error)
	// UndeliveredCharges returns the charges since a time whose answers may not have been delivered, of an account, or of all
	// if the id is empty, in the order of the log. It returns ErrTooMany if there are more than most.
	UndeliveredCharges(ctx context.Context, accountID string, since time.Time, most int) ([]UndeliveredCharge, error)
	// ReverseCharges reverses charges, each once. failed has the errors of those that cannot be reversed; err ends the work.
	ReverseCharges(ctx context.Context, by commands.Request, charges []UndeliveredCharge) (done Reversals, failed []error, err error)
	// RecognizeBreakage removes the remaining credits of a closed account, and returns what became revenue in each currency.
	RecognizeBreakage(ctx context.Context, by commands.Request, accountID, policy string) ([]Breakage, error)
	// AwaitKeys and AwaitBrands wait until requests on every node follow decisions.
	AwaitKeys(ctx context.Context, position eventlog.Position) error
	AwaitBrands(ctx context.Context) error
	// Folded waits until the named read models have what the log has now.
	Folded(ctx context.Context, names ...string) error
	AccountExists(ctx context.Context, id string) error
	Usage(ctx context.Context, id string, month time.Time) (usage.Counts, error)
	ReadModels(ctx context.Context) ([]engine.Status, error)
	// StartRebuild begins to rebuild a read model, which continues after the request.
	StartRebuild(name string) error
	// LastRebuild returns the last rebuild that a request to this process has begun; false if there was none.
	LastRebuild(name string) (Rebuild, bool)
	Months(ctx context.Context) ([]Month, error)
	// CloseMonth verifies the ledger and closes a month, unless it is closed. It returns ErrNotClosed if the month must not be closed.
	CloseMonth(ctx context.Context, by commands.Request, month time.Time) (closed Month, repeated bool, err error)
	// MakeCheckpoint makes a checkpoint of the ledger. If since is not zero, it returns the last one instead if that is from this
	// time on. progress may be nil. It returns ErrNoCheckpoint if none can be signed.
	MakeCheckpoint(ctx context.Context, by commands.Request, since time.Time, progress func(accounts uint64)) (Checkpoint, error)
	// Prove makes a file with a proof of an account's month at the last checkpoint. Errors: commands.ErrBusy,
	// checkpoints.ErrNone, proof.ErrNotInCheckpoint, proof.ErrTooManyEvents, statement.ErrNotBegun, statement.ErrNoEvents.
	Prove(ctx context.Context, accountID string, month time.Time) (*download.File, error)
	// LinkBilling links a customer or a payment to an account. It returns payments.ErrNotFound if the account has no such
	// payment, and ErrLinked.
	LinkBilling(ctx context.Context, by commands.Request, in Link) error
	// Checkout creates a page on which an account pays for a pack, or for a price if pack is empty. It returns ErrNotSold,
	// stripeapi.ErrNoKey and ErrNoPage.
	Checkout(ctx context.Context, accountID, pack, price string) (CheckoutSession, error)
	// FoldBooks folds the books of all accounts from what is booked before a time, or all of it if that is zero. It calls moved
	// for each change, with the time to which it belongs.
	FoldBooks(ctx context.Context, until time.Time, moved func(at time.Time, h *books.Holder, currency string, m books.Movement)) (*books.Ledger, error)
	// Balances folds the whole log.
	Balances(ctx context.Context, until time.Time) ([]books.Posting, error)
	// Ready returns why the node does not serve everything; "" if it does.
	Ready() string
}

// Deps are the parts that the API uses. All are required.
type Deps struct {
	Operations  Operations
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
	Repeats     *repeats.Table
	Log         eventlog.Log
	Metrics     http.Handler // serves /metrics; nil if it is served elsewhere
}

// Config configures the API.
type Config struct {
	BaseURL string // of the service, in brands
	// Hosts are names and addresses by which operators reach the API, besides localhost and the address on which a request
	// arrives.
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
	mux      *http.ServeMux
	paths    map[string][]string // methods by path
	metrics  *prometheus.CounterVec
}

// New returns the API.
func New(cfg Config, deps Deps) (*API, error) {
	if cfg.Logger == nil || cfg.Now == nil || cfg.Visitor == nil || cfg.BaseURL == "" || deps.Operations == nil {
		return nil, errors.New("admin API: a part is missing")
	}
	if cfg.NewID == nil {
		cfg.NewID = uuid.NewString
	}
	a := &API{
		Config: cfg, Deps: deps, hosts: map[string]bool{"localhost": true}, running: semaphore.NewWeighted(maxRunning),
		lookUps: semaphore.NewWeighted(maxLookUps), reports: semaphore.NewWeighted(maxReports),
	}
	for _, host := range cfg.Hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			host = ip.Unmap().String()
		}
		a.hosts[strings.ToLower(host)] = true
	}
	var err error
	if a.failures, err = ratelimit.NewMemory(ratelimit.Config{Now: cfg.Now}); err != nil {
		return nil, err
	}
	a.metrics = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "letterhead_admin_requests_total", Help: "Requests to the admin API, by route and status.",
	}, []string{"route", "status"})
	if cfg.Registerer != nil {
		if err := telemetry.Register(cfg.Registerer, a.metrics); err != nil {
			return nil, fmt.Errorf("admin API: %w", err)
		}
	}
	a.route()
	if cfg.Pages != nil {
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
		if a.pages == nil || r.URL.Path == "/admin" || strings.HasPrefix(r.URL.Path, "/admin/") || r.URL.Path == "/metrics" {
			a.serve(w, r)
			return
		}
		if p := a.checkHost(r); p != nil {
			http.Error(w, p.Message, p.Status)
			return
		}
		a.pages.ServeHTTP(w, r)
	})
}
