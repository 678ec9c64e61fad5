package sqlstore

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"letterhead/internal/testmust"
)

// After a round the next writer starts the write-ahead log from its beginning, so that it does not grow.
func TestCheckpoint_KeepsLogShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := testmust.Get(Open(t.Context(), Config{Path: path}))(t)
	defer s.Close()
	write := func(statement string) {
		t.Helper()
		err := s.Write(context.Background(), func(tx *Tx) error {
			_, err := tx.Exec(statement)
			return err
		})
		testmust.Succeed(t, err)
	}
	write(`CREATE TABLE x (n BYTEA)`)
	const perRound = 10 * 30_000 // bytes
	for range 15 {
		for range 10 {
			write(`INSERT INTO x VALUES (randomblob(30000))`)
		}
		testmust.Succeed(t, s.engine.(*sqliteFile).check.round(context.Background()))
	}
	info := testmust.Get(os.Stat(path + "-wal"))(t)
	if info.Size() > 3*perRound {
		t.Errorf("the write-ahead log has %d bytes after 15 rounds of %d", info.Size(), perRound)
	}
}

func TestTruncate_EmptiesLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := testmust.Get(Open(t.Context(), Config{Path: path}))(t)
	defer s.Close()
	if err := s.WriteDurable(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(`CREATE TABLE x (n BYTEA)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	testmust.Succeed(t, s.Truncate(t.Context()))
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() != 0 {
		t.Errorf("the write-ahead log: %v, %v", info, err)
	}
}
