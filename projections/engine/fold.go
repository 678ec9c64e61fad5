package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// foldError is what a read model's own fold, or its SQL, failed with.
type foldError struct {
	unit *generation
	err  error
}

func (e *foldError) Error() string { return e.unit.model.name + ": " + e.err.Error() }
func (e *foldError) Unwrap() error { return e.err }

// task is a unit, the events of a batch that it has not folded yet, and what they change.
type task struct {
	unit    *generation
	events  []*projections.Event
	changes projections.Changes
}

// needed reports whether readers wait for the unit: it is live, or there is no other.
func (t task) needed() bool {
	return t.unit.state == stateLive || t.unit.model.liveGeneration() == nil
}

// failures are units whose fold failed, with the reason.
type failures map[*generation]error

func (f failures) add(g *generation, err error) failures {
	if f == nil {
		f = make(failures)
	}
	f[g] = err
	return f
}

// foldAndWrite folds a batch into the units and writes it, one after the other. Units whose fold fails are left
// out, and failed says why. Faults of the database and of the log are tried again until ctx ends; after an
// error nothing was written and no unit has moved.
func (r *Runner) foldAndWrite(ctx context.Context, units []*generation, b batch) (failed failures, err error) {
	work, failed, err := r.fold(ctx, units, b)
	if err != nil {
		return nil, err
	}
	bad, err := r.write(ctx, work, b.upTo)
	if err != nil {
		reset(units)
		return nil, err
	}
	for g, cause := range bad {
		g.fold.Reset()
		failed = failed.add(g, cause)
	}
	return failed, nil
}

// fold folds a batch in memory, while nothing of these units is on its way to the database.
func (r *Runner) fold(ctx context.Context, units []*generation, b batch) (work []task, failed failures, err error) {
	pause := r.cfg.faultBackoff()
	for {
		work, failed, err = r.foldOnce(ctx, units, b)
		if err == nil || ctx.Err() != nil || errors.Is(err, sqlstore.ErrClosed) || errors.Is(err, eventlog.ErrClosed) {
			break
		}
		reset(units)
		r.cfg.Logger.ErrorContext(ctx, "events could not be folded and will be tried again",
			slog.Uint64("position", uint64(b.upTo)), slog.Any("error", err))
		if err = delay.For(ctx, pause.pause()); err != nil {
			break
		}
	}
	if err != nil {
		reset(units)
		return nil, nil, err
	}
	return work, failed, nil
}

func reset(units []*generation) {
	for _, g := range units {
		g.fold.Reset()
	}
}

// foldOnce returns an error only for a fault of the database or of the log.
func (r *Runner) foldOnce(ctx context.Context, units []*generation, b batch) (work []task, failed failures, err error) {
	for _, t := range share(units, b) {
		if len(t.events) > 0 {
			t.changes, err = r.foldOne(ctx, t)
		}
		switch {
		case err == nil:
			work = append(work, t)
		case storeFault(err):
			return nil, nil, fmt.Errorf("fold %s: %w", t.unit.model.name, err)
		default:
			t.unit.fold.Reset()
			failed, err = failed.add(t.unit, err), nil
		}
	}
	return work, failed, nil
}

// foldOne turns a panic into an error: one read model's mistake must not stop the others.
func (r *Runner) foldOne(ctx context.Context, t task) (c projections.Changes, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fold panicked: %v\n%s", p, debug.Stack())
		}
	}()
	for _, e := range t.events {
		if e.Err != nil {
			return projections.Changes{}, e.Errorf("%w", e.Err)
		}
	}
	c, err = t.unit.fold.Fold(ctx, r.store.Read(), t.events)
	return c, sqlstore.Classify(err)
}

// write writes what was folded and moves the checkpoints, in one transaction. When a unit's own SQL fails,
// the transaction is begun anew without it. The caller resets the folds of units that failed, and all of
// them after an error.
func (r *Runner) write(ctx context.Context, work []task, upTo eventlog.Position) (failed failures, err error) {
	pause := r.cfg.faultBackoff()
	for len(work) > 0 {
		err := r.store.Write(ctx, func(tx *sqlstore.Tx) error { return writeAll(r.within(ctx), tx, work, upTo) })
		if err == nil {
			for _, t := range work {
				t.unit.committed(t.changes)
				t.unit.at.Store(uint64(upTo))
			}
			return failed, nil
		}
		var own *foldError
		switch {
		case errors.As(err, &own):
			failed = failed.add(own.unit, own.err)
			work = without(work, own.unit)
			continue
		case ctx.Err() != nil, errors.Is(err, sqlstore.ErrClosed), errors.Is(err, errDeposed):
			return nil, err
		case errors.Is(err, sqlstore.ErrFull) && !slices.ContainsFunc(work, task.needed):
			return nil, err // it makes room for what is read
		}
		r.cfg.Logger.ErrorContext(ctx, "read models could not be written and will be tried again",
			slog.Uint64("position", uint64(upTo)), slog.Any("error", err))
		_ = delay.For(ctx, pause.pause()) // the next Write sees that ctx has ended
	}
	return failed, nil
}

// within is the context of the statements of a transaction that must not be cut short: a batch of SQLite, whose
// driver needs no goroutine per statement then. A shared database may hang for as long as it likes, and who
// stops leading must not hang with it.
func (r *Runner) within(ctx context.Context) context.Context {
	if r.shared {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// writeAll moves the checkpoints first: whoever does not lead any more learns it before it has written a row,
// and one that may still write them waits for the other's end at the registry and nowhere else.
func writeAll(ctx context.Context, tx *sqlstore.Tx, work []task, upTo eventlog.Position) error {
	units := make([]*generation, len(work))
	for i, t := range work {
		units[i] = t.unit
	}
	if err := checkpoint(ctx, tx, units, upTo); err != nil {
		return err
	}
	for _, t := range work {
		if err := writeOne(ctx, tx, t); err != nil {
			if err = sqlstore.Classify(err); storeFault(err) {
				return fmt.Errorf("write %s: %w", t.unit.model.name, err)
			}
			return &foldError{unit: t.unit, err: err}
		}
	}
	return nil
}

func writeOne(ctx context.Context, tx *sqlstore.Tx, t task) (err error) {
	if t.changes.Write == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("write panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return t.changes.Write(ctx, tx)
}

// share picks each unit's events. Units of the same streams and position get the same slice.
func share(units []*generation, b batch) []task {
	type choice struct {
		families projections.Family
		after    eventlog.Position
	}
	first := b.upTo
	if len(b.events) > 0 {
		first = b.events[0].Position
	}
	picked := make(map[choice][]*projections.Event)
	tasks := make([]task, 0, len(units))
	for _, g := range units {
		at := g.position()
		if at >= b.upTo {
			continue
		}
		c := choice{families: g.version.Families}
		if at >= first {
			c.after = at
		}
		events, done := picked[c]
		if !done {
			events = pick(b.events, c.families, c.after)
			picked[c] = events
		}
		tasks = append(tasks, task{unit: g, events: events})
	}
	return tasks
}

func pick(events []*projections.Event, families projections.Family, after eventlog.Position) []*projections.Event {
	out := make([]*projections.Event, 0, len(events))
	for _, e := range events {
		if e.Family&families != 0 && e.Position > after {
			out = append(out, e)
		}
	}
	return out
}

func without(tasks []task, unit *generation) []task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t task) bool { return t.unit == unit })
}

// storeFault tells the database's or the log's trouble, which no other order of work helps, from a fold's.
func storeFault(err error) bool {
	for _, fault := range []error{
		sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, sqlstore.ErrClosed,
		eventlog.ErrUnavailable, eventlog.ErrClosed,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
