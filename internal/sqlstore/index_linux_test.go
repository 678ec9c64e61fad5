package sqlstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
	"letterhead/internal/testprocess"
)

// An index is created when a table has all of its rows, which may be many millions.
func TestSetup_CreateIndex_TakesMemoryOfTheCacheOnly(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "o'hara")
	testmust.Succeed(t, os.Mkdir(folder, 0o700))
	s := openFile(t, sqlstore.Config{Path: filepath.Join(folder, "letterhead.db")})
	write := func(statement string) {
		t.Helper()
		testmust.Succeed(t, s.Setup(t.Context(), func(tx *sqlstore.Tx) error { _, err := tx.Exec(statement); return err }))
	}
	write("CREATE TABLE many (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
	write("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO many SELECT i, hex(randomblob(50)) FROM n")
	self := testprocess.ID(os.Getpid())
	if err := self.ForgetPeak(); err != nil {
		t.Skipf("the peak of this process's memory cannot be measured: %v", err)
	}
	before := testmust.Get(self.Resident())(t)
	write("CREATE INDEX many_by_body ON many (body)")
	after := testmust.Get(self.Peak())(t)
	if grown := after - before; grown > 14<<20 { // the index has more than 10 MB, and the cache 4
		t.Errorf("creating the index took %d MiB", grown>>20)
	}
	files := testmust.Get(os.ReadDir(folder))(t)
	for _, f := range files {
		switch f.Name() {
		case "letterhead.db", "letterhead.db-wal", "letterhead.db-shm":
		default:
			t.Errorf("the folder has %s", f.Name())
		}
	}
}
