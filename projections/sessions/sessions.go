// Package sessions is the read model of the open sessions of people who have signed in to their accounts.
package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"letterhead/domain/signin"
	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

const (
	// Name of the read model.
	Name = "sessions"
	// keptAccounts limits the accounts whose sessions, of about 300 bytes each, the fold keeps between batches.
	keptAccounts = 10_000
	// accountsPerStatement limits the accounts of one statement that deletes rows.
	accountsPerStatement = 500
)

// ErrNotFound means that there is no such session, or that it has ended.
var ErrNotFound = errors.New("no such session")

const deleteAccounts = `DELETE FROM {sessions} WHERE account IN `

// A session that was ended has no row. One that has expired may have one, until the next event of its account.
var table = projections.Keyed[key, row]{
	Name: "sessions",
	Key: []projections.Column[key]{
		projections.Text("account", func(k *key) *string { return &k.account }),
		projections.Text("id", func(k *key) *string { return &k.id }),
	},
	Columns: []projections.Column[row]{
		projections.Text("hash", func(s *row) *string { return &s.hash }),
		projections.Text("person", func(s *row) *string { return &s.Person }),
		projections.Time("started_at", func(s *row) *time.Time { return &s.StartedAt }),
		projections.Time("expires_at", func(s *row) *time.Time { return &s.ExpiresAt }),
	},
	Indexes: []projections.Index{{Name: "by_hash", On: "(hash)"}},
	Found:   func(k key, s *row) { s.AccountID, s.ID = k.account, k.id },
}

type key struct{ account, id string }

// row is a row of the table.
type row struct {
	signin.Session
	hash string
}

// Model is the read model.
type Model struct{ projections.Opened }

// New returns the read model; it answers once a Runner has started it.
func New(store *sqlstore.Store) *Model {
	return &Model{projections.Opened{Model: projections.NewModel(Name, store, projections.Version{
		Number:  1,
		Streams: []string{eventschemas.SignInsPrefix},
		Tables:  []projections.Table{table.Table()},
		Strict:  true,
		NewFold: newFold,
	})}}
}

// ByHash returns the open session whose token has a SHA-256. It reads the row each time, from current tables. Errors:
// ErrNotFound, projections.ErrNotReady, projections.ErrRetired, sqlstore.ErrUnavailable, ctx.Err().
func (m *Model) ByHash(ctx context.Context, hash [sha256.Size]byte, at time.Time) (*signin.Session, error) {
	var found *signin.Session
	err := m.Current(ctx, func(q projections.Queryer, t *projections.Tables) error {
		found = nil // drops the row of an earlier attempt
		return table.Each(ctx, q, t, func(_ key, s row) { found = &s.Session }, "WHERE hash = $1",
			hex.EncodeToString(hash[:]))
	})
	if err != nil {
		return nil, fmt.Errorf("get a session: %w", err)
	}
	if found == nil || !found.Open(at) {
		return nil, ErrNotFound
	}
	return found, nil
}

// List returns the open sessions of an account in the order of their beginning. Errors: as ByHash, but not ErrNotFound.
func (m *Model) List(ctx context.Context, accountID string, at time.Time) ([]signin.Session, error) {
	var all []signin.Session
	err := m.Handle().Snapshot(ctx, func(q projections.Queryer, t *projections.Tables, _ eventlog.Position) error {
		all = nil // drops rows of an earlier attempt
		return table.Each(ctx, q, t, func(_ key, s row) { all = append(all, s.Session) },
			"WHERE account = $1 AND expires_at > $2 ORDER BY started_at, id LIMIT $3", accountID, at.UnixMicro(),
			signin.MaxSessions)
	})
	return all, sqlstore.Wrap(err, "list the sessions of account %s", accountID)
}

// fold keeps the rows of an account together, because one event may end all of them.
type fold struct {
	tables   *projections.Tables
	accounts *projections.Rows[string, []row]
}

func newFold(t *projections.Tables, empty bool) projections.Fold {
	load := func(ctx context.Context, q projections.Queryer, accounts []string, found func(string, []row)) error {
		all := map[string][]row{}
		err := table.In(ctx, q, t, "account", projections.Texts(accounts),
			func(k key, s row) { all[k.account] = append(all[k.account], s) })
		for account, rows := range all {
			found(account, rows)
		}
		return err
	}
	return &fold{tables: t, accounts: projections.NewRows(keptAccounts, empty, strings.Compare, load)}
}

func (f *fold) Fold(ctx context.Context, q projections.Queryer,
	events []*projections.Event) (projections.Changes, error) {
	if err := f.accounts.Want(ctx, q, projections.Subjects(events)); err != nil {
		return projections.Changes{}, err
	}
	for _, e := range events {
		f.apply(e)
	}
	var changed []string
	insert := table.Insert(f.tables, 0, func(yield func(key, *row) bool) {
		f.accounts.Take(func(account string, sessions *[]row) {
			changed = append(changed, account)
			for i := range *sessions {
				yield(key{account, (*sessions)[i].ID}, &(*sessions)[i])
			}
		})
	})
	remove := func(ctx context.Context, tx *sqlstore.Tx) error {
		for part := range slices.Chunk(changed, accountsPerStatement) {
			if _, err := tx.ExecContext(ctx, f.tables.SQL(deleteAccounts)+sqlstore.In(1, len(part)),
				projections.Texts(part)...); err != nil {
				return fmt.Errorf("delete sessions: %w", err)
			}
		}
		return nil
	}
	return projections.Changes{Write: projections.Writing(remove, insert)}, nil
}

// apply applies an event. Its time, not a clock, decides which sessions have expired, so a replay gives the same rows.
func (f *fold) apply(e *projections.Event) {
	ended := func(s row) bool { return !s.Open(e.OccurredAt) }
	switch ev := e.Body.(type) {
	case eventschemas.SignedIn:
		sessions := f.accounts.Change(e.Subject)
		*sessions = append(slices.DeleteFunc(*sessions, ended), row{
			signin.Session{ID: ev.SessionID, AccountID: e.Subject, Person: ev.Person, StartedAt: e.OccurredAt,
				ExpiresAt: ev.ExpiresAt.UTC()}, ev.Hash,
		})
	case eventschemas.SignedOut:
		sessions := f.accounts.Change(e.Subject)
		*sessions = slices.DeleteFunc(*sessions, func(s row) bool { return s.ID == ev.SessionID || ended(s) })
	case eventschemas.SignedOutEverywhere:
		sessions := f.accounts.Change(e.Subject)
		*sessions = slices.DeleteFunc(*sessions,
			func(s row) bool { return ev.Person == "" || s.Person == ev.Person || ended(s) })
	}
}

func (f *fold) Reset() { f.accounts.Reset() }
