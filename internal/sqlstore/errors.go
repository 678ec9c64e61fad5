package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of a Store. Use errors.Is.
var (
	// ErrUnavailable: the database cannot do it now (disk full, input/output error, locked by another process, out of
	// memory; the server is unreachable, does not answer in time, shuts down, has no connection left). Nothing was
	// written, unless the error is ErrAmbiguous as well. Try again later.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrAmbiguous: the connection was lost during COMMIT, and the outcome could not be determined in time, or only
	// from a server that took over. The changes may be written or not: read before writing again. It is an
	// ErrUnavailable too. SQLite never returns it.
	ErrAmbiguous = fmt.Errorf("outcome of the transaction is unknown: %w", ErrUnavailable)
	// ErrCorrupt: the file is damaged or not a database, or the server found its files damaged.
	ErrCorrupt = errors.New("database file is damaged")
	// ErrFull: there is no space left for the file. It is an ErrUnavailable too. PostgreSQL never returns it.
	ErrFull = fmt.Errorf("no space is left for the database; make room on its disk, or raise its quota: %w",
		ErrUnavailable)
	// ErrReadOnly: the file was opened with Config.ReadOnly.
	ErrReadOnly = errors.New("database was opened read-only")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("database is closed")
)

// primaryCode masks SQLite's extended result codes to the primary one.
const primaryCode = 0xff

// Codes of PostgreSQL: https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
	codeReadOnly       = "25006"
	codeUndefinedTable = "42P01"
	codeLockTimeout    = "55P03"
)

// unavailableCodes are codes, and classes of two characters, of errors that end by themselves or with an
// administrator's help.
var unavailableCodes = map[string]bool{
	"08": true, // connection exception
	"28": true, // the server rejects the credentials
	"53": true, // out of memory, disk or connections
	"57": true, // cancelled by statement_timeout, shutting down, starting up
	"58": true, // input/output error

	codeSerialization: true, codeDeadlock: true, codeLockTimeout: true, codeReadOnly: true,
	"25P03": true, // idle_in_transaction_session_timeout
	"3D000": true, // the database does not exist
}

// Classify wraps a driver's error with ErrUnavailable, ErrCorrupt or ErrClosed if it means that. It returns other
// errors unchanged, and those that are already classified. A deadline that expired while the database was busy is
// ErrUnavailable; a cancelled context is not. Errors of Write are classified, but not errors of statements on Read.
func Classify(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrClosed) {
		return err
	}
	var pg *pgconn.PgError
	var lite *sqlite.Error
	sentinel := error(nil)
	switch {
	case errors.Is(err, context.Canceled):
	case errors.As(err, &pg):
		sentinel = sentinelOf(pg.Code)
	case errors.As(err, &lite):
		sentinel = sentinelOfSQLite(lite.Code())
	case errors.Is(err, puddle.ErrClosedPool):
		sentinel = ErrClosed
	case errors.Is(err, context.DeadlineExceeded), lostConnection(err):
		sentinel = ErrUnavailable
	}
	if sentinel == nil {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

// Wrap returns an error that begins with what was attempted, formatted as fmt.Sprintf does; nil if err is nil.
func Wrap(err error, attempt string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(attempt, args...), err)
}

func sentinelOf(code string) error {
	switch {
	case code == "XX001", code == "XX002": // data or an index is corrupted
		return ErrCorrupt
	case unavailableCodes[code], len(code) > 2 && unavailableCodes[code[:2]]:
		return ErrUnavailable
	}
	return nil
}

func sentinelOfSQLite(code int) error {
	switch code {
	case sqlite3.SQLITE_IOERR_SHMSIZE, // the index of the write-ahead log
		sqlite3.SQLITE_IOERR_WRITE: // a used-up quota, among others
		return ErrFull
	}
	switch code & primaryCode {
	case sqlite3.SQLITE_FULL:
		return ErrFull
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return ErrUnavailable
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return ErrCorrupt
	}
	return nil
}

// lostConnection reports whether the server could not be reached, went away, or accepts no connections.
func lostConnection(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"), pg.Code == "53300":
			return true
		}
		return false
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, net.ErrClosed)
}

// IsUndefinedTable reports whether a statement named a missing table, for example because another node dropped the
// tables of an old generation.
func IsUndefinedTable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == codeUndefinedTable
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && strings.Contains(lite.Error(), "no such table")
}
