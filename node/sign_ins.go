package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/signin"
	"letterhead/internal/eventlog"
	"letterhead/internal/ratelimit"
	"letterhead/projections/sessions"
	"letterhead/workers/signinmail"
)

// Links by e-mail in a minute.
const (
	// maxClientMails limits the messages that are sent for one client.
	maxClientMails = 10
	// maxAddressMails limits those to one address. signin.MaxOpenMailed and signin.MaxMailedLinks limit those of an account.
	maxAddressMails = 1
)

// IssueLoginLink issues a link with which a person of an account (signin.Owner if empty) can sign in once. Each call issues
// another one. Errors: those of commands.SignIns.IssueLink.
func (n *Node) IssueLoginLink(ctx context.Context, by commands.Request, accountID, person string) (adminapi.LoginLink, error) {
	token, expires, err := n.SignIns.IssueLink(ctx, by, accountID, person)
	if err != nil {
		return adminapi.LoginLink{}, err
	}
	return adminapi.LoginLink{URL: n.loginURL(accountID, token), ExpiresAt: expires}, nil
}

func (n *Node) loginURL(accountID, token string) string {
	return n.Config.BaseURL + "/dashboard/sign-in?" + url.Values{"account": {accountID}, "token": {token}}.Encode()
}

// SignInEmails returns the addresses to which links of an account's people are sent, the owner's first. Errors:
// account.ErrNotFound, and those of commands.SignIns.Emails.
func (n *Node) SignInEmails(ctx context.Context, accountID string) ([]commands.Email, error) {
	if err := n.AccountExists(ctx, accountID); err != nil {
		return nil, err
	}
	return n.SignIns.Emails(ctx, accountID)
}

// SetSignInEmail sets the address of a person; an empty one is removed. Errors: those of commands.SignIns.SetEmail.
func (n *Node) SetSignInEmail(ctx context.Context, by commands.Request, of signin.Person, address string) (commands.Done, error) {
	return n.SignIns.SetEmail(ctx, by, of, address)
}

// mailedLinks are the links that are sent by e-mail.
type mailedLinks struct{ node *Node }

// WithEmail implements signinmail.Links.
func (l mailedLinks) WithEmail(ctx context.Context, address string) ([]signin.Person, error) {
	return l.node.SignIns.WithEmail(ctx, address)
}

// Issue implements signinmail.Links. The actor is the account, because one of its people asked for the link.
func (l mailedLinks) Issue(ctx context.Context, of signin.Person) (signinmail.Link, error) {
	token, expires, err := l.node.SignIns.IssueMailedLink(ctx, people(l).by(of.AccountID), of)
	return signinmail.Link{Person: of, URL: l.node.loginURL(of.AccountID, token), Expires: expires}, err
}

// mailLink queues a message with links for the people who have an e-mail address. The address is personal data, so it is
// counted by its hash; the client is counted by its network address, as other visitors are.
//
// Only messages that are sent count against the limits and take a place in the queue, so requests with invented
// addresses cannot use up the limit of other people on the same network. An unknown address gets the same result after
// the same steps, so neither reveals whether it is known. For the same reason a message beyond a limit is only logged.
// Errors: ratelimit.ErrUnavailable, those of the table of names.
func (n *Node) mailLink(ctx context.Context, address, client string) error {
	address = strings.ToLower(address)
	people, err := n.SignIns.WithEmail(ctx, address)
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
		decision, taken := n.counters.Take(ctx, limit.key, 1, limit.max)
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
		err = n.mailer.Send(address)
	}
	if err != nil {
		n.logger.Warn("a link is not sent by e-mail",
			"account", people[0].AccountID, "person", people[0].ID, "client", client, "error", err)
	}
	return nil
}

// Enter begins a session with the token of a link, and returns once requests with the token of the session are accepted.
// With ErrNotSeen the session has begun, and is returned as well. Other errors: those of commands.SignIns.Enter.
func (n *Node) Enter(ctx context.Context, by commands.Request, accountID, token string) (session string, begun signin.Session, err error) {
	session, entered, err := n.SignIns.Enter(ctx, by, accountID, token)
	if err == nil {
		err = n.awaitSessions(ctx, "the session has begun", entered.Position)
	}
	return session, entered.Session, err
}

// SignOut ends a session of an account, and returns once requests with it are rejected on every node. With ErrNotSeen it
// has ended, and not every node was seen to follow. Other errors: those of commands.SignIns.SignOut.
func (n *Node) SignOut(ctx context.Context, by commands.Request, accountID, sessionID string) error {
	done, err := n.SignIns.SignOut(ctx, by, accountID, sessionID)
	if err != nil {
		return err
	}
	return n.awaitSessions(ctx, "the session has ended", done.Position)
}

// SignOutEverywhere ends all sessions and withdraws all links of a person, or of all people of the account if person is
// empty; repeated reports whether there were none. It returns as SignOut does. Other errors: those of
// commands.SignIns.SignOutEverywhere.
func (n *Node) SignOutEverywhere(ctx context.Context, by commands.Request, accountID, person string) (repeated bool, err error) {
	done, err := n.SignIns.SignOutEverywhere(ctx, by, accountID, person)
	if err != nil {
		return false, err
	}
	return done.Repeated, n.awaitSessions(ctx, "the sessions have ended", done.Position)
}

// awaitSessions waits until the read model of sessions, which every request reads, is at a position. It returns ErrNotSeen,
// with what has happened all the same, if it is not in time.
func (n *Node) awaitSessions(ctx context.Context, happened string, position eventlog.Position) error {
	if position == 0 { // the stream is empty; the read model may be new in a release whose upgrade is not finished
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, enforceTimeout)
	defer cancel()
	if err := n.Runner.WaitFor(ctx, sessions.Name, position); err != nil {
		return fmt.Errorf("%s: %w: %w", happened, ErrNotSeen, err)
	}
	return nil
}
