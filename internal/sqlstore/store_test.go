package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"letterhead/internal/sqlstore"
	"letterhead/internal/testmust"
)

func open(t *testing.T, path string) *sqlstore.Store {
	t.Helper()
	s := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: path}))(t)
	t.Cleanup(func() { testmust.Succeed(t, s.Close()) })
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
	testmust.Succeed(t, err)
}

func count(t *testing.T, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, table string) (n int) {
	t.Helper()
	testmust.Succeed(t, q.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// fullRegistry accepts some metrics and rejects the others.
type fullRegistry struct {
	*prometheus.Registry
	takes int
}

func (r *fullRegistry) Register(c prometheus.Collector) error {
	if r.takes--; r.takes < 0 {
		return errors.New("the registry is full")
	}
	return r.Registry.Register(c)
}

// A process that retries opening its database after a failure uses the same metric registry.
func TestOpen_Fails_LeavesNoMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	path := filepath.Join(t.TempDir(), "folder", "letterhead.db")
	if _, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: path, Registerer: registry}); err == nil {
		t.Fatal("Open succeeded in a folder that does not exist")
	}
	testmust.Succeed(t, os.Mkdir(filepath.Dir(path), 0o700))
	if _, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: path, Registerer: &fullRegistry{registry, 2}}); err == nil {
		t.Fatal("Open succeeded although its metrics were not registered")
	}
	s := testmust.Get(sqlstore.Open(t.Context(), sqlstore.Config{Path: path, Registerer: registry}))(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpen_PathWithURLCharacters_Succeeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?#%41.db")
	exec(t, open(t, path), `CREATE TABLE x (n BIGINT)`)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestWrite_ConcurrentWriters_TakeTurns(t *testing.T) {
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
		t.Errorf("%d after 200 turns, %v, want 200", n, err)
	}
}

func TestWrite_ContextEndsWhileWaiting_Returns(t *testing.T) {
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

func TestWrite_Begun_OutlivesContext(t *testing.T) {
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

func TestClose_SQLite(t *testing.T) {
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

func TestOpen_DamagedFile_IsCorrupt(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	s := open(t, whole)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	for range 20 {
		exec(t, s, `INSERT INTO x VALUES (randomblob(8000))`)
	}
	testmust.Succeed(t, s.Close())
	data := testmust.Get(os.ReadFile(whole))(t)
	for name, damaged := range map[string][]byte{
		"cut in the middle":  data[:len(data)/2],
		"cut by one page":    data[:len(data)-4096],
		"cut in the header":  data[:50],
		"no database at all": bytes.Repeat([]byte("letterhead "), 1000),
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		testmust.Succeed(t, os.WriteFile(path, damaged, 0o600))
		if s, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: path}); !errors.Is(err, sqlstore.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
	if _, err := sqlstore.Open(t.Context(), sqlstore.Config{Path: filepath.Join(dir, "no", "folder", "x.db")}); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("missing folder: %v", err)
	}
}

func TestWrite_DatabaseFull_WritesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "x.db"))
	exec(t, s, `CREATE TABLE x (n BYTEA)`)
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		if _, err := tx.Exec(`PRAGMA max_page_count = 10`); err != nil { // SQLite then fails as on a full disk
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
		t.Errorf("%d rows, want 1", n)
	}
}

func TestInValues(t *testing.T) {
	for want, got := range map[string]string{
		"($1,$2,$3)": sqlstore.InValues(1, []any{"a", "b", "c"}),
		"(VALUES (CAST($1 AS TEXT),CAST($2 AS BIGINT)),($3,$4))": sqlstore.InValues(2, []any{"a", int64(1), "b", int64(2)}),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
