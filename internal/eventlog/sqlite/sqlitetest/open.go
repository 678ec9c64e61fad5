// Package sqlitetest opens event logs for tests of other packages.
package sqlitetest

import (
	"context"
	"path/filepath"
	"testing"

	"letterhead/internal/eventlog/sqlite"
)

// Open returns a new log, which is closed when the test ends.
func Open(t testing.TB) *sqlite.Log {
	t.Helper()
	log, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}
