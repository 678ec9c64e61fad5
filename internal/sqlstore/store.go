package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"
)

// Limits and defaults.
const (
	// DefaultBusyTimeout is how long a statement waits for another process's lock before ErrUnavailable.
	DefaultBusyTimeout = 5 * time.Second
	// DefaultCacheBytes is the writer's page cache. A bulk load keeps the upper pages of its trees in it.
	DefaultCacheBytes = 32 << 20
	// minReaders and maxReaders bound the pool of reading connections; each has a page cache of its own.
	minReaders, maxReaders = 4, 32
	// readerCacheBytes is the page cache of one reading connection.
	readerCacheBytes = 4 << 20
	// maxCacheBytes keeps a typing error from asking for all memory.
	maxCacheBytes = 4 << 30
)

// Config of a Store. Path is required.
type Config struct {
	// Path of the database file. It is made when it is missing; its folder must exist.
	Path string
	// Readers is the number of reading connections. Default: twice the processors, 4 to 32.
	Readers int
	// BusyTimeout is how long a statement waits for another process. Default: DefaultBusyTimeout.
	BusyTimeout time.Duration
	// CacheBytes is the writer's page cache. Default: DefaultCacheBytes.
	CacheBytes int64
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	if c.Readers == 0 {
		c.Readers = min(max(2*runtime.GOMAXPROCS(0), minReaders), maxReaders)
	}
	if c.BusyTimeout == 0 {
		c.BusyTimeout = DefaultBusyTimeout
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("path of the database is empty"))
	}
	if c.Readers < 0 || c.Readers > maxReaders {
		errs = append(errs, fmt.Errorf("readers is %d; it is 0 (chosen by the number of processors) to %d", c.Readers, maxReaders))
	}
	if c.BusyTimeout < 0 {
		errs = append(errs, fmt.Errorf("busy timeout is %s; it cannot be negative", c.BusyTimeout))
	}
	if c.CacheBytes < 0 || c.CacheBytes > maxCacheBytes {
		errs = append(errs, fmt.Errorf("cache is %d bytes; it is 0 (default) to %d", c.CacheBytes, int64(maxCacheBytes)))
	}
	return errors.Join(errs...)
}

// Store is an open database. It is safe for concurrent use.
type Store struct {
	cfg     Config
	read    *sql.DB
	write   *sql.DB // synchronous=NORMAL, one connection
	durable *sql.DB // synchronous=FULL, one connection
	copier  *sql.DB // for the checkpointer, which must not keep a writer waiting for a connection
	// slot is held by whoever writes. It orders writers of this process first come, first served;
	// SQLite's own lock would make them poll.
	slot    chan struct{}
	check   *checkpointer
	metrics *metrics

	closing   chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Open opens the database, and makes it when it is missing. Errors: ErrCorrupt, ErrUnavailable, or what
// Config.Validate says.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration of the database: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, slot: make(chan struct{}, 1), closing: make(chan struct{})}
	var err error
	if s.metrics, err = newMetrics(cfg.Registerer); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		s.disconnect()
		return nil, fmt.Errorf("open database %s: %w", filepath.Base(cfg.Path), Classify(err))
	}
	s.check = newCheckpointer(s)
	return s, nil
}

