package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"letterhead/internal/eventlog"
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
	_, err := walCheckpoint(ctx, s.copier, "TRUNCATE")
	return Wrap(err, "truncate the write-ahead log")
}

const createPositions = `
CREATE TABLE IF NOT EXISTS positions (
	name     TEXT   NOT NULL PRIMARY KEY,
	position BIGINT NOT NULL
)`

const savePosition = `
INSERT INTO positions (name, position) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET position = excluded.position
WHERE positions.position < excluded.position`

const resetPosition = `
INSERT INTO positions (name, position) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET position = excluded.position`

// Positions stores the positions of readers of the log that have no tables: relays and workers. They are
// disposable: a reader without a position chooses where to begin, and repeats are harmless. A process that has read
// another log cannot save one (ErrLogReplaced).
type Positions struct{ store *Store }

// NewPositions creates the table if it is missing.
func NewPositions(ctx context.Context, store *Store) (*Positions, error) {
	return &Positions{store: store}, Wrap(store.Create(ctx, createPositions), "create table of positions")
}

// Load returns the position saved under a name. Errors: ErrUnavailable, ErrCorrupt, ErrClosed, ctx.Err().
func (p *Positions) Load(ctx context.Context, name string) (position eventlog.Position, found bool, err error) {
	var at int64
	err = p.store.Read().QueryRowContext(ctx, "SELECT position FROM positions WHERE name = $1", name).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return eventlog.Position(at), err == nil, Wrap(p.store.classify(err), "load position of %s", name)
}

// Save stores a position unless a later one is stored. Errors: ErrLogReplaced, ErrUnavailable, ErrCorrupt, ErrClosed,
// ctx.Err() if it ended before the writer was free.
func (p *Positions) Save(ctx context.Context, name string, position eventlog.Position) error {
	return p.write(ctx, savePosition, name, position)
}

// Reset stores a position even if a later one is stored: after another log was put in place, stored positions do not
// belong to it, and Save would store nothing until the log is as long. Errors: as Save.
func (p *Positions) Reset(ctx context.Context, name string, position eventlog.Position) error {
	return p.write(ctx, resetPosition, name, position)
}

func (p *Positions) write(ctx context.Context, query, name string, position eventlog.Position) error {
	err := p.store.Write(ctx, func(tx *Tx) error {
		if err := tx.CheckLogID(ctx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, query, name, int64(position))
		return err
	})
	return Wrap(err, "save position of %s", name)
}
