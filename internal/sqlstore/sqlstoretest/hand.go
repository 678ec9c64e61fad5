package sqlstoretest

import (
	"net/url"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
)

// WithHand gives a schema of Postgres its own clock: SetHand sets what its clock_timestamp() returns. It is found before
// the server's because the search path names pg_catalog after the schema.
func WithHand(t testing.TB, cfg sqlstore.Config) sqlstore.Config {
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
CREATE UNLOGGED TABLE hand (at timestamptz);
INSERT INTO hand VALUES (now());
CREATE FUNCTION clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT at FROM hand'`)
	return cfg
}

// SetHand sets the clock of a store's schema.
func SetHand(t testing.TB, store *sqlstore.Store, at time.Time) {
	t.Helper()
	var stored time.Time
	if err := store.One(t.Context(), `UPDATE hand SET at = $1 RETURNING at`, []any{at}, &stored); err != nil {
		t.Error(err)
	}
}
