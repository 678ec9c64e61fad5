package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testlink"
	"letterhead/internal/testmust"
)

// lostCommitTimeout is the deadline of calls that must not wait for other writers' lost commits.
const lostCommitTimeout = time.Minute

func isCommit(b []byte) bool { return bytes.Contains(b, []byte("COMMIT")) }

// Even if many connections lose the response to COMMIT at the same time, other connections query the outcome.
func TestCommit_AllWritersLoseResponse_DoNotWaitForEachOther(t *testing.T) {
	for _, writers := range []int{1, sqlstore.DefaultWriters} {
		t.Run(fmt.Sprint(writers), func(t *testing.T) {
			cfg := sqlstoretest.Postgres(t)
			link, through := testlink.ThroughURL(t, cfg.URL)
			cfg.URL, cfg.Writers = through, writers
			s := sqlstoretest.Open(t, cfg)
			exec(t, s, `CREATE TABLE x (n BIGINT)`)
			link.Swallow(writers, isCommit)
			ctx, cancel := context.WithTimeout(t.Context(), lostCommitTimeout)
			defer cancel()
			var all, inside sync.WaitGroup
			inside.Add(writers)
			for range writers {
				all.Go(func() {
					runs := 0
					err := s.Write(ctx, func(tx *sqlstore.Tx) error {
						runs++
						_, err := tx.Exec(`INSERT INTO x VALUES (1)`)
						if runs == 1 {
							inside.Done()
							inside.Wait()
						}
						return err
					})
					if err != nil || runs != 1 {
						t.Errorf("%d runs, %v, want 1", runs, err)
					}
				})
			}
			inside.Wait()
			var n int
			if err := s.One(ctx, `SELECT 1`, nil, &n); err != nil {
				t.Errorf("One, at the same time: %v", err)
			}
			all.Wait()
			if n := count(t, s.Read(), "x"); n != writers {
				t.Errorf("%d rows, want %d", n, writers)
			}
		})
	}
}

// timelines returns the Config of a schema in which body defines pg_walfile_name, so that a test can change the
// timeline.
func timelines(t *testing.T, body string) sqlstore.Config {
	t.Helper()
	cfg := sqlstoretest.WithClock(t, sqlstoretest.Postgres(t)) // for its search path
	sqlstoretest.Exec(t, cfg.URL, `
CREATE TABLE timeline (file text);
INSERT INTO timeline VALUES ('000000010000000000000054');
CREATE FUNCTION pg_walfile_name(pg_lsn) RETURNS text VOLATILE `+body)
	return cfg
}

// After a failover the number of a transaction may belong to another transaction of the new primary.
func TestCommit_BeforeFailOver_IsAmbiguous(t *testing.T) {
	cfg := timelines(t, `LANGUAGE sql AS 'SELECT file FROM timeline'`)
	direct := cfg.URL
	link, through := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = through
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	runs := 0
	write := func(meanwhile string) error {
		return s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			runs++
			_, err := tx.Exec(`INSERT INTO x VALUES (1)`)
			sqlstoretest.Exec(t, direct, meanwhile)
			link.Swallow(1, isCommit)
			return err
		})
	}
	for _, same := range []string{`UPDATE timeline SET file = '000000010000000000000055'`, `SELECT 1`} {
		if err := write(same); err != nil {
			t.Errorf("on the same timeline: %v", err)
		}
	}
	if err := write(`UPDATE timeline SET file = '000000020000000000000055'`); !errors.Is(err, sqlstore.ErrAmbiguous) {
		t.Errorf("on another timeline: %v", err)
	}
	if runs != 3 {
		t.Errorf("%d runs, want 3", runs)
	}
}

func TestOpen_TimelineUnavailable_Succeeds(t *testing.T) {
	cfg := timelines(t, `LANGUAGE plpgsql AS 'BEGIN RAISE insufficient_privilege; END'`)
	link, through := testlink.ThroughURL(t, cfg.URL)
	cfg.URL = through
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.Exec(`INSERT INTO x VALUES (1)`)
		link.Swallow(1, isCommit)
		return err
	})
	if err != nil || count(t, s.Read(), "x") != 1 {
		t.Errorf("%d rows, %v", count(t, s.Read(), "x"), err)
	}
}

