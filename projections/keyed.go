package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"letterhead/internal/sqlstore"
)

// Scanner is a *sql.Row or a *sql.Rows.
type Scanner = sqlstore.Scanner

// Keyed is a table whose rows a fold changes by their primary key. It contains all SQL that such a table needs.
type Keyed[K comparable, V any] struct {
	Name    string
	Key     []Column[K] // of the primary key, in order
	Columns []Column[V] // the others
	Indexes []Index
	// Compare orders keys as the primary key does.
	Compare func(a, b K) int
	// Found completes a row that was read, if its columns and key say more than they are scanned into; may be nil.
	Found func(k K, v *V)
}

// Index is an index of a Keyed table. The name of the table precedes its name.
type Index struct{ Name, On string }

// Table returns the table of a version.
func (d *Keyed[K, V]) Table() Table {
	t := Table{Name: d.Name, Key: names(d.Key)}
	var rows []string
	for _, c := range d.Key {
		rows = append(rows, c.Name+" "+c.Type)
	}
	for _, c := range d.Columns {
		rows = append(rows, c.Name+" "+c.Type)
	}
	rows = append(rows, "PRIMARY KEY ("+strings.Join(t.Key, ", ")+")")
	t.Create = "CREATE TABLE {" + d.Name + "} (\n\t" + strings.Join(rows, ",\n\t") + "\n) " + sqlstore.ByKey
	for _, i := range d.Indexes {
		t.Indexes = append(t.Indexes,
			fmt.Sprintf("CREATE INDEX IF NOT EXISTS {%s}_%s ON {%[1]s} %[3]s", d.Name, i.Name, i.On))
	}
	return t
}

func names[R any](columns []Column[R]) []string {
	all := make([]string, len(columns))
	for i := range columns {
		all[i] = columns[i].Name
	}
	return all
}

func (d *Keyed[K, V]) columns() string {
	return strings.Join(append(names(d.Key), names(d.Columns)...), ", ")
}

func (d *Keyed[K, V]) query() string { return "SELECT " + d.columns() + " FROM {" + d.Name + "} " }

func (d *Keyed[K, V]) key() string {
	if len(d.Key) == 1 {
		return d.Key[0].Name
	}
	return "(" + strings.Join(names(d.Key), ", ") + ")"
}

func appendValues[R any](values []any, columns []Column[R], r *R) []any {
	for i := range columns {
		values = append(values, columns[i].Value(r))
	}
	return values
}

