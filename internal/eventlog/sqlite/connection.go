package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	moderncsqlite "modernc.org/sqlite"

	_ "letterhead/internal/sqlitemutex"
)

// busyTimeout bounds how long SQLite waits for a lock of another of our connections, in milliseconds. Only
// recovery and WAL restarts hold one.
const busyTimeout = 10_000

// connection is one SQLite connection, for one goroutine at a time. It uses the driver without
// database/sql, whose pool, scanning and watcher goroutine per statement cost more than the statements.
type connection struct {
	conn       driver.Conn
	statements []*statement
}

// Modes for connect in addition to SQLite's URI modes ro, rw and rwc. The last two keep the index of the
// write-ahead log in memory, because the file for it, Path-shm, needs room on the disk.
const (
	modeAlone = "alone" // ro without the write-ahead log
	// modeSole is ro without locks, for a file that nothing writes.
	modeSole = "sole"
	// modeOwn is rw, and keeps other processes from opening the file. All connections of this process must have the
	// mode.
	modeOwn = "own"
)

// connect opens the file.
func connect(path, mode string, pragmas ...string) (*connection, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	query := url.Values{"mode": {mode}}
	switch mode {
	case modeAlone:
		query = url.Values{"mode": {"ro"}, "immutable": {"1"}}
	case modeSole:
		query = url.Values{"mode": {"ro"}, "vfs": {"unix-none"}, "_pragma": {"locking_mode(EXCLUSIVE)"}}
	case modeOwn:
		query = url.Values{"mode": {"rw"}, "vfs": {"unix-excl"}}
	}
	query.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyTimeout))
	for _, p := range pragmas {
		query.Add("_pragma", p)
	}
	name := filepath.ToSlash(abs)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // a drive letter on Windows
	}
	conn, err := (&moderncsqlite.Driver{}).Open("file:" + (&url.URL{Path: name}).EscapedPath() + "?" + query.Encode())
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn}, nil
}

// query is a statement to prepare.
type query struct {
	into **statement
	sql  string
}

// prepare prepares statements that live as long as the connection.
func (c *connection) prepare(all []query) (err error) {
	for _, q := range all {
		if *q.into, err = c.newStatement(q.sql); err != nil {
			return err
		}
		c.statements = append(c.statements, *q.into)
	}
	return nil
}

func (c *connection) newStatement(sql string) (*statement, error) {
	stmt, err := c.conn.Prepare(sql)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", sql, err)
	}
	execer, canExec := stmt.(driver.StmtExecContext)
	querier, canQuery := stmt.(driver.StmtQueryContext)
	if !canExec || !canQuery {
		return nil, errors.Join(errors.New("the SQLite driver lacks statement contexts"), stmt.Close())
	}
	return &statement{stmt: stmt, execer: execer, querier: querier}, nil
}

// exec runs a statement once, without keeping it.
func (c *connection) exec(sql string) error {
	execer, ok := c.conn.(driver.ExecerContext)
	if !ok {
		return errors.New("the SQLite driver lacks ExecContext")
	}
	_, err := execer.ExecContext(context.Background(), sql, nil)
	return err
}

// once runs a query once, without keeping it.
func (c *connection) once(sql string, columns int, do func(row []driver.Value) error) error {
	s, err := c.newStatement(sql)
	if err != nil {
		return err
	}
	return errors.Join(s.each(columns, do), s.stmt.Close())
}

// queryInts runs a query that returns one row of integers.
func (c *connection) queryInts(sql string, into ...*int64) error {
	rows := 0
	err := c.once(sql, len(into), func(row []driver.Value) error {
		rows++
		for i := range into {
			v, ok := row[i].(int64)
			if !ok {
				return fmt.Errorf("%q gave %T", sql, row[i])
			}
			*into[i] = v
		}
		return nil
	})
	if err == nil && rows != 1 {
		err = fmt.Errorf("%q gave %d rows", sql, rows)
	}
	return err
}

// lastPosition returns the position of the table's last event, 0 if there is none.
func (c *connection) lastPosition() (last int64, err error) {
	err = c.queryInts("SELECT coalesce(max(position), 0) FROM events", &last)
	return last, err
}

func (c *connection) close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.stmt.Close())
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// statement is a prepared statement. It takes no context: each statement is short (a page at most), and an
// interruptible call costs the driver a goroutine.
type statement struct {
	stmt    driver.Stmt
	execer  driver.StmtExecContext
	querier driver.StmtQueryContext
	args    []driver.NamedValue
	values  []driver.Value
}

func (s *statement) bind(args []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

func (s *statement) exec(args ...driver.Value) error {
	_, err := s.execer.ExecContext(context.Background(), s.bind(args))
	return err
}

// errStop ends each without an error.
var errStop = errors.New("stop")

// each calls do with every row, which must have the given number of columns. The row is valid only during
// the call; its blobs stay valid.
func (s *statement) each(columns int, do func(row []driver.Value) error, args ...driver.Value) (err error) {
	rows, err := s.querier.QueryContext(context.Background(), s.bind(args))
	if err != nil {
		return err
	}
	defer func() {
		if closing := rows.Close(); err == nil { // otherwise the driver reuses it
			err = closing
		}
	}()
	if len(s.values) != columns {
		s.values = make([]driver.Value, columns)
	}
	for {
		switch err := rows.Next(s.values); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch err := do(s.values); {
		case errors.Is(err, errStop):
			return nil
		case err != nil:
			return err
		}
	}
}

// row calls do with the first row, if there is one.
func (s *statement) row(columns int, do func(row []driver.Value) error, args ...driver.Value) (found bool, err error) {
	err = s.each(columns, func(row []driver.Value) error {
		found = true
		if err := do(row); err != nil {
			return err
		}
		return errStop
	}, args...)
	return found, err
}
