// Package operators is the read model of the tokens with which operators use the admin API.
package operators

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "operators"
	// keptRows limits the rows that the fold keeps between batches.
	keptRows = 100
)

// ErrNotFound means that there is no such token.
var ErrNotFound = errors.New("no such token")

var table = projections.Keyed[string, Token]{
	Name: "tokens",
	Key:  projections.TextKey("id"),
	Columns: []projections.Column[Token]{
		projections.Text("hash", func(t *Token) *string { return &t.hash }),
		projections.Text("last4", func(t *Token) *string { return &t.Last4 }),
		projections.Text("scope", func(t *Token) *operator.Scope { return &t.Scope }),
		projections.Time("issued_at", func(t *Token) *time.Time { return &t.IssuedAt }),
		projections.Text("issued_by", func(t *Token) *string { return &t.IssuedBy }),
		projections.TimeOrNull("expires_at", func(t *Token) *time.Time { return &t.ExpiresAt }),
		projections.TimeOrNull("revoked_at", func(t *Token) *time.Time { return &t.RevokedAt }),
		projections.Text("revoked_by", func(t *Token) *string { return &t.RevokedBy }),
	},
	Indexes: []projections.Index{{Name: "by_hash", On: "(hash)"}},
	Compare: strings.Compare,
	Found:   func(id string, t *Token) { t.ID = id },
}

// Token is a token, without its text. Its name is in the table of names, under its id.
type Token struct {
	ID        string
	Last4     string
	Scope     operator.Scope
	IssuedAt  time.Time
	IssuedBy  string    // actor
	ExpiresAt time.Time // zero if it does not expire
	RevokedAt time.Time // zero if it is not revoked
	RevokedBy string    // actor

	hash string
}

// State is the state of a token.
type State string

// States of tokens. Ended are the expired and the revoked ones.
const (
	Active  State = "active"
	Expired State = "expired"
	Revoked State = "revoked"
	Ended   State = "ended"
)

// State returns the state at a time: Active, Expired or Revoked.
func (t *Token) State(at time.Time) State {
	switch {
	case !t.RevokedAt.IsZero():
		return Revoked
	case !t.ExpiresAt.IsZero() && !at.Before(t.ExpiresAt):
		return Expired
	}
	return Active
}

// Valid reports whether the token is accepted at a time.
func (t *Token) Valid(at time.Time) bool { return t.State(at) == Active }

// Model is the read model.
type Model struct{ projections.Opened }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.Opened{Model: projections.NewModel(Name, store, projections.Version{
		Number:  1,
		Streams: []string{eventschemas.OperatorsStream},
		Tables:  []projections.Table{table.Table()},
		Strict:  true,
		NewFold: table.Fold(keptRows, projections.Keys(revoked), fold),
	})}}
}

// ByHash returns the token with a hash, revoked or not. It reads the row each time, from current tables. Errors:
// ErrNotFound, projections.ErrNotReady, projections.ErrRetired, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) ByHash(ctx context.Context, hash [sha256.Size]byte) (*Token, error) {
	text := hex.EncodeToString(hash[:])
	var found *Token
	err := m.Current(ctx, func(q projections.Queryer, t *projections.Tables) error {
		found = nil // drops the row of an earlier attempt
		return table.Each(ctx, q, t, func(_ string, token Token) {
			if subtle.ConstantTimeCompare([]byte(token.hash), []byte(text)) == 1 {
				found = &token
			}
		}, "WHERE hash = $1", text)
	})
	if err != nil {
		return nil, fmt.Errorf("get a token: %w", err)
	}
	if found == nil {
		return nil, ErrNotFound
	}
	return found, nil
}

// Get returns the token with an id, revoked or not. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable,
// ctx.Err().
func (m *Model) Get(ctx context.Context, id string) (t Token, found bool, err error) {
	t, found, err = table.Get(ctx, m.Handle(), id)
	return t, found, sqlstore.Wrap(err, "get token %s", id)
}

// Selection selects tokens. Empty fields select all.
type Selection struct {
	Scope operator.Scope // empty for all
	State State
	At    time.Time // of State
	// Before is the id of a token, which selects those that were issued before it.
	Before string
}

// List returns the selected tokens, at most limit, the newest first. Errors: ErrNotFound if there is no token Before,
// projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) List(ctx context.Context, s Selection, limit int) ([]Token, error) {
	where, args := []string{"TRUE"}, []any(nil)
	switch at := s.At.UnixMicro(); s.State {
	case Active:
		where = append(where, "revoked_at IS NULL", fmt.Sprintf("(expires_at IS NULL OR expires_at > %d)", at))
	case Expired:
		where = append(where, "revoked_at IS NULL", fmt.Sprintf("expires_at <= %d", at))
	case Revoked:
		where = append(where, "revoked_at IS NOT NULL")
	case Ended:
		where = append(where, fmt.Sprintf("(revoked_at IS NOT NULL OR expires_at <= %d)", at))
	}
	if s.Scope != "" {
		where, args = append(where, fmt.Sprintf("scope = $%d", len(args)+1)), append(args, string(s.Scope))
	}
	if s.Before != "" {
		before, found, err := m.Get(ctx, s.Before)
		if err != nil || !found {
			return nil, cmp.Or(err, ErrNotFound)
		}
		where, args = append(where, fmt.Sprintf("(issued_at, id) < ($%d, $%d)", len(args)+1, len(args)+2)), append(args,
			before.IssuedAt.UnixMicro(), before.ID)
	}
	all, err := table.List(ctx, m.Handle(),
		fmt.Sprintf("WHERE %s ORDER BY issued_at DESC, id DESC LIMIT %d", strings.Join(where, " AND "), max(limit, 0)),
		args...)
	return all, sqlstore.Wrap(err, "list tokens")
}

// revoked returns the token that an event revokes.
func revoked(e *projections.Event) (id string, ok bool) {
	ev, ok := e.Body.(eventschemas.OperatorTokenRevoked)
	return ev.TokenID, ok
}

func fold(rows *projections.Rows[string, Token], e *projections.Event) error {
	switch ev := e.Body.(type) {
	case eventschemas.OperatorTokenIssued:
		t := Token{ID: ev.TokenID, Last4: ev.Last4, Scope: operator.Scope(ev.Scope), IssuedAt: e.OccurredAt,
			IssuedBy: e.Metadata.Actor, hash: ev.Hash}
		if ev.ExpiresAt != nil {
			t.ExpiresAt = ev.ExpiresAt.UTC()
		}
		*rows.Change(ev.TokenID) = t
	case eventschemas.OperatorTokenRevoked:
		t := rows.Change(ev.TokenID)
		t.RevokedAt, t.RevokedBy = e.OccurredAt, e.Metadata.Actor
	}
	return nil
}
