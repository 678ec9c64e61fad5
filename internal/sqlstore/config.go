package sqlstore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits and defaults.
const (
	// DefaultBusyTimeout is how long a statement waits for another process's lock before ErrUnavailable.
	DefaultBusyTimeout = 5 * time.Second
	// DefaultCacheBytes is the writer's page cache (SQLite). It holds the upper pages of the trees in a bulk load.
	DefaultCacheBytes = 32 << 20
	// DefaultReadTimeout limits one statement on Read (PostgreSQL). Queries of requests take milliseconds.
	DefaultReadTimeout = 30 * time.Second
	// DefaultWriteTimeout limits one Write with its retries, and each statement in it (PostgreSQL). The slowest is the
	// creation of an index on a large table after a rebuild.
	DefaultWriteTimeout = 15 * time.Minute
	// DefaultWriters is the number of writing connections (PostgreSQL) of one process.
	DefaultWriters = 8
	// minReaders and maxConnections limit the pools. In SQLite each reader has its own page cache; in PostgreSQL each
	// connection is a process of the server, which allows 100 by default.
	minReaders, maxConnections = 4, 32
	// readerCacheBytes is the page cache of one reading connection.
	readerCacheBytes = 4 << 20
	// maxCacheBytes rejects sizes that are probably typing errors.
	maxCacheBytes = 4 << 30
	// minTimeout is more than one round trip to a distant server.
	minTimeout = 100 * time.Millisecond
)

// Config of a Store. Exactly one of Path and URL is required.
type Config struct {
	// Path of the SQLite file. It is created if it is missing; its folder must exist.
	Path string
	// URL of a PostgreSQL server (14 or newer), in the syntax of libpq and pgx: postgres://user:password@host/database,
	// several hosts, sslmode, target_session_attrs, connect_timeout, application_name, and search_path=NAME for a schema
	// that must exist.
	URL string
	// Format and Node are the data format and the name of this process, which Sessions returns in other processes.
	Format int
	Node   string
	// Readers is the number of reading connections. Default: twice the processors, 4 to 32.
	Readers int
	// Writers is the number of writing connections (PostgreSQL; SQLite has one). Default: DefaultWriters.
	Writers int
	// BusyTimeout is how long a statement waits for a lock. Default: DefaultBusyTimeout.
	BusyTimeout time.Duration
	// ReadTimeout limits one statement on Read (PostgreSQL). Default: DefaultReadTimeout.
	ReadTimeout time.Duration
	// WriteTimeout limits one Write (PostgreSQL), in addition to its context. Default: DefaultWriteTimeout.
	WriteTimeout time.Duration
	// CacheBytes is the writer's page cache (SQLite). Default: DefaultCacheBytes.
	CacheBytes int64
	// ReadOnly opens the SQLite file without writing to its folder: for a folder that cannot be written, and for a
	// second process alongside the one that writes. Write and WriteDurable return ErrReadOnly. Setup does nothing: its
	// tables exist, or the statements that need them fail.
	ReadOnly bool
	// Disposable is for a SQLite file that is not needed after a crash: it is never flushed to the disk.
	Disposable bool
	// Release is the release of the running program, recorded in snapshots.
	Release    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	c.Readers = cmp.Or(c.Readers, min(max(2*runtime.GOMAXPROCS(0), minReaders), maxConnections))
	c.Writers = cmp.Or(c.Writers, DefaultWriters)
	c.BusyTimeout = cmp.Or(c.BusyTimeout, DefaultBusyTimeout)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, DefaultReadTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.CacheBytes = cmp.Or(c.CacheBytes, DefaultCacheBytes)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Validate reports all errors in the configuration, without the URL's password.
func (c Config) Validate() error {
	var errs []error
	switch {
	case c.Path == "" && c.URL == "":
		errs = append(errs, errors.New("the database needs a path or a URL"))
	case c.Path != "" && c.URL != "":
		errs = append(errs, errors.New("the database has both a path and a URL; only one is allowed"))
	}
	if c.URL != "" && (c.ReadOnly || c.Disposable) {
		errs = append(errs, errors.New("a database with a URL must not be read-only or disposable"))
	}
	if c.URL != "" {
		if _, err := parseURL(c.URL); err != nil {
			errs = append(errs, err)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"readers", c.Readers}, {"writers", c.Writers}} {
		if n.value < 0 || n.value > maxConnections {
			errs = append(errs, fmt.Errorf("%s is %d; it must be 0 (default) to %d", n.name, n.value, maxConnections))
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{{"busy timeout", c.BusyTimeout, 0}, {"read timeout", c.ReadTimeout, minTimeout}, {"write timeout", c.WriteTimeout, minTimeout}} {
		if d.value < 0 || (d.value > 0 && d.value < d.least) {
			errs = append(errs, fmt.Errorf("%s is %s; it must be 0 (default) or at least %s", d.name, d.value, d.least))
		}
	}
	if c.CacheBytes < 0 || c.CacheBytes > maxCacheBytes {
		errs = append(errs, fmt.Errorf("cache is %d bytes; it must be 0 (default) to %d", c.CacheBytes, int64(maxCacheBytes)))
	}
	return errors.Join(errs...)
}
