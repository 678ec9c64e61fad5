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
	// checkpointPause is the minimum interval between two checkpoints. At the write rate of a bulk load, about
	// 100 MB/s, the write-ahead log grows to about 100 MB; a live load writes far less.
	checkpointPause = time.Second
	// maxIdleWALBytes is how much of an emptied write-ahead log is kept for reuse.
	maxIdleWALBytes = 64 << 20
	// manyWALFrames (1 GiB of 4 KiB pages) causes a warning: a reader that never ends keeps the log from being emptied.
	manyWALFrames = 1 << 18
	// eraseTimeout limits how long a truncating checkpoint waits for the writer.
	eraseTimeout = 10 * time.Second
)

// checkpointer copies the write-ahead log into the database file, outside the commits: inside a commit (SQLite's
// default) the copy and its two flushes would determine the p99 of every writer.
//
// Each round first copies while others write, which takes most of the time, and then copies the rest while it holds the
// writer slot. Only after a complete copy does the next writer restart the log at its beginning; without the second
// step the log would grow without limit while writers are busy.
type checkpointer struct {
	store *sqliteFile
	dirty chan struct{} // capacity 1: has an entry after a commit
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

// stop waits for the goroutine; the store's closing channel must be closed.
func (c *checkpointer) stop() { c.ended.Wait() }

func (c *checkpointer) run() {
	// It has its own deadline, because no request waits for it. The store's Close ends the loop.
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
		return nil // closing; the last connection copies the rest
	}
	defer c.store.release()
	frames, err := walCheckpoint(ctx, c.store.copier, "PASSIVE")
	if err != nil {
		return err
	}
	c.store.metrics.walFrames.Set(float64(frames))
	if frames > manyWALFrames {
		c.store.cfg.Logger.Warn("write-ahead log of the database is long; is a reader stuck?",
			slog.Int64("frames", frames))
	}
	return nil
}

// errReading: a reader prevents a complete checkpoint.
var errReading = fmt.Errorf("a reader is active: %w", ErrUnavailable)

// walCheckpoint copies the write-ahead log and returns the number of frames that were not copied. Modes other than
// PASSIVE wait for readers up to the busy timeout.
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
