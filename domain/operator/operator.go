// Package operator decides about the tokens with which operators use the admin API, and about the links with which they
// sign in. A session is a token with an end. The texts of tokens and links are kept as hashes; the names of operators
// are not in events.
package operator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"letterhead/eventschemas"
)

// Scope determines what a token may do. docs/admin.md has the operations of each.
type Scope string

// The scopes. Read may only read; support, finance and admin include it, and admin includes everything.
const (
	Read    Scope = "read"
	Support Scope = "support"
	Finance Scope = "finance"
	Admin   Scope = "admin"
)

// Scopes are all scopes.
var Scopes = []Scope{Read, Support, Finance, Admin}

// Limits of tokens and links.
const (
	// MaxTokens limits the tokens that are neither revoked nor expired.
	MaxTokens = 1000
	// LinkLifetime is how long a link can be used.
	LinkLifetime = 15 * time.Minute
	// SessionLifetime is how long the token of an operator who has signed in is valid. Using it does not extend it.
	SessionLifetime = 12 * time.Hour
	// MaxOpenLinks limits the links that can be used.
	MaxOpenLinks = 20
)

// Errors of decisions. A rejected command results in no event.
var (
	// ErrInvalid means that the command is malformed.
	ErrInvalid = errors.New("invalid token")
	// ErrUnknownToken means that no token with this id was ever issued.
	ErrUnknownToken = errors.New("no such token")
	// ErrTokenExists means that the token id belongs to another token.
	ErrTokenExists = errors.New("token id is in use for another token")
	// ErrTooManyTokens means that MaxTokens are neither revoked nor expired.
	ErrTooManyTokens = errors.New("too many tokens")
	// ErrUnknownLink means that no such link was ever issued.
	ErrUnknownLink = errors.New("no such sign-in link")
	// ErrLinkExpired means that the link was not used in time.
	ErrLinkExpired = errors.New("the sign-in link has expired")
	// ErrLinkUsed means that an operator has signed in with the link before.
	ErrLinkUsed = errors.New("the sign-in link was used before")
	// ErrTooManyLinks means that MaxOpenLinks can be used.
	ErrTooManyLinks = errors.New("too many sign-in links")
)

type token struct {
	hash    string
	expires time.Time // zero if it does not expire
	revoked bool
}

func (t *token) valid(at time.Time) bool {
	return !t.revoked && (t.expires.IsZero() || at.Before(t.expires))
}

type link struct {
	hash    string
	scope   Scope
	expires time.Time
}

// Tokens is the state of the stream of operators.
type Tokens struct {
	events uint64
	tokens map[string]token // by id; a session has the id of its link
	links  map[string]link  // by id
}

// New returns the state before the first event.
func New() *Tokens { return &Tokens{tokens: map[string]token{}, links: map[string]link{}} }

// Events returns the number of events that were applied.
func (t *Tokens) Events() uint64 { return t.events }

// Apply applies an event of the stream.
func (t *Tokens) Apply(ev eventschemas.Event) {
	t.events++
	switch ev := ev.(type) {
	case eventschemas.OperatorTokenIssued:
		issued := token{hash: ev.Hash}
		if ev.ExpiresAt != nil {
			issued.expires = *ev.ExpiresAt
		}
		t.tokens[ev.TokenID] = issued
	case eventschemas.OperatorTokenRevoked:
		known := t.tokens[ev.TokenID]
		known.revoked = true
		t.tokens[ev.TokenID] = known
	case eventschemas.OperatorLinkIssued:
		t.links[ev.LinkID] = link{hash: ev.Hash, scope: Scope(ev.Scope), expires: ev.ExpiresAt}
	}
}

// Issue is the command to make a token valid.
type Issue struct {
	TokenID   string
	Hash      string // hex SHA-256
	Last4     string
	Scope     Scope
	ExpiresAt time.Time // zero if it does not expire
	Now       time.Time
}

// Issue makes a token valid. The same token under the same id is a repeat, which has no events.
// Errors: ErrInvalid, ErrTokenExists, ErrTooManyTokens.
func (t *Tokens) Issue(in Issue) ([]eventschemas.Event, error) {
	switch {
	case in.TokenID == "" || len(in.Hash) != 64 || len(in.Last4) != 4:
		return nil, fmt.Errorf("%w: it has no id or no hash", ErrInvalid)
	case !slices.Contains(Scopes, in.Scope):
		return nil, invalidScope(in.Scope)
	case !in.ExpiresAt.IsZero() && !in.ExpiresAt.After(in.Now):
		return nil, fmt.Errorf("%w: it would expire at %s, which is in the past", ErrInvalid,
			in.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if known, ok := t.tokens[in.TokenID]; ok {
		if known.hash != in.Hash {
			return nil, ErrTokenExists
		}
		return nil, nil
	}
	if valid := t.valid(in.Now); valid >= MaxTokens {
		return nil, fmt.Errorf("%w: %d are neither revoked nor expired; revoke those that are not used",
			ErrTooManyTokens, valid)
	}
	issued := eventschemas.OperatorTokenIssued{TokenID: in.TokenID, Hash: in.Hash, Last4: in.Last4,
		Scope: string(in.Scope)}
	if !in.ExpiresAt.IsZero() {
		at := in.ExpiresAt.UTC().Truncate(time.Microsecond)
		issued.ExpiresAt = &at
	}
	return []eventschemas.Event{issued}, nil
}

func (t *Tokens) valid(at time.Time) int {
	valid := 0
	for _, known := range t.tokens {
		if known.valid(at) {
			valid++
		}
	}
	return valid
}

func invalidScope(s Scope) error {
	return fmt.Errorf("%w: the field scope is read, support, finance or admin, not %q", ErrInvalid, s)
}

// Revoke revokes a token forever. Revoking it again is a repeat, which has no events. Errors: ErrUnknownToken.
func (t *Tokens) Revoke(id string) ([]eventschemas.Event, error) {
	known, ok := t.tokens[id]
	if !ok {
		return nil, ErrUnknownToken
	}
	if known.revoked {
		return nil, nil
	}
	return []eventschemas.Event{eventschemas.OperatorTokenRevoked{TokenID: id}}, nil
}
