package sqlstore

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors of a Store. Use errors.Is.
var (
	// ErrUnavailable: the database could not do it now (disk full, input/output error, locked by another
	// process, out of memory). Nothing was written. Try again later.
	ErrUnavailable = errors.New("database is unavailable")
	// ErrCorrupt: the file is damaged or is no database.
	ErrCorrupt = errors.New("database file is damaged")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("database is closed")
)

// primaryCode masks SQLite's extended result codes down to the primary one.
const primaryCode = 0xff

// Classify puts ErrUnavailable or ErrCorrupt in front of a driver's error that means it; every other
// error, and one that is classified already, is returned as it is. Errors of Write are classified, those
// of statements on Read are not.
func Classify(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrCorrupt) {
		return err
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & primaryCode {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}
