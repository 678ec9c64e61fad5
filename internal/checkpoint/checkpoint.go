// Package checkpoint remembers up to where a worker has read the event log.
package checkpoint

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"letterhead/internal/eventlog"
)

const (
	// saveTime limits one save, including the last, which comes after the end of the worker's context. The worker
	// waits during a save; saveAgainAfter is the time until the next one if it failed.
	saveTime       = time.Second
	saveAgainAfter = 10 * time.Second
)

// Log is the part of the event log that a worker uses.
type Log interface {
	Subscribe(ctx context.Context, after eventlog.Position, filter eventlog.Filter) (eventlog.Subscription, error)
	Head(ctx context.Context) (eventlog.Position, error)
}

// Store has positions by name.
type Store interface {
	// Load returns the saved position; found is false if there is none.
	Load(ctx context.Context, name string) (position eventlog.Position, found bool, err error)
	// Save saves a position unless a later one is saved already.
	Save(ctx context.Context, name string, position eventlog.Position) error
	// Reset saves a position unconditionally.
	Reset(ctx context.Context, name string, position eventlog.Position) error
}

// Checkpoint is the position of one worker, which is for one goroutine.
type Checkpoint struct {
	Name   string
	Store  Store
	Every  time.Duration // the minimum interval between saves
	Logger *slog.Logger

	At    eventlog.Position // everything up to it is done
	begun bool              // At and saved are known
	saved eventlog.Position
	past  bool      // the stored position is still past the log, and must be reset to saved
	due   time.Time // of the next save
}

// Begin determines from where to read. Later calls do not load the position again, because it may be older than At.
func (c *Checkpoint) Begin(ctx context.Context, log Log) error {
	if !c.begun {
		if err := c.load(ctx, log); err != nil {
			return err
		}
	}
	if !c.past {
		return nil
	}
	// Before anything is read: otherwise the next start, or leader, would begin at a later head and skip the events
	// until then.
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := c.Store.Reset(ctx, c.Name, c.saved); err != nil {
		return fmt.Errorf("reset checkpoint to position %d: %w", c.saved, err)
	}
	c.past = false
	return nil
}

func (c *Checkpoint) load(ctx context.Context, log Log) error {
	saved, _, err := c.Store.Load(ctx, c.Name)
	if err != nil {
		return fmt.Errorf("load checkpoint: %w", err)
	}
	head, err := log.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head of the log: %w", err)
	}
	if saved > head {
		// The log was replaced by an older one. Waiting until it is as long would lose the events until then.
		c.Logger.Warn("the checkpoint is past the log; its worker begins at the log's head", "name", c.Name,
			"checkpoint", saved, "head", head)
		saved, c.past = head, true
	}
	c.begun, c.At, c.saved, c.due = true, saved, saved, time.Now().Add(c.Every)
	return nil
}

// SaveInTime saves the position if that is due.
func (c *Checkpoint) SaveInTime(ctx context.Context) {
	if !time.Now().Before(c.due) {
		c.Save(ctx)
	}
}

// Save saves the position if it has changed. After a failure a later save makes up for it: until then a crash repeats
// more events, and none is lost.
func (c *Checkpoint) Save(ctx context.Context) {
	if c.At <= c.saved {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := c.Store.Save(ctx, c.Name, c.At); err != nil {
		c.due = time.Now().Add(max(c.Every, saveAgainAfter))
		c.Logger.Warn("a checkpoint could not be saved", "name", c.Name, "position", c.At, "error", err)
		return
	}
	c.saved, c.due = c.At, time.Now().Add(c.Every)
}

// SaveAtLast saves the position although ctx has ended, so that the next start repeats nothing.
func (c *Checkpoint) SaveAtLast(ctx context.Context) { c.Save(context.WithoutCancel(ctx)) }
