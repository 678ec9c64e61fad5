package sqlstore

import (
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
	// DefaultCacheBytes is the writer's page cache (SQLite). A bulk load keeps the upper pages of its trees
	// in it.
	DefaultCacheBytes = 32 << 20
	// DefaultReadTimeout bounds one statement on Read (PostgreSQL). Questions of requests take milliseconds;
	// this is for one that went wrong.
	DefaultReadTimeout = 30 * time.Second
	// DefaultWriteTimeout bounds one Write with its repeats, and each statement in it (PostgreSQL). The
	// longest is the index of a large table after a rebuild.
	DefaultWriteTimeout = 15 * time.Minute
	// DefaultWriters is the number of writing connections (PostgreSQL) of one process.
	DefaultWriters = 8
	// minReaders and maxConnections bound the pools; in SQLite each reader has a page cache of its own, in
	// PostgreSQL each connection is a process of the server, of which it allows 100 by default.
	minReaders, maxConnections = 4, 32
	// readerCacheBytes is the page cache of one reading connection.
	readerCacheBytes = 4 << 20
	// maxCacheBytes keeps a typing error from asking for all memory.
	maxCacheBytes = 4 << 30
	// minTimeout is one round trip to a server far away, with room.
	minTimeout = 100 * time.Millisecond
)

// Config of a Store. Exactly one of Path and URL is required.
type Config struct {
	// Path of the SQLite file. It is made when it is missing; its folder must exist.
	Path string
	// URL of a PostgreSQL server (14 or newer), as libpq and pgx know it: postgres://user:password@host/database,
	// several hosts, sslmode, target_session_attrs, connect_timeout, application_name, and search_path=NAME
	// for a schema of its own, which must exist.
	URL string
	// Format and Node are what Sessions says of this process elsewhere: which format of the data it has, and its name.
	Format int
	Node   string
	// Readers is the number of reading connections. Default: twice the processors, 4 to 32.
	Readers int
	// Writers is the number of writing connections (PostgreSQL; SQLite has one). Default: DefaultWriters.
	Writers int
	// BusyTimeout is how long a statement waits for another's lock. Default: DefaultBusyTimeout.
	BusyTimeout time.Duration
	// ReadTimeout bounds one statement on Read (PostgreSQL). Default: DefaultReadTimeout.
	ReadTimeout time.Duration
	// WriteTimeout bounds one Write (PostgreSQL), beside its context. Default: DefaultWriteTimeout.
	WriteTimeout time.Duration
	// CacheBytes is the writer's page cache (SQLite). Default: DefaultCacheBytes.
	CacheBytes int64
	// ReadOnly opens the SQLite file without writing to it or beside it, for a folder that cannot be written, and
	// for a process beside the one that has the file open. Write and WriteDurable return ErrReadOnly. Setup does
	// nothing: what it would make is there, or the statements that need it fail.
	ReadOnly bool
	// Disposable is for a SQLite file that nobody needs after a crash: nothing of it is flushed to the disk.
	Disposable bool
	// Release is that of the running program. Snapshots name it.
	Release    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	if c.Readers == 0 {
		c.Readers = min(max(2*runtime.GOMAXPROCS(0), minReaders), maxConnections)
	}
	if c.Writers == 0 {
		c.Writers = DefaultWriters
	}
	for _, d := range []struct {
		value   *time.Duration
		instead time.Duration
	}{
		{&c.BusyTimeout, DefaultBusyTimeout}, {&c.ReadTimeout, DefaultReadTimeout}, {&c.WriteTimeout, DefaultWriteTimeout},
	} {
		if *d.value == 0 {
			*d.value = d.instead
		}
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports everything that is wrong with the configuration, without the URL's password.
func (c Config) Validate() error {
	var errs []error
	switch {
	case c.Path == "" && c.URL == "":
		errs = append(errs, errors.New("neither the path nor the URL of the database is given"))
	case c.Path != "" && c.URL != "":
		errs = append(errs, errors.New("both a path and a URL of the database are given; one is enough"))
	}
	if c.URL != "" && (c.ReadOnly || c.Disposable) {
		errs = append(errs, errors.New("a database behind a URL is neither read-only nor disposable"))
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
			errs = append(errs, fmt.Errorf("%s is %d; it is 0 (default) to %d", n.name, n.value, maxConnections))
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{{"busy timeout", c.BusyTimeout, 0}, {"read timeout", c.ReadTimeout, minTimeout}, {"write timeout", c.WriteTimeout, minTimeout}} {
		if d.value < 0 || (d.value > 0 && d.value < d.least) {
			errs = append(errs, fmt.Errorf("%s is %s; it is 0 (default) or at least %s", d.name, d.value, d.least))
		}
	}
	if c.CacheBytes < 0 || c.CacheBytes > maxCacheBytes {
		errs = append(errs, fmt.Errorf("cache is %d bytes; it is 0 (default) to %d", c.CacheBytes, int64(maxCacheBytes)))
	}
	return errors.Join(errs...)
}
