package sqlstoretest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testservices"
)

// cleanupTimeout limits the time to drop a schema after a test.
const cleanupTimeout = 30 * time.Second

// Each runs the test on every engine, as subtests sqlite and postgres; the latter is skipped without a server. Each
// subtest gets a new, empty database. Opening it twice gives two nodes on PostgreSQL and, after Close, the same file
// again on SQLite.
func Each(t *testing.T, test func(t *testing.T, cfg sqlstore.Config)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, Postgres(t)) })
}

// EachStore is Each with the database opened.
func EachStore(t *testing.T, test func(t *testing.T, store *sqlstore.Store)) {
	t.Helper()
	Each(t, func(t *testing.T, cfg sqlstore.Config) { test(t, Open(t, cfg)) })
}

// SQLite returns the configuration of a new file, which is deleted after the test.
func SQLite(t testing.TB) sqlstore.Config {
	t.Helper()
	return sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db")}
}

// Postgres returns the configuration of a new, empty schema, which is dropped after the test. Without a server it skips
// the test.
func Postgres(t testing.TB) sqlstore.Config {
	t.Helper()
	return sqlstore.Config{URL: Schema(t, testservices.Postgres(t))}
}

// Schema creates a schema on the server of a URL, to be dropped after the test, and returns its URL.
func Schema(t testing.TB, server string) string {
	t.Helper()
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal("malformed URL of the test's PostgreSQL")
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	schema := "test_" + hex.EncodeToString(random[:])
	Exec(t, server, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { Exec(t, server, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
	query := at.Query()
	query.Set("search_path", schema)
	at.RawQuery = query.Encode()
	return at.String()
}

// Exec runs statements on its own connection, outside the program under test.
func Exec(t testing.TB, server, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout) // runs after the test's context has ended, too
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("connect to the test's PostgreSQL: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Fatalf("run on the test's PostgreSQL: %v", err)
	}
}

// Open opens a database and closes it with the test.
func Open(t testing.TB, cfg sqlstore.Config) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
