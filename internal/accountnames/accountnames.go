// Package accountnames stores the names of account holders, of keys and of operators, the destinations of notices, and the
// addresses for sign-in links, which are the only personal data in the service. They are not in the event log because
// events are never rewritten, while personal data must be erasable. Events carry an opaque id, and this table maps it to a
// name until the name is erased.
//
// The table is not a read model. It cannot be rebuilt from the log, so it is written durably, is part of
// backups, and is never touched by a rebuild.
package accountnames

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"letterhead/internal/sqlstore"
)

const (
	// MaxIDBytes limits an opaque id.
	MaxIDBytes = 200
	// MaxNameBytes limits a name.
	MaxNameBytes = 1000
	// namesPerQuery limits the ids in one statement.
	namesPerQuery = 500
	// EmailPrefix precedes the account's id in the ids of its people's e-mail addresses.
	EmailPrefix = "sign-in-email:"
	// MaxPage limits the holders of one Page, and of one PutAll.
	MaxPage = 1000
)

// ErrInvalid means that an id or a name is empty, too long, not UTF-8 or contains a NUL, or that a list of
// entries is too long or repeats an id. Nothing was written.
var ErrInvalid = errors.New("invalid holder")

const (
	create      = `CREATE TABLE IF NOT EXISTS holders (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL)`
	createNames = `CREATE INDEX IF NOT EXISTS holders_name ON holders (name)`
	// An expression finds ids by their beginning in every collation of PostgreSQL. The numbers are the lengths of
	// EmailPrefix, and of it and an account's id.
	createEmails = `CREATE INDEX IF NOT EXISTS holders_emails ON holders (substr(id, 1, 50)) WHERE substr(id, 1, 14) = '` + EmailPrefix + `'`
)

const (
	columns = `holders (id, name)`
	replace = `ON CONFLICT (id) DO UPDATE SET name = excluded.name`
	put     = `INSERT INTO ` + columns + ` VALUES ($1, $2) ` + replace
	page    = `SELECT id, name FROM holders WHERE id > $1 ORDER BY id LIMIT $2`
	emails  = `SELECT id, name FROM holders WHERE substr(id, 1, 50) = $1 AND substr(id, 1, 14) = '` + EmailPrefix + `' ORDER BY id LIMIT $2`
	named   = `SELECT id, name FROM holders WHERE name = $1 AND id LIKE $2 ORDER BY id LIMIT $3`
)

// Entry is one row: a name and its id in events.
type Entry struct{ ID, Name string }

func (e Entry) validate() error {
	return errors.Join(validate("id", e.ID, MaxIDBytes), validate("name", e.Name, MaxNameBytes))
}

// Table stores the entries. It is safe for concurrent use.
type Table struct{ store *sqlstore.Store }

// New creates the table if it is missing.
func New(ctx context.Context, store *sqlstore.Store) (*Table, error) {
	err := store.Setup(ctx, func(tx *sqlstore.Tx) error {
		for _, statement := range []string{create, createNames, createEmails} {
			if _, err := tx.ExecContext(ctx, store.DDL(statement)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("create the table of holders: %w", err)
	}
	return &Table{store: store}, nil
}

// Put sets the name for an id, durably. Errors: ErrInvalid, sqlstore.ErrUnavailable,
// sqlstore.ErrClosed, ctx.Err().
func (t *Table) Put(ctx context.Context, id, name string) error {
	if err := (Entry{id, name}).validate(); err != nil {
		return fmt.Errorf("put holder: %w", err)
	}
	err := t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, put, id, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("put holder %s: %w", id, err)
	}
	return nil
}

// PutAll is Put for at most MaxPage holders with distinct ids: all of them, or none. Errors: as Put.
func (t *Table) PutAll(ctx context.Context, all []Entry) error {
	if len(all) > MaxPage {
		return fmt.Errorf("put %d holders: %w: at most %d", len(all), ErrInvalid, MaxPage)
	}
	values := make([]any, 0, 2*len(all))
	seen := make(map[string]struct{}, len(all))
	for _, one := range all {
		if err := one.validate(); err != nil {
			return fmt.Errorf("put %d holders: %w", len(all), err)
		}
		seen[one.ID] = struct{}{}
		values = append(values, one.ID, one.Name)
	}
	if len(seen) < len(all) {
		return fmt.Errorf("put %d holders: %w: an id is repeated", len(all), ErrInvalid)
	}
	err := t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		return sqlstore.Insert(ctx, tx, columns, 2, replace, values)
	})
	if err != nil {
		return fmt.Errorf("put %d holders: %w", len(all), err)
	}
	return nil
}

