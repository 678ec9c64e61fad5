package sqlite

import (
	"errors"
	"fmt"

	moderncsqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"letterhead/internal/eventlog"
)

// ErrInUse means that another process (or another Log of this one) has the file open.
var ErrInUse = errors.New("the event log file is in use")

// errDamaged marks what this package itself found wrong in stored data.
var errDamaged = errors.New("damaged data")

// resultCode returns SQLite's extended result code, 0 when the error is not SQLite's.
func resultCode(err error) int {
	var e *moderncsqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// classify wraps an error of the store as the port's: damage is ErrCorrupt, all else (full disk, I/O
// error, locks, memory) ErrUnavailable. attempt says what was being done.
func classify(attempt string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, errDamaged) {
		return corrupt(attempt, err)
	}
	code := resultCode(err)
	switch code & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT,
		// A missing table, a constraint that stored rows break, or a value of another type: the file is
		// not what this package wrote.
		sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		return corrupt(attempt, err)
	case sqlite3.SQLITE_IOERR:
		if code == sqlite3.SQLITE_IOERR_SHORT_READ {
			return corrupt(attempt, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrUnavailable, err)
}

func corrupt(attempt string, err error) error {
	return fmt.Errorf("%s: %w: %w; keep a copy of the damaged files and restore the data folder from a backup",
		attempt, eventlog.ErrCorrupt, err)
}

// classifyCommit is classify for a failed COMMIT. SQLite has rolled it back as far as this process can
// see. But when the flush failed after the commit record had been written, a crash before the next commit
// overwrites it would bring it back: nobody knows.
func classifyCommit(attempt string, err error) error {
	if surelyNotCommitted(resultCode(err)) {
		return classify(attempt, err)
	}
	return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrAmbiguous, err)
}

// surelyNotCommitted says whether a COMMIT that ended with this code has not written its commit record: it
// is the last thing written before the flush.
func surelyNotCommitted(code int) bool {
	switch {
	case code&0xff == sqlite3.SQLITE_FULL,
		code&0xff == sqlite3.SQLITE_BUSY,
		code&0xff == sqlite3.SQLITE_CORRUPT,
		code == sqlite3.SQLITE_IOERR_WRITE:
		return true
	}
	return false
}
