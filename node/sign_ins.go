package node

import (
	"context"
	"fmt"
	"net/url"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/signin"
	"letterhead/internal/eventlog"
	"letterhead/projections/sessions"
)

// IssueLoginLink issues a link with which a person of an account (signin.Owner if empty) can sign in once. Each call issues
// another one. Errors: those of commands.SignIns.IssueLink.
func (n *Node) IssueLoginLink(ctx context.Context, by commands.Request, accountID, person string) (adminapi.LoginLink, error) {
	token, expires, err := n.SignIns.IssueLink(ctx, by, accountID, person)
	if err != nil {
		return adminapi.LoginLink{}, err
	}
	values := url.Values{"account": {accountID}, "token": {token}}
	return adminapi.LoginLink{URL: n.Config.BaseURL + "/dashboard/sign-in?" + values.Encode(), ExpiresAt: expires}, nil
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
// empty. It returns as SignOut does. Other errors: those of commands.SignIns.SignOutEverywhere.
func (n *Node) SignOutEverywhere(ctx context.Context, by commands.Request, accountID, person string) error {
	done, err := n.SignIns.SignOutEverywhere(ctx, by, accountID, person)
	if err != nil {
		return err
	}
	return n.awaitSessions(ctx, "the sessions have ended", done.Position)
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
