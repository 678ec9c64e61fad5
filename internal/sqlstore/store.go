package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"letterhead/internal/telemetry"
)

// Store is an open database. It is safe for concurrent use.
type Store struct {
	cfg     Config
	engine  engine
	metrics *metrics
	logID   atomic.Pointer[string] // see LogID

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// engine is implemented for files and for servers.
type engine interface {
	reader() *sql.DB
	normal(ctx context.Context, fn func(*Tx) error) error
	full(ctx context.Context, fn func(*Tx) error) error
	setup(ctx context.Context, fn func(*Tx) error) error
	snapshot(ctx context.Context) (*sql.Tx, error)
	one(ctx context.Context, query string, args, dest []any) error
	ddl(text string) string
	insert(ctx context.Context, tx *Tx, rows insertion) error
	tables(ctx context.Context, tx *Tx, prefix string) ([]string, error)
	truncate(ctx context.Context) error
	size(ctx context.Context, tables []string) (Size, error)
	reclaim(ctx context.Context) (bytes int64, err error)
	lead(ctx context.Context, name string, do func(ctx context.Context) error) error
	hold(ctx context.Context, name string, held func()) error
	close() error
}

// Open opens the database. It creates a missing SQLite file; a PostgreSQL database and its schema must exist. Errors:
// ErrCorrupt, ErrUnavailable, or those of Config.Validate.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration of the database: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, closing: make(chan struct{}), metrics: newMetrics()}
	var err error
	if cfg.URL != "" {
		s.engine, err = openPostgres(ctx, s)
	} else {
		s.engine, err = openSQLite(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	if err := s.learnLogID(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	// Last, so that a failed Open registers none.
	if err := telemetry.Register(cfg.Registerer, s.metrics.all...); err != nil {
		return nil, errors.Join(fmt.Errorf("register metrics of the database: %w", err), s.Close())
	}
	return s, nil
}

// Shared reports whether other processes may have the same database open: true on PostgreSQL.
func (s *Store) Shared() bool { return s.cfg.URL != "" }

// Alone reports whether a file was opened read-only without a write-ahead log, because there was none or it was empty.
// Such a file must not be written while it is read.
func (s *Store) Alone() bool {
	file, ok := s.engine.(*sqliteFile)
	return ok && file.alone
}

// Read returns the pool of read-only connections. Each statement sees the latest state that was committed when it
// began; use Snapshot for several statements on one state. Errors of its statements are not classified: see Classify.
func (s *Store) Read() *sql.DB { return s.engine.reader() }

// Snapshot begins a transaction that reads one state of the database, which its first statement sees. End it with
// Rollback, and soon: until then SQLite's write-ahead log cannot be emptied nor PostgreSQL's dead rows removed, and the
// server ends one that is idle for a minute. Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (s *Store) Snapshot(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.engine.snapshot(ctx)
	return tx, Wrap(s.classify(err), "begin reading")
}

// Write runs fn in a transaction and commits if fn returns nil. fn may run statements on tx only; it must not call
// Write or WriteDurable.
//
// On SQLite no other writer runs at the same time. ctx limits the wait for the writer slot; it does not interrupt the
// transaction, and fn runs once.
//
// On PostgreSQL several write at the same time (REPEATABLE READ): fn sees the state of its beginning. If another
// changed a row that fn changes, if two wait for each other, or if the connection is lost before COMMIT was sent,
// everything is rolled back and fn runs again, a limited number of times. So fn must rebuild its results in each run,
// and must not assume that rows stay as it read them: it must change the row that it decided on. ctx limits everything,
// including statements of fn with another context.
//
// Errors: ErrClosed, ErrUnavailable, ErrAmbiguous, ErrCorrupt, ctx.Err(), or what fn returned.
func (s *Store) Write(ctx context.Context, fn func(*Tx) error) error {
	return s.engine.normal(ctx, fn)
}

// WriteDurable is Write with the change on the disk when it returns. On PostgreSQL it is the same as Write: the
// server's synchronous_commit determines the durability of both.
func (s *Store) WriteDurable(ctx context.Context, fn func(*Tx) error) error {
	return s.engine.full(ctx, fn)
}

// Setup is WriteDurable for changes of the schema. On PostgreSQL nodes take turns, and each statement sees what was
// committed before it: otherwise two nodes that start at the same time and both run CREATE TABLE IF NOT EXISTS would
// collide. ctx and WriteTimeout limit the wait for the turn, BusyTimeout does not.
func (s *Store) Setup(ctx context.Context, fn func(*Tx) error) error {
	return s.engine.setup(ctx, fn)
}

// Create is Setup for Tx.Create.
func (s *Store) Create(ctx context.Context, statements ...string) error {
	return s.Setup(ctx, func(tx *Tx) error { return tx.Create(ctx, statements...) })
}

// One runs one statement that writes, as its own transaction in one round trip, and scans the row that it returns into
// dest. It is not retried. Errors: sql.ErrNoRows, the errors of Write; after ErrUnavailable it may have been executed
// on PostgreSQL.
func (s *Store) One(ctx context.Context, query string, args []any, dest ...any) error {
	return s.classify(s.engine.one(ctx, query, args, dest))
}

// Truncate, on SQLite, copies the write-ahead log into the database file and truncates it, so that it contains no old
// version of a row. It waits for readers up to the busy timeout. If one of them stays longer the error is
// ErrUnavailable, and later writes overwrite the log.
//
// On PostgreSQL it does nothing: VACUUM removes dead rows, and the server recycles and archives its write-ahead log as
// configured.
func (s *Store) Truncate(ctx context.Context) error { return s.engine.truncate(ctx) }

// classify is Classify for statements of this package, and returns ErrClosed after Close: the drivers have no error for
// that.
func (s *Store) classify(err error) error {
	if err == nil {
		return nil
	}
	if isClosed(s.closing) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return Classify(err)
}

// Close waits for pending writes and closes the database. On PostgreSQL it waits a limited time. Further calls return
// the first result.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.closeErr = s.engine.close()
	})
	return s.closeErr
}

// Queryer runs queries. *sql.DB, *sql.Tx and *Tx are Queryers.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Scanner is a *sql.Row or a *sql.Rows.
type Scanner interface{ Scan(into ...any) error }

// EachRow calls scan for each row of a query, until it returns an error.
func EachRow(ctx context.Context, q Queryer, query string, scan func(row Scanner) error, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// AllRows returns what scan reads of each row of a query.
func AllRows[V any](
	ctx context.Context, q Queryer, query string, scan func(v *V, row Scanner) error, args ...any,
) (all []V, err error) {
	err = EachRow(ctx, q, query, func(row Scanner) error {
		var v V
		if err := scan(&v, row); err != nil {
			return err
		}
		all = append(all, v)
		return nil
	}, args...)
	return all, err
}
