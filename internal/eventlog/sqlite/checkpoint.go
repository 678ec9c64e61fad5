package sqlite

import (
	"log/slog"
	"sync/atomic"
)

const (
	// pageBytes is the size of the file's pages, SQLite's default.
	pageBytes = 4096
	// finishPages is how much of a checkpoint the writer itself does, between two groups. The other
	// connection can only move what was there when it began, and the WAL starts anew only when all of it
	// is moved: somebody has to do the last piece while nothing is written. At this size that takes about
	// as long as a few commits.
	finishPages = 256
	// walPages is the length from which the writer finishes a checkpoint however much is left, because
	// writes outrun the other connection: 64 MiB, which a start after a crash reads in well under a
	// second.
	walPages = 16384
	// retryPages is how much later the writer tries again when a reader stood in the way.
	retryPages = 1024
)

// checkpointer moves the WAL into the file, on a connection and a goroutine of its own.
type checkpointer struct {
	conn  *connection
	every int // pages
	log   *slog.Logger

	kick    chan struct{}
	running atomic.Bool
	moved   atomic.Int64 // pages of the WAL that are in the file

	// The writer's own: how long the WAL is, in pages, and the length before which it does not step in.
	length, notBefore int64
}

func newCheckpointer(path string, every int, log *slog.Logger) (*checkpointer, error) {
	conn, err := connect(path, "rw", "synchronous(FULL)", "wal_autocheckpoint(0)")
	if err != nil {
		return nil, err
	}
	return &checkpointer{conn: conn, every: every, log: log, kick: make(chan struct{}, 1)}, nil
}

// run checkpoints when told until kick is closed.
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

// failed notes a checkpoint that did not work. Nothing is lost, the WAL has it all, and a later one tries
// again; on a full disk the appends themselves will be refused.
func (c *checkpointer) failed(err error) {
	c.log.Warn("event log checkpoint failed", "error", err)
}

// passiveCheckpoint moves what can be moved without waiting for anybody. It returns the WAL's length and
// how much of it is in the file, in pages.
func passiveCheckpoint(conn *connection) (length, moved int64, err error) {
	var busy int64
	err = conn.queryInts("PRAGMA wal_checkpoint(PASSIVE)", &busy, &length, &moved)
	return length, moved, err
}

// written is called by the writer after each commit, with the pages it put into the WAL.
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
		// The next write begins the WAL anew, unless a reader is still in the old one; then the next
		// checkpoint finds it longer.
		c.length, c.notBefore = 0, 0
		c.moved.Store(0)
	}
}
