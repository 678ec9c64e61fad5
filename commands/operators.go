package commands

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/apikey"
	"letterhead/internal/eventlog"
)

// operatorPage is the number of events of the stream per read.
const operatorPage = 512

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
	for more := true; more; {
		page, err := o.log.ReadStream(ctx, eventschemas.OperatorsStream, o.state.Events(),
			eventlog.Forward, operatorPage)
		if err != nil {
			return o.end, fmt.Errorf("read %s: %w", eventschemas.OperatorsStream, err)
		}
		for i := range page {
			ev, err := eventlog.Decode(&page[i], eventschemas.Decode)
			if err != nil {
				return o.end, fmt.Errorf("read %s: %w", eventschemas.OperatorsStream, err)
			}
			o.state.Apply(ev)
			o.end = endOf(&page[i])
		}
		more = len(page) == operatorPage
	}
	return o.end, nil
}
