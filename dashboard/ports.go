package dashboard

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"letterhead/commands"
	"letterhead/dashboard/audit"
	"letterhead/domain/account"
	"letterhead/domain/billing"
	"letterhead/domain/books"
	"letterhead/domain/notices"
	"letterhead/domain/plan"
	"letterhead/domain/statement"
	"letterhead/internal/apikey"
	"letterhead/internal/download"
	"letterhead/internal/eventlog"
	"letterhead/projections/accounts"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
)

// Errors of Sessions.
var (
	// ErrLinkUnknown means that there is no such link.
	ErrLinkUnknown = errors.New("no such sign-in link")
	// ErrLinkExpired means that the link was not used in time, or was withdrawn.
	ErrLinkExpired = errors.New("the sign-in link has expired")
	// ErrLinkUsed means that the link has started a session before.
	ErrLinkUsed = errors.New("the sign-in link was used before")
	// ErrTooManySessions means that no further session can be started in this account before one ends.
	ErrTooManySessions = errors.New("too many sessions")
	// ErrNoSession means that no session has the token, or that it has ended.
	ErrNoSession = errors.New("no such session")
)

// ErrNoMail means that the service has no mail server.
var ErrNoMail = errors.New("the service sends no e-mail")

// ErrNoWebhooks means that the service has no key to sign webhooks with.
var ErrNoWebhooks = errors.New("webhooks cannot be signed")

// ErrNoPaymentPage means that the payment processor did not create a page.
var ErrNoPaymentPage = errors.New("no page of the payment processor")

// Session is a person's session in an account. Its token is known to the browser only.
type Session struct {
	ID        string
	AccountID string
	Person    string // an opaque id
	Expires   time.Time
}

// Sessions are the sign-ins of people. Besides the errors that are listed, each method may return those of the stores. With
// commands.ErrNotSeen the change is made, and Session was not seen to follow in time.
type Sessions interface {
	// Enter uses a one-time link up and starts a session, whose token it returns. Session finds it from then on. Errors:
	// ErrLinkUnknown, ErrLinkExpired, ErrLinkUsed, ErrTooManySessions, account.ErrClosed.
	Enter(ctx context.Context, accountID, token string) (session string, expires time.Time, err error)
	// MailsLinks reports whether the service can send links by e-mail.
	MailsLinks() bool
	// MailLink sends a link to an e-mail address if an account has it. It does not wait for that, and does not report
	// whether the address is known. The messages for one client are limited. Errors: ErrNoMail,
	// ratelimit.ErrUnavailable.
	MailLink(ctx context.Context, address, client string) error
	// Session returns the session that has a token. Errors: ErrNoSession.
	Session(ctx context.Context, token string) (Session, error)
	// SignOut ends a session. Session does not find it any more, on any node.
	SignOut(ctx context.Context, s Session) error
	// SignOutEverywhere ends every session of the person in the account, and withdraws the person's links.
	SignOutEverywhere(ctx context.Context, s Session) error
}

// IssuedKey is a key that was just issued.
type IssuedKey struct {
	ID   string
	Kind string
	Key  string // the text; empty if the request is a repeat, because it is stored nowhere
	Last string // its last four characters
	account.KeyTerms
}

