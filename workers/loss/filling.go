package loss

import (
	"context"
	"errors"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Filling marks a database whose log is being written by a restore or a migration. Verify fails between Begin and
// End, so that no node serves a part of a log.
type Filling struct {
	store *sqlstore.Store
	work  string
	now   func() time.Time
	// forgetSearch empties the search index.
	forgetSearch func(ctx context.Context) error
}

// NewFilling returns the Filling of a command: Restore or Migrate. ForgetSearch empties the search index that belongs
// to the database; nil: there is none.
func NewFilling(store *sqlstore.Store, work string, now func() time.Time, forgetSearch func(context.Context) error) *Filling {
	return &Filling{store: store, work: work, now: now, forgetSearch: forgetSearch}
}

// Begin discards, in one transaction, all that the database remembers of an earlier log: read models, snapshots and
// checkpoints. Beginning again, after an interruption, does the same. Errors: *UnfinishedError of another command,
// those of the database, ctx.Err().
func (f *Filling) Begin(ctx context.Context) error {
	p, err := readPending(ctx, f.store)
	if err != nil {
		return err
	}
	if err := p.blocks(f.work); err != nil {
		return err
	}
	err = f.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		if err := projections.Forget(ctx, f.store, tx); err != nil {
			return err
		}
		if err := forgetAll(ctx, tx); err != nil {
			return err
		}
		return writePending(ctx, f.store, tx, &pending{Work: f.work, Since: f.now()})
	})
	if err == nil && f.forgetSearch != nil {
		err = f.forgetSearch(ctx)
	}
	return err
}

// End lets nodes use the log. Errors: those of the database, ctx.Err().
func (f *Filling) End(ctx context.Context) error {
	return f.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error { return endPending(ctx, f.store, tx) })
}

// Renew makes the database remember a log from which events were taken on purpose, such as by archiving: it replaces
// the marks of the read models by the first and the last event that the log holds now. Call it while nothing else
// uses the log and the database, after the new log is durable and before it is served. Read models, snapshots and
// checkpoints are kept when keepPositions is true, which is right only when every event that is left has kept its
// position and its revision; otherwise they are discarded, and the checkpoints of done are set to the head.
//
// Errors: those of the log and of the database, ctx.Err(). A call that was interrupted is repeated.
func Renew(ctx context.Context, store *sqlstore.Store, log eventlog.Log, keepPositions bool, done []string) error {
	first, found, err := eventlog.Probe(log).First(ctx)
	if err != nil {
		return err
	}
	var mark projections.Mark
	if found {
		mark = projections.MarkOf(&first)
	}
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	return store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		if !keepPositions {
			if err := errors.Join(projections.Forget(ctx, store, tx), forgetAll(ctx, tx), setPositions(ctx, tx, done, head)); err != nil {
				return err
			}
		}
		return projections.Renew(ctx, store, tx, mark, projections.Mark{})
	})
}
