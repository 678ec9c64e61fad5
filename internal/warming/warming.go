// Package warming stores the list of domains that an operator has crawled in the background, and how far it is. The
// tables are no read models and not in backups: whoever lost them sends the list again, and what was crawled is skipped.
package warming

import (
	"context"
	"database/sql"
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

// States of a list.
const (
	Running   = "running"
	Done      = "done"
	Cancelled = "cancelled"
)

const (
	create = `
CREATE TABLE IF NOT EXISTS warming (
	slot      BIGINT NOT NULL PRIMARY KEY,
	id        TEXT   NOT NULL,
	state     TEXT   NOT NULL,
	started   BIGINT NOT NULL,
	changed   BIGINT NOT NULL,
	total     BIGINT NOT NULL,
	next      BIGINT NOT NULL,
	requested BIGINT NOT NULL,
	fresh     BIGINT NOT NULL,
	skipped   BIGINT NOT NULL,
	repeated  BIGINT NOT NULL
)`
	// The domains are apart, because SQLite writes whole rows.
	createDomains = `
CREATE TABLE IF NOT EXISTS warming_domains (
	id      TEXT NOT NULL PRIMARY KEY,
	domains TEXT NOT NULL
)`
	columns = `id, state, started, changed, total, next, requested, fresh, skipped, repeated`
	// There is one row, so two nodes cannot begin two lists.
	begin = `INSERT INTO warming (slot, ` + columns + `) VALUES (1, $1, 'running', $2, $2, $3, 0, 0, 0, 0, 0)
ON CONFLICT (slot) DO UPDATE SET id = excluded.id, state = excluded.state, started = excluded.started,
	changed = excluded.changed, total = excluded.total, next = 0, requested = 0, fresh = 0, skipped = 0, repeated = 0
WHERE warming.state <> 'running' AND warming.id <> excluded.id`
	clear  = `DELETE FROM warming_domains`
	fill   = `INSERT INTO warming_domains (id, domains) VALUES ($1, $2)`
	read   = `SELECT ` + columns + ` FROM warming`
	list   = `SELECT domains FROM warming_domains WHERE id = $1`
	save   = `UPDATE warming SET state = $2, changed = $3, next = $4, requested = $5, fresh = $6, skipped = $7, repeated = $8 WHERE id = $1 AND state = 'running'`
	cancel = `UPDATE warming SET state = 'cancelled', changed = $1 WHERE state = 'running'`
)

// List is the progress of a list. Times are whole microseconds.
type List struct {
	ID        string
	State     string
	StartedAt time.Time
	ChangedAt time.Time // of the last save
	Total     int
	// Next is the index of the next domain. The domains are examined a second time, from Total on.
	Next      int
	Requested int // crawls
	Fresh     int // domains with a fresh record
	Skipped   int // domains that may not be crawled now
	Repeated  int // crawls that the second examination requested
}

// CrawlID returns the id of the crawl of a domain, which is the same after a restart.
func (l *List) CrawlID(domain string, second bool) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "urn:letterhead:warm/%s/%t/%s", l.ID, second, domain)).String()
}

// Table stores the last list. It is safe for concurrent use.
type Table struct{ store *sqlstore.Store }

// New creates the tables if they are missing.
func New(ctx context.Context, store *sqlstore.Store) (*Table, error) {
	err := store.Setup(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, store.DDL(create))
		if err == nil {
			_, err = tx.ExecContext(ctx, store.DDL(createDomains))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create the tables of warming: %w", err)
	}
	return &Table{store: store}, nil
}

// Begin begins a list, or returns the one with this id that was begun. Errors: ErrRunning, sqlstore.ErrUnavailable,
// sqlstore.ErrClosed, ctx.Err().
func (t *Table) Begin(ctx context.Context, id string, domains []string, now time.Time) (l List, err error) {
	err = t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		done, err := tx.ExecContext(ctx, begin, id, now.UnixMicro(), len(domains))
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			if err == nil {
				_, err = tx.ExecContext(ctx, clear)
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, fill, id, strings.Join(domains, "\n"))
			}
			if err != nil {
				return err
			}
		}
		l, err = scan(tx.QueryRowContext(ctx, read))
		return err
	})
	if err != nil {
		return List{}, fmt.Errorf("begin to warm a list: %w", err)
	}
	if l.ID != id {
		return List{}, ErrRunning
	}
	return l, nil
}

// Last returns the last list. Errors: ErrNone, and those of Begin.
func (t *Table) Last(ctx context.Context) (List, error) {
	l, err := scan(t.store.Read().QueryRowContext(ctx, read))
	if errors.Is(err, sql.ErrNoRows) {
		return List{}, ErrNone
	}
	if err != nil {
		return List{}, fmt.Errorf("read how far warming is: %w", sqlstore.Classify(err))
	}
	return l, nil
}

func scan(row *sql.Row) (l List, err error) {
	var started, changed int64
	err = row.Scan(&l.ID, &l.State, &started, &changed, &l.Total, &l.Next, &l.Requested, &l.Fresh, &l.Skipped, &l.Repeated)
	l.StartedAt, l.ChangedAt = time.UnixMicro(started).UTC(), time.UnixMicro(changed).UTC()
	return l, err
}

// Domains returns the domains of a list. Errors: as Last; ErrNone if another list has begun.
func (t *Table) Domains(ctx context.Context, id string) ([]string, error) {
	var domains string
	err := t.store.Read().QueryRowContext(ctx, list, id).Scan(&domains)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("read the list to warm: %w", sqlstore.Classify(err))
	}
	return strings.Split(domains, "\n"), nil
}

// Save saves the progress of a running list. Errors: as Last; ErrNone if it was cancelled.
func (t *Table) Save(ctx context.Context, l List) error {
	return t.change(ctx, save, l.ID, l.State, l.ChangedAt.UnixMicro(), l.Next, l.Requested, l.Fresh, l.Skipped, l.Repeated)
}

// Cancel ends the running list. Crawls that were requested go on. Errors: as Last.
func (t *Table) Cancel(ctx context.Context, now time.Time) error {
	return t.change(ctx, cancel, now.UnixMicro())
}

func (t *Table) change(ctx context.Context, statement string, args ...any) error {
	var n int64
	err := t.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		done, err := tx.ExecContext(ctx, statement, args...)
		if err == nil {
			n, err = done.RowsAffected()
		}
		return err
	})
	if err == nil && n == 0 {
		return ErrNone
	}
	if err != nil {
		return fmt.Errorf("save how far warming is: %w", err)
	}
	return nil
}
