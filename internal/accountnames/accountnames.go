// Package accountnames stores the names of account holders, of keys and of operators, the destinations of notices, and
// the addresses for sign-in links, which are the only personal data in the service. They are not in the event log
// because events are never rewritten, while personal data must be erasable. Events carry an opaque id, and this table
// maps it to a name until the name is erased.
//
// The table is not a read model. It cannot be rebuilt from the log, so it is written durably, is part of
// backups, and is never touched by a rebuild. An index of the words of names answers Search. Each row has a checksum,
// and a row that fails it is not used: Names, WithName, Emails and Search leave it out, and Put replaces it.
package accountnames

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
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
	create      = `CREATE TABLE IF NOT EXISTS holders (id TEXT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum BIGINT)`
	createNames = `CREATE INDEX IF NOT EXISTS holders_name ON holders (name)`
	// An expression finds ids by their beginning in every collation of PostgreSQL. The numbers are the lengths of
	// EmailPrefix, and of it and an account's id.
	createEmails = `CREATE INDEX IF NOT EXISTS holders_emails ON holders (substr(id, 1, 50)) WHERE substr(id, 1, 14) = '` + EmailPrefix + `'`
)

const (
	columns = `holders (id, name, checksum, indexed)`
	replace = `ON CONFLICT (id) DO UPDATE SET name = excluded.name, checksum = excluded.checksum, indexed = excluded.indexed`
	erase   = `DELETE FROM holders WHERE id = CAST($1 AS TEXT)`
	page    = `WHERE id > CAST($1 AS TEXT) ORDER BY id LIMIT $2`
	emails  = `WHERE substr(id, 1, 50) = $1 AND substr(id, 1, 14) = '` + EmailPrefix + `' ORDER BY id LIMIT $2`
	named   = `WHERE name = $1 AND id LIKE $2 ORDER BY id LIMIT $3`
)

// Entry is one row: a name and its id in events. PutAll computes the checksum if it is 0.
type Entry struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Checksum is copied with the row, so that the copy of a damaged row is damaged. It is 0 if the row has none yet.
	Checksum int64 `json:"checksum,omitempty"`
}

func (e Entry) validate() error {
	return errors.Join(validate("id", e.ID, MaxIDBytes), validate("name", e.Name, MaxNameBytes))
}

// Table stores the entries. It is safe for concurrent use.
type Table struct {
	store  *sqlstore.Store
	logger *slog.Logger

	mu      sync.Mutex
	damaged map[string]struct{} // by id
}

// New creates the table if it is missing.
func New(ctx context.Context, store *sqlstore.Store) (*Table, error) {
	t := &Table{store: store, logger: slog.New(slog.DiscardHandler), damaged: map[string]struct{}{}}
	err := store.Setup(ctx, func(tx *sqlstore.Tx) error {
		if err := tx.Create(ctx, create); err != nil {
			return err
		}
		if err := tx.AddColumn(ctx, "holders", "indexed", "BIGINT"); err != nil { // release 0.1.0 lacks it
			return err
		}
		return tx.Create(ctx, createNames, createEmails, createWords, createWordIDs, createUnindexed)
	})
	if err != nil {
		return nil, fmt.Errorf("create the table of holders: %w", err)
	}
	return t, nil
}

// Put sets the name for an id, durably. Errors: ErrInvalid, sqlstore.ErrUnavailable, sqlstore.ErrClosed, ctx.Err().
func (t *Table) Put(ctx context.Context, id, name string) error {
	return t.PutAll(ctx, []Entry{{ID: id, Name: name}})
}

// PutAll is Put for at most MaxPage holders with distinct ids: all of them, or none. Rows keep the checksums of the
// entries, so that copies of damaged rows are damaged. Errors: as Put.
func (t *Table) PutAll(ctx context.Context, all []Entry) error {
	if len(all) > MaxPage {
		return fmt.Errorf("put %d holders: %w: at most %d", len(all), ErrInvalid, MaxPage)
	}
	rows := slices.Clone(all)
	values := make([]any, 0, 4*len(all))
	seen := make(map[string]struct{}, len(all))
	for i := range rows {
		one := &rows[i]
		if one.Damaged() { // its checksum fails with these replacements, too
			one.ID, one.Name = sqlstore.Storable(one.ID), sqlstore.Storable(one.Name)
		}
		if err := one.validate(); err != nil {
			return fmt.Errorf("put %d holders: %w", len(all), err)
		}
		seen[one.ID] = struct{}{}
		if one.Checksum == uncounted {
			one.Checksum = checksum(one.ID, one.Name)
		}
		values = append(values, one.ID, one.Name, one.Checksum, one.Checksum)
	}
	if len(seen) < len(all) {
		return fmt.Errorf("put %d holders: %w: an id is repeated", len(all), ErrInvalid)
	}
	err := t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		if err := sqlstore.Insert(ctx, tx, columns, 4, replace, values); err != nil {
			return err
		}
		return writeWords(ctx, tx, rows)
	})
	if err != nil {
		return fmt.Errorf("put %d holders: %w", len(all), err)
	}
	for id := range seen {
		t.repaired(id)
	}
	return nil
}

