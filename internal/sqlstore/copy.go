package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
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
	if _, err := tx.ExecContext(ctx, text, rows.values...); err != nil {
		return fmt.Errorf("insert into %s: %w", rows.into, err)
	}
	return nil
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
	if err != nil {
		return fmt.Errorf("copy %d rows into %s: %w", len(rows.values)/rows.columns, rows.into, err)
	}
	return nil
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
		_, err := raw.Conn.Conn().CopyFrom(ctx, pgx.Identifier{table}, columns,
			&copySource{values: values, columns: len(columns)})
		return err
	})
}

// copySource passes the rows to COPY.
type copySource struct {
	values  []any
	columns int
	row     []any
	err     error
}

func (s *copySource) Next() bool {
	if len(s.values) == 0 || s.err != nil {
		return false
	}
	s.row, s.values = s.values[:s.columns], s.values[s.columns:]
	return true
}

func (s *copySource) Values() ([]any, error) {
	for _, v := range s.row {
		if !plain(v) {
			return s.converted()
		}
	}
	return s.row, nil
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
func (s *copySource) converted() ([]any, error) {
	row := make([]any, len(s.row))
	for i, v := range s.row {
		if row[i] = v; plain(v) {
			continue
		}
		if row[i], s.err = driver.DefaultParameterConverter.ConvertValue(v); s.err != nil {
			return nil, s.err
		}
		if text, ok := row[i].(string); ok {
			row[i] = Storable(text)
		}
	}
	return row, nil
}

func (s *copySource) Err() error { return s.err }

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

// ErrLogReplaced: nothing was saved. A restore, a migration, or the acceptance of a loss of events by another process
// has replaced the log since this one opened the database. What it has read before must not be saved: positions only
// grow, so that the new log would seem to have lost events.
var ErrLogReplaced = errors.New(
	"the event log was replaced, or a loss of events was accepted, after this process had read it")

// CreateLogWork creates the table of the last replacement, and of the one that is under way (workers/loss).
const CreateLogWork = `CREATE TABLE IF NOT EXISTS log_work (name TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL)`

const readLogID = `SELECT state FROM log_work WHERE name = 'accepted'`
const writeLogID = `INSERT INTO log_work (name, state) VALUES ('accepted', $1) ON CONFLICT (name) DO `

// LogID returns the id of the last replacement that this process knows: as of Open, or its own. "" means none.
func (s *Store) LogID() string { return *s.logID.Load() }

// CurrentLogID returns the id of the last replacement. Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (s *Store) CurrentLogID(ctx context.Context) (id string, err error) {
	if err = s.Read().QueryRowContext(ctx, readLogID).Scan(&id); none(err) {
		return "", nil
	}
	return id, s.classify(err)
}

func none(err error) bool { return errors.Is(err, sql.ErrNoRows) || IsUndefinedTable(err) }

// learnLogID sets LogID. It creates the row, which CheckLogID locks, where other processes may replace the log.
func (s *Store) learnLogID(ctx context.Context) error {
	var id string
	err := s.Read().QueryRowContext(ctx, readLogID).Scan(&id)
	if none(err) && s.Shared() {
		err = s.writeLogID(ctx, "", "NOTHING", func(tx *Tx) error {
			return tx.QueryRowContext(ctx, readLogID).Scan(&id)
		})
	}
	if s.logID.Store(&id); none(err) {
		return nil
	}
	return s.classify(err)
}

func (s *Store) writeLogID(ctx context.Context, id, conflict string, fn func(*Tx) error) error {
	return s.Setup(ctx, func(tx *Tx) error {
		_, err := tx.ExecContext(ctx, s.DDL(CreateLogWork))
		if err == nil {
			_, err = tx.ExecContext(ctx, writeLogID+conflict, id)
		}
		if err != nil {
			return fmt.Errorf("record which log the database belongs to: %w", err)
		}
		return fn(tx)
	})
}

// ReplaceLog runs fn, which discards the data about the log, and records the replacement in the same transaction.
// Transactions with CheckLogID end before fn begins, or fail. Errors: as Setup, and those of fn.
func (s *Store) ReplaceLog(ctx context.Context, id string, fn func(*Tx) error) error {
	err := s.writeLogID(ctx, id, "UPDATE SET state = excluded.state", fn)
	if err == nil {
		s.logID.Store(&id)
	}
	return err
}

// CheckLogID fails with ErrLogReplaced if another process has replaced the log. None can until the transaction ends.
func (tx *Tx) CheckLogID(ctx context.Context) error {
	query := readLogID
	if tx.store.Shared() {
		query += " FOR SHARE"
	}
	var id string
	if err := tx.QueryRowContext(ctx, query).Scan(&id); err != nil && !none(err) {
		return fmt.Errorf("read which log the database belongs to: %w", err)
	}
	if id != tx.store.LogID() {
		return ErrLogReplaced
	}
	return nil
}
