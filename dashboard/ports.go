package dashboard

import (
	"context"
	"errors"
	"time"

	"letterhead/domain/plan"
	"letterhead/domain/signin"
	"letterhead/internal/web"
)

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
