// Package operations holds the use cases that take several parts of a node: the admin API offers them to operators, and
// the dashboard to customers. Each struct has the use cases of a subject, and fields for the parts that they take.
// Packages commands and domain decide.
package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"letterhead/commands"
	"letterhead/domain/account"
	"letterhead/internal/eventlog"
	"letterhead/projections/engine"
	"letterhead/projections/keys"
)

// enforceTimeout bounds a wait until a decision is in force, and a wait for the work of another process.
const enforceTimeout = 10 * time.Second

// graceTimeout bounds the waits after one that reached its bound: a read model that is folded follows within it.
const graceTimeout = time.Second

// ErrBehind means that the process that folds is behind, or that no process folds.
var ErrBehind = errors.New("the read models are behind the event log; does a node with role projector run? \"letterhead projections list\" shows how far they are")

// Reads wait until the read models have what the log has.
type Reads struct {
	Log    eventlog.Log
	Runner *engine.Runner
	Keys   *keys.Directory
	// Indexed waits until the search index has what the log has up to a position.
	Indexed func(context.Context, eventlog.Position) error
	// Alive ends when a part of the process has ended, with its error as the cause.
	Alive context.Context
	Apart bool // another process folds
	// AsTheyAre gets the names of read models that Folded has waited for in vain, for graceTimeout, and that are then
	// read as they are. If it is nil, Folded returns ErrBehind.
	AsTheyAre func(ctx context.Context, names []string)
}

// whileAlive returns a context that also ends when a part of the process has ended.
func (r *Reads) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.Alive, func() { cancel(context.Cause(r.Alive)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// CatchUp waits until the named read models (all of them if there are no names) and the search index hold what the log
// holds now. It does not wait for a quarantined read model, but returns a *engine.QuarantinedError with its name after
// the others have caught up. If another process folds, the wait is bounded, and CatchUp returns ErrBehind at its end.
func (r *Reads) CatchUp(ctx context.Context, names ...string) error {
	ctx, stop := r.whileAlive(ctx)
	defer stop()
	waiting, cancel := r.Bounded(ctx)
	defer cancel()
	err := r.FoldedTo(waiting, names...)
	if err == nil {
		var head eventlog.Position
		if head, err = r.Log.Head(waiting); err == nil {
			err = r.cause(ctx, r.Indexed(waiting, head))
		}
	}
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return ErrBehind
	}
	return err
}

// Bounded limits a wait for the work of another process.
func (r *Reads) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if !r.Apart {
		return context.WithCancel(ctx)
	}
	if r.AsTheyAre != nil {
		return context.WithTimeout(ctx, graceTimeout)
	}
	return context.WithTimeout(ctx, enforceTimeout)
}

// Folded is FoldedTo with a bound if another process folds, after which it returns ErrBehind or calls AsTheyAre.
func (r *Reads) Folded(ctx context.Context, names ...string) error {
	waiting, cancel := r.Bounded(ctx)
	defer cancel()
	err := r.FoldedTo(waiting, names...)
	switch {
	case err == nil || ctx.Err() != nil || waiting.Err() == nil:
		return err
	case r.AsTheyAre != nil:
		r.AsTheyAre(ctx, names)
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBehind, err)
}

// FoldedTo is CatchUp without the search index and without a bound.
func (r *Reads) FoldedTo(ctx context.Context, names ...string) error {
	ctx, stop := r.whileAlive(ctx)
	defer stop()
	if len(names) == 0 {
		names = r.Runner.Names()
	}
	head, err := r.Log.Head(ctx)
	if err != nil {
		return err
	}
	var aside error
	for _, name := range names {
		err := r.Runner.WaitFor(ctx, name, head)
		if errors.As(err, new(*engine.QuarantinedError)) {
			aside = errors.Join(aside, err)
			continue
		}
		if err != nil {
			return r.cause(ctx, err)
		}
	}
	return aside
}

// cause returns why a wait ended early. The error of a part that ended says more than the end of a context.
func (r *Reads) cause(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) != nil && r.Alive.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// await waits, for some time, until a read model, which every request reads, is at a position. It returns ErrNotSeen,
// with what has happened all the same, if it is not in time or after another error.
func (r *Reads) await(ctx context.Context, name string, position eventlog.Position, happened string, other error) error {
	ctx, cancel := context.WithTimeout(ctx, enforceTimeout)
	defer cancel()
	if err := errors.Join(other, r.Runner.WaitFor(ctx, name, position)); err != nil {
		return fmt.Errorf("%s: %w: %w", happened, commands.ErrNotSeen, err)
	}
	return nil
}

// AwaitKeys waits until requests on every node follow the decisions up to a position. Every command that decides on
// keys and accounts calls it.
func (r *Reads) AwaitKeys(ctx context.Context, position eventlog.Position) error {
	ctx, cancel := context.WithTimeout(ctx, enforceTimeout)
	defer cancel()
	return r.Keys.AwaitNodes(ctx, func(ctx context.Context) error { return r.Runner.WaitFor(ctx, keys.Name, position) })
}

// AccountExists returns account.ErrNotFound if the log has no such account.
func (r *Reads) AccountExists(ctx context.Context, id string) error {
	first, err := r.Log.ReadStream(ctx, account.Stream(id), 0, eventlog.Forward, 1)
	if err == nil && len(first) == 0 {
		err = account.ErrNotFound
	}
	return err
}

// Operations are the use cases of a node by subject. In a node that only reads, use cases that decide something must
// not be called.
type Operations struct {
	Reads       *Reads
	Accounts    *Accounts
	Tokens      *Tokens
	SignIns     *SignIns
	Notices     *Notices
	Billing     *Billing
	Charges     *Charges
	Books       *Books
	Checkpoints *Checkpoints
	Models      *Models
	Audits      *Audits
	Upgrades    *Upgrades
	Warming     *Warming
}

// UsageError reports an invalid argument or flag of a command.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }
