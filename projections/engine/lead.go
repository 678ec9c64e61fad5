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

// gate is a lock whose Lock can be cancelled: its holder may wait for a database that hangs.
type gate chan struct{}

// Lock implements sync.Locker.
func (g gate) Lock() { g <- struct{}{} }

// Unlock implements sync.Locker.
func (g gate) Unlock() { <-g }

func (g gate) lock(ctx context.Context) error {
	return sqlstore.Wrap(delay.Send(ctx, g, struct{}{}), "wait for the read models")
}

// leadership is one period of folding into shared tables.
type leadership struct {
	stop  context.CancelCauseFunc
	ended chan struct{} // closed when all of it has ended
}

// runNode implements Run on a shared database: it follows, and folds while this node leads.
func (r *Runner) runNode(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	var polling sync.WaitGroup
	polling.Go(func() { stop(r.poll(ctx)) })
	defer func() {
		stop(nil)
		polling.Wait()
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
		case errors.Is(err, eventlog.ErrCorrupt), errors.Is(err, eventlog.ErrClosed),
			errors.Is(err, sqlstore.ErrClosed):
			return err
		case err == nil, errors.Is(err, errDeposed):
			r.cfg.Logger.WarnContext(ctx, "this node no longer folds the read models", slog.Any("reason", err))
		default:
			r.cfg.Logger.ErrorContext(ctx, "this node failed to fold the read models; will retry",
				slog.Any("error", err))
		}
		if delay.For(ctx, pause.pause()) != nil {
			return outdated(ctx)
		}
	}
}

// outdated returns ErrNewerRelease if that is why a context ended.
func outdated(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, projections.ErrNewerRelease) {
		return cause
	}
	return nil
}

// foldAsLeader takes over the read models as projections_registry describes them and folds until ctx ends or another
// node leads. It keeps nothing in memory afterwards.
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
	err := r.runLoops(ctx)
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
		return fmt.Errorf("take over the read models: %w", err)
	}
	return nil
}

// stepDown forgets what this node folded; the next leader continues from projections_registry.
func (r *Runner) stepDown(l *leadership) {
	r.step.Lock()
	r.forget(l)
	r.step.Unlock()
	delay.Signal(r.pollNow)
}

// forget drops the state of a leader. The caller holds step, and no loop runs.
func (r *Runner) forget(l *leadership) {
	for _, m := range r.models {
		m.mu.Lock()
		for _, g := range []*generation{m.live, m.building} {
			if g != nil && g.fold != nil {
				g.reset()
			}
		}
		m.building, m.busy, m.stale = nil, false, true
		m.mu.Unlock()
		m.next = nil
	}
	r.inLive, r.leading = nil, nil
	r.leads.Store(false)
	close(l.ended)
}

// depose ends the leadership, if there is one, because another node leads.
func (r *Runner) depose() {
	// It takes step in a goroutine, because the holder of step may wait for the caller.
	go func() {
		r.step.Lock()
		defer r.step.Unlock()
		if r.leading != nil {
			r.leading.stop(errDeposed)
		}
	}()
}

// found holds the records of a model that a leader continues with.
type found struct {
	live, building, next *record
	withheld             int
}

// takeOver finds or creates the tables that projections_registry describes, and publishes the live ones. The caller
// holds step, or nothing runs yet.
func (r *Runner) takeOver(ctx context.Context) error {
	if err := r.checkLog(ctx); err != nil {
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
		level = head // the live loop has nothing to catch up on
	}
	r.level.Store(uint64(level))
	r.inLive = nil
	for _, m := range r.models {
		r.take(ctx, m, plan[m], level)
	}
	return nil
}