// outlast returns once database/sql has ended a transaction whose context has expired.
func outlast(tx *sqlstore.Tx) error {
	for {
		if _, err := tx.Inner().ExecContext(context.Background(), `SELECT 1`); err != nil {
			if errors.Is(err, sql.ErrTxDone) {
				return nil
			}
			return err
		}
	}
}

func TestWrite_TimeoutBetweenStatements_IsUnavailable(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	patient := sqlstoretest.Open(t, cfg)
	exec(t, patient, `CREATE TABLE x (n BIGINT)`)
	cfg.WriteTimeout = 200 * time.Millisecond
	hasty := sqlstoretest.Open(t, cfg)
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	left, leave := context.WithCancel(t.Context())
	for _, c := range []struct {
		name  string
		store *sqlstore.Store
		ctx   context.Context
		then  func()
		want  []error
		not   error
	}{
		{"WriteTimeout", hasty, t.Context(), func() {}, []error{sqlstore.ErrUnavailable, context.DeadlineExceeded}, context.Canceled},
		{"caller's deadline", patient, soon, func() {}, []error{sqlstore.ErrUnavailable, context.DeadlineExceeded}, context.Canceled},
		{"caller left", patient, left, leave, []error{context.Canceled}, sqlstore.ErrUnavailable},
	} {
		err := c.store.Write(c.ctx, func(tx *sqlstore.Tx) error {
			if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err != nil {
				return err
			}
			c.then()
			return outlast(tx)
		})
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", c.name, err, want)
			}
		}
		if errors.Is(err, c.not) {
			t.Errorf("%s: %v is also %v", c.name, err, c.not)
		}
	}
	if n := count(t, patient.Read(), "x"); n != 0 {
		t.Errorf("%d rows, want 0", n)
	}
}

// When WriteTimeout expires, the statement's own context is not canceled.
func TestWrite_TimeoutDuringStatementWithOwnContext_IsUnavailable(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	cfg.URL += "&statement_timeout=60000" // longer than WriteTimeout
	cfg.WriteTimeout = 200 * time.Millisecond
	s := sqlstoretest.Open(t, cfg)
	own, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(own, `SELECT pg_sleep(60)`)
		return err
	})
	if !errors.Is(err, sqlstore.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A node that creates an index on a large table delays the start of another node, but does not prevent it.
func TestSetup_WaitsLongerThanBusyTimeout(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	busy := sqlstoretest.Open(t, cfg)
	application := fmt.Sprint("waits_for_its_turn_", time.Now().UnixNano()) // other tests may run at the server
	waiting := cfg
	waiting.URL += "&application_name=" + application
	waiting.BusyTimeout = 10 * time.Millisecond
	waits := sqlstoretest.Open(t, waiting)
	done := make(chan error, 1)
	err := busy.Setup(t.Context(), func(*sqlstore.Tx) error {
		go func() {
			done <- waits.Setup(t.Context(), func(tx *sqlstore.Tx) error {
				var timeout string
				if err := tx.QueryRow(`SELECT current_setting('lock_timeout')`).Scan(&timeout); err != nil || timeout != "10ms" {
					return fmt.Errorf("its own statements wait %s for a lock, %v", timeout, err)
				}
				return nil
			})
		}()
		for late := 0; late == 0; { // until the wait is twenty times as long
			select {
			case err := <-done:
				return fmt.Errorf("it did not wait: %v", err)
			default:
			}
			err := busy.Read().QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
				AND wait_event_type = 'Lock' AND clock_timestamp() > query_start + interval '200 ms'`, application).Scan(&late)
			if err != nil {
				return err
			}
		}
		return nil
	})
	testmust.Succeed(t, err)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The transaction number, which is needed after a lost COMMIT, is read without a separate round trip.
func TestWrite_SendsBeginStatementsCommit(t *testing.T) {
	cfg := sqlstoretest.Postgres(t)
	link, through := testlink.ThroughURL(t, cfg.URL)
	cfg.URL, cfg.Writers = through, 1
	s := sqlstoretest.Open(t, cfg)
	exec(t, s, `CREATE TABLE x (n BIGINT)`)
	var before int64
	for range 2 { // the first prepares the statement
		before = link.RoundTrips()
		exec(t, s, `INSERT INTO x VALUES (1)`)
	}
	if n := link.RoundTrips() - before; n != 3 {
		t.Errorf("%d round trips for one statement, want 3", n)
	}
}
