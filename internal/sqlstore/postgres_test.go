package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
	"letterhead/internal/testservices"
)

func TestOpen_BadPostgresConfiguration_FailsWithoutServer(t *testing.T) {
	for _, c := range []struct {
		cfg   sqlstore.Config
		parts []string
	}{
		{sqlstore.Config{}, []string{"needs a path or a URL"}},
		{sqlstore.Config{Path: "a", URL: "postgres://h/d"}, []string{"both"}},
		{sqlstore.Config{URL: "mysql://u:s3cret@h/d"}, []string{"postgres://"}},
		{sqlstore.Config{URL: "postgres://u:s3cret@h:port/d"}, []string{"malformed"}},
		{sqlstore.Config{URL: "postgres://u:s3cret@h/d?sslmode=perhaps"}, []string{"cannot be used"}},
		{sqlstore.Config{URL: "postgres://h/d?password=s3cret&connect_timeout=s3cret"}, []string{"cannot be used"}},
		{sqlstore.Config{URL: "postgres://u:s3cret@@/x@h/d?pool_max_conns=s3cret"}, []string{"URL"}},
		{sqlstore.Config{URL: "postgres://u:s3cr%zzet@h/d"}, []string{"malformed"}},
	} {
		err := c.cfg.Validate()
		for _, part := range c.parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q is not in: %v", part, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "s3cr") {
			t.Errorf("the password is in: %v", err)
		}
	}
}

func TestOpen_NoServer_IsUnavailable(t *testing.T) {
	proxy, url := testlink.ThroughURL(t, "postgres://letterhead:s3cret@127.0.0.1:1/x?sslmode=disable")
	for _, fault := range []struct {
		name string
		make func()
	}{{"refuses", proxy.Refuse}, {"hangs", func() { proxy.Resume(); proxy.Hang() }}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := sqlstore.Open(ctx, sqlstore.Config{URL: url})
		cancel()
		if !errors.Is(err, sqlstore.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "s3cret") {
			t.Errorf("%s: %v", fault.name, err)
		}
	}
}

func TestOpen_MissingSchema_ReportsItsName(t *testing.T) {
	server := testservices.Postgres(t)
	_, err := sqlstore.Open(t.Context(), sqlstore.Config{URL: server + "&search_path=never_made"})
	if err == nil || !strings.Contains(err.Error(), "CREATE SCHEMA") {
		t.Error(err)
	}
}

func TestConnections_HaveTimeouts(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	cfg.ReadTimeout, cfg.WriteTimeout, cfg.BusyTimeout = 2*time.Second, 3*time.Second, time.Second
	s := sqlstoretest.Open(t, cfg)
	settings := `SELECT concat_ws(' ', current_setting('application_name'), current_setting('statement_timeout'),
		current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'), current_setting('default_transaction_read_only'))`
	var reader, writer string
	if err := s.Read().QueryRow(settings).Scan(&reader); err != nil || reader != "letterhead 2s 1s 1min on" {
		t.Errorf("reader: %s, %v", reader, err)
	}
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error { return tx.QueryRow(settings).Scan(&writer) })
	if err != nil || writer != "letterhead 3s 1s 10s off" {
		t.Errorf("writer: %s, %v", writer, err)
	}
}