// Page returns at most limit holders, in the database's order of ids. after is the last id of the previous
// page, or "" for the first page. The page after the last holder is empty. A holder that exists during the
// whole listing is returned exactly once. Errors: ErrInvalid (limit is not between 1 and MaxPage),
// sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) Page(ctx context.Context, after string, limit int) ([]Entry, error) {
	if limit < 1 || limit > MaxPage {
		return nil, fmt.Errorf("list holders: %w: limit %d is not between 1 and %d", ErrInvalid, limit, MaxPage)
	}
	found, err := t.entries(ctx, page, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list holders: %w", sqlstore.Classify(err))
	}
	return found, nil
}

// WithName returns the ids that have a name and begin with a prefix, at most MaxPage. The prefix must have neither % nor _.
// Errors: sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) WithName(ctx context.Context, name, prefix string) ([]string, error) {
	found, err := t.entries(ctx, named, name, prefix+"%", MaxPage)
	if err != nil {
		return nil, fmt.Errorf("find a name of holders: %w", sqlstore.Classify(err))
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	return ids, nil
}

// Emails returns the e-mail addresses of an account's people, whose ids begin with EmailPrefix and the account's id, at most
// MaxPage. Errors: sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) Emails(ctx context.Context, accountID string) ([]Entry, error) {
	found, err := t.entries(ctx, emails, EmailPrefix+accountID, MaxPage)
	if err != nil {
		return nil, fmt.Errorf("find e-mail addresses: %w", sqlstore.Classify(err))
	}
	return found, nil
}

func (t *Table) entries(ctx context.Context, query string, args ...any) ([]Entry, error) {
	rows, err := t.store.Read().QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []Entry
	for rows.Next() {
		var one Entry
		if err := rows.Scan(&one.ID, &one.Name); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

func validate(what, value string, limit int) error {
	switch {
	case strings.TrimSpace(value) == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	case len(value) > limit:
		return fmt.Errorf("%w: %s has %d bytes, more than %d", ErrInvalid, what, len(value), limit)
	case !utf8.ValidString(value) || strings.Contains(value, "\x00"):
		return fmt.Errorf("%w: %s is not UTF-8 or contains a NUL", ErrInvalid, what)
	}
	return nil
}

// Names returns the names for the ids; ids that were never put, or were erased, are not in the map.
// Errors: sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) Names(ctx context.Context, ids ...string) (map[string]string, error) {
	names := make(map[string]string, len(ids))
	for len(ids) > 0 {
		part := ids[:min(namesPerQuery, len(ids))]
		ids = ids[len(part):]
		if err := t.names(ctx, part, names); err != nil {
			return nil, fmt.Errorf("read the names of holders: %w", sqlstore.Classify(err))
		}
	}
	return names, nil
}

func (t *Table) names(ctx context.Context, ids []string, into map[string]string) error {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	rows, err := t.store.Read().QueryContext(ctx, "SELECT id, name FROM holders WHERE id IN "+sqlstore.In(1, len(ids)), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, name string
		if err := rows.Scan(&id, &name); err != nil {
			return err
		}
		into[id] = name
	}
	return rows.Err()
}

// Erase deletes the name for an id forever. Erasing a missing id is not an error. Earlier backups keep
// the name until they are deleted.
//
// SQLite overwrites the bytes in the database file and truncates the write-ahead log, which would otherwise
// still contain them. PostgreSQL deletes the row, so no session can read it; the bytes remain in the
// server's files until VACUUM and later rows overwrite them, and in its write-ahead log, archives and
// replicas for as long as the administrator keeps these.
//
// Errors: sqlstore.ErrUnavailable (also if the row was deleted but a reader prevented SQLite from truncating
// its log; then call Erase again), sqlstore.ErrClosed, ctx.Err().
func (t *Table) Erase(ctx context.Context, id string) error {
	err := t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM holders WHERE id = $1", id)
		return err
	})
	if err != nil {
		return fmt.Errorf("erase holder %s: %w", id, err)
	}
	if err := t.store.Truncate(ctx); err != nil {
		return fmt.Errorf("erase holder %s: the row is deleted, but its bytes are still in the file: %w", id, err)
	}
	return nil
}
