package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/sqlstore"
)

func open(t *testing.T, path string) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func exec(t *testing.T, s *sqlstore.Store, statements ...string) {
	t.Helper()
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		for _, statement := range statements {
			if _, err := tx.Exec(statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, table string) (n int) {
	t.Helper()
	if err := q.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestConfigurationErrorsComeTogether(t *testing.T) {
	_, err := sqlstore.Open(t.Context(), sqlstore.Config{Readers: -1, BusyTimeout: -1, CacheBytes: -1})
	for _, part := range []string{"path", "readers", "busy timeout", "cache"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestWriteIsAllOrNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "a b?#%41.db")) // a name that a URL would read otherwise
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	mine := errors.New("mine")
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err != nil {
			return err
		}
		return mine
	})
	if !errors.Is(err, mine) {
		t.Errorf("error of the function: %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come through")
			}
		}()
		_ = s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err != nil {
				return err
			}
			panic("mine")
		})
	}()
	if n := count(t, s.Read(), "x"); n != 0 {
		t.Errorf("%d rows of writes that failed", n)
	}
	exec(t, s, `INSERT INTO x VALUES (1)`) // the slot is free again
	if n := count(t, s.Read(), "x"); n != 1 {
		t.Errorf("%d rows after one write", n)
	}
}

func TestReadersCannotWrite(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	if _, err := s.Read().Exec(`INSERT INTO x VALUES (1)`); err == nil {
		t.Error("a reader wrote")
	}
}

func TestReaderSeesOneMoment(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	tx, err := s.Read().BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	before := count(t, tx, "x")
	exec(t, s, `INSERT INTO x VALUES (1)`)
	if n := count(t, tx, "x"); n != before {
		t.Errorf("%d rows, %d a moment ago", n, before)
	}
	if n := count(t, s.Read(), "x"); n != 1 {
		t.Errorf("%d rows beside it", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

func TestWritersTakeTurns(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	exec(t, s, `CREATE TABLE x (n BIGINT)`, `INSERT INTO x VALUES (0)`)
	add := func(tx *sqlstore.Tx) error {
		var n int
		if err := tx.QueryRow(`SELECT n FROM x`).Scan(&n); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE x SET n = $1`, n+1)
		return err
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 25 {
				write := s.Write
				if i%2 == 0 {
					write = s.WriteDurable
				}
				if err := write(context.Background(), add); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	var n int
	if err := s.Read().QueryRow(`SELECT n FROM x`).Scan(&n); err != nil || n != 200 {
		t.Errorf("%d after 200 turns, %v", n, err)
	}
}

func TestWaitForTheWriterEndsWithTheContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	err := s.Write(t.Context(), func(*sqlstore.Tx) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Write(ctx, func(*sqlstore.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("second writer: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBegunWriteOutlivesItsContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Write(ctx, func(tx *sqlstore.Tx) error {
		cancel()
		_, err := tx.Exec(`INSERT INTO x VALUES (1)`)
		return err
	})
	if err != nil || count(t, s.Read(), "x") != 1 {
		t.Errorf("write whose context ended: %v", err)
	}
}

func TestClose(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if err := s.Write(t.Context(), func(*sqlstore.Tx) error { return nil }); !errors.Is(err, sqlstore.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
}

func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	s := open(t, whole)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	for range 20 {
		exec(t, s, `INSERT INTO x VALUES (randomblob(8000))`)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{
		"cut in the middle":  data[:len(data)/2],
		"cut by one page":    data[:len(data)-4096],
		"cut in the header":  data[:50],
		"no database at all": bytes.Repeat([]byte("letterhead "), 1000),
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: path}); !errors.Is(err, sqlstore.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
	if _, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(dir, "no", "folder", "x.db")}); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("folder that is not there: %v", err)
	}
}

func TestFullDatabaseIsUnavailableAndWritesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	exec(t, s, `CREATE TABLE x (n BYTEA)`)
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		if _, err := tx.Exec(`PRAGMA max_page_count = 10`); err != nil { // what a full disk is to SQLite
			return err
		}
		_, err := tx.Exec(`INSERT INTO x VALUES (zeroblob(1000000))`)
		return err
	})
	if !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("write into a full database: %v", err)
	}
	exec(t, s, `PRAGMA max_page_count = 100000`, `INSERT INTO x VALUES (zeroblob(1000000))`)
	if n := count(t, s.Read(), "x"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestInsertWritesEveryRowOnce(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	exec(t, s, `CREATE TABLE x (k BIGINT PRIMARY KEY, v TEXT)`)
	total := 0
	for _, rows := range []int{0, 1, 59, 60, 61, 119, 120, 121, 1000} {
		values := make([]any, 0, 2*rows)
		for i := range rows {
			values = append(values, int64(total+i), fmt.Sprint("v", total+i))
		}
		err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			return sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, "", values)
		})
		if err != nil {
			t.Fatalf("%d rows: %v", rows, err)
		}
		total += rows
	}
	var n, wrong int
	err := s.Read().QueryRow(`SELECT count(*), coalesce(sum(v <> 'v' || k), 0) FROM x`).Scan(&n, &wrong)
	if err != nil || n != total || wrong != 0 {
		t.Errorf("%d rows, %d of them wrong, want %d: %v", n, wrong, total, err)
	}
	err = s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		return sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, "ON CONFLICT (k) DO UPDATE SET v = excluded.v", []any{int64(1), "new"})
	})
	if err != nil {
		t.Error(err)
	}
	var v string
	if err := s.Read().QueryRow(`SELECT v FROM x WHERE k = 1`).Scan(&v); err != nil || v != "new" {
		t.Errorf("after the conflict: %q, %v", v, err)
	}
	err = s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		return sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, "", []any{int64(1), "a", int64(2)})
	})
	if err == nil {
		t.Error("three values made rows of two columns")
	}
}

func TestInRows(t *testing.T) {
	if got := sqlstore.InRows(2, 2); got != "(VALUES ($1,$2),($3,$4))" {
		t.Error(got)
	}
	if got := sqlstore.InRows(1, 3); got != "($1,$2,$3)" {
		t.Error(got)
	}
}
