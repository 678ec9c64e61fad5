package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
)

// soleModes reports whether modeSole and modeOwn exist: SQLite has them for Unix only.
const soleModes = runtime.GOOS != "windows"

// minRoom is the free space, in bytes, below which a log whose last commit failed is not tried again.
const minRoom = 1 << 20

// Fault returns why the last commit failed, nil if it succeeded or there was none. While it is not nil, the log tries a
// commit once a second, unless the disk has less than 1 MiB free. Errors: as Append that are not about the events.
func (l *Log) Fault() error {
	if err := l.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Try commits a transaction without events, and so finds out whether appends can succeed. Errors: as Fault, ctx.Err(),
// eventlog.ErrClosed.
func (l *Log) Try(ctx context.Context) error {
	result := make(chan error, 1)
	select {
	case l.tries <- result:
		return <-result
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing.Done():
		return eventlog.ErrClosed
	}
}

// note records the outcome of a commit.
func (l *Log) note(err error) {
	switch before := l.fault.Load(); {
	case err != nil:
		if l.fault.Store(&err); before == nil {
			l.cfg.Logger.Error("the event log cannot be written; nothing is charged until it can be", "error", err)
		}
	case before != nil:
		l.fault.Store(nil)
		l.cfg.Logger.Info("the event log can be written again")
	}
}

// roomy reports whether trying to commit is worthwhile.
func (l *Log) roomy() bool {
	space, err := disk.At(filepath.Dir(l.cfg.Path))
	return err != nil || space.Free >= minRoom
}

// tryStreams bounds the streams whose names a try writes. With the pages of the index it writes more pages than a
// charge.
const tryStreams = 16

// try writes the header, the types and the names of the last streams as they are.
func (w *writer) try() error {
	err := w.begin.exec()
	if err == nil {
		if err = w.conn.exec(fmt.Sprintf(`PRAGMA application_id = %d; UPDATE types SET name = name;
			UPDATE streams SET name = name WHERE id > %d`, applicationID, w.stream-tryStreams)); err == nil {
			err = w.end.exec()
		}
		if err != nil {
			err = errors.Join(err, w.rollback())
		}
	}
	return classify("try to write", err)
}
