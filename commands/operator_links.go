package commands

import (
	"context"
	"time"

	"github.com/google/uuid"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
)

// OperatorLink is a link with which an operator can sign in once.
type OperatorLink struct {
	// ID is the id of the link, and of the token of the operator who signs in with it.
	ID        string
	Token     string // to put into the link; it is stored nowhere
	ExpiresAt time.Time
	// Lapsed are the ids of the latest links that expired before they were used, at most operator.MaxLapsed.
	Lapsed []string
}

// IssueLink makes a link valid with which an operator can sign in once until it expires. Each call issues another link.
//
// Errors: operator.ErrInvalid, operator.ErrTooManyLinks, eventschemas.ErrNotYet before an upgrade is finished, and the
// errors of update.
func (o *Operators) IssueLink(ctx context.Context, request Request, scope operator.Scope) (OperatorLink, error) {
	token, hash := newToken()
	link := OperatorLink{ID: operatorLinkID(token), Token: token}
	_, err := o.update(ctx, request, link.ID, func(t *operator.Tokens, now time.Time) ([]eventschemas.Event, error) {
		events, err := t.IssueLink(operator.IssueLink{LinkID: link.ID, Hash: hash, Scope: scope, Now: now})
		if len(events) > 0 {
			link.ExpiresAt, link.Lapsed = events[0].(eventschemas.OperatorLinkIssued).ExpiresAt, t.Lapsed(now)
		}
		return events, err
	})
	if err != nil {
		return OperatorLink{}, err
	}
	return link, nil
}

// OperatorSession is the token of an operator who has just signed in, without its text.
type OperatorSession struct {
	TokenID   string
	Scope     operator.Scope
	ExpiresAt time.Time
	// Position is the position to wait for in the read model of tokens before it finds the token.
	Position eventlog.Position
}

// Enter uses a link up and makes a token valid. It has only the part of the token that may be stored. The actor of the
// event is that token. Of concurrent calls with one link, only one succeeds.
//
// Errors: operator.ErrUnknownLink, operator.ErrLinkUsed, operator.ErrLinkExpired, operator.ErrTooManyTokens, and the
// errors of update.
func (o *Operators) Enter(ctx context.Context, requestID, linkToken string, token apikey.Key) (OperatorSession, error) {
	if !isToken(linkToken) {
		return OperatorSession{}, operator.ErrUnknownLink
	}
	id := operatorLinkID(linkToken)
	begun := OperatorSession{TokenID: id}
	request := Request{ID: requestID, Actor: "operator:" + id}
	done, err := o.update(ctx, request,
		tokenDecision(id, token), func(t *operator.Tokens, now time.Time) ([]eventschemas.Event, error) {
			events, err := t.Enter(operator.Enter{LinkID: id, LinkHash: hashOf(linkToken), Hash: token.HashHex(),
				Last4: token.Last4, Now: now})
			if len(events) > 0 {
				issued := events[0].(eventschemas.OperatorTokenIssued)
				begun.Scope, begun.ExpiresAt = operator.Scope(issued.Scope), *issued.ExpiresAt
			}
			return events, err
		})
	if err != nil {
		return OperatorSession{}, err
	}
	begun.Position = done.Position
	return begun, nil
}

var operatorLinkNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:letterhead:operator-link"))

// operatorLinkID returns the id of the link with a token. It follows from the token, so that a sign-in knows its actor.
func operatorLinkID(token string) string {
	return uuid.NewSHA1(operatorLinkNamespace, []byte(hashOf(token))).String()
}
