package sqlstore

import "context"

// InsertByValues and InsertByCopy are Insert's two methods on PostgreSQL, for benchmarks.
func InsertByValues(ctx context.Context, tx *Tx, into string, columns int, conflict string, values []any) error {
	return tx.insertValues(ctx, insertion{into, columns, conflict, values})
}

func InsertByCopy(ctx context.Context, tx *Tx, into string, columns int, conflict string, values []any) error {
	return tx.insertCopy(ctx, insertion{into, columns, conflict, values})
}
