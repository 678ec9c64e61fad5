package loss

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections/engine"
)

// Filling marks a database whose log is being written by a restore or a migration. Verify fails
// between Begin and End, so that no node serves an incomplete log.
type Filling struct {
	store *sqlstore.Store
	work  string
	now   func() time.Time
	// forgetSearch empties the search index.
	forgetSearch func(ctx context.Context) error
}

// NewFilling returns the Filling of a command: Restore or Migrate. forgetSearch empties the search
// index that belongs to the database; nil: there is none.
func NewFilling(store *sqlstore.Store, work string, now func() time.Time,
	forgetSearch func(context.Context) error) *Filling {
	return &Filling{store: store, work: work, now: now, forgetSearch: forgetSearch}
}

// Done reports whether the database knows which log it belongs to: no work on it is unfinished, and a relay or a worker
// has a position in it, which a restore leaves, too. Errors: as the database, ctx.Err().
func (f *Filling) Done(ctx context.Context) (bool, error) {
	p, err := readPending(ctx, f.store)
	if err != nil || p != nil {
		return false, err
	}
	positions, err := readPositions(ctx, f.store)
	return len(positions) > 0, err
}

// Begin discards, in one transaction, the database's data about an earlier log: read models, snapshots
// and checkpoints. Beginning again, after an interruption, does the same. Errors: *UnfinishedError of
// another command, the errors of the database, ctx.Err().
func (f *Filling) Begin(ctx context.Context) error {
	p, err := readPending(ctx, f.store)
	if err != nil {
		return err
	}
	if err := p.blocks(f.work); err != nil {
		return err
	}
	err = f.store.ReplaceLog(ctx, uuid.NewString(), func(tx *sqlstore.Tx) error {
		if err := engine.Forget(ctx, f.store, tx); err != nil {
			return err
		}
		if err := forget(ctx, tx, allSnapshots); err != nil {
			return err
		}
		return writePending(ctx, f.store, tx, &pending{Work: f.work, Since: f.now()})
	})
	if err == nil && f.forgetSearch != nil {
		err = f.forgetSearch(ctx)
	}
	return err
}

// End lets nodes use the log. A node that has read an earlier one, and was not stopped, must forget what it knows, as
// after an acceptance (sqlstore.Store.CurrentLogID). Errors: as the database, ctx.Err().
func (f *Filling) End(ctx context.Context) error {
	return f.store.WriteDurable(ctx, func(tx *sqlstore.Tx) error { return endPending(ctx, f.store, tx) })
}

// Renew prepares for the replacement of the log by another from which events are omitted on purpose.
// It discards the data that depends on positions: read models, checkpoints and the snapshots of
// streams other than accounts. The checkpoints in readers are kept, set to their positions in the new
// log. Afterwards the database fits both the old and the new log, so the replacement may be
// interrupted; accounts must have the same events in both. Call it while the log is not in use.
//
// Errors: as the database, ctx.Err(). Repeat an interrupted call.
func Renew(ctx context.Context, store *sqlstore.Store, readers map[string]eventlog.Position) error {
	return store.WriteDurable(ctx, func(tx *sqlstore.Tx) error {
		errs := []error{engine.Forget(ctx, store, tx), forget(ctx, tx, notOfAccounts)}
		for name, at := range readers {
			errs = append(errs, setPositions(ctx, tx, []string{name}, at))
		}
		return errors.Join(errs...)
	})
}
