package operations

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"letterhead/commands"
	"letterhead/domain/signin"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/projections/sessions"
	"letterhead/workers/signinmail"
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
	return o.Reads.await(ctx, sessions.Name, position, happened, nil)
}

// Links by e-mail in a minute.
const (
	// maxClientMails limits the messages that are sent for one client.
	maxClientMails = 10
	// maxAddressMails limits the mails to one address. signin.MaxOpenMailed and signin.MaxMailedLinks limit the mails
	// to an account.
	maxAddressMails = 1
)

// MailedLinks are links to sign in that people ask for, by e-mail.
type MailedLinks struct {
	SignIns  *SignIns
	Mailer   *signinmail.Mailer
	Counters ratelimit.Counters
	Logger   *slog.Logger
}

// Links are the links that SignIns issues for messages; they implement signinmail.Links.
type Links struct {
	SignIns *SignIns
	// By returns the request of the people of an account.
	By func(accountID string) commands.Request
}

// WithEmail implements signinmail.Links.
func (l Links) WithEmail(ctx context.Context, address string) ([]signin.Person, error) {
	return l.SignIns.Commands.WithEmail(ctx, address)
}

// Issue implements signinmail.Links. The actor is the account, because one of its people asked for the link.
func (l Links) Issue(ctx context.Context, of signin.Person) (signinmail.Link, error) {
	token, expires, err := l.SignIns.Commands.IssueMailedLink(ctx, l.By(of.AccountID), of)
	return signinmail.Link{Person: of, URL: l.SignIns.loginURL(of.AccountID, token), Expires: expires}, err
}

// Send queues a message with links for the people who have an e-mail address. The address is personal data, so it is
// counted by its hash; the client is counted by its network address, as other visitors are.
//
// Only messages that are sent count against the limits and take a place in the queue, so requests with invented
// addresses cannot use up the limit of other people on the same network. An unknown address gets the same result after
// the same steps, so neither reveals whether it is known. For the same reason a message beyond a limit is only logged.
// Errors: ratelimit.ErrUnavailable, and the errors of the table of names.
func (m *MailedLinks) Send(ctx context.Context, address, client string) error {
	address = strings.ToLower(address)
	people, err := m.SignIns.Commands.WithEmail(ctx, address)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(address))
	limits := []struct {
		key ratelimit.Key
		max int64
	}{
		{ratelimit.Key{Scope: "sign-in-mail-addresses", ID: hex.EncodeToString(sum[:])}, maxAddressMails},
		{ratelimit.Key{Scope: "sign-in-mail-clients", ID: client}, maxClientMails},
	}
	if len(people) == 0 {
		for i := range limits {
			limits[i].key = ratelimit.Key{Scope: "sign-in-mail-unknown", ID: client}
		}
	}
	for _, limit := range limits {
		decision, taken := m.Counters.Take(ctx, limit.key, 1, limit.max)
		if taken != nil {
			return taken
		}
		if !decision.Allowed {
			err = cmp.Or(err, fmt.Errorf("the limit of %s in a minute is %d", limit.key.Scope, limit.max))
		}
	}
	if len(people) == 0 {
		return nil
	}
	if err == nil {
		err = m.Mailer.Send(address)
	}
	if err != nil {
		m.Logger.Warn("a link is not sent by e-mail",
			"account", people[0].AccountID, "person", people[0].ID, "client", client, "error", err)
	}
	return nil
}
