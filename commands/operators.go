package commands

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
)

// Operators implements the use cases of operators' tokens and of their links to sign in. Each command folds the events
// that were added since the previous one, decides, and appends at the revision that it folded. So trying a link costs
// one read of the end of the stream, however long the stream is. It is safe for concurrent use: commands wait for each
// other.
type Operators struct {
	coldStreams

	turn  *semaphore.Weighted // of the command that uses the fields below
	state *operator.Tokens
	end   streamEnd // that was folded
}

// NewOperators returns the commands for a log. events is as in AccountWriterConfig.
func NewOperators(log eventlog.Log, events eventschemas.Encoder, now func() time.Time) *Operators {
	return &Operators{coldStreams: coldStreams{log, events, now}, turn: semaphore.NewWeighted(1), state: operator.New()}
}

// IssueToken is the command to make a token valid. It has only the part of the token that may be stored.
type IssueToken struct {
	Request   Request
	TokenID   string
	Token     apikey.Key
	Scope     operator.Scope
	ExpiresAt time.Time // zero if it does not expire
}

// IssueToken makes a token valid. The same token under the same id is a repeat. Errors: operator.ErrInvalid,
// operator.ErrTokenExists, operator.ErrTooManyTokens, eventschemas.ErrNotYet before an upgrade is finished, and the
// errors of update.
func (o *Operators) IssueToken(ctx context.Context, in IssueToken) (Done, error) {
	return o.update(ctx, in.Request,
		tokenDecision(in.TokenID, in.Token), func(t *operator.Tokens, now time.Time) ([]eventschemas.Event, error) {
			return t.Issue(operator.Issue{TokenID: in.TokenID, Hash: in.Token.HashHex(), Last4: in.Token.Last4,
				Scope: in.Scope, ExpiresAt: in.ExpiresAt, Now: now})
		})
}

// tokenDecision returns the key of the decision to issue a token. It has the hash, so that of two texts for one id only
// one is appended.
func tokenDecision(id string, token apikey.Key) string { return id + "/" + token.HashHex() }

// RevokeToken revokes a token forever. It takes effect where tokens are looked up: wait there for the returned
// position.
// Errors: operator.ErrUnknownToken, and the errors of update.
func (o *Operators) RevokeToken(ctx context.Context, request Request, tokenID string) (Done, error) {
	return o.update(ctx, request, tokenID, func(t *operator.Tokens, _ time.Time) ([]eventschemas.Event, error) {
		return t.Revoke(tokenID)
	})
}

// update decides about the tokens and links, and appends the events of the decision under its key. Errors: as
// coldStreams.do.
func (o *Operators) update(ctx context.Context, request Request, key string,
	decide func(*operator.Tokens, time.Time) ([]eventschemas.Event, error)) (Done, error) {
	if err := o.turn.Acquire(ctx, 1); err != nil {
		return Done{}, err
	}
	defer o.turn.Release(1)
	return o.do(ctx, &coldCommand{
		stream: eventschemas.OperatorsStream, request: request, key: key, settles: true,
		read:   o.follow,
		decide: func(now time.Time) ([]eventschemas.Event, error) { return decide(o.state, now) },
	})
}

// follow folds the events of the stream that were not folded yet.
func (o *Operators) follow(ctx context.Context) (streamEnd, error) {
	err := o.each(ctx, eventschemas.OperatorsStream, o.state.Events(), eventlog.End,
		func(rec *eventlog.Recorded, ev eventschemas.Event) {
			o.state.Apply(ev)
			o.end = endOf(rec)
		})
	return o.end, err
}

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