// Page returns at most limit holders, in the database's order of ids. after is the last id of the previous
// page, or "" for the first page. The page after the last holder is empty. A holder that exists during the
// whole listing is returned exactly once, also one that is damaged. Errors: ErrInvalid (limit is not between 1 and
// MaxPage), sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) Page(ctx context.Context, after string, limit int) ([]Entry, error) {
	if limit < 1 || limit > MaxPage {
		return nil, fmt.Errorf("list holders: %w: limit %d is not between 1 and %d", ErrInvalid, limit, MaxPage)
	}
	return t.entries(ctx, "list holders", page, raw(after), limit)
}

// WithName returns the ids that have a name and begin with a prefix, at most MaxPage. The prefix must have neither %
// nor _.
// Errors: sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) WithName(ctx context.Context, name, prefix string) ([]string, error) {
	found, err := t.entries(ctx, "find a name of holders", named, name, prefix+"%", MaxPage)
	return idsOf(t.used(found)), err
}

// Emails returns the e-mail addresses of an account's people, whose ids begin with EmailPrefix and the account's id, at
// most MaxPage. Errors: sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) Emails(ctx context.Context, accountID string) ([]Entry, error) {
	found, err := t.emailRows(ctx, accountID)
	found = t.used(found)
	for i := range found {
		found[i].Checksum = uncounted
	}
	return found, err
}

// EmailIDs returns the ids of the rows that Emails reads, also of damaged ones, so that they can be erased. Errors: as
// Emails.
func (t *Table) EmailIDs(ctx context.Context, accountID string) ([]string, error) {
	found, err := t.emailRows(ctx, accountID)
	return idsOf(found), err
}

func (t *Table) emailRows(ctx context.Context, accountID string) ([]Entry, error) {
	return t.entries(ctx, "find e-mail addresses", emails, EmailPrefix+accountID, MaxPage)
}

func idsOf(all []Entry) []string {
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids
}

// entries returns the rows that a condition selects, or an error that begins with what was attempted.
func (t *Table) entries(ctx context.Context, attempt, condition string, args ...any) ([]Entry, error) {
	found, err := entriesOf(ctx, t.store.Read(), condition, args...)
	return found, sqlstore.Wrap(sqlstore.Classify(err), "%s", attempt)
}

func entriesOf(ctx context.Context, q sqlstore.Queryer, condition string, args ...any) ([]Entry, error) {
	return sqlstore.AllRows(ctx, q, "SELECT id, name, COALESCE(NULLIF(checksum, 0), -1) FROM holders "+condition,
		func(e *Entry, row sqlstore.Scanner) error { return row.Scan(&e.ID, &e.Name, &e.Checksum) }, args...)
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

// Names returns the names for the ids; ids that were never put, were erased or are damaged, are not in the map.
// Errors: sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, ctx.Err().
func (t *Table) Names(ctx context.Context, ids ...string) (map[string]string, error) {
	stored, err := t.stored(ctx, ids)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(ids))
	for _, e := range t.used(stored) {
		names[e.ID] = e.Name
	}
	return names, nil
}

// NamesOf returns the names of the ids that rows have; a row may have none. Errors: as Names.
func NamesOf[T any](ctx context.Context, t *Table, rows []T, id func(*T) string) (map[string]string, error) {
	var ids []string
	for i := range rows {
		if of := id(&rows[i]); of != "" {
			ids = append(ids, of)
		}
	}
	return t.Names(ctx, ids...)
}

// Stored returns the ids that have a row, even if it is damaged. Errors: as Names.
func (t *Table) Stored(ctx context.Context, ids ...string) ([]string, error) {
	stored, err := t.stored(ctx, ids)
	return idsOf(stored), err
}

