package sqlstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/disk/disktest"
	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// A crash may leave a full disk with a write-ahead log and without room for its index, which SQLite keeps in a file.
func TestOpen_FullDisk_ReadsAndWritesWhenThereIsRoom(t *testing.T) {
	disktest.Run(t, "8m", func(at string) {
		cfg := sqlstoretest.SQLite(t)
		store, err := sqlstore.Open(t.Context(), cfg)
		testmust.Succeed(t, err)
		write := func(store *sqlstore.Store, rows int) error {
			return store.WriteDurable(t.Context(), func(tx *sqlstore.Tx) error {
				if _, err := tx.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS t (x BLOB)"); err != nil {
					return err
				}
				for range rows {
					if _, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (randomblob(3000))"); err != nil {
						return err
					}
				}
				return nil
			})
		}
		testmust.Succeed(t, write(store, 100))
		full := sqlstore.Config{Path: filepath.Join(at, "letterhead.db")}
		for _, suffix := range []string{"", "-wal"} { // as a crash leaves them, without the index
			data, err := os.ReadFile(cfg.Path + suffix)
			if err == nil {
				err = os.WriteFile(full.Path+suffix, data, 0o600)
			}
			testmust.Succeed(t, err)
		}
		testmust.Succeed(t, store.Close())
		ballast := filepath.Join(at, "ballast")
		disktest.Fill(t, ballast)
		count := func(store *sqlstore.Store) (n int) {
			t.Helper()
			if err := store.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil {
				t.Error(err)
			}
			return n
		}
		store, err = sqlstore.Open(t.Context(), full)
		testmust.Succeed(t, err)
		if n := count(store); n != 100 {
			t.Errorf("on a full disk the table has %d rows, want 100", n)
		}
		// More than the file of the write-ahead log has room for, which is overwritten if it was checkpointed before.
		if err := write(store, 1000); !errors.Is(err, sqlstore.ErrFull) {
			t.Errorf("writing on a full disk: %v, want ErrFull", err)
		}
		testmust.Succeed(t, os.Remove(ballast))
		if err := write(store, 10); err != nil {
			t.Errorf("writing when there is room: %v", err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if n := count(sqlstoretest.Open(t, full)); n != 110 {
			t.Errorf("at the next start the table has %d rows, want 110", n)
		}
	})
}
