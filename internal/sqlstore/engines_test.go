package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// Guarantees of both engines.

func TestWrite_AllOrNothing(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, `CREATE TABLE x (n BIGINT)`)
		mine := errors.New("mine")
		err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			if _, err := tx.Exec(`INSERT INTO x VALUES ($1)`, 1); err != nil {
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
					t.Error("Write did not propagate the panic")
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
			t.Errorf("%d rows of writes that failed, want 0", n)
		}
		exec(t, s, `INSERT INTO x VALUES (1)`)
		if n := count(t, s.Read(), "x"); n != 1 {
			t.Errorf("%d rows after one write, want 1", n)
		}
		if _, err := s.Read().Exec(`INSERT INTO x VALUES (1)`); err == nil {
			t.Error("a reader wrote")
		}
	})
}

func TestWrite_ConcurrentUpdates_LoseNone(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
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
		const writers, each = 4, 20
		for range writers {
			group.Go(func() {
				for range each {
					if err := s.Write(t.Context(), add); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		var n int
		if err := s.Read().QueryRow(`SELECT n FROM x`).Scan(&n); err != nil || n != writers*each {
			t.Errorf("%d after %d turns, %v", n, writers*each, err)
		}
	})
}

func TestSnapshot_SeesOneState(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, `CREATE TABLE x (n BIGINT)`)
		tx := testmust.Get(s.Snapshot(t.Context()))(t)
		before := count(t, tx, "x")
		exec(t, s, `INSERT INTO x VALUES (1)`)
		if n := count(t, tx, "x"); n != before {
			t.Errorf("%d rows, want %d as before", n, before)
		}
		if n := count(t, s.Read(), "x"); n != 1 {
			t.Errorf("%d rows outside the snapshot, want 1", n)
		}
		if _, err := tx.Exec(`INSERT INTO x VALUES (1)`); err == nil {
			t.Error("a snapshot wrote")
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	})
}

// Every size around the thresholds of the engines, with every kind of value that folds write.
func TestInsert_EveryRowOnce(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, s.DDL(`CREATE TABLE x (k {bigkey} PRIMARY KEY, v TEXT NOT NULL, f DOUBLE PRECISION, b BYTEA, n BIGINT, p BIGINT)`))
		const into, columns = "x (k, v, f, b, n, p)", 6
		type position uint64
		total := 0
		for _, conflict := range []string{"", "ON CONFLICT (k) DO UPDATE SET v = excluded.v"} {
			for _, rows := range []int{0, 1, 15, 16, 17, 59, 60, 61, 120, 599, 600, 601, 1000} {
				var values []any
				for i := range rows {
					k := int64(total + i)
					f, n := any(float64(k)/4), any(sql.NullInt64{Int64: k, Valid: true})
					if k%3 == 0 {
						f, n = nil, sql.NullInt64{}
					}
					values = append(values, k, fmt.Sprint("v", k), f, []byte{0, byte(k), 0xff}, n, position(k))
				}
				err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
					return sqlstore.Insert(t.Context(), tx, into, columns, conflict, values)
				})
				if err != nil {
					t.Fatalf("%d rows: %v", rows, err)
				}
				total += rows
			}
		}
		rows := testmust.Get(s.Read().Query(`SELECT k, v, f, b, n, p FROM x ORDER BY k`))(t)
		defer rows.Close()
		var at int64
		for ; rows.Next(); at++ {
			got := make([]any, columns)
			testmust.Succeed(t, rows.Scan(&got[0], &got[1], &got[2], &got[3], &got[4], &got[5]))
			want := []any{at, fmt.Sprint("v", at), float64(at) / 4, []byte{0, byte(at), 0xff}, at, at}
			if at%3 == 0 {
				want[2], want[4] = nil, nil
			}
			if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Fatalf("row %d is %#v, want %#v", at, got, want)
			}
		}
		if err := rows.Err(); err != nil || at != int64(total) {
			t.Errorf("%d rows, want %d: %v", at, total, err)
		}
	})
}

func TestInsert_Conflict_Updates(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, s.DDL(`CREATE TABLE x (k TEXT NOT NULL PRIMARY KEY, v BIGINT NOT NULL)`))
		const conflict = "ON CONFLICT (k) DO UPDATE SET v = excluded.v"
		for round := range int64(2) {
			err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
				for _, many := range []int{1, 70, 250, 300} { // several in one transaction
					var values []any
					for i := range many {
						values = append(values, fmt.Sprintf("%d/%d", many, i), round)
					}
					if err := sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, conflict, values); err != nil {
						return err
					}
				}
				return nil
			})
			testmust.Succeed(t, err)
			var n, sum int64
			if err := s.Read().QueryRow(`SELECT count(*), sum(v) FROM x`).Scan(&n, &sum); err != nil || n != 621 || sum != 621*round {
				t.Errorf("round %d: %d rows, sum %d, %v", round, n, sum, err)
			}
		}
		many := make([]any, 0, 400)
		for i := range 200 {
			many = append(many, fmt.Sprintf("70/%d", i%100), int64(i)) // 70/0 to 70/69 exist
		}
		for _, values := range [][]any{many[:2], many} {
			err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
				return sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, "", values)
			})
			if err == nil {
				t.Errorf("%d values: a key was written twice", len(values))
			}
		}
		err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			return sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, "", []any{"a", int64(2), "b"})
		})
		if err == nil {
			t.Error("Insert accepted three values for rows of two columns")
		}
	})
}

