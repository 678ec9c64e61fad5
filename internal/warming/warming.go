// Package warming stores the list of domains that an operator has crawled in the background, and how far it is. The
// tables are no read models and not in backups: after a loss the operator sends the list again, and domains with a fresh
// record are skipped.
package warming

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/sqlstore"
)

// MaxDomains limits a list.
const MaxDomains = 100_000

// Errors about lists.
var (
	ErrRunning = errors.New("another list is being warmed; wait for its end, or cancel it")
	ErrNone    = errors.New("no list is being warmed")
)

// States of a list. The third one is cancelled.
const (
	Running = "running"
	Done    = "done"
)

const (
	create = `
CREATE TABLE IF NOT EXISTS warming (
	slot     BIGINT NOT NULL PRIMARY KEY,
	id       TEXT   NOT NULL,
	state    TEXT   NOT NULL,
	progress TEXT   NOT NULL
)`
	// The domains are apart, because SQLite writes whole rows.
	createDomains = `CREATE TABLE IF NOT EXISTS warming_domains (id TEXT NOT NULL PRIMARY KEY, domains TEXT NOT NULL)`
	// There is one row, so two nodes cannot begin two lists.
	begin = `INSERT INTO warming (slot, id, state, progress) VALUES (1, $1, 'running', $2)
ON CONFLICT (slot) DO UPDATE SET id = excluded.id, state = excluded.state, progress = excluded.progress
WHERE warming.state <> 'running' AND warming.id <> excluded.id`
	clear  = `DELETE FROM warming_domains WHERE id NOT IN (SELECT id FROM warming)`
	fill   = `INSERT INTO warming_domains (id, domains) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`
	last   = `SELECT state, progress FROM warming`
	list   = `SELECT domains FROM warming_domains WHERE id = $1`
	save   = `UPDATE warming SET state = $2, progress = $3 WHERE id = $1 AND state = 'running'`
	cancel = `UPDATE warming SET state = 'cancelled' WHERE state = 'running'`
)

// List is the progress of a list.
type List struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`
	StartedAt time.Time `json:"started_at"`
	ChangedAt time.Time `json:"changed_at"` // of the last save
	Accepted  int       `json:"accepted"`   // domains of the list
	Examined  int       `json:"examined"`
	Rechecked int       `json:"rechecked"` // domains that were examined a second time, at the end
	Requested int       `json:"requested"` // crawls
	Fresh     int       `json:"fresh"`     // domains with a fresh record
	Skipped   int       `json:"skipped"`   // domains that may not be crawled now
	Repeated  int       `json:"repeated"`  // crawls that the second examination requested
}

// CrawlID returns the id of the crawl of a domain, which is the same after a restart.
func (l *List) CrawlID(domain string, second bool) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "urn:letterhead:warm/%s/%t/%s", l.ID, second, domain)).String()
}

// Table stores the last list. It is safe for concurrent use. Its methods return the errors of the database.
type Table struct{ store *sqlstore.Store }

// New creates the tables if they are missing.
func New(ctx context.Context, store *sqlstore.Store) (*Table, error) {
	return &Table{store}, store.Create(ctx, create, createDomains)
}

// Begin begins a list, unless the last one has its id. Errors: ErrRunning.
func (t *Table) Begin(ctx context.Context, id string, domains []string, now time.Time) (List, error) {
	first, err := json.Marshal(List{ID: id, StartedAt: now.UTC(), ChangedAt: now.UTC(), Accepted: len(domains)})
	if err != nil {
		return List{}, err
	}
	err = t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		if done, err := tx.ExecContext(ctx, begin, id, string(first)); err != nil {
			return err
		} else if n, err := done.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if _, err := tx.ExecContext(ctx, clear); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fill, id, strings.Join(domains, "\n"))
		return err
	})
	if err != nil {
		return List{}, fmt.Errorf("begin to warm a list: %w", err)
	}
	l, err := t.Last(ctx)
	if err == nil && l.ID != id {
		err = ErrRunning
	}
	return l, err
}

// Last returns the last list. Errors: ErrNone.
func (t *Table) Last(ctx context.Context) (l List, err error) {
	var state, progress string
	if err = t.read(ctx, []any{&state, &progress}, last); err == nil {
		err = json.Unmarshal([]byte(progress), &l)
	}
	l.State = state
	return l, err
}

// Domains returns the domains of a list. Errors: ErrNone if another list has begun.
func (t *Table) Domains(ctx context.Context, id string) ([]string, error) {
	var domains string
	err := t.read(ctx, []any{&domains}, list, id)
	return strings.Split(domains, "\n"), err
}

func (t *Table) read(ctx context.Context, into []any, query string, args ...any) error {
	err := t.store.Read().QueryRowContext(ctx, query, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNone
	}
	return sqlstore.Classify(err)
}

// Save saves the progress of a running list. Errors: ErrNone if it was cancelled.
func (t *Table) Save(ctx context.Context, l List) error {
	progress, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return t.change(ctx, save, l.ID, l.State, string(progress))
}

// Cancel ends the running list. Crawls that were requested go on. Errors: ErrNone.
func (t *Table) Cancel(ctx context.Context) error { return t.change(ctx, cancel) }

func (t *Table) change(ctx context.Context, statement string, args ...any) error {
	return t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		done, err := tx.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
		return ErrNone
	})
}