func (t *Table) stored(ctx context.Context, ids []string) (all []Entry, err error) {
	for part := range slices.Chunk(ids, namesPerQuery) {
		found, err := t.entries(ctx, "read the names of holders", "WHERE id IN "+sqlstore.In(1, len(part)),
			arguments(part)...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func arguments(ids []string) []any {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return args
}

// Erase deletes the name for an id, and its words in the index, forever. Erasing a missing id is not an error. Earlier
// backups keep the name until they are deleted.
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
		for _, statement := range []string{eraseWords, erase} {
			if _, err := tx.ExecContext(ctx, statement, raw(id)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("erase holder %s: %w", id, err)
	}
	t.repaired(id)
	if err := t.store.Truncate(ctx); err != nil {
		return fmt.Errorf("erase holder %s: the row is deleted, but its bytes are still in the file: %w", id, err)
	}
	return nil
}

const (
	// checkEvery is the pause between two checks of all rows.
	checkEvery = 10 * time.Minute
	// maxDamaged limits the ids of damaged rows that are remembered.
	maxDamaged = MaxPage
)

// Checksums of a row that checksum does not compute.
const (
	uncounted = 0  // of an entry to be written: it is computed
	missing   = -1 // of a row that lacks one
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a row: the CRC-32C of the table's name, the id and the name, each with its length,
// plus one. It detects a changed id or name, also if the checksums of two rows were exchanged, but no forgery.
func checksum(id, name string) int64 {
	var text []byte
	for _, part := range []string{"holders", id, name} {
		text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
	}
	return 1 + int64(crc32.Checksum(text, castagnoli))
}

// raw returns the argument of CAST($1 AS TEXT) for an id that was read. Only SQLite returns a damaged one that is not
// UTF-8, and it would replace the bytes of a text that is not.
func raw(id string) any {
	if utf8.ValidString(id) {
		return id
	}
	return []byte(id)
}

// Damaged reports whether an entry that was read fails its checksum.
func (e Entry) Damaged() bool { return e.Checksum != uncounted && e.Checksum != checksum(e.ID, e.Name) }

// used removes the damaged entries, and reports them.
func (t *Table) used(all []Entry) []Entry {
	return slices.DeleteFunc(all, func(e Entry) bool {
		if e.Damaged() {
			t.report(e.ID)
		}
		return e.Damaged()
	})
}

// report remembers a damaged row, and logs it unless it was reported since it was last written.
func (t *Table) report(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.damaged[id]; known || len(t.damaged) >= maxDamaged {
		return
	}
	t.damaged[id] = struct{}{}
	t.logger.Error("a row of the table of holders fails its checksum and is not used; "+
		"\"letterhead names\" lists such rows and what to do", "id", id)
}

func (t *Table) repaired(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.damaged, id)
}

// Observe reports damaged rows in a log and in a metric, both of which may be nil. It must be called before the first
// row is read.
func (t *Table) Observe(logger *slog.Logger, metrics prometheus.Registerer) error {
	if logger != nil {
		t.logger = logger
	}
	return telemetry.Register(metrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "letterhead_holders_damaged",
		Help: "Rows of the table of holders that fail their checksum and are not used, by the reads and the last " +
			"check of this process.",
	}, func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(len(t.damaged))
	}))
}

// Check reads all rows, and returns how many there are and the ids of the damaged ones, at most MaxPage. Errors: as
// Names.
func (t *Table) Check(ctx context.Context) (rows int, damaged []string, err error) {
	found := map[string]struct{}{}
	for after := ""; ; {
		all, err := t.Page(ctx, after, MaxPage)
		if err != nil {
			return rows, damaged, err
		}
		if len(all) == 0 {
			break
		}
		after = all[len(all)-1].ID
		rows += len(all)
		for _, e := range all {
			if e.Damaged() && len(damaged) < maxDamaged {
				t.report(e.ID)
				found[e.ID] = struct{}{}
				damaged = append(damaged, e.ID)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damaged = found // without those that another process has repaired
	return rows, damaged, nil
}

// Watch checks all rows every ten minutes until ctx ends, and indexes those that an earlier release wrote, on one node
// at a time. It then returns nil.
func (t *Table) Watch(ctx context.Context) error {
	for {
		_, _, err := t.Check(ctx)
		all, failed := t.indexed(ctx)
		if err = errors.Join(err, failed); err == nil && !all {
			err = t.store.Lead(ctx, "names", t.index)
		}
		if err != nil && ctx.Err() == nil {
			t.logger.Warn("checking or indexing the table of holders failed; will retry", "error", err, "pause", checkEvery)
		}
		if delay.For(ctx, checkEvery) != nil {
			return nil
		}
	}
}
