package sqlstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

func openFile(t *testing.T, cfg sqlstore.Config) *sqlstore.Store {
	t.Helper()
	s := testmust.Get(sqlstore.Open(t.Context(), cfg))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// load creates a table of about the given size in bytes.
func load(t *testing.T, s *sqlstore.Store, table string, bytes int) {
	t.Helper()
	text := strings.Repeat("x", 1000)
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		if _, err := tx.Exec("CREATE TABLE " + table + " (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"); err != nil {
			return err
		}
		for i := range bytes / len(text) {
			if _, err := tx.Exec("INSERT INTO "+table+" VALUES ($1, $2)", i, text); err != nil {
				return err
			}
		}
		return nil
	})
	testmust.Succeed(t, err)
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info := testmust.Get(os.Stat(path))(t)
	return info.Size()
}

func TestReclaim_TableDropped_FileShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letterhead.db")
	s := openFile(t, sqlstore.Config{Path: path})
	load(t, s, "gone", 8<<20)
	load(t, s, "kept", 1<<20) // its pages are after those of the dropped table and must move
	testmust.Succeed(t, s.Truncate(t.Context()))
	before := fileSize(t, path)
	if err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.Exec("DROP TABLE gone")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	size := testmust.Get(s.Size(t.Context(), []string{"kept"}))(t)
	if size.Unused < 8<<20 || size.Tables < 1<<20 || size.Tables > 2<<20 || size.Folder != filepath.Dir(path) {
		t.Errorf("the size is %+v", size)
	}
	freed := testmust.Get(s.Reclaim(t.Context()))(t)
	testmust.Succeed(t, s.Truncate(t.Context()))
	if after := fileSize(t, path); freed < 8<<20 || after > before-8<<20 {
		t.Errorf("%d bytes were freed, the file had %d and has %d", freed, before, after)
	}
	var rows int
	if err := s.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil || rows != 1<<20/1000 {
		t.Errorf("the other table has %d rows, %v", rows, err)
	}
}

func TestOpen_ReadOnly_ReadsAndRefusesToWrite(t *testing.T) {
	for _, served := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "letterhead.db")
		s := openFile(t, sqlstore.Config{Path: path})
		load(t, s, "rows", 10_000)
		if !served {
			testmust.Succeed(t, s.Close())
		}
		before := testmust.Get(filepath.Glob(path + "*"))(t)
		r := openFile(t, sqlstore.Config{Path: path, ReadOnly: true})
		var rows int
		if err := r.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM rows").Scan(&rows); err != nil || rows != 10 {
			t.Errorf("served %t: %d rows, %v, want 10", served, rows, err)
		}
		write := func(*sqlstore.Tx) error { return nil }
		for name, call := range map[string]func(context.Context, func(*sqlstore.Tx) error) error{"Write": r.Write, "WriteDurable": r.WriteDurable} {
			if err := call(t.Context(), write); !errors.Is(err, sqlstore.ErrReadOnly) {
				t.Errorf("served %t: %s: %v, want %q", served, name, err, sqlstore.ErrReadOnly)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if after, err := filepath.Glob(path + "*"); err != nil || len(after) != len(before) {
			t.Errorf("served %t: the folder had %v and has %v", served, before, after)
		}
	}
}

func TestOpen_ReadOnlyWithoutFile_Fails(t *testing.T) {
	_, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(t.TempDir(), "letterhead.db"), ReadOnly: true})
	if !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("opened with %v", err)
	}
}

// A server that was started and has written nothing since has an empty write-ahead log.
func TestOpen_ReadOnlyWithEmptyWriteAheadLog_SeesWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letterhead.db")
	s := openFile(t, sqlstore.Config{Path: path})
	load(t, s, "rows", 10_000)
	testmust.Succeed(t, s.Truncate(t.Context()))
	r := openFile(t, sqlstore.Config{Path: path, ReadOnly: true})
	load(t, s, "later", 10_000)
	var rows int
	if err := r.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM later").Scan(&rows); err != nil || rows != 10 {
		t.Errorf("%d rows, %v, want 10", rows, err)
	}
}

// "projections verify" holds a transaction for minutes while the server runs. A restart neither waits for it nor
// treats the file as damaged.
func TestOpen_WhileAnotherReads_Serves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "letterhead.db")
	s := openFile(t, sqlstore.Config{Path: path})
	load(t, s, "rows", 10_000)
	r := openFile(t, sqlstore.Config{Path: path, ReadOnly: true})
	tx := testmust.Get(r.Read().BeginTx(t.Context(), nil))(t)
	defer tx.Rollback()
	var rows int
	testmust.Succeed(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM rows").Scan(&rows))
	load(t, s, "later", 1_000_000)
	testmust.Succeed(t, s.Close())
	s = openFile(t, sqlstore.Config{Path: path})
	if err := s.Read().QueryRowContext(t.Context(), "SELECT count(*) FROM later").Scan(&rows); err != nil || rows != 1000 {
		t.Errorf("%d rows, %v, want 1000", rows, err)
	}
}
