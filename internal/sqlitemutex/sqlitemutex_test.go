package sqlitemutex

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"modernc.org/libc"
	_ "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// thread returns what SQLite knows of a thread.
func thread(t *testing.T) *libc.TLS {
	t.Helper()
	tls := libc.NewTLS()
	t.Cleanup(tls.Close)
	return tls
}

func newMutex(t *testing.T) uintptr {
	t.Helper()
	p := alloc(thread(t), sqlite3.SQLITE_MUTEX_RECURSIVE)
	t.Cleanup(func() { release(thread(t), p) })
	return p
}

func TestMutex_EnteredTwice_IsFreeAfterTheSecondLeave(t *testing.T) {
	p, one, other := newMutex(t), thread(t), thread(t)
	enter(one, p)
	if got := try(one, p); got != sqlite3.SQLITE_OK {
		t.Fatalf("the owner's second try: %d, want SQLITE_OK", got)
	}
	for left := range 2 {
		if got := try(other, p); got != sqlite3.SQLITE_BUSY {
			t.Errorf("another thread's try after %d leaves: %d, want SQLITE_BUSY", left, got)
		}
		leave(one, p)
	}
	if got := try(other, p); got != sqlite3.SQLITE_OK {
		t.Errorf("another thread's try after both leaves: %d, want SQLITE_OK", got)
	}
	leave(other, p)
}

func TestMutex_ManyThreads_ExcludeEachOther(t *testing.T) {
	const threads, turns = 8, 5000
	p := newMutex(t)
	count := 0 // not atomic: the mutex guards it
	var all sync.WaitGroup
	for range threads {
		tls := thread(t)
		all.Go(func() {
			for range turns {
				enter(tls, p)
				enter(tls, p)
				count++
				leave(tls, p)
				leave(tls, p)
			}
		})
	}
	all.Wait()
	if count != threads*turns {
		t.Errorf("counted %d turns, want %d", count, threads*turns)
	}
}

func TestAlloc_Static_IsTheSameMutex(t *testing.T) {
	tls := thread(t)
	if a, b := alloc(tls, sqlite3.SQLITE_MUTEX_STATIC_MAIN), alloc(tls, sqlite3.SQLITE_MUTEX_STATIC_MAIN); a != b {
		t.Errorf("two mutexes for SQLITE_MUTEX_STATIC_MAIN: %#x and %#x", a, b)
	}
	if a, b := alloc(tls, sqlite3.SQLITE_MUTEX_FAST), alloc(tls, sqlite3.SQLITE_MUTEX_FAST); a == b {
		t.Errorf("one mutex for two of SQLITE_MUTEX_FAST: %#x", a)
	}
}

func TestSQLite_ConnectionsAtTheSameTime_UseTheMutexes(t *testing.T) {
	const connections, rows = 8, 200
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))+
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxIdleConns(connections)
	if _, err := db.ExecContext(ctx, "CREATE TABLE t (a INTEGER)"); err != nil {
		t.Fatal(err)
	}
	all.Lock()
	if len(all.used) == 0 {
		t.Error("SQLite has allocated no mutex of this package")
	}
	all.Unlock()
	errs := make(chan error, connections)
	for range connections {
		go func() {
			for i := range rows {
				if _, err := db.ExecContext(ctx, "INSERT INTO t VALUES (?)", i); err != nil {
					errs <- fmt.Errorf("insert row %d: %w", i, err)
					return
				}
			}
			errs <- nil
		}()
	}
	for range connections {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n); err != nil || n != connections*rows {
		t.Errorf("%d rows (%v), want %d", n, err, connections*rows)
	}
}