func TestStatement_TakesTooLong_IsUnavailable(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	cfg.ReadTimeout, cfg.BusyTimeout = 200*time.Millisecond, 200*time.Millisecond
	s := sqlstoretest.Open(t, cfg)
	var nothing string
	err := sqlstore.Classify(s.Read().QueryRow(`SELECT pg_sleep(60)::text`).Scan(&nothing))
	if !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	err = s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		if _, err := tx.Exec(`LOCK TABLE x`); err != nil {
			return err
		}
		err := s.Write(t.Context(), func(tx *sqlstore.Tx) error { _, err := tx.Exec(`INSERT INTO x VALUES (1)`); return err })
		if !errors.Is(err, sqlstore.ErrUnavailable) {
			t.Errorf("lock of another: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// During any fault of the network, calls end within their deadline with ErrUnavailable. After it the same store works.
func TestFaults_EndWithinDeadlineAndRecover(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	write := func(ctx context.Context) error {
		// Like the runner: statements with a context that does not end.
		return s.Write(ctx, func(tx *sqlstore.Tx) error {
			_, err := tx.ExecContext(context.WithoutCancel(ctx), `INSERT INTO x VALUES (1)`)
			return err
		})
	}
	read := func(ctx context.Context) error {
		var n int
		return sqlstore.Classify(s.Read().QueryRowContext(ctx, `SELECT count(*) FROM x`).Scan(&n))
	}
	snapshot := func(ctx context.Context) error {
		tx, err := s.Snapshot(ctx)
		if err == nil {
			err = tx.Rollback()
		}
		return err
	}
	calls := map[string]func(context.Context) error{"write": write, "read": read, "snapshot": snapshot,
		"setup": func(ctx context.Context) error { return s.Setup(ctx, func(*sqlstore.Tx) error { return nil }) },
		"one": func(ctx context.Context) error {
			var n int
			return s.One(ctx, `INSERT INTO x VALUES (1) RETURNING n`, nil, &n)
		}}
	for _, fault := range []struct {
		name string
		make func()
	}{{"hangs", proxy.Hang}, {"refuses", proxy.Refuse}} {
		for name, call := range calls {
			if err := call(t.Context()); err != nil {
				t.Fatalf("%s before: %v", name, err)
			}
			fault.make()
			var group sync.WaitGroup
			for range 3 * sqlstore.DefaultWriters { // more than the number of connections
				group.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					defer cancel()
					if err := call(ctx); !errors.Is(err, sqlstore.ErrUnavailable) {
						t.Errorf("%s while the server %s: %v", name, fault.name, err)
					}
				})
			}
			group.Wait()
			proxy.Resume()
			eventually(t, name+" after the server "+fault.name, call)
		}
	}
	proxy.Cut() // idle connections are dead, and the pool has not noticed
	eventually(t, "write after the connections were cut", write)
	eventually(t, "read after the connections were cut", read)
}

func TestOpen_PoolLimitInURL_IsSharedByReadersAndWriters(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	cfg.URL += "&pool_max_conns=4"
	s := sqlstoretest.Open(t, cfg)
	for range 2 { // the other two connections write
		tx, err := s.Snapshot(t.Context())
		testmust.Succeed(t, err)
		defer tx.Rollback()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Snapshot(ctx); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("a third reader gets a connection of four: %v", err)
	}
	if err := s.Write(t.Context(), func(*sqlstore.Tx) error { return nil }); err != nil {
		t.Errorf("write while all readers are in use: %v", err)
	}
}

// eventually repeats a call until it succeeds or the test times out.
func eventually(t *testing.T, what string, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := call(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestWrite_ContextEnds_Returns(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Write(ctx, func(tx *sqlstore.Tx) error {
		if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err != nil {
			return err
		}
		cancel()
		_, err := tx.ExecContext(context.Background(), `SELECT pg_sleep(60)`)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("write: %v", err)
	}
	if n := count(t, s.Read(), "x"); n != 0 {
		t.Errorf("%d rows, want 0", n)
	}
}

// kill ends the connection that a transaction runs on, as an administrator or a restart does.
func kill(t *testing.T, cfg sqlstore.Config, tx *sqlstore.Tx) {
	t.Helper()
	var pid int
	testmust.Succeed(t, tx.QueryRow(`SELECT pg_backend_pid()`).Scan(&pid))
	sqlstoretest.Exec(t, cfg.URL, fmt.Sprintf(`SELECT pg_terminate_backend(%d, 10000)`, pid))
}

func TestWrite_ConnectionLostBeforeCommit_RunsAgain(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	runs := 0
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		runs++
		if _, err := tx.Exec(`INSERT INTO x VALUES ($1)`, runs); err != nil {
			return err
		}
		if runs == 1 {
			kill(t, cfg, tx)
		}
		return nil
	})
	if err != nil || runs != 2 {
		t.Errorf("%d runs, %v, want 2", runs, err)
	}
	if got := texts2(t, s, `SELECT n::text FROM x`); len(got) != 1 || got[0] != "2" {
		t.Errorf("rows %v", got)
	}
}

// No call fails because a connection died while idle, for example after a restart of the server.
func TestConnections_Dead_AreNotUsed(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	s := sqlstoretest.Open(t, cfg)
	for range 5 {
		var pid int
		testmust.Succeed(t, s.Read().QueryRow(`SELECT pg_backend_pid()`).Scan(&pid))
		sqlstoretest.Exec(t, cfg.URL, fmt.Sprintf(`SELECT pg_terminate_backend(%d, 10000)`, pid))
	}
}

func TestWrite_Retries_AreLimited(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	runs := 0
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		runs++
		return fmt.Errorf("a serialization failure that never ends: %w", &pgconn.PgError{Code: "40001"})
	})
	if !errors.Is(err, sqlstore.ErrUnavailable) || runs < 2 || runs > 100 {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func TestWrite_Deadlock_IsRetried(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	exec(t, s, `CREATE TABLE x (k BIGINT PRIMARY KEY, n BIGINT)`, `INSERT INTO x VALUES (1, 0), (2, 0)`)
	var group sync.WaitGroup
	var meet sync.WaitGroup // both hold one row on their first run
	meet.Add(2)
	for i := range 2 {
		group.Go(func() {
			first := true
			err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
				if _, err := tx.Exec(`UPDATE x SET n = n + 1 WHERE k = $1`, 1+i); err != nil {
					return err
				}
				if first {
					first = false
					meet.Done()
					meet.Wait()
				}
				_, err := tx.Exec(`UPDATE x SET n = n + 1 WHERE k = $1`, 2-i)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := texts2(t, s, `SELECT n::text FROM x`); len(got) != 2 || got[0] != "2" || got[1] != "2" {
		t.Errorf("rows %v", got)
	}
}

// A COMMIT whose response is lost is neither repeated blindly nor reported as failed: the store asks the server for
// the outcome.
// Rule 2.
func TestCommit_ResponseLost_OutcomeIsFound(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	runs := 0
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		runs++
		if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err != nil {
			return err
		}
		proxy.Swallow(1, func(b []byte) bool { return bytes.Contains(b, []byte("COMMIT")) })
		return nil
	})
	if err != nil || runs != 1 || count(t, s.Read(), "x") != 1 {
		t.Errorf("%d runs, %d rows, %v", runs, count(t, s.Read(), "x"), err)
	}
}

func TestCommit_NeverArrived_RunsAgain(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = url
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	runs := 0
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		runs++
		if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err != nil {
			return err
		}
		if runs == 1 {
			proxy.Cut()
		}
		return nil
	})
	if err != nil || runs != 2 || count(t, s.Read(), "x") != 1 {
		t.Errorf("%d runs, %d rows, %v", runs, count(t, s.Read(), "x"), err)
	}
}

func TestCommit_OutcomeUnknown_IsAmbiguous(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	direct := sqlstoretest.Open(t, cfg)
	cfg.URL = url
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	var committed atomic.Bool
	var err error
	for limit := 500 * time.Millisecond; !committed.Load() && !errors.Is(err, sqlstore.ErrAmbiguous); limit *= 2 { // on a busy machine it may end before the commit
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err = s.Write(ctx, func(tx *sqlstore.Tx) error {
			if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err != nil {
				return err
			}
			proxy.Swallow(1, func(b []byte) bool {
				if !bytes.Contains(b, []byte("COMMIT")) {
					return false
				}
				committed.Store(true)
				go proxy.Refuse()
				return true
			})
			return nil
		})
		cancel()
	}
	if !errors.Is(err, sqlstore.ErrAmbiguous) || !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("write: %v", err)
	}
	if n := count(t, direct.Read(), "x"); n != 1 {
		t.Errorf("%d rows of a commit that arrived, want 1", n)
	}
}

