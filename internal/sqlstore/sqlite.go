package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	_ "modernc.org/sqlite" // the database/sql driver "sqlite"

	"letterhead/internal/delay"
	_ "letterhead/internal/sqlitemutex"
)

// sqliteFile is the engine of a file.
type sqliteFile struct {
	store   *Store
	cfg     Config
	metrics *metrics
	read    *sql.DB
	write   *sql.DB // synchronous=NORMAL, one connection
	durable *sql.DB // synchronous=FULL, one connection
	copier  *sql.DB // for the checkpointer, so that no writer waits for a connection
	// slot is held by the writer. It serves the writers of this process in order; SQLite's own lock would make them
	// poll.
	slot    chan struct{}
	check   *checkpointer
	closing <-chan struct{}
	alone   bool // read-only, and there is no write-ahead log
	empty   bool // the file has no page yet
	own     bool // the index of the write-ahead log is in memory, because the disk has no room for its file
}

func openSQLite(ctx context.Context, store *Store) (*sqliteFile, error) {
	s := &sqliteFile{store: store, cfg: store.cfg, metrics: store.metrics, slot: make(chan struct{}, 1),
		closing: store.closing}
	if s.cfg.ReadOnly {
		return s, s.connectReaders(ctx)
	}
	err := s.connect(ctx)
	if errors.Is(Classify(err), ErrFull) && runtime.GOOS != "windows" { // SQLite has the mode for Unix only
		s.cfg.Logger.Warn("the disk of the database is full; until the next start no other process can read it",
			"path", s.cfg.Path)
		_ = s.disconnect() // nothing was written, so nothing is lost if closing fails, too
		s.own = true
		err = s.connect(ctx)
	}
	if err != nil {
		_ = s.disconnect() // the first error is the cause
		return nil, fmt.Errorf("open database %s: %w", filepath.Base(s.cfg.Path), Classify(err))
	}
	s.check = newCheckpointer(s)
	return s, nil
}

