// Package projectionstest helps to test read models. It provides a real log and a real database in a folder of the
// test, generates histories of events, and prints tables as text.
package projectionstest

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/eventlogtest"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/eventlog/sqlite/sqlitetest"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/projections"
	"letterhead/projections/engine"
)

// hangTimeout ends tests that hang.
const hangTimeout = 60 * time.Second

// Env is a log, a database, and the log records of the Runners that use them. Several Envs may share a log and a
// database: see Node.
type Env struct {
	t     testing.TB
	cfg   sqlstore.Config
	Log   *sqlite.Log
	Store *sqlstore.Store

	records records
	root    *Env // the Env that owns the log; itself, unless Node made it

	mu    sync.Mutex
	count int
}

// Logger returns the logger of the Runners that Start makes.
func (e *Env) Logger() *slog.Logger { return slog.New(&e.records) }

// LogCount returns the number of records that the Runners have logged. A Runner logs every change of the result of
// List.
func (e *Env) LogCount() int { return e.records.len() }

// WaitForLog waits until more than n records are logged. Errors: ctx.Err().
func (e *Env) WaitForLog(ctx context.Context, n int) error { return e.records.wait(ctx, n) }

// Each runs the test as subtests sqlite and postgres; the latter is skipped if no server is configured.
func Each(t *testing.T, test func(t *testing.T, e *Env)) {
	t.Helper()
	sqlstoretest.Each(t, func(t *testing.T, cfg sqlstore.Config) { test(t, OpenOn(t, cfg)) })
}

// Open returns an Env on SQLite that is closed when the test ends.
func Open(t testing.TB) *Env {
	t.Helper()
	return OpenOn(t, sqlstoretest.SQLite(t))
}

// OpenPostgres returns an Env on its own schema. The test is skipped if no server is configured.
func OpenPostgres(t testing.TB) *Env {
	t.Helper()
	return OpenOn(t, sqlstoretest.Postgres(t))
}

// OpenOn returns an Env on a database that is closed when the test ends.
func OpenOn(t testing.TB, cfg sqlstore.Config) *Env {
	t.Helper()
	e := &Env{t: t, cfg: cfg}
	e.root = e
	var err error
	if e.Log, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")}); err != nil {
		t.Fatal(err)
	}
	e.OpenStore()
	t.Cleanup(e.Close)
	return e
}

// Shared reports whether several nodes may use the database.
func (e *Env) Shared() bool { return e.Store.Shared() }

// Node returns another node on the same log and the same database. Two nodes on SQLite use one Store, and the test must
// call Share on their Runners.
func (e *Env) Node() *Env {
	e.t.Helper()
	if e.Shared() {
		return e.NodeAt(e.cfg.URL)
	}
	return &Env{t: e.t, cfg: e.cfg, Log: e.Log, Store: e.Store, root: e.root}
}

// NodeAt is Node with another URL of a shared database, such as that of a proxy.
func (e *Env) NodeAt(url string) *Env {
	e.t.Helper()
	n := &Env{t: e.t, cfg: sqlstore.Config{URL: url}, Log: e.Log, root: e.root}
	n.OpenStore()
	e.t.Cleanup(n.Close)
	return n
}

// NodeOnLog is Node with another log, which another node may own. If it is nil, NodeOnLog creates an empty one.
func (e *Env) NodeOnLog(log *sqlite.Log) *Env {
	e.t.Helper()
	if log == nil {
		log = sqlitetest.Open(e.t)
	}
	n := e.Node()
	n.Log = log
	return n
}

// URL returns the URL of a shared database.
func (e *Env) URL() string { return e.cfg.URL }

// Close closes the database and the log. It is also called when the test ends.
func (e *Env) Close() {
	e.t.Helper()
	if err := e.Store.Close(); err != nil {
		e.t.Error(err)
	}
	if e.root != e {
		return
	}
	if err := e.Log.Close(); err != nil {
		e.t.Error(err)
	}
}

// OpenStore opens the database again after the test has closed it.
func (e *Env) OpenStore() {
	e.t.Helper()
	var err error
	if e.Store, err = sqlstore.Open(context.Background(), e.cfg); err != nil {
		e.t.Fatal(err)
	}
}

// Append appends a group at the end of its stream and returns its position.
func (e *Env) Append(g Group) eventlog.Position {
	e.t.Helper()
	e.root.mu.Lock()
	e.root.count++
	salt := fmt.Sprint("n", e.root.count)
	e.root.mu.Unlock()
	events, err := g.Proposed(salt)
	if err != nil {
		e.t.Fatal(err)
	}
	done, err := e.Log.Append(context.Background(), g.Stream, eventlogtest.End(e.t, e.Log, g.Stream), events)
	if err != nil {
		e.t.Fatal(err)
	}
	return done.Position
}

