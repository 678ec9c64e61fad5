// Package operator decides about the tokens with which operators use the admin API. Tokens are kept as hashes; their
// names are not in events, because a name may be that of a person.
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

// MaxTokens limits the tokens that are not revoked.
const MaxTokens = 1000

// Errors of decisions. A rejected command results in no event.
var (
	// ErrInvalid means that the command is malformed.
	ErrInvalid = errors.New("invalid token")
	// ErrUnknownToken means that no token with this id was ever issued.
	ErrUnknownToken = errors.New("no such token")
	// ErrTokenExists means that the token id belongs to another token.
	ErrTokenExists = errors.New("token id is in use for another token")
	// ErrTooManyTokens means that MaxTokens are not revoked.
	ErrTooManyTokens = errors.New("too many tokens")
)

type token struct {
	hash    string
	revoked bool
}

// Tokens is the state of the stream of operators.
type Tokens struct {
	events uint64
	valid  int
	tokens map[string]token
}

// New returns the state before the first event.
func New() *Tokens { return &Tokens{tokens: map[string]token{}} }

// Events returns the number of events that were applied.
func (t *Tokens) Events() uint64 { return t.events }

// Apply applies an event of the stream.
func (t *Tokens) Apply(ev eventschemas.Event) {
	t.events++
	switch ev := ev.(type) {
	case eventschemas.OperatorTokenIssued:
		t.tokens[ev.TokenID] = token{hash: ev.Hash}
		t.valid++
	case eventschemas.OperatorTokenRevoked:
		known := t.tokens[ev.TokenID]
		known.revoked = true
		t.tokens[ev.TokenID] = known
		t.valid--
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
		return nil, fmt.Errorf("%w: the scope is read, support, finance or admin, not %q", ErrInvalid, in.Scope)
	case !in.ExpiresAt.IsZero() && !in.ExpiresAt.After(in.Now):
		return nil, fmt.Errorf("%w: it would expire at %s, which is in the past", ErrInvalid, in.ExpiresAt.UTC().Format(time.RFC3339))
	}
	if known, ok := t.tokens[in.TokenID]; ok {
		if known.hash != in.Hash {
			return nil, ErrTokenExists
		}
		return nil, nil
	}
	if t.valid >= MaxTokens {
		return nil, fmt.Errorf("%w: %d are not revoked; revoke those that are not used", ErrTooManyTokens, t.valid)
	}
	issued := eventschemas.OperatorTokenIssued{TokenID: in.TokenID, Hash: in.Hash, Last4: in.Last4, Scope: string(in.Scope)}
	if !in.ExpiresAt.IsZero() {
		at := in.ExpiresAt.UTC().Truncate(time.Microsecond)
		issued.ExpiresAt = &at
	}
	return []eventschemas.Event{issued}, nil
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
