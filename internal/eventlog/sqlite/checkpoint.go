package sqlite

import (
	"log/slog"
	"sync/atomic"
)

const (
	// pageBytes is the page size of the file, SQLite's default.
	pageBytes = 4096
	// finishPages is how much of a checkpoint the writer itself does between two groups. The other connection can only
	// move the pages that existed when it began, and the WAL is restarted only when all of it has been moved, so the
	// last part must be moved while nothing is written. At this size that takes about as long as a few commits.
	finishPages = 256
	// walPages is the length at which the writer finishes a checkpoint regardless of the remaining length, because
	// writes outpace the other connection: 64 MiB, which a start after a crash reads in well under a second.
	walPages = 16384
	// retryPages is the number of pages after which the writer retries if a reader prevented the checkpoint.
	retryPages = 1024
)

// checkpointer moves the WAL into the file, on its own connection and goroutine.
type checkpointer struct {
	conn  *connection
	every int // pages
	log   *slog.Logger

	kick    chan struct{}
	running atomic.Bool
	moved   atomic.Int64 // pages of the WAL that are in the file

	// Used only by the writer: the length of the WAL in pages, and the length below which the writer does not
	// checkpoint.
	length, notBefore int64
}

func newCheckpointer(path, mode string, every int, log *slog.Logger) (*checkpointer, error) {
	conn, err := connect(path, mode, "synchronous(FULL)", "wal_autocheckpoint(0)")
	if err != nil {
		return nil, err
	}
	return &checkpointer{conn: conn, every: every, log: log, kick: make(chan struct{}, 1)}, nil
}

// run makes a checkpoint for each kick, until kick is closed.
func (c *checkpointer) run() {
	for range c.kick {
		if _, moved, err := passiveCheckpoint(c.conn); err != nil {
			c.failed(err)
		} else {
			c.moved.Store(moved)
		}
		c.running.Store(false)
	}
}

// failed logs a failed checkpoint. Nothing is lost, because the WAL still has all pages, and a later
// checkpoint retries; on a full disk the appends themselves fail.
func (c *checkpointer) failed(err error) {
	c.log.Warn("event log checkpoint failed", "error", err)
}

// passiveCheckpoint moves the pages that can be moved without waiting. It returns the length of the WAL and
// the number of pages that are in the file.
func passiveCheckpoint(conn *connection) (length, moved int64, err error) {
	var busy int64
	err = conn.queryInts("PRAGMA wal_checkpoint(PASSIVE)", &busy, &length, &moved)
	return length, moved, err
}

// written must be called by the writer after each commit, with the number of pages written to the WAL.
func (c *checkpointer) written(pages int, w *writer) {
	c.length += int64(pages)
	if c.length < max(int64(c.every), c.notBefore) || c.running.Load() {
		return
	}
	if c.length-c.moved.Load() > finishPages && c.length < walPages {
		c.running.Store(true)
		c.kick <- struct{}{} // has room, because the last one is done
		return
	}
	length, moved, err := passiveCheckpoint(w.conn)
	switch {
	case err != nil:
		c.failed(err)
		c.notBefore = c.length + retryPages
	case moved < length:
		c.length, c.notBefore = length, length+retryPages
		c.moved.Store(moved)
	default:
		// The next write restarts the WAL, unless a reader still uses the old one; then the next checkpoint finds it
		// longer.
		c.length, c.notBefore = 0, 0
		c.moved.Store(0)
	}
}