// Notices are the settings of an account's notices, and its last notices.
type Notices struct {
	LowBalance int64  // credits below which the balance is low; 0 for no notice of it
	Webhook    string // URL; empty if there is none
	Email      string // address; empty if there is none
	NoMail     bool   // the service has no mail server
	Latest     []notices.Delivery
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

// Response is a whole answer of the API.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// API is the API of the service.
type API interface {
	// LookUp returns what GET /v1/brands/{identifier} answers to a request of the account. Errors: ctx.Err().
	LookUp(ctx context.Context, in LookUp) (Response, error)
}

// Operations are use cases that take several parts of a node.
type Operations interface {
	// IssueKey makes a key and returns once requests with it are accepted. With commands.ErrNotSeen the key exists, and is
	// returned as well. Errors: those of account.KeyTerms.Canonical and commands.AccountWriter.IssueKey.
	IssueKey(ctx context.Context, by commands.Request, accountID string, kind apikey.Kind, name string, terms account.KeyTerms) (IssuedKey, error)
	// Offers returns the packs and plans that are sold. There are none if nothing is sold.
	Offers() (*billing.Catalog, error)
	// Checkout creates a page on which an account pays for an offer, and returns its URL. customer is that of Subscriber, or
	// empty. Errors: ErrNoPaymentPage.
	Checkout(ctx context.Context, accountID, customer string, offer billing.Offer) (url string, err error)
	// Subscriber returns the customer of the payment processor with a subscription for an account that has not ended; empty
	// if there is none. Errors: those of the read model.
	Subscriber(ctx context.Context, accountID string) (customer string, err error)
	// Portal creates a page on which a customer changes or ends subscriptions, and returns its URL. Errors: ErrNoPaymentPage.
	Portal(ctx context.Context, customer string) (url string, err error)
	// NoticesOf returns the settings of an account's notices and the last ones, the newest first.
	NoticesOf(ctx context.Context, accountID string) (Notices, error)
	// SetNotices changes the settings. Errors: ErrNoWebhooks, and those of commands.Notices.Set.
	SetNotices(ctx context.Context, in commands.SetNotices) (commands.Done, error)
	// SignInEmails returns the addresses to which links of the account's people are sent, the owner's first.
	SignInEmails(ctx context.Context, accountID string) ([]commands.Email, error)
	// RetryNotice has the deliveries of a notice that were given up attempted again, and returns how many there were.
	// Errors: notices.ErrUnknown, notices.ErrNotDead.
	RetryNotice(ctx context.Context, by commands.Request, accountID, noticeID string) (int, error)
	// Prove makes a file with a proof of an account's month at the last checkpoint of the ledger. Errors: commands.ErrBusy,
	// checkpoints.ErrNone, proof.ErrNotInCheckpoint, proof.ErrTooManyEvents, statement.ErrNotBegun, statement.ErrNoEvents.
	Prove(ctx context.Context, accountID string, month time.Time) (*download.File, error)
	// WebhookKey returns the public key of the one that signs webhooks; empty if there is none.
	WebhookKey() string
	// AwaitKeys waits until requests on every node follow the decisions up to a position.
	AwaitKeys(ctx context.Context, position eventlog.Position) error
	// Folded waits until the named read models have what the log has now.
	Folded(ctx context.Context, names ...string) error
}

// Audit replays accounts; *audit.Auditor.
type Audit interface {
	Replay(ctx context.Context, accountID, at string) (*audit.Replay, error)
	Story(ctx context.Context, accountID, requestID string, all bool) (*audit.Story, error)
}

// Interfaces of the other parts, reduced to the methods used here. Their own packages document each method and its errors.
type (
	// Writer is the part that decides about accounts; *commands.AccountWriter.
	Writer interface {
		Standing(ctx context.Context, accountID string) (commands.Standing, error)
		RevokeKey(ctx context.Context, in commands.RevokeKey) (commands.Done, error)
	}

	// Quotas counts searches; *commands.QuotaWriter.
	Quotas interface {
		Searches(ctx context.Context, accountID, month string) (int64, error)
	}

	// Accounts is the read model of accounts.
	Accounts interface {
		Get(ctx context.Context, id string) (*accounts.Account, error)
	}

	// Names has the names of holders and keys; *accountnames.Table.
	Names interface {
		Names(ctx context.Context, ids ...string) (map[string]string, error)
	}

	// Keys is the read model of keys.
	Keys interface {
		List(ctx context.Context, accountID string) ([]keys.Listed, error)
		Get(ctx context.Context, keyID string) (k keys.Listed, found bool, err error)
	}

	// Usage is the read model of what accounts use in a month and on a day.
	Usage interface {
		Get(ctx context.Context, accountID, month string) (usage.Counts, error)
		List(ctx context.Context, accountID string) ([]usage.Counts, error)
		Period(ctx context.Context, accountID string, from, until time.Time) (usage.Period, error)
	}

	// Ledger is the read model of money.
	Ledger interface {
		Latest(ctx context.Context, accountID string, f ledger.Filter, n int) (latest []ledger.Entry, next uint64, err error)
		Entries(ctx context.Context, accountID string, f ledger.Filter) iter.Seq2[ledger.Entry, error]
		AsOf(ctx context.Context, accountID string, at time.Time) (ledger.Entry, error)
		Spent(ctx context.Context, accountID string, after time.Time) (int64, error)
		Periods(ctx context.Context) (*books.Periods, error)
		Statement(ctx context.Context, accountID string, month, now time.Time) (*statement.Statement, error)
	}
)
