package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// Store is an open database. It is safe for concurrent use.
type Store struct {
	cfg     Config
	engine  engine
	metrics *metrics

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// engine is what differs between a file and a server.
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

// Open opens the database. A SQLite file is made when it is missing; a PostgreSQL database and its schema
// must be there. Errors: ErrCorrupt, ErrUnavailable, or what Config.Validate says.
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
	if err := s.metrics.register(cfg.Registerer); err != nil { // at last: whoever tries again finds them free
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Shared says that other processes may have the same database open: true on PostgreSQL.
func (s *Store) Shared() bool { return s.cfg.URL != "" }

// Alone reports whether a file was opened for reading without a write-ahead log, because there was none or it was empty.
// Such a file must not be written while it is read.
func (s *Store) Alone() bool {
	file, ok := s.engine.(*sqliteFile)
	return ok && file.alone
}

// Read returns the pool of reading connections. Statements that write fail on it. Each statement sees the
// latest state that was committed when it began; for several that see one state there is Snapshot. What
// its statements return is not classified: see Classify.
func (s *Store) Read() *sql.DB { return s.engine.reader() }

// Snapshot begins a transaction that reads one state of the database for as long as it lasts: that of its
// first statement. End it with Rollback, and soon: it keeps SQLite's write-ahead log from being emptied
// and PostgreSQL's dead rows from being cleared, and the server ends one that is idle for a minute.
// Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (s *Store) Snapshot(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.engine.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin reading: %w", s.classify(err))
	}
	return tx, nil
}

// Write runs fn in a transaction and commits when fn returns nil. fn may run statements on tx only; it
// must not call Write or WriteDurable.
//
// On SQLite fn is alone: no other writes at the same time. The ctx bounds the wait for the writer slot;
// once begun, the transaction is not cut short by it, and fn runs once.
//
// On PostgreSQL several write at the same time (REPEATABLE READ): fn sees the state of its beginning, and
// when a row that it changes was changed by another meanwhile, or two wait for each other, or the
// connection is lost before COMMIT was sent, all is undone and fn runs again, a bounded number of times.
// So fn must build what it hands out anew on each run, and must not rely on rows that it only read staying
// as they are: change the row that it decided on. The ctx bounds everything, also statements of fn that
// are given another one.
//
// Errors: ErrClosed, ErrUnavailable, ErrAmbiguous, ErrCorrupt, ctx.Err(), or what fn returned.
func (s *Store) Write(ctx context.Context, fn func(*Tx) error) error {
	return s.engine.normal(ctx, fn)
}

// WriteDurable is Write, and the change is on the disk when it returns. On PostgreSQL it is the same as
// Write: both are as durable as the server's synchronous_commit makes them.
func (s *Store) WriteDurable(ctx context.Context, fn func(*Tx) error) error {
	return s.engine.full(ctx, fn)
}

// Setup is WriteDurable for changes of the schema. On PostgreSQL nodes take turns, and each statement sees
// what was committed before it: two nodes that start at once and both say CREATE TABLE IF NOT EXISTS would
// otherwise collide. The ctx and WriteTimeout bound the wait for the turn, BusyTimeout does not.
func (s *Store) Setup(ctx context.Context, fn func(*Tx) error) error {
	return s.engine.setup(ctx, fn)
}

// One runs one statement that writes, as a transaction of its own in one round trip, and scans the row
// that it returns into dest. It is not repeated. Errors: sql.ErrNoRows, those of Write; after ErrUnavailable
// it may have been done on PostgreSQL.
func (s *Store) One(ctx context.Context, query string, args []any, dest ...any) error {
	return s.classify(s.engine.one(ctx, query, args, dest))
}

// Truncate, on SQLite, copies the write-ahead log into the database file and cuts it to nothing, so that no
// old version of a row stays in it. It waits for readers up to the busy timeout; when one of them stays
// longer the error is ErrUnavailable, and the log is overwritten in the course of later writes.
//
// On PostgreSQL it does nothing: dead rows are cleared by the server's VACUUM and its write-ahead log is
// recycled and archived as its administrator set it up.
func (s *Store) Truncate(ctx context.Context) error { return s.engine.truncate(ctx) }

// classify is Classify for statements of this package, which also know that Close was called: the drivers
// have no error of their own for it.
func (s *Store) classify(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.closing:
		return fmt.Errorf("%w: %w", ErrClosed, err)
	default:
		return Classify(err)
	}
}

// Close waits for the writes under way and closes the database. On PostgreSQL it waits a bounded time.
// Repeats return the first result.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.closeErr = s.engine.close()
	})
	return s.closeErr
}
