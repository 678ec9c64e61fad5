package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// gate is a lock that can be waited for within a context: while a database hangs, it is held by who asked it.
type gate chan struct{}

// Lock implements sync.Locker.
func (g gate) Lock() { g <- struct{}{} }

// Unlock implements sync.Locker.
func (g gate) Unlock() { <-g }

func (g gate) lock(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the read models: %w", ctx.Err())
	}
}

// leadership is one time of folding into shared tables.
type leadership struct {
	stop  context.CancelCauseFunc
	ended chan struct{} // closed when nothing of it is left
}

// runNode is Run on a shared database: a follower for ever, and beside it the lanes while this node leads.
func (r *Runner) runNode(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { stop(r.followRegistry(ctx)) })
	defer func() {
		stop(nil)
		beside.Wait()
	}()
	if r.cfg.FollowOnly {
		<-ctx.Done()
		return outdated(ctx)
	}
	pause := r.cfg.faultBackoff()
	for {
		err := r.lead(ctx, leadName, func(ctx context.Context) error {
			return r.foldAsLeader(ctx, func() { pause = r.cfg.faultBackoff() })
		})
		switch {
		case ctx.Err() != nil:
			return outdated(ctx)
		case errors.Is(err, eventlog.ErrCorrupt), errors.Is(err, eventlog.ErrClosed), errors.Is(err, sqlstore.ErrClosed):
			return err
		case err == nil, errors.Is(err, errDeposed):
			r.cfg.Logger.WarnContext(ctx, "this node has ceased to fold the read models", slog.Any("reason", err))
		default:
			r.cfg.Logger.ErrorContext(ctx, "this node could not fold the read models and will try again", slog.Any("error", err))
		}
		if delay.For(ctx, pause.pause()) != nil {
			return outdated(ctx)
		}
	}
}

// outdated returns ErrNewerRelease when that is why a context ended.
func outdated(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, projections.ErrNewerRelease) {
		return cause
	}
	return nil
}

