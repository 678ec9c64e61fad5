// Package projectionstest is what the tests of the read models share: a real log and a real database in a
// folder of the test, a made-up world of events, and the tables as text.
package projectionstest

import (
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
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// patience is how long a test waits for something that must happen; it only ends tests that hang.
const patience = 60 * time.Second

// Env is a folder with a log and a database.
type Env struct {
	t     testing.TB
	dir   string
	Log   *sqlite.Log
	Store *sqlstore.Store

	news news

	mu    sync.Mutex
	count int
}

// Said returns how many records Runners that Start made have logged, and Hear waits until there are more.
// A Runner logs whatever changes what List says.
func (e *Env) Said() int { return e.news.count() }

// Hear waits until more than n records are logged. Errors: ctx.Err().
func (e *Env) Hear(ctx context.Context, n int) error { return e.news.after(ctx, n) }

// Open makes an Env that the test's end closes.
func Open(t testing.TB) *Env {
	t.Helper()
	e := &Env{t: t, dir: t.TempDir()}
	var err error
	if e.Log, err = sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(e.dir, "events.db")}); err != nil {
		t.Fatal(err)
	}
	e.OpenStore()
	t.Cleanup(e.Close)
	return e
}

// Close closes the database and the log; the test's end does it too.
func (e *Env) Close() {
	e.t.Helper()
	if err := e.Store.Close(); err != nil {
		e.t.Error(err)
	}
	if err := e.Log.Close(); err != nil {
		e.t.Error(err)
	}
}

// OpenStore opens the database, after the test closed the one before.
func (e *Env) OpenStore() {
	e.t.Helper()
	var err error
	if e.Store, err = sqlstore.Open(context.Background(), sqlstore.Config{Path: filepath.Join(e.dir, "letterhead.db")}); err != nil {
		e.t.Fatal(err)
	}
}

// Append appends a group at the end of its stream and returns its position.
func (e *Env) Append(g Group) eventlog.Position {
	e.t.Helper()
	e.mu.Lock()
	e.count++
	salt := fmt.Sprint("n", e.count)
	e.mu.Unlock()
	events, err := g.Proposed(salt)
	if err != nil {
		e.t.Fatal(err)
	}
	done, err := e.Log.Append(context.Background(), g.Stream, eventlog.Any(), events)
	if err != nil {
		e.t.Fatal(err)
	}
	return done.Position
}

// Events appends events of one moment to a stream.
func (e *Env) Events(stream string, at time.Time, events ...eventschemas.Event) eventlog.Position {
	e.t.Helper()
	return e.Append(Group{Stream: stream, Events: events, At: at, RequestID: "req_test", Actor: "operator:test"})
}

// Fill appends groups of the world until there are so many events more.
func (e *Env) Fill(w *World, events int) {
	e.t.Helper()
	for events > 0 {
		g := w.Next()
		e.Append(g)
		events -= len(g.Events)
	}
}

// Context ends with the test, or when it hangs.
func (e *Env) Context() context.Context {
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	e.t.Cleanup(cancel)
	return ctx
}

// Start makes a Runner, starts it and runs it until stop is called or the test ends.
func (e *Env) Start(cfg projections.Config, models ...projections.Projection) (r *projections.Runner, stop func()) {
	e.t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(&e.news)
	}
	r, err := projections.New(cfg, e.Log, e.Store, models...)
	if err != nil {
		e.t.Fatal(err)
	}
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
	return r, stop
}

// CatchUp waits until everything is folded.
func (e *Env) CatchUp(r *projections.Runner) {
	e.t.Helper()
	if err := r.CatchUp(e.Context()); err != nil {
		e.t.Fatal(err)
	}
}

// Heard says whether a message with such a part was logged.
func (e *Env) Heard(part string) bool { return e.news.heard(part) }

// Exec runs a statement behind everybody's back.
func (e *Env) Exec(statement string) {
	e.t.Helper()
	err := e.Store.Write(e.t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.Exec(statement)
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
	rows, err := e.Store.Read().Query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, $1) = $2 ORDER BY name`,
		len(prefix), prefix)
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			e.t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	return names
}

func (e *Env) dump(out *strings.Builder, db *sql.DB, table string) {
	e.t.Helper()
	var columns int
	if err := db.QueryRow(`SELECT count(*) FROM pragma_table_info($1)`, table).Scan(&columns); err != nil {
		e.t.Fatal(err)
	}
	order := make([]string, columns)
	for i := range order {
		order[i] = fmt.Sprint(i + 1)
	}
	rows, err := db.Query("SELECT * FROM " + table + " ORDER BY " + strings.Join(order, ", "))
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		row, into := make([]any, columns), make([]any, columns)
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
