package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// checkpointPause is the least time between two checkpoints. At the write rate of a bulk load, some
	// 100 MB/s, it lets the write-ahead log grow to about as much; a live load writes far less.
	checkpointPause = time.Second
	// maxIdleWALBytes is how much of an emptied write-ahead log is kept for reuse.
	maxIdleWALBytes = 64 << 20
	// manyWALFrames (1 GiB of 4 KiB pages) is worth a warning: a reader that never ends holds it.
	manyWALFrames = 1 << 18
	// eraseTimeout bounds how long a truncating checkpoint waits for the writer.
	eraseTimeout = 10 * time.Second
)

// checkpointer copies the write-ahead log into the database file, away from the commits: inside a commit
// (SQLite's default) the copy and its two flushes would be the p99 of every writer.
//
// Each round first copies beside the writer, which takes most of the time, and then what was written
// meanwhile while it holds the writer slot. Only when all is copied does the next writer start the log
// from its beginning; without the second step a writer that never rests would let it grow for ever.
type checkpointer struct {
	store *sqliteFile
	dirty chan struct{} // capacity 1: something was committed
	ended sync.WaitGroup
}

func newCheckpointer(s *sqliteFile) *checkpointer {
	c := &checkpointer{store: s, dirty: make(chan struct{}, 1)}
	c.ended.Go(c.run)
	return c
}

func (c *checkpointer) wake() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

// stop waits for the goroutine; the store's closing channel has been closed.
func (c *checkpointer) stop() { c.ended.Wait() }

func (c *checkpointer) run() {
	// Its own deadline: nothing here serves a request. The store's Close ends the loop.
	ctx := context.Background()
	for {
		select {
		case <-c.store.closing:
			return
		case <-c.dirty:
		}
		if err := c.round(ctx); err != nil {
			c.store.cfg.Logger.Warn("checkpoint of the database failed", slog.Any("error", err))
		}
		pause := time.NewTimer(checkpointPause)
		select {
		case <-c.store.closing:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

func (c *checkpointer) round(ctx context.Context) error {
	if _, err := walCheckpoint(ctx, c.store.copier, "PASSIVE"); err != nil {
		return err
	}
	if err := c.store.take(ctx); err != nil {
		return nil // closing; the last connection to close copies the rest
	}
	defer c.store.release()
	frames, err := walCheckpoint(ctx, c.store.copier, "PASSIVE")
	if err != nil {
		return err
	}
	c.store.metrics.walFrames.Set(float64(frames))
	if frames > manyWALFrames {
		c.store.cfg.Logger.Warn("write-ahead log of the database is long; is a reader stuck?", slog.Int64("frames", frames))
	}
	return nil
}

// errReading: a reader stands in the way of a checkpoint that wants everything.
var errReading = fmt.Errorf("a reader is in the way: %w", ErrUnavailable)

// walCheckpoint copies the write-ahead log and returns the frames that it still holds beyond what was
// copied. Modes other than PASSIVE wait for readers up to the busy timeout.
func walCheckpoint(ctx context.Context, db *sql.DB, mode string) (frames int64, err error) {
	var busy, inLog, copied int64
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &inLog, &copied); err != nil {
		return 0, fmt.Errorf("%s checkpoint: %w", mode, Classify(err))
	}
	if busy != 0 && mode != "PASSIVE" {
		return 0, fmt.Errorf("%s checkpoint: %w", mode, errReading)
	}
	return inLog - copied, nil
}

func (s *sqliteFile) truncate(ctx context.Context) error {
	if s.cfg.ReadOnly {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.release()
	if _, err := walCheckpoint(ctx, s.copier, "TRUNCATE"); err != nil {
		return fmt.Errorf("truncate the write-ahead log: %w", err)
	}
	return nil
}