// foldAsLeader takes the read models as the registry has them, folds until ctx ends or another node turns
// out to lead, and keeps nothing of it in memory.
func (r *Runner) foldAsLeader(ctx context.Context, begun func()) error {
	outer := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &leadership{stop: cancel, ended: make(chan struct{})}
	if err := r.ascend(ctx, l); err != nil {
		return err
	}
	defer r.stepDown(l)
	begun()
	r.cfg.Logger.InfoContext(ctx, "this node folds the read models", slog.Uint64("position", r.level.Load()))
	err := r.runLanes(ctx)
	switch {
	case outer.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

func (r *Runner) ascend(ctx context.Context, l *leadership) error {
	if err := r.step.lock(ctx); err != nil {
		return err
	}
	defer r.step.Unlock()
	r.leading = l
	r.leads.Store(true)
	if err := r.takeOver(ctx); err != nil {
		r.forget(l)
		return fmt.Errorf("take the read models over: %w", err)
	}
	return nil
}

// stepDown forgets all that this node folded; the registry says where the next one goes on.
func (r *Runner) stepDown(l *leadership) {
	r.step.Lock()
	r.forget(l)
	r.step.Unlock()
	r.wake()
}

// forget is for who holds step, when no lane runs.
func (r *Runner) forget(l *leadership) {
	for _, m := range r.models {
		m.mu.Lock()
		for _, g := range []*generation{m.live, m.building} {
			if g != nil && g.fold != nil {
				g.fold.Reset()
			}
		}
		m.building, m.busy, m.stale = nil, false, true
		m.mu.Unlock()
		m.next = nil
	}
	r.main, r.leading = nil, nil
	r.leads.Store(false)
	close(l.ended)
}

// depose ends the leadership, if there is one: another node leads.
func (r *Runner) depose() {
	// Not under step: who calls it may be what the holder of step waits for.
	go func() {
		r.step.Lock()
		defer r.step.Unlock()
		if r.leading != nil {
			r.leading.stop(errDeposed)
		}
	}()
}

// found is what the registry says of a model to who is about to fold it.
type found struct {
	live, building, next *entry
}

// takeOver finds or makes the tables, as the registry has them at this moment, and publishes the live ones.
// The caller holds step, or nothing runs yet.
func (r *Runner) takeOver(ctx context.Context) error {
	if err := r.remembered(ctx); err != nil {
		return err
	}
	head, err := r.log.Head(ctx)
	if err != nil {
		return err
	}
	var plan map[*model]*found
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) (err error) {
		plan, err = r.recover(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	r.identified, r.marked = false, time.Time{}
	if err := r.noteFirst(ctx); err != nil {
		return err
	}
	level, some := eventlog.Position(0), false
	for _, f := range plan {
		if f.live != nil {
			level, some = max(level, f.live.position), true
		}
	}
	if !some {
		level = head // there is nothing for the main lane to catch up with
	}
	r.level.Store(uint64(level))
	r.main = nil
	for _, m := range r.models {
		if err := r.take(ctx, m, plan[m], level); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runner) take(ctx context.Context, m *model, f *found, level eventlog.Position) error {
	m.mu.Lock()
	m.failure, m.building, m.buildErr, m.busy, m.refused = nil, nil, nil, false, nil
	if f.building != nil {
		m.building = m.generation(m.version(f.building.version), *f.building)
	}
	if f.live == nil {
		m.live = nil
		m.reading.Store(nil)
	}
	m.mu.Unlock()
	m.next = nil
	if f.next != nil {
		m.next = m.generation(m.current(), *f.next) // it may want indexes; see catchUpNext
	}
	if f.live == nil {
		m.mark.vanish()
		return nil
	}
	g := m.generation(m.version(f.live.version), *f.live)
	apply, err := r.reload(ctx, g)
	if err != nil {
		return err
	}
	g.publish(apply)
	switch {
	case g.position() == level:
		r.main = append(r.main, g)
		if f.live.failure != "" { // what it failed on is tried again with the others
			r.storeFailure(ctx, g, "")
		}
	case f.live.failure != "":
		m.mu.Lock()
		m.failure = &failure{err: errors.New(f.live.failure)}
		m.mu.Unlock()
	}
	return nil
}

// recover reads the registry, keeps what goes on, drops the rest and makes what is missing. On a shared
// database, what others may still read or work on is left to sweep.
func (r *Runner) recover(ctx context.Context, tx *sqlstore.Tx) (map[*model]*found, error) {
	if _, err := tx.ExecContext(ctx, r.store.DDL(createRegistry)); err != nil {
		return nil, fmt.Errorf("create the registry of projections: %w", err)
	}
	entries, err := readRegistry(ctx, tx)
	if err != nil {
		return nil, err
	}
	if inForce := formatOf(entries); r.shared && inForce != 0 {
		if err := r.adoptFormat(inForce); err != nil {
			return nil, err
		}
	}
	plan := make(map[*model]*found, len(r.models))
	for _, m := range r.models {
		plan[m] = &found{}
	}
	for i := range entries {
		e := &entries[i]
		m := r.model(e.name)
		if m == nil {
			continue // of a release with more read models, or of one that is not run here
		}
		if err := r.recoverEntry(ctx, tx, m, plan[m], e); err != nil {
			return nil, err
		}
	}
	for _, m := range r.models {
		f := plan[m]
		target, current := r.target(m), m.current()
		if f.building == nil && (f.live == nil || f.live.version < target.Number) {
			e, err := m.begin(ctx, tx, target, m.following(entries), stateBuilding)
			if err != nil {
				return nil, err
			}
			f.building = &e
		}
		if r.shared && f.next == nil && current.Number > target.Number && (f.live == nil || f.live.version < current.Number) {
			e, err := m.begin(ctx, tx, current, m.following(entries), stateNext)
			if err != nil {
				return nil, err
			}
			f.next = &e
		}
	}
	return plan, nil
}

func (r *Runner) recoverEntry(ctx context.Context, tx *sqlstore.Tx, m *model, f *found, e *entry) error {
	v := m.version(e.version)
	working := e.state == stateLive || e.state == stateBuilding
	switch {
	case e.version > m.current().Number && working:
		return newerRelease(m, e)
	case e.state == stateNext && e.version > m.current().Number:
		return nil // a newer release began it and goes on with it
	case e.state == stateNext && v == m.current() && v.Number > r.target(m).Number && f.next == nil:
		f.next = e
		return nil
	case e.state == stateNext:
		return drop(ctx, tx, *e)
	case r.shared && !working:
		return nil
	case e.state == stateLive && v != nil:
		f.live = e
		return nil
	case e.state == stateBuilding && v == r.target(m) && f.building == nil:
		f.building = e
		return nil
	}
	return drop(ctx, tx, *e)
}

func newerRelease(m *model, e *entry) error {
	return fmt.Errorf("%w: %s has version %d, this release has version %d", projections.ErrNewerRelease, e.name, e.version, m.current().Number)
}