// Get returns the live row with a key, and reports whether it exists.
func (d *Keyed[K, V]) Get(ctx context.Context, h *Handle, k K) (v V, found bool, err error) {
	err = h.Read(func(q Queryer, t *Tables) error {
		query := d.query() + "WHERE " + d.key() + " = " + sqlstore.In(1, len(d.Key))
		_, v, err = d.scan(q.QueryRowContext(ctx, t.SQL(query), appendValues(nil, d.Key, &k)...))
		return err
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

	where  []string // conditions, each of one value
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
	p.add(column+" = $%d", value)
}

func (p *Page[K, V]) add(condition string, value any) {
	p.values = append(p.values, value)
	p.where = append(p.where, fmt.Sprintf(condition, len(p.values)))
}

// Contains selects the rows that have a text within the value of a text column; an empty one selects all. It reads rows
// that it does not select.
func (p *Page[K, V]) Contains(column, part string) {
	if part != "" {
		p.add(column+` LIKE $%d ESCAPE '\'`, Containing(part))
	}
}

// Between selects the rows with a time from one on and before another in a column; a zero time is open.
func (p *Page[K, V]) Between(column string, from, until time.Time) {
	if !from.IsZero() {
		p.add(column+" >= $%d", from.UnixMicro())
	}
	if !until.IsZero() {
		p.add(column+" < $%d", until.UnixMicro())
	}
}

// Containing returns the pattern of LIKE, with ESCAPE '\', for values that have a text in them.
func Containing(part string) string { return "%" + likeEscaper.Replace(part) + "%" }

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// Page returns the live rows of a page. Column names in it are not escaped.
func (d *Keyed[K, V]) Page(ctx context.Context, h *Handle, p Page[K, V]) ([]V, error) {
	where, args := slices.Clone(p.where), slices.Clone(p.values)
	direction, compare := "", ">"
	if p.Descending {
		direction, compare = " DESC", "<"
	}
	order := slices.Concat(p.By, names(d.Key))
	if p.After != nil {
		for _, column := range p.By {
			i := slices.Index(names(d.Columns), column)
			args = append(args, d.Columns[i].Value(p.After))
		}
		args = appendValues(args, d.Key, &p.AfterKey)
		where = append(where,
			fmt.Sprintf("(%s) %s %s", strings.Join(order, ", "), compare, sqlstore.In(len(p.values)+1, len(order))))
	}
	rest := ""
	if len(where) > 0 {
		rest = "WHERE " + strings.Join(where, " AND ")
	}
	rest += fmt.Sprintf(" ORDER BY %s%s LIMIT %d", strings.Join(order, direction+", "), direction, p.Limit)
	return d.List(ctx, h, rest, args...)
}

// Each calls found for the rows that rest, the text from WHERE on, selects.
func (d *Keyed[K, V]) Each(ctx context.Context, q Queryer, t *Tables, found func(K, V), rest string,
	args ...any) error {
	return sqlstore.EachRow(ctx, q, t.SQL(d.query()+rest), d.scanTo(found), args...)
}

func (d *Keyed[K, V]) scanTo(found func(K, V)) func(row Scanner) error {
	return func(row Scanner) error {
		k, v, err := d.scan(row)
		if err == nil {
			found(k, v)
		}
		return err
	}
}

func (d *Keyed[K, V]) scan(row Scanner) (k K, v V, err error) {
	into := make([]any, 0, len(d.Key)+len(d.Columns))
	for i := range d.Key {
		into = append(into, d.Key[i].Into(&k))
	}
	for i := range d.Columns {
		into = append(into, d.Columns[i].Into(&v))
	}
	if err = row.Scan(into...); err == nil && d.Found != nil {
		d.Found(k, &v)
	}
	return k, v, err
}

// In calls found for the rows that have one of at most keysPerQuery values in a column.
func (d *Keyed[K, V]) In(ctx context.Context, q Queryer, t *Tables, column string, values []any,
	found func(K, V)) error {
	return LoadRows(ctx, q, t.SQL(d.query()+"WHERE "+column), 1, values, d.scanTo(found))
}

// Rows returns the rows of the table for a fold; see NewRows.
func (d *Keyed[K, V]) Rows(t *Tables, limit int, empty bool) *Rows[K, V] {
	query := t.SQL(d.query() + "WHERE " + d.key())
	return NewRows(limit, empty, d.Compare, func(ctx context.Context, q Queryer, keys []K, found func(K, V)) error {
		values := make([]any, 0, len(keys)*len(d.Key))
		for i := range keys {
			values = appendValues(values, d.Key, &keys[i])
		}
		return LoadRows(ctx, q, query, len(d.Key), values, d.scanTo(found))
	})
}

// Take ends a batch, as Rows.Take does, or as Rows.Hold if the tables hold rows, and returns the function that writes
// what it took. each, which may be nil, is called for each row that it takes.
func (d *Keyed[K, V]) Take(t *Tables, rows *Rows[K, V],
	each func(K, *V)) func(ctx context.Context, tx *sqlstore.Tx) error {
	if t.Keep(rows.Changed()) {
		rows.Hold()
		return func(context.Context, *sqlstore.Tx) error { return nil }
	}
	return d.write(t, "excluded.%s", rows.Changed(), func(yield func(K, *V) bool) {
		rows.Take(func(k K, v *V) {
			yield(k, v)
			if each != nil {
				each(k, v)
			}
		})
	})
}

// Insert returns the function that writes n rows that the table does not have.
func (d *Keyed[K, V]) Insert(t *Tables, n int, rows iter.Seq2[K, *V]) func(ctx context.Context, tx *sqlstore.Tx) error {
	return d.write(t, "", n, rows)
}

// Add returns the function that adds n rows, whose columns are numbers, to those of the same keys.
func (d *Keyed[K, V]) Add(t *Tables, n int, rows iter.Seq2[K, *V]) func(ctx context.Context, tx *sqlstore.Tx) error {
	return d.write(t, t.SQL("{"+d.Name+"}.%[1]s + excluded.%[1]s"), n, rows)
}

// write returns the function that writes rows. conflict is the new value of the column %s of a row that exists.
func (d *Keyed[K, V]) write(t *Tables, conflict string, n int,
	rows iter.Seq2[K, *V]) func(ctx context.Context, tx *sqlstore.Tx) error {
	columns := len(d.Key) + len(d.Columns)
	values := make([]any, 0, n*columns)
	var key K // outside the loop, so that not each key is allocated
	for k, v := range rows {
		key = k
		values = appendValues(appendValues(values, d.Key, &key), d.Columns, v)
	}
	if conflict != "" {
		set := names(d.Columns)
		for i, c := range set {
			set[i] = c + " = " + fmt.Sprintf(conflict, c)
		}
		conflict = "ON CONFLICT (" + strings.Join(names(d.Key), ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
	}
	into := t.SQL("{" + d.Name + "} (" + d.columns() + ")")
	return func(ctx context.Context, tx *sqlstore.Tx) error {
		return sqlstore.Insert(ctx, tx, into, columns, conflict, values)
	}
}
