package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"letterhead/internal/sqlstore"
)

// Scanner is a *sql.Row or a *sql.Rows.
type Scanner interface{ Scan(into ...any) error }

// Keyed is a table whose rows a fold changes by their primary key. It contains all SQL that such a table needs.
type Keyed[K comparable, V any] struct {
	Table
	// Columns are those after the key's.
	Columns []string
	// Compare orders keys as the primary key does.
	Compare func(a, b K) int
	// AppendKey appends the values of the key's columns, AppendRow those of the others.
	AppendKey func(values []any, k K) []any
	AppendRow func(values []any, v *V) []any
	// Scan reads the key's columns, then the others.
	Scan func(row Scanner, k *K, v *V) error
}

// AppendText is the AppendKey of a text column.
func AppendText(values []any, k string) []any { return append(values, k) }

func (d *Keyed[K, V]) columns() string {
	return strings.Join(d.Key, ", ") + ", " + strings.Join(d.Columns, ", ")
}

func (d *Keyed[K, V]) query() string { return "SELECT " + d.columns() + " FROM {" + d.Name + "} " }

func (d *Keyed[K, V]) key() string {
	if len(d.Key) == 1 {
		return d.Key[0]
	}
	return "(" + strings.Join(d.Key, ", ") + ")"
}

// Get returns the live row with a key, and reports whether it exists.
func (d *Keyed[K, V]) Get(ctx context.Context, h *Handle, k K) (v V, found bool, err error) {
	err = h.Read(func(q Queryer, t *Tables) error {
		query := d.query() + "WHERE " + d.key() + " = " + sqlstore.In(1, len(d.Key))
		return d.Scan(q.QueryRowContext(ctx, t.SQL(query), d.AppendKey(nil, k)...), &k, &v)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, err
}

// List returns the live rows that rest, the text from WHERE on, selects.
func (d *Keyed[K, V]) List(ctx context.Context, h *Handle, rest string, args ...any) (all []V, err error) {
	err = h.Read(func(q Queryer, t *Tables) error {
		all = nil // drops rows of an earlier attempt
		return d.Each(ctx, q, t, func(_ K, v V) { all = append(all, v) }, rest, args...)
	})
	return all, err
}

// Page selects rows of a Keyed table for a listing that continues after the last row of the page before.
type Page[K comparable, V any] struct {
	By         []string // columns to order by, then by the key; only the key if empty
	Descending bool
	Limit      int
	AfterKey   K
	After      *V // the row of AfterKey; nil for the first page

	equal  []string
	values []any
}

// Equal selects the rows that have a value in a text column; an empty value selects all.
func (p *Page[K, V]) Equal(column, value string) {
	if value != "" {
		p.Where(column, value)
	}
}

// Where selects the rows that have a value in a column.
func (p *Page[K, V]) Where(column string, value any) {
	p.equal, p.values = append(p.equal, column), append(p.values, value)
}

// Page returns the live rows of a page. Column names in it are not escaped.
func (d *Keyed[K, V]) Page(ctx context.Context, h *Handle, p Page[K, V]) ([]V, error) {
	var where []string
	args := slices.Clone(p.values)
	for i, column := range p.equal {
		where = append(where, fmt.Sprintf("%s = $%d", column, i+1))
	}
	direction, compare := "", ">"
	if p.Descending {
		direction, compare = " DESC", "<"
	}
	order := slices.Concat(p.By, d.Key)
	if p.After != nil {
		row := d.AppendRow(nil, p.After)
		for _, column := range p.By {
			args = append(args, row[slices.Index(d.Columns, column)])
		}
		args = d.AppendKey(args, p.AfterKey)
		where = append(where, fmt.Sprintf("(%s) %s %s", strings.Join(order, ", "), compare, sqlstore.In(len(p.values)+1, len(order))))
	}
	rest := ""
	if len(where) > 0 {
		rest = "WHERE " + strings.Join(where, " AND ")
	}
	rest += fmt.Sprintf(" ORDER BY %s%s LIMIT %d", strings.Join(order, direction+", "), direction, p.Limit)
	return d.List(ctx, h, rest, args...)
}

// Each calls found for the rows that rest, the text from WHERE on, selects.
func (d *Keyed[K, V]) Each(ctx context.Context, q Queryer, t *Tables, found func(K, V), rest string, args ...any) error {
	rows, err := q.QueryContext(ctx, t.SQL(d.query()+rest), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := d.scan(rows, found); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (d *Keyed[K, V]) scan(row Scanner, found func(K, V)) error {
	var k K
	var v V
	if err := d.Scan(row, &k, &v); err != nil {
		return err
	}
	found(k, v)
	return nil
}

// Rows returns the rows of the table for a fold; see NewRows.
func (d *Keyed[K, V]) Rows(t *Tables, limit int, empty bool) *Rows[K, V] {
	query := t.SQL(d.query() + "WHERE " + d.key())
	return NewRows(limit, empty, d.Compare, func(ctx context.Context, q Queryer, keys []K, found func(K, V)) error {
		values := make([]any, 0, len(keys)*len(d.Key))
		for _, k := range keys {
			values = d.AppendKey(values, k)
		}
		return LoadRows(ctx, q, query, len(d.Key), values, func(rows *sql.Rows) error { return d.scan(rows, found) })
	})
}

// Take ends a batch, as Rows.Take does, and returns the function that writes the changed rows. each, which may be nil,
// is called for each of them.
func (d *Keyed[K, V]) Take(t *Tables, rows *Rows[K, V], each func(K, *V)) func(ctx context.Context, tx *sqlstore.Tx) error {
	columns := len(d.Key) + len(d.Columns)
	values := make([]any, 0, rows.Changed()*columns)
	rows.Take(func(k K, v *V) {
		values = d.AppendRow(d.AppendKey(values, k), v)
		if each != nil {
			each(k, v)
		}
	})
	into := t.SQL("{" + d.Name + "} (" + d.columns() + ")")
	return func(ctx context.Context, tx *sqlstore.Tx) error {
		return sqlstore.Insert(ctx, tx, into, columns, d.upsert(), values)
	}
}

func (d *Keyed[K, V]) upsert() string {
	set := make([]string, len(d.Columns))
	for i, c := range d.Columns {
		set[i] = c + " = excluded." + c
	}
	return "ON CONFLICT (" + strings.Join(d.Key, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
}
