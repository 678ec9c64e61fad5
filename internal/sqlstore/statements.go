package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"letterhead/internal/delay"
)

const (
	// insertRows is the number of rows of one INSERT. Measured for fifteen columns: 8 rows take 4.3 µs per row, 20 rows
	// 4.1, 60 rows 3.9, 500 rows 8 (the arguments no longer fit the processor's cache).
	insertRows = 60
	// maxParameters is SQLite's default limit of parameters in one statement (PostgreSQL: 65535).
	maxParameters = 32766
)

// bigKeyMark is replaced in a CREATE text by the type of a 64-bit integer primary key.
const bigKeyMark = "{bigkey}"

// ByKey at the end of a CREATE TABLE stores the rows in the tree of their primary key (SQLite), which is half the work
// of a tree of rows and one of keys. It is for rows of less than a kilobyte.
const ByKey = "{bykey}"

// DDL returns a CREATE text for the engine: {bigkey} becomes the type of a 64-bit integer primary key (in SQLite only
// INTEGER makes the key the row id, so that rows in growing order are appended without a second tree), and columns of
// TEXT, written in capitals, compare bytes on both engines.
func (s *Store) DDL(text string) string { return s.engine.ddl(text) }

// insertion has the arguments of Insert.
type insertion struct {
	into     string // table (column, …)
	columns  int
	conflict string
	values   []any
}

// Insert writes rows in few statements. into is `table (column, …)`; values are the rows one after the other, with
// columns values each; conflict is empty or an ON CONFLICT clause. Rows of one call must not conflict with each other.
// A NUL in a text, and bytes that are not UTF-8, are stored as U+FFFD.
func Insert(ctx context.Context, tx *Tx, into string, columns int, conflict string, values []any) error {
	if columns <= 0 || columns > maxParameters || len(values)%columns != 0 {
		return fmt.Errorf("insert into %s: %d values are not whole rows of %d columns", into, len(values), columns)
	}
	if len(values) == 0 {
		return nil
	}
	return tx.store.engine.insert(ctx, tx,
		insertion{into: into, columns: columns, conflict: conflict, values: storableAll(values)})
}

// insert uses ? because SQLite looks up the name of a $1 for every row that is bound.
func (s *sqliteFile) insert(ctx context.Context, tx *Tx, rows insertion) error {
	row := "(" + strings.TrimSuffix(strings.Repeat("?,", rows.columns), ",") + ")"
	text := func(n int) string { return insertText(rows, n, func(int) string { return row }) }
	chunk := min(insertRows, maxParameters/rows.columns) * rows.columns
	values := rows.values
	if len(values) >= 2*chunk {
		stmt, err := tx.tx.PrepareContext(ctx, text(chunk/rows.columns))
		if err != nil {
			return fmt.Errorf("prepare insert into %s: %w", rows.into, err)
		}
		for len(values) >= chunk {
			if _, err := stmt.ExecContext(ctx, values[:chunk]...); err != nil {
				_ = stmt.Close()
				return fmt.Errorf("insert into %s: %w", rows.into, err)
			}
			values = values[chunk:]
			delay.Turn()
		}
		if err := stmt.Close(); err != nil {
			return fmt.Errorf("close insert into %s: %w", rows.into, err)
		}
	}
	for len(values) > 0 {
		part := values[:min(chunk, len(values))]
		if _, err := tx.tx.ExecContext(ctx, text(len(part)/rows.columns), part...); err != nil {
			return fmt.Errorf("insert into %s: %w", rows.into, err)
		}
		values = values[len(part):]
		delay.Turn()
	}
	return nil
}

// insertText returns an INSERT of n rows, of which row returns the parameters.
func insertText(into insertion, n int, row func(i int) string) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = row(i)
	}
	return "INSERT INTO " + into.into + " VALUES " + strings.Join(rows, ",") + " " + into.conflict
}

// In returns "($n,$n+1,…)" for a list of values whose first parameter is number first.
func In(first, values int) string {
	list := make([]string, values)
	for i := range list {
		list[i] = "$" + strconv.Itoa(first+i)
	}
	return "(" + strings.Join(list, ",") + ")"
}

// InValues returns the right side of IN for rows of columns: "(VALUES ($1,$2),($3,$4),…)", or In for one column. values
// are the rows one after the other: the types of the first row are spelled out, because PostgreSQL takes parameters in
// VALUES for texts.
func InValues(columns int, values []any) string {
	if columns == 1 {
		return In(1, len(values))
	}
	first := make([]string, columns)
	for i := range first {
		first[i] = fmt.Sprintf("CAST($%d AS %s)", 1+i, columnType(values[i]))
	}
	rows := []string{"(" + strings.Join(first, ",") + ")"}
	for at := columns; at < len(values); at += columns {
		rows = append(rows, In(1+at, columns))
	}
	return "(VALUES " + strings.Join(rows, ",") + ")"
}

func columnType(value any) string {
	switch value.(type) {
	case string:
		return "TEXT"
	case []byte:
		return "BYTEA"
	case float32, float64:
		return "DOUBLE PRECISION"
	}
	return "BIGINT"
}

// TablesWithPrefix returns the names of the tables with a prefix, sorted by bytes, on PostgreSQL only of the schema in
// which new tables are created.
func TablesWithPrefix(ctx context.Context, tx *Tx, prefix string) ([]string, error) {
	names, err := tx.store.engine.tables(ctx, tx, prefix)
	return names, Wrap(err, "list tables %s*", prefix)
}

func (s *sqliteFile) tables(ctx context.Context, tx *Tx, prefix string) ([]string, error) {
	return names(ctx, tx, `
SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, $1) = $2 ORDER BY name`, len(prefix), prefix)
}

// names returns a column of texts.
func names(ctx context.Context, tx *Tx, query string, args ...any) ([]string, error) {
	return AllRows(ctx, tx, query, func(name *string, row Scanner) error { return row.Scan(name) }, args...)
}