func TestText_ComparesBytes(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, s.DDL(`CREATE TABLE x (a TEXT NOT NULL, b TEXT NOT NULL, PRIMARY KEY (a, b))`))
		texts := []string{"", "a", "A", "b", "B", "ä", "Z", "z", "a-b", "ab", "a b", "a_b", "\u00ff", "zz", "Ω", "🦊", "\uffff"}
		var values []any
		for _, text := range texts {
			values = append(values, text, "x")
		}
		err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			return sqlstore.Insert(t.Context(), tx, "x (a, b)", 2, "", values)
		})
		testmust.Succeed(t, err)
		slices.SortFunc(texts, strings.Compare)
		got := texts2(t, s, `SELECT a FROM x ORDER BY a, b`)
		if !slices.Equal(got, texts) {
			t.Errorf("in order:\n%q, want\n%q", got, texts)
		}
		if got := texts2(t, s, `SELECT a FROM x WHERE (a, b) > ($1, $2) ORDER BY a, b`, texts[5], "x"); !slices.Equal(got, texts[6:]) {
			t.Errorf("after %q: %q", texts[5], got)
		}
	})
}

func texts2(t *testing.T, s *sqlstore.Store, query string, args ...any) (all []string) {
	t.Helper()
	rows := testmust.Get(s.Read().Query(query, args...))(t)
	defer rows.Close()
	for rows.Next() {
		var text string
		testmust.Succeed(t, rows.Scan(&text))
		all = append(all, text)
	}
	testmust.Succeed(t, rows.Err())
	return all
}

func TestText_InvalidForPostgres_IsReplaced(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, s.DDL(`CREATE TABLE x (k {bigkey} PRIMARY KEY, v TEXT NOT NULL)`))
		const bad, good = "a\x00\x00b\xff\xfec\xed\xa0\x80", "a\uFFFD\uFFFDb\uFFFDc\uFFFD"
		var values []any
		for i := range 100 {
			values = append(values, int64(i), bad)
		}
		err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			if err := sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, "", values); err != nil {
				return err
			}
			if err := sqlstore.Insert(t.Context(), tx, "x (k, v)", 2, "", []any{int64(100), bad}); err != nil {
				return err
			}
			_, err := tx.Exec(`INSERT INTO x (k, v) VALUES ($1, $2)`, 101, bad)
			return err
		})
		testmust.Succeed(t, err)
		if values[1] != bad {
			t.Error("Insert changed its argument")
		}
		got := texts2(t, s, `SELECT DISTINCT v FROM x`)
		if len(got) != 1 || got[0] != good {
			t.Errorf("%q, want %q", got, good)
		}
		texts2(t, s, `SELECT v FROM x WHERE v = $1`, bad) // no error
	})
}

func TestIn_SeveralColumns_FindsRows(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, s.DDL(`CREATE TABLE x (a TEXT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (a, n))`))
		exec(t, s, `INSERT INTO x VALUES ('a', 1), ('a', 2), ('b', 1), ('b', 9007199254740993)`)
		values := []any{"a", int64(2), "b", int64(9007199254740993), "b", int64(2)}
		if got := texts2(t, s, `SELECT a FROM x WHERE (a, n) IN `+sqlstore.InValues(2, values)+` ORDER BY a`, values...); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("pairs: %q", got)
		}
		if got := texts2(t, s, `SELECT DISTINCT a FROM x WHERE a IN `+sqlstore.InValues(1, []any{"b", "c"}), "b", "c"); !slices.Equal(got, []string{"b"}) {
			t.Errorf("single: %q", got)
		}
	})
}

func TestTablesWithPrefix_ListsTables(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, `CREATE TABLE a_b_2 (n BIGINT)`, `CREATE TABLE a_b_1 (n BIGINT)`, `CREATE TABLE axb_1 (n BIGINT)`)
		err := s.Write(t.Context(), func(tx *sqlstore.Tx) error {
			names, err := sqlstore.TablesWithPrefix(t.Context(), tx, "a_b_")
			if !slices.Equal(names, []string{"a_b_1", "a_b_2"}) {
				t.Errorf("names = %q, want a_b_1 and a_b_2", names)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestMissingTable_IsReported(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		_, err := s.Read().Query(`SELECT n FROM gone`)
		if !sqlstore.IsUndefinedTable(sqlstore.Classify(err)) || errors.Is(sqlstore.Classify(err), sqlstore.ErrUnavailable) {
			t.Errorf("on Read: %v", err)
		}
		err = s.Write(t.Context(), func(tx *sqlstore.Tx) error { _, err := tx.Exec(`DROP TABLE gone`); return err })
		if !sqlstore.IsUndefinedTable(err) {
			t.Errorf("on Write: %v", err)
		}
		if _, err = s.Read().Query(`SELECT gone`); err == nil || sqlstore.IsUndefinedTable(err) {
			t.Errorf("a missing column: %v", err)
		}
	})
}

func TestOne_RunsStatement(t *testing.T) {
	sqlstoretest.EachStore(t, func(t *testing.T, s *sqlstore.Store) {
		exec(t, s, `CREATE TABLE x (n BIGINT)`)
		var n int64
		if err := s.One(t.Context(), `INSERT INTO x VALUES ($1) RETURNING n`, []any{int64(math.MaxInt64)}, &n); err != nil || n != math.MaxInt64 {
			t.Errorf("%d, %v", n, err)
		}
		if err := s.One(t.Context(), `DELETE FROM x WHERE n = 1 RETURNING n`, nil, &n); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		if n := count(t, s.Read(), "x"); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}
