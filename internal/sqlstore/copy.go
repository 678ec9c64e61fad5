package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	// copyRows is the number of rows above which COPY into the table is faster, and mergeRows the one above which COPY
	// into a temporary table and an INSERT from there is. Measured by BenchmarkInsertPostgres with twelve columns: 16
	// rows take 1.6 ms by INSERT, 1.0 by COPY and 2.9 by a temporary table; 256 rows 5.7 (with ON CONFLICT 7.2), 3.9
	// and 5.9. Under load the server's processor time matters: 233 rows with ON CONFLICT take 1.5 ms of it by INSERT
	// and 3.2 by a temporary table, about 450 rows 2.5 and 4.7, about 650 rows 4.3 and 5.3. Arrays for unnest take as
	// much as INSERT.
	copyRows, mergeRows = 16, 600
	// maxPostgresParameters is the protocol's limit of parameters in one statement.
	maxPostgresParameters = 65535
)

// insert writes few rows by INSERT and many by COPY.
func (p *postgres) insert(ctx context.Context, tx *Tx, rows insertion) error {
	few := copyRows
	if rows.conflict != "" {
		few = mergeRows
	}
	if len(rows.values)/rows.columns < few && len(rows.values) <= maxPostgresParameters {
		return tx.insertValues(ctx, rows)
	}
	return tx.insertCopy(ctx, rows)
}

func (tx *Tx) insertValues(ctx context.Context, rows insertion) error {
	parameters := func(row int) string { return In(1+row*rows.columns, rows.columns) }
	text := insertText(rows, len(rows.values)/rows.columns, parameters)
	_, err := tx.ExecContext(ctx, text, rows.values...)
	return Wrap(err, "insert into %s", rows.into)
}

// insertCopy copies into the table, or into a temporary table first if rows may conflict with existing ones.
func (tx *Tx) insertCopy(ctx context.Context, rows insertion) error {
	table, columns, err := split(rows.into)
	if err == nil && len(columns) != rows.columns {
		err = fmt.Errorf("%d column names for rows of %d", len(columns), rows.columns)
	}
	if err == nil {
		if rows.conflict == "" {
			err = tx.copyInto(ctx, table, columns, rows.values)
		} else {
			err = tx.merge(ctx, table, columns, rows)
		}
	}
	return Wrap(err, "copy %d rows into %s", len(rows.values)/rows.columns, rows.into)
}

// merge copies into a temporary table without indexes and inserts from there.
func (tx *Tx) merge(ctx context.Context, table string, columns []string, rows insertion) error {
	tx.copies++
	staged := fmt.Sprintf("letterhead_copy_%d", tx.copies)
	list := strings.Join(columns, ", ")
	// AS … WITH NO DATA takes only the types of the columns, without NOT NULL.
	make := fmt.Sprintf("CREATE TEMPORARY TABLE %s ON COMMIT DROP AS SELECT %s FROM %s WITH NO DATA",
		staged, list, table)
	if _, err := tx.ExecContext(ctx, make); err != nil {
		return err
	}
	if err := tx.copyInto(ctx, staged, columns, rows.values); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx,
		fmt.Sprintf("INSERT INTO %s SELECT %s FROM pg_temp.%s %s", rows.into, list, staged, rows.conflict))
	return err
}

func (tx *Tx) copyInto(ctx context.Context, table string, columns []string, values []any) error {
	ctx = tx.bind(ctx)
	return tx.conn.Raw(func(c any) error {
		raw, ok := c.(*pgConn)
		if !ok {
			return fmt.Errorf("the connection is a %T", c)
		}
		n := len(columns)
		source := pgx.CopyFromSlice(len(values)/n, func(i int) ([]any, error) { return converted(values[i*n:][:n]) })
		_, err := raw.Conn.Conn().CopyFrom(ctx, pgx.Identifier{table}, columns, source)
		return err
	})
}

// plain reports whether a value has one of a driver's own types.
func plain(v any) bool {
	switch v.(type) {
	case nil, int64, string, []byte, float64, bool:
		return true
	}
	return false
}

// converted converts the values of a row to plain ones, as database/sql does for a statement.
func converted(row []any) (_ []any, err error) {
	if !slices.ContainsFunc(row, func(v any) bool { return !plain(v) }) {
		return row, nil
	}
	row = slices.Clone(row)
	for i, v := range row {
		if plain(v) {
			continue
		}
		if row[i], err = driver.DefaultParameterConverter.ConvertValue(v); err != nil {
			return nil, err
		}
		if text, ok := row[i].(string); ok {
			row[i] = Storable(text)
		}
	}
	return row, nil
}

// split splits `table (column, …)`. It keeps the names as written: PostgreSQL folds unquoted ones to lower case.
func split(into string) (table string, columns []string, err error) {
	table, rest, ok := strings.Cut(into, "(")
	rest, ok2 := strings.CutSuffix(strings.TrimSpace(rest), ")")
	if !ok || !ok2 {
		return "", nil, errors.New("want the form: table (column, …)")
	}
	table = name(table)
	for column := range strings.SplitSeq(rest, ",") {
		columns = append(columns, name(column))
	}
	return table, columns, nil
}

// name returns an identifier in the form of the catalog.
func name(written string) string {
	written = strings.TrimSpace(written)
	if quoted, ok := strings.CutPrefix(written, `"`); ok {
		return strings.ReplaceAll(strings.TrimSuffix(quoted, `"`), `""`, `"`)
	}
	return strings.ToLower(written)
}
