// Package operators is the read model of the tokens with which operators use the admin API.
package operators

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"letterhead/domain/operator"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name    = "operators"
	version = 1
	// keptRows limits the rows that the fold keeps between batches.
	keptRows = 100
)

// ErrNotFound means that there is no such token.
var ErrNotFound = errors.New("no such token")

// Times are microseconds since 1970.
const (
	create = `
CREATE TABLE {tokens} (
	id         TEXT   NOT NULL PRIMARY KEY,
	hash       TEXT   NOT NULL,
	last4      TEXT   NOT NULL,
	scope      TEXT   NOT NULL,
	issued_at  BIGINT NOT NULL,
	issued_by  TEXT   NOT NULL,
	expires_at BIGINT,
	revoked_at BIGINT,
	revoked_by TEXT   NOT NULL
)`
	indexHash = `CREATE INDEX IF NOT EXISTS {tokens}_by_hash ON {tokens} (hash)`
)

var table = projections.Keyed[string, Token]{
	Table:     projections.Table{Name: "tokens", Create: create, Indexes: []string{indexHash}, Key: []string{"id"}},
	Columns:   []string{"hash", "last4", "scope", "issued_at", "issued_by", "expires_at", "revoked_at", "revoked_by"},
	Compare:   strings.Compare,
	AppendKey: projections.AppendText,
	AppendRow: func(values []any, t *Token) []any {
		return append(values, t.hash, t.Last4, string(t.Scope), t.IssuedAt.UnixMicro(), t.IssuedBy, micros(t.ExpiresAt), micros(t.RevokedAt), t.RevokedBy)
	},
	Scan: func(row projections.Scanner, id *string, t *Token) error {
		var issued int64
		var expires, revoked sql.NullInt64
		err := row.Scan(id, &t.hash, &t.Last4, &t.Scope, &issued, &t.IssuedBy, &expires, &revoked, &t.RevokedBy)
		t.ID, t.IssuedAt, t.ExpiresAt, t.RevokedAt = *id, time.UnixMicro(issued).UTC(), timeOf(expires), timeOf(revoked)
		return err
	},
}

func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func timeOf(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return time.UnixMicro(micros.Int64).UTC()
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
type Model struct {
	handle *projections.Handle
	from   atomic.Uint64 // see Open
}

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{handle: projections.NewHandle(Name, store)}
}

// Name implements projections.Projection.
func (m *Model) Name() string { return Name }

// Handle implements projections.Projection.
func (m *Model) Handle() *projections.Handle { return m.handle }

// Versions implements projections.Projection.
func (m *Model) Versions() []projections.Version {
	return []projections.Version{{
		Number:     version,
		Categories: projections.Operators,
		Tables:     []projections.Table{table.Table},
		Strict:     true,
		NewFold: func(t *projections.Tables, empty bool) projections.Fold {
			return &fold{tables: t, rows: table.Rows(t, keptRows, empty)}
		},
	}}
}

// Open keeps ByHash from answering before the tables are folded up to a position: the head of the log when the node started.
// After a crash they may lack a revocation that was confirmed.
func (m *Model) Open(from eventlog.Position) { m.from.Store(uint64(from)) }

// ByHash returns the token with a hash, revoked or not. It reads the row, and that the tables are live, each time. So a
// revocation takes effect on every node as soon as it is folded. Errors: ErrNotFound, projections.ErrNotReady,
// projections.ErrRetired, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) ByHash(ctx context.Context, hash [sha256.Size]byte) (*Token, error) {
	text := hex.EncodeToString(hash[:])
	var found *Token
	err := m.handle.Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, at eventlog.Position) error {
		found = nil // drops the row of an earlier attempt
		if from := eventlog.Position(m.from.Load()); at < from {
			return fmt.Errorf("%s: before position %d: %w", Name, from, projections.ErrNotReady)
		}
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

// Get returns the token with an id, revoked or not. Errors: projections.ErrNotReady, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) Get(ctx context.Context, id string) (t Token, found bool, err error) {
	if t, found, err = table.Get(ctx, m.handle, id); err != nil {
		err = fmt.Errorf("get token %s: %w", id, err)
	}
	return t, found, err
}

// Selection selects tokens. Empty fields select all.
type Selection struct {
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
	if s.Before != "" {
		before, found, err := m.Get(ctx, s.Before)
		if err != nil || !found {
			return nil, cmp.Or(err, ErrNotFound)
		}
		where, args = append(where, "(issued_at, id) < ($1, $2)"), []any{before.IssuedAt.UnixMicro(), before.ID}
	}
	all, err := table.List(ctx, m.handle, fmt.Sprintf("WHERE %s ORDER BY issued_at DESC, id DESC LIMIT %d", strings.Join(where, " AND "), max(limit, 0)), args...)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return all, nil
}

type fold struct {
	tables *projections.Tables
	rows   *projections.Rows[string, Token]
}

// Fold implements projections.Fold.
func (f *fold) Fold(ctx context.Context, q projections.Queryer, events []*projections.Event) (projections.Changes, error) {
	var revoked []string
	for _, e := range events {
		if ev, ok := e.Body.(eventschemas.OperatorTokenRevoked); ok {
			revoked = append(revoked, ev.TokenID)
		}
	}
	if err := f.rows.Want(ctx, q, slices.Values(revoked)); err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		switch ev := e.Body.(type) {
		case eventschemas.OperatorTokenIssued:
			t := Token{ID: ev.TokenID, Last4: ev.Last4, Scope: operator.Scope(ev.Scope), IssuedAt: e.OccurredAt, IssuedBy: e.Metadata.Actor, hash: ev.Hash}
			if ev.ExpiresAt != nil {
				t.ExpiresAt = ev.ExpiresAt.UTC()
			}
			*f.rows.Change(ev.TokenID) = t
		case eventschemas.OperatorTokenRevoked:
			t := f.rows.Change(ev.TokenID)
			t.RevokedAt, t.RevokedBy = e.OccurredAt, e.Metadata.Actor
		}
	}
	return projections.Changes{Write: table.Take(f.tables, f.rows, nil)}, nil
}

// Reset implements projections.Fold.
func (f *fold) Reset() { f.rows.Reset() }
