package operations

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"letterhead/commands"
	"letterhead/domain/signin"
	"letterhead/internal/eventlog"
	"letterhead/projections/sessions"
)

// LoginLink is a link with which a person signs in to the dashboard of an account.
type LoginLink struct {
	URL       string    `json:"url,omitempty"` // only once, when the link is issued
	ExpiresAt time.Time `json:"expires_at"`
}

// SignIns are the use cases of the sign-ins of accounts' people.
type SignIns struct {
	Reads    *Reads
	Commands *commands.SignIns
	BaseURL  string
}

// IssueLink issues a link with which a person of an account (signin.Owner if empty) can sign in once. Each call issues
// another one. Errors: as commands.SignIns.IssueLink.
func (o *SignIns) IssueLink(ctx context.Context, by commands.Request, accountID, person string) (LoginLink, error) {
	token, expires, err := o.Commands.IssueLink(ctx, by, accountID, person)
	if err != nil {
		return LoginLink{}, err
	}
	return LoginLink{URL: o.loginURL(accountID, token), ExpiresAt: expires}, nil
}

func (o *SignIns) loginURL(accountID, token string) string {
	return o.BaseURL + "/dashboard/sign-in?" + url.Values{"account": {accountID}, "token": {token}}.Encode()
}

// Emails returns the addresses to which links of an account's people are sent, the owner's first. Errors:
// account.ErrNotFound, and as commands.SignIns.Emails.
func (o *SignIns) Emails(ctx context.Context, accountID string) ([]commands.Email, error) {
	if err := o.Reads.AccountExists(ctx, accountID); err != nil {
		return nil, err
	}
	return o.Commands.Emails(ctx, accountID)
}

// Enter begins a session with the token of a link, and returns once requests with the token of the session are
// accepted. With ErrNotSeen the session has begun, and is returned as well. Other errors: as commands.SignIns.Enter.
func (o *SignIns) Enter(ctx context.Context, by commands.Request,
	accountID, token string) (session string, begun signin.Session, err error) {
	session, entered, err := o.Commands.Enter(ctx, by, accountID, token)
	if err == nil {
		err = o.awaitSessions(ctx, "the session has begun", entered.Position)
	}
	return session, entered.Session, err
}

// SignOut ends a session of an account, and returns once requests with it are rejected on every node. With ErrNotSeen
// it has ended, and not every node was seen to follow. Other errors: as commands.SignIns.SignOut.
func (o *SignIns) SignOut(ctx context.Context, by commands.Request, accountID, sessionID string) error {
	done, err := o.Commands.SignOut(ctx, by, accountID, sessionID)
	if err != nil {
		return err
	}
	return o.awaitSessions(ctx, "the session has ended", done.Position)
}

// SignOutEverywhere ends all sessions and withdraws all links of a person, or of all people of the account if person is
// empty; repeated reports whether there were none. It returns as SignOut does. Other errors: as
// commands.SignIns.SignOutEverywhere.
func (o *SignIns) SignOutEverywhere(ctx context.Context, by commands.Request,
	accountID, person string) (repeated bool, err error) {
	done, err := o.Commands.SignOutEverywhere(ctx, by, accountID, person)
	if err != nil {
		return false, err
	}
	return done.Repeated, o.awaitSessions(ctx, "the sessions have ended", done.Position)
}

// awaitSessions waits until the read model of sessions, which every request reads, is at a position. It returns
// ErrNotSeen, with what has happened all the same, if it is not in time.
func (o *SignIns) awaitSessions(ctx context.Context, happened string, position eventlog.Position) error {
	if position == 0 { // the stream is empty; the read model may be new in a release whose upgrade is not finished
		return nil
	}
	if err := o.Reads.await(ctx, sessions.Name, position); err != nil {
		return fmt.Errorf("%s: %w: %w", happened, commands.ErrNotSeen, err)
	}
	return nil
}