func (r *Runner) take(ctx context.Context, m *model, f *found, level eventlog.Position) {
	m.mu.Lock()
	m.failure, m.building, m.buildErr, m.busy, m.blocked = nil, nil, nil, false, nil
	if f.building != nil {
		m.building = m.withFold(m.version(f.building.version), *f.building)
	}
	if f.live == nil {
		m.live = nil
		m.reading.Store(nil)
	}
	m.mu.Unlock()
	m.next, m.withheld = nil, f.withheld
	if f.next != nil {
		m.next = m.withFold(m.current(), *f.next) // catchUpNext creates missing indexes
	}
	if f.live == nil {
		m.mark.clear()
		return
	}
	g := m.withFold(m.version(f.live.version), *f.live)
	g.publish()
	switch {
	case g.position() == level:
		r.inLive = append(r.inLive, g)
		if f.live.failure != "" { // the live loop retries what it failed on
			r.storeFailure(ctx, g, "")
		}
	case f.live.failure != "":
		m.mu.Lock()
		m.failure = &failure{err: errors.New(f.live.failure)}
		m.mu.Unlock()
	}
}

// recover reads projections_registry, keeps what can be continued, drops the rest and creates what is missing. On a
// shared database, tables that others may still use are left to the sweeper.
func (r *Runner) recover(ctx context.Context, tx *sqlstore.Tx) (map[*model]*found, error) {
	if _, err := tx.ExecContext(ctx, r.store.DDL(createGenerations)); err != nil {
		return nil, fmt.Errorf("create projections_registry: %w", err)
	}
	records, err := readGenerations(ctx, tx)
	if err != nil {
		return nil, err
	}
	if r.shared {
		f, err := readFormat(ctx, tx)
		if err == nil && f.inForce != 0 {
			err = r.adoptFormat(f.inForce)
		}
		if err != nil {
			return nil, err
		}
	}
	plan := make(map[*model]*found, len(r.models))
	for _, m := range r.models {
		plan[m] = &found{withheld: scrubbedOf(records, m.name).withheld}
	}
	for i := range records {
		e := &records[i]
		m := r.model(e.name)
		if m == nil {
			continue // of another release, or not run here
		}
		if err := r.recoverRecord(ctx, tx, m, plan[m], e); err != nil {
			return nil, err
		}
	}
	for _, m := range r.models {
		f := plan[m]
		target, current := r.target(m), m.current()
		if f.building == nil && (f.live == nil || f.live.version < target.Number) {
			e, err := m.begin(ctx, tx, target, m.nextNumber(records), stateBuilding)
			if err != nil {
				return nil, err
			}
			f.building = &e
		}
		if r.shared && f.next == nil && current.Number > target.Number &&
			(f.live == nil || f.live.version < current.Number) {
			e, err := m.begin(ctx, tx, current, m.nextNumber(records), stateNext)
			if err != nil {
				return nil, err
			}
			f.next = &e
		}
	}
	return plan, nil
}

func (r *Runner) recoverRecord(ctx context.Context, tx *sqlstore.Tx, m *model, f *found, e *record) error {
	v := m.version(e.version)
	working := e.state == stateLive || e.state == stateBuilding
	switch {
	case e.version > m.current().Number && working:
		return newerRelease(m, e)
	case e.state == stateNext && e.version > m.current().Number:
		return nil // a newer release folds it
	case e.state == stateNext && v == m.current() && v.Number > r.target(m).Number && f.next == nil:
		f.next = e
		return nil
	case e.state == stateNext:
		return drop(ctx, tx, *e)
	case e.state == stateFilling && v == r.target(m):
		return nil
	case r.shared && !working:
		return nil
	case e.state == stateLive && v != nil:
		f.live = e
		if r.shared {
			return nil
		}
		// A release may have added indexes. A table that is missing is quarantined when it is written.
		if err := m.withoutFold(v, *e).index(ctx, tx); !sqlstore.IsUndefinedTable(err) {
			return err
		}
		return nil
	case e.state == stateBuilding && v == r.target(m) && f.building == nil:
		f.building = e
		return nil
	}
	return drop(ctx, tx, *e)
}

func newerRelease(m *model, e *record) error {
	return fmt.Errorf("%w: %s has version %d, this release has version %d",
		projections.ErrNewerRelease, e.name, e.version, m.current().Number)
}
