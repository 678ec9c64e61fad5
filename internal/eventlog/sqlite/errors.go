package sqlite

import (
	"errors"
	"fmt"

	moderncsqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"letterhead/internal/eventlog"
)

// ErrInUse means that another process (or another Log of this process) has the file open.
var ErrInUse = errors.New("the event log file is in use")

// errDamaged marks damage that this package detected, rather than SQLite.
var errDamaged = errors.New("damaged data")

// resultCode returns SQLite's extended result code, or 0 for other errors.
func resultCode(err error) int {
	if e, ok := errors.AsType[*moderncsqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// classify wraps an error of the store as an error of the port: damage is ErrCorrupt, a full disk ErrFull,
// everything else (I/O error, locks, memory) ErrUnavailable. attempt describes the operation.
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
		// A missing table, a violated constraint, or a value of another type: this package did not write the file as it
		// is.
		sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		return corrupt(attempt, err)
	case sqlite3.SQLITE_FULL:
		return full(attempt, err)
	case sqlite3.SQLITE_IOERR:
		switch code {
		case sqlite3.SQLITE_IOERR_SHORT_READ:
			return corrupt(attempt, err)
		case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE:
			return full(attempt, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrUnavailable, err)
}

func corrupt(attempt string, err error) error {
	return fmt.Errorf("%s: %w: %w; keep a copy of the damaged files and restore the data folder from a backup",
		attempt, eventlog.ErrCorrupt, err)
}

// full adds what an operator can do. SQLite has an error for ENOSPC only: a used-up quota (EDQUOT) is a failed write,
// as is a fault of the disk.
func full(attempt string, err error) error {
	return fmt.Errorf("%s: %w: %w; make room on the disk that holds the event log, or raise its quota; "+
		"nothing that was acknowledged is lost", attempt, eventlog.ErrFull, err)
}

// classifyCommit is classify for a failed COMMIT. As far as this process can see, SQLite has rolled it
// back. But if the flush failed after the commit record was written, a crash before the next commit
// overwrites the record would restore the group, so the outcome is unknown.
func classifyCommit(attempt string, err error) error {
	if certainlyNotCommitted(resultCode(err)) {
		return classify(attempt, err)
	}
	return fmt.Errorf("%s: %w: %w", attempt, eventlog.ErrAmbiguous, err)
}

// certainlyNotCommitted reports whether a COMMIT that failed with this code has certainly not written its
// commit record, which is the last write before the flush.
func certainlyNotCommitted(code int) bool {
	primary := code & 0xff
	return primary == sqlite3.SQLITE_FULL || primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_CORRUPT ||
		code == sqlite3.SQLITE_IOERR_WRITE
}
