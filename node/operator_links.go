package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"letterhead/adminapi"
	"letterhead/commands"
	"letterhead/domain/operator"
	"letterhead/internal/runs"
)

// ErrAdminOff means that the dashboard of operators has no address to which a link could lead.
var ErrAdminOff = errors.New("the dashboard of operators is off; LETTERHEAD_ADMIN_LISTEN sets its address")

// IssueOperatorLink issues a link with which an operator of a name can sign in to the dashboard of operators once. Each call
// issues another one. Errors: ErrAdminOff, and those of commands.Operators.IssueLink and accountnames.Table.Put.
func (n *Node) IssueOperatorLink(ctx context.Context, by commands.Request, name string, scope operator.Scope) (adminapi.LoginLink, error) {
	dashboard := n.adminURL
	if dashboard == "" && n.Config.AdminListen != "" { // another process serves it
		dashboard = "http://" + reachable(n.Config.AdminListen)
	}
	if dashboard == "" {
		return adminapi.LoginLink{}, ErrAdminOff
	}
	issued, err := n.tokens.IssueLink(ctx, by, scope)
	if err != nil {
		return adminapi.LoginLink{}, err
	}
	if err := n.Names.Put(ctx, issued.ID, name); err != nil {
		return adminapi.LoginLink{}, err
	}
	if err := n.eraseNames(ctx, issued.Lapsed); err != nil {
		n.logger.Warn("names of operators who did not sign in are still stored; the next link erases them", "error", err)
	}
	values := url.Values{"token": {issued.Token}}
	return adminapi.LoginLink{URL: dashboard + "/sign-in?" + values.Encode(), ExpiresAt: issued.ExpiresAt}, nil
}

// eraseNames erases those names that are stored. Erasing one takes long, and most were erased before.
func (n *Node) eraseNames(ctx context.Context, ids []string) error {
	stored, err := n.Names.Stored(ctx, ids...)
	if err != nil {
		return err
	}
	for _, id := range stored {
		if err := n.Names.Erase(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// EnterOperator uses a link up, and returns the text of the token with which its operator has signed in, and the token
// without it, once requests with the token are accepted. With ErrNotSeen the token exists, and both are returned as well.
// Other errors: those of commands.Operators.Enter.
func (n *Node) EnterOperator(ctx context.Context, linkToken string) (string, adminapi.Token, error) {
	text, key, err := newOperatorToken()
	if err != nil {
		return "", adminapi.Token{}, err
	}
	begun, err := n.tokens.Enter(ctx, runs.RequestID(n.runID), linkToken, key)
	if err != nil {
		return "", adminapi.Token{}, err
	}
	names, err := n.Names.Names(ctx, begun.TokenID)
	token := adminapi.Token{ID: begun.TokenID, Name: names[begun.TokenID], Scope: begun.Scope, Last4: key.Last4, State: "active", ExpiresAt: begun.ExpiresAt}
	if err := errors.Join(err, n.awaitTokens(ctx, begun.Position)); err != nil {
		return text, token, fmt.Errorf("token %s is issued: %w: %w", token.ID, ErrNotSeen, err)
	}
	return text, token, nil
}