// Events appends events with the same time to a stream.
func (e *Env) Events(stream string, at time.Time, events ...eventschemas.Event) eventlog.Position {
	e.t.Helper()
	return e.Append(Group{Stream: stream, Events: events, At: at, RequestID: "req_test", Actor: "operator:test"})
}

// Fill appends groups of the world with at least that many events in all.
func (e *Env) Fill(w *World, events int) {
	e.t.Helper()
	for events > 0 {
		g := w.Next()
		e.Append(g)
		events -= len(g.Events)
	}
}

// Context returns a context that ends with the test, or after hangTimeout.
func (e *Env) Context() context.Context {
	ctx, cancel := context.WithTimeout(e.t.Context(), hangTimeout)
	e.t.Cleanup(cancel)
	return ctx
}

// Start makes a Runner, starts it and runs it until stop is called or the test ends.
func (e *Env) Start(cfg engine.Config, models ...projections.Projection) (r *engine.Runner, stop func()) {
	e.t.Helper()
	r = e.New(cfg, models...)
	return r, e.Run(r)
}

// Config returns the configuration with the event schemas of this release.
func Config(cfg engine.Config) engine.Config {
	cfg.Decode, cfg.Format = eventschemas.Decode, cmp.Or(cfg.Format, eventschemas.Format)
	return cfg
}

// New makes a Runner that logs to the Env.
func (e *Env) New(cfg engine.Config, models ...projections.Projection) *engine.Runner {
	e.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = e.Logger()
	}
	r, err := engine.New(Config(cfg), e.Log, e.Store, models...)
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

// Run starts a Runner and runs it until stop is called or the test ends.
func (e *Env) Run(r *engine.Runner) (stop func()) {
	e.t.Helper()
	if err := r.Start(e.t.Context()); err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				e.t.Errorf("runner: %v", err)
			}
		})
	}
	e.t.Cleanup(stop)
	return stop
}

// CatchUp waits until all events are folded.
func (e *Env) CatchUp(r *engine.Runner) {
	e.t.Helper()
	if err := r.CatchUp(e.Context()); err != nil {
		e.t.Fatal(err)
	}
}

// Logged reports whether a message that contains text was logged.
func (e *Env) Logged(text string) bool { return e.records.contains(text) }

// Exec runs a statement on the database directly, not through a Runner.
func (e *Env) Exec(statement string) {
	e.t.Helper()
	err := e.Store.Write(e.t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(context.Background(), statement)
		return err
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

// Dump returns every row of the live tables of a read model as text, table by table in the order of their
// names, rows in the order of all their columns.
func (e *Env) Dump(model string) string {
	e.t.Helper()
	db := e.Store.Read()
	var version, generation int
	err := db.QueryRow(`SELECT fold_version, generation FROM projections_registry WHERE name = $1 AND state = 'live'`,
		model).Scan(&version, &generation)
	if err != nil {
		e.t.Fatalf("live generation of %s: %v", model, err)
	}
	prefix := fmt.Sprintf("%s_v%d_g%d_", model, version, generation)
	var out strings.Builder
	for _, table := range e.Tables(prefix) {
		fmt.Fprintf(&out, "== %s\n", strings.TrimPrefix(table, prefix))
		e.dump(&out, db, table)
	}
	return out.String()
}

// Tables returns the names of the tables that begin with a prefix, sorted.
func (e *Env) Tables(prefix string) []string {
	e.t.Helper()
	var names []string
	err := e.Store.Write(e.t.Context(), func(tx *sqlstore.Tx) (err error) {
		names, err = sqlstore.TablesWithPrefix(e.t.Context(), tx, prefix)
		return err
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return names
}

func (e *Env) dump(out *strings.Builder, db *sql.DB, table string) {
	e.t.Helper()
	order := make([]string, len(e.columns(db, table)))
	for i := range order {
		order[i] = fmt.Sprint(i + 1)
	}
	rows, err := db.Query("SELECT * FROM " + table + " ORDER BY " + strings.Join(order, ", "))
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, into := make([]any, len(order)), make([]any, len(order))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			e.t.Fatal(err)
		}
		for _, v := range row {
			if b, ok := v.([]byte); ok {
				fmt.Fprintf(out, "%q|", b)
			} else {
				fmt.Fprintf(out, "%v|", v)
			}
		}
		out.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
}

func (e *Env) columns(db *sql.DB, table string) []string {
	e.t.Helper()
	rows, err := db.Query("SELECT * FROM " + table + " LIMIT 0")
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		e.t.Fatal(err)
	}
	return columns
}
