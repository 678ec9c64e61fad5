package sqlstore

import (
	"context"
	"database/sql"
)

// InsertByValues and InsertByCopy are Insert's two methods on PostgreSQL, for benchmarks.
func InsertByValues(ctx context.Context, tx *Tx, into string, columns int, conflict string, values []any) error {
	return tx.insertValues(ctx, insertion{into, columns, conflict, values})
}

func InsertByCopy(ctx context.Context, tx *Tx, into string, columns int, conflict string, values []any) error {
	return tx.insertCopy(ctx, insertion{into, columns, conflict, values})
}

// Inner returns the transaction of database/sql.
func (tx *Tx) Inner() *sql.Tx { return tx.tx }

func (tx *Tx) Exec(query string, args ...any) (sql.Result, error) {
	return tx.ExecContext(context.Background(), query, args...)
}

func (tx *Tx) QueryRow(query string, args ...any) *sql.Row {
	return tx.QueryRowContext(context.Background(), query, args...)
}
