package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// foldError is an error of a read model's own fold or SQL.
type foldError struct {
	unit *generation
	err  error
}

func (e *foldError) Error() string { return e.unit.model.name + ": " + e.err.Error() }
func (e *foldError) Unwrap() error { return e.err }

// task is a unit with the events of a batch that it has not folded yet, and their changes.
type task struct {
	unit    *generation
	events  []*projections.Event
	changes projections.Changes
	held    bool // the fold keeps rows of the batch in memory, so that the checkpoint does not move
}

// needed reports whether readers wait for the unit: it is live, or no other is.
func (t task) needed() bool {
	return t.unit.state == stateLive || t.unit.model.liveGeneration() == nil
}

// failures maps units whose fold failed to the reason.
type failures map[*generation]error

func (f failures) add(g *generation, err error) failures {
	if f == nil {
		f = make(failures)
	}
	f[g] = err
	return f
}

// foldAndWrite folds a batch into the units and then writes the changes. It leaves out units whose fold fails and
// returns the reasons. It retries failures of the database and of the log until ctx ends; after an error nothing was
// written and no unit has moved.
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
		g.reset()
		failed = failed.add(g, cause)
	}
	return failed, nil
}

// fold folds a batch in memory, while no write of these units is pending.
func (r *Runner) fold(ctx context.Context, units []*generation, b batch) (work []task, failed failures, err error) {
	pause := r.cfg.faultBackoff()
	for {
		work, failed, err = r.foldOnce(ctx, units, b)
		if err == nil || ctx.Err() != nil || errors.Is(err, sqlstore.ErrClosed) || errors.Is(err, eventlog.ErrClosed) {
			break
		}
		reset(units)
		r.cfg.Logger.ErrorContext(ctx, "folding events failed; will retry",
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
		g.reset()
	}
}

// foldOnce returns an error only for a failure of the database or of the log.
func (r *Runner) foldOnce(ctx context.Context, units []*generation, b batch) (work []task, failed failures, err error) {
	for _, t := range r.share(units, b) {
		if len(t.events) > 0 || !t.unit.hold && t.unit.tables.Held() > 0 {
			t.changes, err = r.foldOne(ctx, t)
		}
		t.held = t.unit.tables.Held() > 0
		switch {
		case err == nil:
			work = append(work, t)
		case storeFault(err):
			return nil, nil, fmt.Errorf("fold %s: %w", t.unit.model.name, err)
		default:
			t.unit.reset()
			failed, err = failed.add(t.unit, err), nil
		}
	}
	return work, failed, nil
}

// foldOne turns a panic into an error, so that one read model's bug does not stop the others.
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
	t.unit.tables.Hold(t.unit.hold)
	c, err = t.unit.fold.Fold(ctx, r.store.Read(), t.events)
	return c, sqlstore.Classify(err)
}

// write writes the changes and moves the checkpoints, in one transaction. If a unit's own SQL fails, write starts a new
// transaction without it. The caller resets the folds of failed units, and all of them after an error.
func (r *Runner) write(ctx context.Context, work []task, upTo eventlog.Position) (failed failures, err error) {
	pause := r.cfg.faultBackoff()
	for len(work) > 0 {
		var began time.Time
		err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
			began = time.Now()
			return writeAll(r.within(ctx), tx, work, upTo)
		})
		if err == nil {
			if work[0].unit.state != stateLive {
				r.longest.Store(max(r.longest.Load(), int64(time.Since(began))))
			}
			r.full.Store(nil)
			for _, t := range work {
				t.unit.committed(t.changes)
				if !t.held {
					t.unit.at.Store(uint64(upTo))
				}
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
			return nil, err // it makes space for the live tables
		}
		if errors.Is(err, sqlstore.ErrFull) {
			r.full.Store(&err)
			reachUnchanged(work, upTo)
		}
		r.cfg.Logger.ErrorContext(ctx, "writing read models failed; will retry",
			slog.Uint64("position", uint64(upTo)), slog.Any("error", err))
		_ = delay.For(ctx, pause.pause()) // if ctx has ended, the next Write returns its error
	}
	return failed, nil
}

// Full returns why the last batch could not be written, if the disk was full: an sqlstore.ErrFull.
func (r *Runner) Full() error {
	if err := r.full.Load(); err != nil {
		return *err
	}
	return nil
}

// reachUnchanged lets waiters of live tables continue whose answers a batch does not change. Only the checkpoint of
// such tables is missing, because the disk is full.
func reachUnchanged(work []task, upTo eventlog.Position) {
	for _, t := range work {
		if t.changes.Unchanged && t.unit.state == stateLive {
			t.unit.model.mark.reach(upTo, nil)
		}
	}
}

// within returns the context for statements of a transaction. With SQLite a transaction is not interrupted, so that the
// driver needs no goroutine per statement. A shared database may hang, and a node that stops leading must not hang with
// it.
func (r *Runner) within(ctx context.Context) context.Context {
	if r.shared {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// writeAll moves the checkpoints first. So a node that no longer leads notices before it has written a row, and one
// that may still write waits for the other's transaction there and nowhere else.
func writeAll(ctx context.Context, tx *sqlstore.Tx, work []task, upTo eventlog.Position) error {
	var moving, staying []*generation
	for _, t := range work {
		if t.held {
			staying = append(staying, t.unit)
		} else {
			moving = append(moving, t.unit)
		}
	}
	if err := errors.Join(checkpoint(ctx, tx, moving, upTo), checkpoint(ctx, tx, staying, 0)); err != nil {
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

// share returns each unit's events. Units with the same streams and position share a slice.
func (r *Runner) share(units []*generation, b batch) []task {
	type choice struct {
		set   uint64
		after eventlog.Position
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
		c := choice{set: r.set(g.version)}
		if at >= first {
			c.after = at
		}
		events, done := picked[c]
		if !done {
			events = pick(b.events, c.set, c.after)
			picked[c] = events
		}
		tasks = append(tasks, task{unit: g, events: events})
	}
	return tasks
}

func pick(events []*projections.Event, set uint64, after eventlog.Position) []*projections.Event {
	out := make([]*projections.Event, 0, len(events))
	for _, e := range events {
		if e.Set&set != 0 && e.Position > after {
			out = append(out, e)
		}
	}
	return out
}

func without(tasks []task, unit *generation) []task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t task) bool { return t.unit == unit })
}

// storeFault reports whether an error comes from the database or the log, so that retrying may help, and not from a
// fold.
func storeFault(err error) bool {
	return slices.ContainsFunc([]error{
		sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, sqlstore.ErrClosed,
		eventlog.ErrUnavailable, eventlog.ErrClosed,
		context.Canceled, context.DeadlineExceeded,
	}, func(fault error) bool { return errors.Is(err, fault) })
}
