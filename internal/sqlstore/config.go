package sqlstore

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/telemetry"
)

// Limits and defaults.
const (
	// DefaultBusyTimeout is how long a statement waits for another process's lock before ErrUnavailable.
	DefaultBusyTimeout = 5 * time.Second
	// writerCacheBytes is the writer's page cache (SQLite). It holds the upper pages of the trees in a bulk load.
	writerCacheBytes = 32 << 20
	// DefaultReadTimeout limits one statement on Read (PostgreSQL). Queries of requests take milliseconds.
	DefaultReadTimeout = 30 * time.Second
	// DefaultWriteTimeout limits one Write with its retries, and each statement in it (PostgreSQL). The slowest is the
	// creation of an index on a large table after a rebuild.
	DefaultWriteTimeout = 15 * time.Minute
	// DefaultWriters is the number of writing connections (PostgreSQL) of one process.
	DefaultWriters = 8
	// minReaders and maxReaders limit the connections that read. In SQLite each reader has its own page cache; in
	// PostgreSQL each connection is a process of the server, which allows 100 by default.
	minReaders, maxReaders = 4, 32
	// readerCacheBytes is the page cache of one reading connection.
	readerCacheBytes = 4 << 20
	// sorters is the number of threads that sort the rows for an index beside the one that reads them (SQLite). Each
	// has lists as large as the page cache.
	sorters = 1
)

// Config of a Store. Exactly one of Path and URL is required.
type Config struct {
	// Path of the SQLite file. It is created if it is missing; its folder must exist.
	Path string
	// URL of a PostgreSQL server (14 or newer), in the syntax of libpq and pgx: postgres://user:password@host/database,
	// several hosts, sslmode, target_session_attrs, connect_timeout, application_name, search_path=NAME for a schema
	// that must exist, and pool_max_conns=N, at least 2, which limits the connections of both pools together.
	URL string
	// Format and Node are the data format and the name of this process, which Sessions returns in other processes.
	Format int
	Node   string
	// Writers is the number of writing connections (PostgreSQL; SQLite has one). Default: DefaultWriters.
	Writers int
	// BusyTimeout is how long a statement waits for a lock. Default: DefaultBusyTimeout.
	BusyTimeout time.Duration
	// ReadTimeout limits one statement on Read (PostgreSQL). Default: DefaultReadTimeout.
	ReadTimeout time.Duration
	// WriteTimeout limits one Write (PostgreSQL), in addition to its context. Default: DefaultWriteTimeout.
	WriteTimeout time.Duration
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

// readers returns the number of connections that read.
func readers() int { return min(max(2*runtime.GOMAXPROCS(0), minReaders), maxReaders) }

func (c Config) withDefaults() Config {
	c.Writers = cmp.Or(c.Writers, DefaultWriters)
	c.BusyTimeout = cmp.Or(c.BusyTimeout, DefaultBusyTimeout)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, DefaultReadTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
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
	return errors.Join(errs...)
}

type metrics struct {
	normal, durable prometheus.Observer
	walFrames       prometheus.Gauge
	repeats         *prometheus.CounterVec
	leading         *prometheus.GaugeVec
	clockOffset     prometheus.Gauge
	clockFailures   prometheus.Counter
	all             []prometheus.Collector
}

// writeBuckets range from a live batch to the index of a large table, in seconds.
var writeBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}

func newMetrics() *metrics {
	seconds := telemetry.Histograms("letterhead_database_write_seconds",
		"Time a write transaction of the database took: on SQLite without the wait for its turn, on PostgreSQL with "+
			"its repeats.",
		writeBuckets, "durability")
	m := &metrics{normal: seconds.WithLabelValues("normal"), durable: seconds.WithLabelValues("full")}
	m.walFrames = telemetry.Gauge("letterhead_database_wal_frames",
		"Pages in the write-ahead log that the last checkpoint could not copy.")
	m.repeats = telemetry.Counters("letterhead_database_repeats_total",
		"Transactions that ran again, because another changed the same rows (conflict) or the connection was lost.", "reason")
	m.leading = telemetry.Gauges("letterhead_leading",
		"1 while this process holds the leadership of this name, else 0.", "name")
	m.clockOffset = telemetry.Gauge("letterhead_clock_offset_seconds",
		"How far the database's clock is ahead of this machine's.")
	m.clockFailures = telemetry.Counter("letterhead_clock_failures_total",
		"Measurements of the database's clock that failed. While they do, the last offset stays in force.")
	m.all = []prometheus.Collector{seconds, m.walFrames, m.repeats, m.leading, m.clockOffset, m.clockFailures}
	return m
}