func (s *Store) connect(ctx context.Context) (err error) {
	// The file holds names of people and hashes of keys: nobody else may read it. SQLite gives the files
	// beside it the same mode.
	file, err := os.OpenFile(s.cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// The writer comes first: it makes the file and turns WAL on, which the readers may not.
	if s.write, err = s.pool(ctx, 1, s.cfg.CacheBytes, "synchronous(NORMAL)"); err != nil {
		return err
	}
	if err := s.checkLength(ctx); err != nil {
		return err
	}
	// secure_delete: what is erased for a holder's sake leaves no copy in free pages.
	if s.durable, err = s.pool(ctx, 1, readerCacheBytes, "synchronous(FULL)", "secure_delete(ON)"); err != nil {
		return err
	}
	if s.copier, err = s.pool(ctx, 1, readerCacheBytes, "synchronous(NORMAL)"); err != nil {
		return err
	}
	s.read, err = s.pool(ctx, s.cfg.Readers, readerCacheBytes, "query_only(ON)")
	return err
}

// pool opens connections with the pragmas and reads from the file once, which is when SQLite finds out
// that it is truncated or no database at all.
func (s *Store) pool(ctx context.Context, size int, cacheBytes int64, pragmas ...string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", s.dsn(cacheBytes, pragmas))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	var tables int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkLength compares the file with the length that it should have, once the write-ahead log is moved into
// it. SQLite itself notices a cut file only when it comes to a missing page.
func (s *Store) checkLength(ctx context.Context) error {
	if _, err := walCheckpoint(ctx, s.write, "TRUNCATE"); err != nil {
		return err
	}
	var pages, pageBytes int64
	if err := s.write.QueryRowContext(ctx, "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size").Scan(&pages, &pageBytes); err != nil {
		return err
	}
	info, err := os.Stat(s.cfg.Path)
	if err != nil {
		return err
	}
	if info.Size() < pages*pageBytes {
		return fmt.Errorf("%w: it has %d bytes and should have %d: its end is missing", ErrCorrupt, info.Size(), pages*pageBytes)
	}
	return nil
}

func (s *Store) dsn(cacheBytes int64, pragmas []string) string {
	q := url.Values{
		"_txlock": {"immediate"}, // a writer that cannot have the lock learns it at BEGIN, not in the middle
		"_dqs":    {"0"},         // "x" is a column or an error, as in PostgreSQL
		"_pragma": append([]string{
			"busy_timeout(" + strconv.FormatInt(s.cfg.BusyTimeout.Milliseconds(), 10) + ")",
			"journal_mode(WAL)",
			"wal_autocheckpoint(0)", // see checkpointer
			"journal_size_limit(" + strconv.Itoa(maxIdleWALBytes) + ")",
			"cache_size(-" + strconv.FormatInt(cacheBytes>>10, 10) + ")", // KiB
			"temp_store(MEMORY)",
		}, pragmas...),
	}
	return "file:" + (&url.URL{Path: s.cfg.Path}).EscapedPath() + "?" + q.Encode()
}

// Read returns the pool of reading connections. Statements that write fail on it. A transaction on it
// sees one state of the database for as long as it lasts, and keeps the write-ahead log from being
// emptied: keep it short.
func (s *Store) Read() *sql.DB { return s.read }

// Write runs fn in a transaction, alone, and commits when fn returns nil. The ctx bounds the wait for the
// writer slot; once begun, the transaction is not cut short by it. fn may run statements on tx only; it
// must not call Write or WriteDurable.
//
// Errors: ErrClosed, ErrUnavailable, ErrCorrupt, ctx.Err(), or what fn returned.
func (s *Store) Write(ctx context.Context, fn func(*Tx) error) error {
	return s.transact(ctx, s.write, s.metrics.normal, fn)
}

// WriteDurable is Write, and the change is on the disk when it returns.
func (s *Store) WriteDurable(ctx context.Context, fn func(*Tx) error) error {
	return s.transact(ctx, s.durable, s.metrics.durable, fn)
}

func (s *Store) transact(ctx context.Context, db *sql.DB, took prometheus.Observer, fn func(*Tx) error) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.release()
	start := time.Now()
	defer func() { took.Observe(time.Since(start).Seconds()) }()

	// Without a cancellable context the driver needs no goroutine per statement to watch it.
	whole := context.WithoutCancel(ctx)
	tx, err := db.BeginTx(whole, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", Classify(err))
	}
	done := false
	defer func() {
		if !done { // fn panicked; whoever recovers finds the slot free and nothing written
			_ = tx.Rollback()
		}
	}()
	err = fn(&Tx{Tx: tx, store: s})
	done = true
	if err != nil {
		if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
			err = errors.Join(err, fmt.Errorf("roll back: %w", rerr))
		}
		return Classify(err)
	}
	if err := tx.Commit(); err != nil {
		_ = tx.Rollback() // SQLite keeps a transaction open whose COMMIT failed for want of space
		return fmt.Errorf("commit: %w", Classify(err))
	}
	s.check.wake()
	return nil
}

// take waits for the writer slot.
func (s *Store) take(ctx context.Context) error {
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	select {
	case s.slot <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the database's writer: %w", ctx.Err())
	case <-s.closing:
		return ErrClosed
	}
}

func (s *Store) release() { <-s.slot }

// Close waits for the write under way and closes the database. Repeats return the first result.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.check.stop()
		s.slot <- struct{}{} // never given back
		s.closeErr = s.disconnect()
	})
	return s.closeErr
}

func (s *Store) disconnect() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.copier, s.durable, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