func (s *sqliteFile) connect(ctx context.Context) (err error) {
	// The file contains names of people and hashes of keys, so other users must not read it. SQLite gives the files
	// next to it the same mode.
	file, err := os.OpenFile(s.cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		info, stat := file.Stat()
		s.empty = stat == nil && info.Size() == 0
		err = errors.Join(stat, file.Close())
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	// The writer comes first: it creates the file and enables WAL, which readers cannot do.
	if s.write, err = s.pool(ctx, 1, writerCacheBytes, "synchronous(NORMAL)",
		"temp_store_directory("+quoted(filepath.Dir(s.cfg.Path))+")"); err != nil {
		return err
	}
	if err := s.checkLength(ctx); err != nil {
		return err
	}
	// secure_delete: personal data that is deleted leaves no copy in free pages. With a
	// larger cache an index takes longer, because lists to sort do not fit into the processor's.
	if s.durable, err = s.pool(ctx, 1, readerCacheBytes, "synchronous(FULL)", "secure_delete(ON)",
		"threads("+strconv.Itoa(sorters)+")"); err != nil {
		return err
	}
	if s.copier, err = s.pool(ctx, 1, readerCacheBytes, "synchronous(NORMAL)"); err != nil {
		return err
	}
	s.read, err = s.pool(ctx, readers(), readerCacheBytes, "query_only(ON)")
	return err
}

// connectReaders opens a file read-only.
func (s *sqliteFile) connectReaders(ctx context.Context) error {
	attempt := "open database " + filepath.Base(s.cfg.Path) + " for reading"
	_, err := os.Stat(s.cfg.Path)
	var index error
	info, wal := os.Stat(s.cfg.Path + "-wal")
	if s.alone = wal != nil; !s.alone {
		// An empty log with an index belongs to a process that has the file open and may write at any time.
		if _, index = os.Stat(s.cfg.Path + "-shm"); errors.Is(index, fs.ErrNotExist) && info.Size() == 0 {
			s.alone, index = true, nil
		}
	}
	if wal != nil && !errors.Is(wal, fs.ErrNotExist) {
		err = errors.Join(err, wal)
	}
	if errors.Is(index, fs.ErrNotExist) {
		index = errors.New("its write-ahead log needs recovery: copy the data folder to a writable place")
	}
	if err = errors.Join(err, index); err == nil {
		s.read, err = s.pool(ctx, readers(), readerCacheBytes, "query_only(ON)")
	}
	if err != nil && Classify(err) == err {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", attempt, Classify(err))
	}
	return nil
}

// quoted returns a text as a literal of SQL.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// pool opens connections with the pragmas and reads from the file once, so that SQLite notices a truncated file, or one
// that is not a database.
func (s *sqliteFile) pool(ctx context.Context, size int, cacheBytes int64, pragmas ...string) (*sql.DB, error) {
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

// checkLength compares the length of the file with the expected one, after the write-ahead log was moved into it.
// SQLite itself notices a truncated file only when it reads a missing page. While another process reads (a verify
// alongside the server), not all of the log can be moved, and the file may be shorter.
func (s *sqliteFile) checkLength(ctx context.Context) error {
	var busy, inLog, copied int64
	err := s.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &inLog, &copied)
	if err = Classify(err); errors.Is(err, ErrFull) {
		s.cfg.Logger.Warn("the disk of the database is full: it can be read, and written when there is room",
			"path", s.cfg.Path, "error", err)
		return nil // pages that are missing at the end of the file may be in the log
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if busy != 0 || inLog != copied {
		return nil
	}
	var pages, pageBytes int64
	if err := s.write.QueryRowContext(ctx,
		"SELECT page_count, page_size FROM pragma_page_count, pragma_page_size").Scan(&pages, &pageBytes); err != nil {
		return err
	}
	info, err := os.Stat(s.cfg.Path)
	if err != nil {
		return err
	}
	if info.Size() < pages*pageBytes {
		return fmt.Errorf("%w: it has %d bytes and should have %d: it is truncated",
			ErrCorrupt, info.Size(), pages*pageBytes)
	}
	return nil
}

func (s *sqliteFile) dsn(cacheBytes int64, pragmas []string) string {
	common := []string{
		"busy_timeout(" + strconv.FormatInt(s.cfg.BusyTimeout.Milliseconds(), 10) + ")",
		"cache_size(-" + strconv.FormatInt(cacheBytes>>10, 10) + ")", // KiB
	}
	if s.cfg.ReadOnly { // there may be no writable folder
		common = append(common, "temp_store(MEMORY)")
	} else {
		if s.empty { // before the first page, see Reclaim; on other files the pragma writes, which a full disk prevents
			common = append(common, "auto_vacuum(INCREMENTAL)")
		}
		common = append(common,
			// SQLite sorts more than fits into the cache, such as the rows for an index of a large table, in files in
			// temp_store_directory, which it deletes as soon as it has opened them.
			"temp_store(FILE)",
			"journal_mode(WAL)",
			"wal_autocheckpoint(0)", // see checkpointer
			"journal_size_limit("+strconv.Itoa(maxIdleWALBytes)+")")
	}
	if s.cfg.Disposable {
		pragmas = append(slices.Clone(pragmas), "synchronous(OFF)")
	}
	q := url.Values{
		"_txlock": {"immediate"}, // without the lock a writer fails at BEGIN, not later
		"_dqs":    {"0"},         // "x" is a column or an error, as in PostgreSQL
		"_pragma": append(common, pragmas...),
	}
	if s.cfg.ReadOnly {
		q.Set("_txlock", "deferred")
		q.Set("mode", "ro")
	}
	if s.own {
		q.Set("vfs", "unix-excl")
	}
	if s.alone {
		q.Set("immutable", "1") // otherwise SQLite would create a write-ahead log
	}
	return "file:" + (&url.URL{Path: s.cfg.Path}).EscapedPath() + "?" + q.Encode()
}

func (s *sqliteFile) reader() *sql.DB { return s.read }

func (s *sqliteFile) normal(ctx context.Context, fn func(*Tx) error) error {
	return s.transact(ctx, s.write, s.metrics.normal, fn)
}

func (s *sqliteFile) full(ctx context.Context, fn func(*Tx) error) error {
	return s.transact(ctx, s.durable, s.metrics.durable, fn)
}

// setup needs only the writer slot: SQLite's own lock excludes other processes.
func (s *sqliteFile) setup(ctx context.Context, fn func(*Tx) error) error {
	if s.cfg.ReadOnly {
		return nil
	}
	return s.full(ctx, fn)
}

func (s *sqliteFile) snapshot(ctx context.Context) (*sql.Tx, error) {
	return s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
}

func (s *sqliteFile) one(ctx context.Context, query string, args, dest []any) error {
	return s.normal(ctx, func(tx *Tx) error { return tx.QueryRowContext(ctx, query, args...).Scan(dest...) })
}

// ddl uses INTEGER, because only that makes the key the row id.
func (s *sqliteFile) ddl(text string) string {
	return strings.NewReplacer(bigKeyMark, "INTEGER", ByKey, "WITHOUT ROWID").Replace(text)
}

func (s *sqliteFile) transact(ctx context.Context, db *sql.DB, took prometheus.Observer, fn func(*Tx) error) error {
	if s.cfg.ReadOnly {
		return ErrReadOnly
	}
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.release()
	start := time.Now()
	defer func() { took.Observe(time.Since(start).Seconds()) }()

	// With a context that cannot be cancelled the driver needs no goroutine per statement.
	whole := context.WithoutCancel(ctx)
	tx, err := db.BeginTx(whole, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", Classify(err))
	}
	done := false
	defer func() {
		if !done { // fn panicked: free the slot, write nothing
			_ = tx.Rollback()
		}
	}()
	err = fn(&Tx{tx: tx, store: s.store})
	done = true
	if err != nil {
		if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
			err = errors.Join(err, fmt.Errorf("roll back: %w", rerr))
		}
		return Classify(err)
	}
	if err := tx.Commit(); err != nil {
		_ = tx.Rollback() // SQLite keeps a transaction open if its COMMIT failed for lack of space
		return fmt.Errorf("commit: %w", Classify(err))
	}
	delay.Signal(s.check.dirty)
	return nil
}

// take waits for the writer slot.
func (s *sqliteFile) take(ctx context.Context) error {
	if isClosed(s.closing) {
		return ErrClosed
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

func (s *sqliteFile) release() { <-s.slot }

func (s *sqliteFile) close() error {
	if s.cfg.ReadOnly {
		return s.disconnect()
	}
	s.check.stop()
	s.slot <- struct{}{} // never released
	return s.disconnect()
}

func (s *sqliteFile) disconnect() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.copier, s.durable, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
