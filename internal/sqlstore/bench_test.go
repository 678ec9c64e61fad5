package sqlstore_test

import (
	"context"
	"fmt"
	"testing"

	"letterhead/internal/sqlstore"
	"letterhead/internal/sqlstore/sqlstoretest"
	"letterhead/internal/testmust"
)

// benchColumns are the columns of a ledger entry.
const (
	benchInto    = "x (position, account, no, kind, at, amount, balance, request, domain, brand, actor, body)"
	benchColumns = 12
	benchCreate  = `CREATE TABLE x (position {bigkey} PRIMARY KEY, account BIGINT NOT NULL, no BIGINT NOT NULL, kind TEXT NOT NULL,
	at BIGINT NOT NULL, amount BIGINT NOT NULL, balance BIGINT NOT NULL, request TEXT, domain TEXT, brand TEXT, actor TEXT NOT NULL, body BYTEA)`
	benchConflict = "ON CONFLICT (position) DO UPDATE SET balance = excluded.balance"
)

func benchRows(from, rows int) []any {
	values := make([]any, 0, rows*benchColumns)
	for i := from; i < from+rows; i++ {
		values = append(values, int64(i), int64(i%1000), int64(i), "CreditsCharged", int64(1700000000000+i), int64(-1), int64(i),
			"3f2b6a1e-8c1d-4c55-9a3e-0123456789ab", "example.com", nil, "api", []byte("{}"))
	}
	return values
}

// BenchmarkInsertPostgres finds the number of rows from which COPY pays off, and its rate.
func BenchmarkInsertPostgres(b *testing.B) {
	type way struct {
		name     string
		insert   func(ctx context.Context, tx *sqlstore.Tx, into string, columns int, conflict string, values []any) error
		conflict string
	}
	for _, rows := range []int{1, 16, 64, 128, 256, 512, 1024, 5000, 20000} {
		for _, w := range []way{
			{"values", sqlstore.InsertByValues, ""}, {"copy", sqlstore.InsertByCopy, ""},
			{"values-upsert", sqlstore.InsertByValues, benchConflict}, {"copy-upsert", sqlstore.InsertByCopy, benchConflict},
		} {
			if rows*benchColumns > 65535 && w.name[0] == 'v' {
				continue
			}
			b.Run(fmt.Sprintf("rows=%d/%s", rows, w.name), func(b *testing.B) {
				s := sqlstoretest.Open(b, sqlstoretest.Postgres(b))
				err := s.Setup(b.Context(), func(tx *sqlstore.Tx) error { _, err := tx.Exec(s.DDL(benchCreate)); return err })
				testmust.Succeed(b, err)
				at := 0
				for b.Loop() {
					b.StopTimer()
					values := benchRows(at, rows)
					at += rows
					b.StartTimer()
					err := s.Write(b.Context(), func(tx *sqlstore.Tx) error {
						return w.insert(b.Context(), tx, benchInto, benchColumns, w.conflict, values)
					})
					testmust.Succeed(b, err)
				}
				b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
