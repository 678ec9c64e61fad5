package sqlstoretest

import (
	"net/url"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
)

// WithClock gives a schema of Postgres its own clock: SetClock sets what its clock_timestamp() returns. It is found
// before the server's because the search path names pg_catalog after the schema.
func WithClock(t testing.TB, cfg sqlstore.Config) sqlstore.Config {
	t.Helper()
	at, err := url.Parse(cfg.URL)
	if err != nil {
		t.Fatal("malformed URL of the test's PostgreSQL")
	}
	query := at.Query()
	query.Set("search_path", query.Get("search_path")+",pg_catalog")
	at.RawQuery = query.Encode()
	cfg.URL = at.String()
	Exec(t, cfg.URL, `
CREATE UNLOGGED TABLE test_clock (at timestamptz);
INSERT INTO test_clock VALUES (now());
CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT at FROM test_clock'`)
	return cfg
}

// SetClock sets the clock of a store's schema.
func SetClock(t testing.TB, store *sqlstore.Store, at time.Time) {
	t.Helper()
	var stored time.Time
	if err := store.One(t.Context(), `UPDATE test_clock SET at = $1 RETURNING at`, []any{at}, &stored); err != nil {
		t.Error(err)
	}
}
