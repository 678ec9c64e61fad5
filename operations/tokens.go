package operations

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"time"

	"letterhead/commands"
	"letterhead/domain/operator"
	"letterhead/internal/accountnames"
	"letterhead/internal/apikey"
	"letterhead/internal/runs"
	"letterhead/projections/operators"
)

// ErrAdminOff means that the operators' console has no address to which a link could lead.
var ErrAdminOff = errors.New("the operators' console is off; LETTERHEAD_ADMIN_LISTEN sets its address")

// Token is a token of an operator as it is shown.
type Token struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Scope     operator.Scope  `json:"scope"`
	Token     string          `json:"token,omitempty"` // only once, when it is issued
	Last4     string          `json:"last4"`
	State     operators.State `json:"state"` // active, expired, revoked
	IssuedAt  time.Time       `json:"issued_at,omitzero"`
	IssuedBy  string          `json:"issued_by,omitempty"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
	RevokedAt time.Time       `json:"revoked_at,omitzero"`
	RevokedBy string          `json:"revoked_by,omitempty"`
}

// Tokens are the use cases of operators' tokens, and of links with which they sign in.
type Tokens struct {
	Reads    *Reads
	Commands *commands.Operators
	Names    *accountnames.Table
	Model    *operators.Model
	// Dashboard returns where the operators' console is; "" if it is off.
	Dashboard func() string
	RunID     string // of this process
	Now       func() time.Time
	Logger    *slog.Logger
}

// Issue makes a token of an operator, and returns once requests with it are accepted. With ErrNotSeen the token
// exists, and is returned as well. Repeating the request issues nothing, and returns the token without its text, which
// is stored nowhere.
func (o *Tokens) Issue(ctx context.Context, by commands.Request, name string, scope operator.Scope,
	expires time.Time) (Token, error) {
	text, key, err := newKey(apikey.Operator)
	if err != nil {
		return Token{}, err
	}
	id := derivedID(by, "token")
	done, err := o.Commands.IssueToken(ctx,
		commands.IssueToken{Request: by, TokenID: id, Token: key, Scope: scope, ExpiresAt: expires})
	if errors.Is(err, operator.ErrTokenExists) {
		return o.tokenIssuedBefore(ctx, id, name)
	}
	if err != nil {
		return Token{}, err
	}
	named := o.Names.Put(ctx, id, name)
	issued := Token{ID: id, Name: name, Scope: scope, Token: text, Last4: key.Last4, State: operators.Active,
		ExpiresAt: expires.UTC()}
	if expires.IsZero() {
		issued.ExpiresAt = time.Time{}
	}
	return issued, o.Reads.await(ctx, operators.Name, done.Position, "token "+id+" is issued", named)
}

// newKey returns the text of a new key or token, and the part of it that may be stored.
func newKey(kind apikey.Kind) (string, apikey.Key, error) {
	text, err := apikey.Generate(kind, rand.Reader)
	if err != nil {
		return "", apikey.Key{}, err
	}
	key, err := apikey.Parse(text)
	return text, key, err
}

// tokenIssuedBefore returns a token without its text, and stores its name unless the token is revoked or the repeat is
// late.
func (o *Tokens) tokenIssuedBefore(ctx context.Context, id, name string) (Token, error) {
	if err := o.Reads.Folded(ctx, operators.Name); err != nil {
		return Token{}, err
	}
	row, found, err := o.Model.Get(ctx, id)
	if err != nil || !found {
		return Token{}, cmp.Or(err, operator.ErrUnknownToken)
	}
	names, err := o.Names.Names(ctx, id)
	if err != nil {
		return Token{}, err
	}
	token := tokenOf(&row, names, o.Now())
	if token.Name != "" || isLate(o.Now(), token.IssuedAt) {
		return token, nil
	}
	if token.State != operators.Revoked {
		token.Name = name
	}
	return token, storeName(ctx, o.Names, id, name, o.revoked(id))
}

// revoked returns a function that reports whether a token is revoked, whose name may be erased.
func (o *Tokens) revoked(id string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		if err := o.Reads.Folded(ctx, operators.Name); err != nil {
			return false, err
		}
		row, found, err := o.Model.Get(ctx, id)
		return found && !row.RevokedAt.IsZero(), err
	}
}

// Revoke revokes a token, and returns once requests with it are rejected on every node. With ErrNotSeen it is
// revoked, and not every node was seen to follow.
func (o *Tokens) Revoke(ctx context.Context, by commands.Request, id string) (repeated bool, err error) {
	done, err := o.Commands.RevokeToken(ctx, by, id)
	if err != nil {
		return false, err
	}
	return done.Repeated, o.Reads.await(ctx, operators.Name, done.Position, "token "+id+" is revoked", nil)
}

// List returns the selected tokens of operators, without their texts, at most limit, the newest first.
func (o *Tokens) List(ctx context.Context, s operators.Selection, limit int) ([]Token, error) {
	if err := o.Reads.Folded(ctx, operators.Name); err != nil {
		return nil, err
	}
	s.At = o.Now()
	rows, err := o.Model.List(ctx, s, limit)
	if err != nil {
		return nil, err
	}
	names, err := accountnames.NamesOf(ctx, o.Names, rows, func(t *operators.Token) string { return t.ID })
	if err != nil {
		return nil, err
	}
	all := make([]Token, len(rows))
	for i := range rows {
		all[i] = tokenOf(&rows[i], names, s.At)
	}
	return all, nil
}

// tokenOf returns a token as the admin API answers it at a time, with its name among those by id.
func tokenOf(row *operators.Token, names map[string]string, at time.Time) Token {
	return Token{ID: row.ID, Name: names[row.ID], Scope: row.Scope, Last4: row.Last4, State: row.State(at),
		IssuedAt: row.IssuedAt, IssuedBy: row.IssuedBy, ExpiresAt: row.ExpiresAt, RevokedAt: row.RevokedAt,
		RevokedBy: row.RevokedBy}
}

// IssueLink issues a link with which an operator of a name can sign in to the operators' console once. Each call
// issues another one. Errors: ErrAdminOff, and as commands.Operators.IssueLink and accountnames.Table.Put.
func (o *Tokens) IssueLink(ctx context.Context, by commands.Request, name string,
	scope operator.Scope) (LoginLink, error) {
	dashboard := o.Dashboard()
	if dashboard == "" {
		return LoginLink{}, ErrAdminOff
	}
	issued, err := o.Commands.IssueLink(ctx, by, scope)
	if err != nil {
		return LoginLink{}, err
	}
	if err := o.Names.Put(ctx, issued.ID, name); err != nil {
		return LoginLink{}, err
	}
	if err := o.eraseNames(ctx, issued.Lapsed); err != nil {
		o.Logger.Warn("names of operators who did not sign in are still stored; the next link erases them",
			"error", err)
	}
	values := url.Values{"token": {issued.Token}}
	return LoginLink{URL: dashboard + "/sign-in?" + values.Encode(), ExpiresAt: issued.ExpiresAt}, nil
}

// eraseNames erases those names that are stored. Erasing one takes long, and most were erased before.
func (o *Tokens) eraseNames(ctx context.Context, ids []string) error {
	stored, err := o.Names.Stored(ctx, ids...)
	if err != nil {
		return err
	}
	for _, id := range stored {
		if err := o.Names.Erase(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Enter uses a link up, and returns the text of the token with which its operator has signed in, and the token
// without it, once requests with the token are accepted. With ErrNotSeen the token exists, and both are returned as
// well. Other errors: as commands.Operators.Enter.
func (o *Tokens) Enter(ctx context.Context, linkToken string) (string, Token, error) {
	text, key, err := newKey(apikey.Operator)
	if err != nil {
		return "", Token{}, err
	}
	begun, err := o.Commands.Enter(ctx, runs.RequestID(o.RunID), linkToken, key)
	if err != nil {
		return "", Token{}, err
	}
	names, err := o.Names.Names(ctx, begun.TokenID)
	token := Token{ID: begun.TokenID, Name: names[begun.TokenID], Scope: begun.Scope, Last4: key.Last4, State: "active",
		ExpiresAt: begun.ExpiresAt}
	return text, token, o.Reads.await(ctx, operators.Name, begun.Position, "token "+token.ID+" is issued", err)
}
