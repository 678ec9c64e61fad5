package sqlstore

import (
	"context"
	"database/sql"
)

// Queryer runs queries. *sql.DB, *sql.Tx and *Tx are Queryers.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Scanner is a *sql.Row or a *sql.Rows.
type Scanner interface{ Scan(into ...any) error }

// EachRow calls scan for each row of a query, until it returns an error.
func EachRow(ctx context.Context, q Queryer, query string, scan func(row Scanner) error, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// AllRows returns what scan reads of each row of a query.
func AllRows[V any](
	ctx context.Context, q Queryer, query string, scan func(v *V, row Scanner) error, args ...any,
) (all []V, err error) {
	err = EachRow(ctx, q, query, func(row Scanner) error {
		var v V
		if err := scan(&v, row); err != nil {
			return err
		}
		all = append(all, v)
		return nil
	}, args...)
	return all, err
}