// A transaction fails even if fn ignores the error of a statement.
func TestCommit_AfterFailedStatement_Fails(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	exec(t, s, `CREATE TABLE x (n BIGINT PRIMARY KEY)`)
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		_, _ = tx.Exec(`INSERT INTO x VALUES (1)`)
		_, _ = tx.Exec(`INSERT INTO x VALUES (1)`)
		return nil
	})
	if err == nil || count(t, s.Read(), "x") != 0 {
		t.Errorf("write: %v", err)
	}
}

// Several nodes can create their tables at the same time.
func TestSetup_ConcurrentNodes_Succeed(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	stores := []*sqlstore.Store{sqlstoretest.Open(t, cfg), sqlstoretest.Open(t, cfg), sqlstoretest.Open(t, cfg)}
	for round := range 5 {
		var group sync.WaitGroup
		for _, s := range stores {
			for range 3 {
				group.Go(func() {
					err := s.Setup(t.Context(), func(tx *sqlstore.Tx) error {
						_, err := tx.Exec(fmt.Sprintf(`CREATE TABLE IF NOT EXISTS t%d (n BIGINT PRIMARY KEY)`, round))
						return err
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
	}
}

func TestSetup_SeesPreviousSetup(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	a, b := sqlstoretest.Open(t, cfg), sqlstoretest.Open(t, cfg)
	exec(t, a, `CREATE TABLE x (n BIGINT)`)
	var group sync.WaitGroup
	for _, s := range []*sqlstore.Store{a, b, a, b} {
		group.Go(func() {
			err := s.Setup(t.Context(), func(tx *sqlstore.Tx) error {
				var n int
				if err := tx.QueryRow(`SELECT count(*) FROM x`).Scan(&n); err != nil || n > 0 {
					return err
				}
				_, err := tx.Exec(`INSERT INTO x VALUES (1)`)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := count(t, a.Read(), "x"); n != 1 {
		t.Errorf("%d of four made the row, want 1", n)
	}
}

func TestClose_Postgres(t *testing.T) {
	s := sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Write(t.Context(), func(*sqlstore.Tx) error { return nil }); !errors.Is(err, sqlstore.ErrClosed) {
		t.Errorf("write: %v", err)
	}
	if _, err := s.Snapshot(t.Context()); !errors.Is(err, sqlstore.ErrClosed) {
		t.Errorf("snapshot: %v", err)
	}
	var n int
	if err := s.One(t.Context(), `SELECT 1`, nil, &n); !errors.Is(err, sqlstore.ErrClosed) {
		t.Errorf("one: %v", err)
	}
}

func TestSchemas_AreIndependent(t *testing.T) {
	a, b := sqlstoretest.Open(t, sqlstoretest.Postgres(t)), sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	exec(t, a, `CREATE TABLE x (n BIGINT)`)
	exec(t, b, `CREATE TABLE x (n BIGINT)`, `INSERT INTO x VALUES (1)`)
	if n := count(t, a.Read(), "x"); n != 0 {
		t.Errorf("%d rows of the other, want 0", n)
	}
	err := a.Write(t.Context(), func(tx *sqlstore.Tx) error {
		names, err := sqlstore.TablesWithPrefix(t.Context(), tx, "")
		if !slices.Equal(names, []string{"log_work", "x"}) { // the first one is the store's own
			t.Errorf("tables %q", names)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestValues_ReadAsAny_HaveSameTypes(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, s.DDL(`CREATE TABLE x (k {bigkey} PRIMARY KEY, t TEXT, f DOUBLE PRECISION, b BYTEA, z TEXT)`))
		exec(t, s, `INSERT INTO x (k, t, f) VALUES (1, 'a', 0.5)`)
		var n, text, f, b, z, c any
		err := s.Read().QueryRow(`SELECT k, t, f, b, z, count(*) OVER () FROM x`).Scan(&n, &text, &f, &b, &z, &c)
		if n != int64(1) || text != "a" || f != 0.5 || b != nil || z != nil || c != int64(1) || err != nil {
			t.Errorf("%#v %#v %#v %#v %#v %#v %v", n, text, f, b, z, c, err)
		}
		var sum any
		if err := s.Read().QueryRow(`SELECT sum(k) FROM x`).Scan(&sum); err != nil || fmt.Sprint(sum) != "1" {
			t.Errorf("sum: %#v, %v", sum, err)
		}
		if err := s.Read().QueryRow(`SELECT k FROM x WHERE k = 2`).Scan(&n); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
	})
}

func TestCall_WithoutDeadline_HungServer_Ends(t *testing.T) {
	t.Parallel() // it waits for the time that a silent server gets
	cfg := sqlstoretest.Postgres(t)
	proxy, url := testlink.ThroughURL(t, cfg.URL)
	cfg.URL, cfg.ReadTimeout, cfg.WriteTimeout = url, 100*time.Millisecond, 100*time.Millisecond
	s := sqlstoretest.Open(t, cfg)
	var n int
	testmust.Succeed(t, s.Read().QueryRow(`SELECT 1`).Scan(&n))
	proxy.Hang()
	if err := sqlstore.Classify(s.Read().QueryRow(`SELECT 1`).Scan(&n)); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	if err := s.Write(context.Background(), func(*sqlstore.Tx) error { return nil }); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Errorf("write: %v", err)
	}
	proxy.Resume()
}

func TestDDL_TableShapes(t *testing.T) {
	lite := sqlstoretest.Open(t, sqlstoretest.SQLite(t))
	server := sqlstoretest.Open(t, sqlstoretest.Postgres(t))
	for _, c := range []struct{ text, lite, server string }{
		{"k {bigkey} PRIMARY KEY", "k INTEGER PRIMARY KEY", "k BIGINT PRIMARY KEY"},
		{"PRIMARY KEY (a)) {bykey}", "PRIMARY KEY (a)) WITHOUT ROWID", "PRIMARY KEY (a)) "},
		{"a TEXT, context TEXT NOT NULL", "a TEXT, context TEXT NOT NULL", `a TEXT COLLATE "C", context TEXT COLLATE "C" NOT NULL`},
		{"CHECK (CAST(n AS TEXT) <> '')", "CHECK (CAST(n AS TEXT) <> '')", "CHECK (CAST(n AS TEXT) <> '')"},
		{"text BIGINT, TEXTS BYTEA", "text BIGINT, TEXTS BYTEA", "text BIGINT, TEXTS BYTEA"},
	} {
		if got := lite.DDL(c.text); got != c.lite {
			t.Errorf("SQLite: %s", got)
		}
		if got := server.DDL(c.text); got != c.server {
			t.Errorf("PostgreSQL: %s", got)
		}
	}
}

func TestURL_SeveralHosts_UsesWritableOne(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	dead, url := testlink.ThroughURL(t, cfg.URL)
	dead.Refuse()
	second, rest, _ := strings.Cut(strings.TrimPrefix(cfg.URL, "postgres://letterhead@"), "/")
	first, _, _ := strings.Cut(strings.TrimPrefix(url, "postgres://letterhead@"), "/")
	for _, attrs := range []string{"", "&target_session_attrs=read-write", "&target_session_attrs=primary", "&target_session_attrs=any"} {
		cfg.URL = "postgres://letterhead@" + first + "," + second + "/" + rest + attrs
		s := sqlstoretest.Open(t, cfg)
		exec(t, s, `CREATE TABLE IF NOT EXISTS x (n BIGINT)`)
		if n := count(t, s.Read(), "x"); n != 0 {
			t.Errorf("%s: %d rows, want 0", attrs, n)
		}
	}
}

// A read-only server, such as a standby or a demoted primary, counts as unavailable.
func TestWrite_ReadOnlyServer_IsUnavailable(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	cfg.URL += "&default_transaction_read_only=on"
	if _, err := sqlstore.Open(t.Context(), cfg); !errors.Is(err, sqlstore.ErrUnavailable) {
		t.Error(err)
	}
}
