package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Rebuild fills new tables of the named read models (of all of them without names) from the beginning of
// the log, with one reading of it, while the live ones go on being folded and read, and then makes the new
// ones live in one step. The progress may be nil.
//
// In a SQLite file it begins only when there is room for the new tables, and drops them before the reserve of free
// space is touched; the error is then ErrNoRoom.
//
// When ctx ends first, what was done stays, and the next Rebuild, or the next start, goes on with it. When
// a fold fails, the new tables of that read model are dropped and its old ones stay.
//
// On a shared database the node that leads does it, whichever was asked, and goes on with it also when ctx
// ends; the progress then counts no events. While no node leads, Rebuild waits for one.
//
// Errors: ErrNotStarted, ErrUnknown, ErrBuilding, ErrNoRoom, sqlstore.ErrUnavailable, those of the log and of the
// folds (of another node, their text), ctx.Err().
func (r *Runner) Rebuild(ctx context.Context, names []string, progress func(Progress)) error {
	models, err := r.choose(names)
	if err != nil {
		return err
	}
	if r.shared {
		return r.request(ctx, models, progress)
	}
	space, err := r.roomFor(ctx, models, "")
	if err == nil {
		err = r.beginBuild(ctx, models)
	}
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	failed, err := r.build(ctx, models, space, progress)
	if errors.Is(err, sqlstore.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	errs := []error{err}
	for _, m := range models {
		if cause := failed[m]; cause != nil {
			errs = append(errs, fmt.Errorf("rebuild %s: %w", m.name, cause))
			errs = append(errs, r.abandon(ctx, m))
		} else if errors.Is(err, ErrNoRoom) {
			errs = append(errs, r.abandon(ctx, m))
		} else if err != nil {
			m.mu.Lock()
			m.busy = false
			m.mu.Unlock()
		}
	}
	if len(failed) > 0 || errors.Is(err, ErrNoRoom) {
		r.reclaim(ctx)
	}
	return errors.Join(errs...)
}

// abandon drops what a rebuild could not fill. Without live tables it is all there is, and the next start
// tries it again.
func (r *Runner) abandon(ctx context.Context, m *model) error {
	m.mu.Lock()
	m.busy = false
	g := m.building
	if m.live == nil {
		g = nil
	} else {
		m.building = nil
	}
	m.mu.Unlock()
	if g == nil {
		return nil
	}
	return r.drop(ctx, g.entry())
}

func (r *Runner) choose(names []string) ([]*model, error) {
	if !r.started.Load() {
		return nil, ErrNotStarted
	}
	if len(names) == 0 {
		return r.models, nil
	}
	var models []*model
	for _, name := range names {
		m := r.model(name)
		if m == nil {
			return nil, fmt.Errorf("%w: %q", ErrUnknown, name)
		}
		if !slices.Contains(models, m) {
			models = append(models, m)
		}
	}
	return models, nil
}

// beginBuild makes the models' building generations, or takes up those that were left half built.
func (r *Runner) beginBuild(ctx context.Context, models []*model) error {
	r.step.Lock() // against another Rebuild and the lanes' start
	defer r.step.Unlock()
	var fresh []*model
	for _, m := range models {
		m.mu.Lock()
		busy, building := m.busy, m.building
		m.mu.Unlock()
		if busy {
			return fmt.Errorf("%s: %w", m.name, ErrBuilding)
		}
		if building == nil {
			fresh = append(fresh, m)
		}
	}
	made := make([]entry, len(fresh))
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		entries, err := readRegistry(ctx, tx)
		if err != nil {
			return err
		}
		for i, m := range fresh {
			if made[i], err = m.begin(ctx, tx, r.target(m), m.following(entries), stateBuilding); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, m := range fresh {
		m.mu.Lock()
		m.building = m.generation(r.target(m), made[i])
		m.mu.Unlock()
	}
	for _, m := range models {
		m.mu.Lock()
		m.busy = true
		m.mu.Unlock()
	}
	return nil
}

// build fills the models' building generations and makes them live.
func (r *Runner) build(ctx context.Context, models []*model, space room, progress func(Progress)) (failed map[*model]error, err error) {
	c := &chaser{r: r, progress: progress, room: space}
	for _, m := range models {
		m.mu.Lock()
		c.units = append(c.units, m.building)
		m.mu.Unlock()
	}
	err = c.run(ctx,
		func(ctx context.Context) error { return r.index(ctx, c.units) },
		func(ctx context.Context) error { return r.swap(ctx, c.units, nil) })
	for g, cause := range c.failed {
		if failed == nil {
			failed = make(map[*model]error)
		}
		failed[g.model] = cause
	}
	return failed, err
}

func (r *Runner) index(ctx context.Context, units []*generation) error {
	for _, g := range units {
		// A transaction for each, so that the main lane gets its turn in between.
		if err := r.store.Write(ctx, func(tx *sqlstore.Tx) error { return g.index(r.within(ctx), tx) }); err != nil {
			return err
		}
	}
	return nil
}

// swap makes level generations live in one step, with what else the transaction does. The caller holds step.
func (r *Runner) swap(ctx context.Context, units []*generation, also func(*sqlstore.Tx) error) error {
	applies := make([]func(), len(units))
	for i, g := range units {
		var err error
		if applies[i], err = r.reload(ctx, g); err != nil {
			return err
		}
	}
	old := make([]*generation, len(units))
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		for i, g := range units {
			if old[i] = g.model.liveGeneration(); old[i] != nil {
				if err := setState(ctx, tx, old[i], stateRetired); err != nil {
					return err
				}
			}
			if err := setFailure(ctx, tx, g, ""); err != nil { // an attempt before may have left one
				return err
			}
			if err := setState(ctx, tx, g, stateLive); err != nil {
				return err
			}
			if s, ok := g.model.p.(projections.Swapper); ok {
				if err := s.Swap(ctx, tx, g.tables); err != nil {
					return err
				}
			}
		}
		if also != nil {
			return also(tx)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make new tables live: %w", err)
	}
	for i, g := range units {
		m := g.model
		m.mu.Lock()
		m.building, m.busy, m.buildErr, m.failure = nil, false, nil, nil
		m.mu.Unlock()
		g.state = stateLive
		g.publish(applies[i])
		r.main = slices.DeleteFunc(r.main, func(u *generation) bool { return u == old[i] || u == g })
		r.main = append(r.main, g)
		if old[i] != nil && !r.shared { // else see sweeper
			r.retire(ctx, old[i])
		}
		r.cfg.Logger.InfoContext(ctx, "read model has new tables", slog.String("projection", m.name),
			slog.Int("version", g.version.Number), slog.Int("generation", g.number))
	}
	return nil
}

// retire drops a generation when its last reader has left, or leaves that to the next start.
func (r *Runner) retire(ctx context.Context, g *generation) {
	e := g.entry()
	e.state = stateRetired
	gone := g.readers.retire()
	if r.spawn == nil {
		select {
		case <-gone:
			r.dropLogged(ctx, e)
		default:
		}
		return
	}
	r.spawn(func(ctx context.Context) {
		select {
		case <-gone:
			r.dropLogged(ctx, e)
		case <-ctx.Done():
		}
	})
}

func (r *Runner) dropLogged(ctx context.Context, e entry) {
	if err := r.drop(ctx, e); err != nil && ctx.Err() == nil {
		r.cfg.Logger.WarnContext(ctx, "tables could not be dropped; the next start, or the node that leads, tries again",
			slog.String("projection", e.name), slog.Int("generation", e.generation), slog.Any("error", err))
		return
	}
	r.cfg.Logger.DebugContext(ctx, "tables are dropped", slog.String("projection", e.name), slog.Int("generation", e.generation))
	if !r.shared {
		r.reclaim(ctx)
	}
}

func (g *generation) entry() entry {
	return entry{name: g.model.name, version: g.version.Number, generation: g.number, state: g.state, position: g.position()}
}

// drop deletes a generation's tables. What a cancelled ctx leaves is dropped by the next start.
func (r *Runner) drop(ctx context.Context, e entry) error {
	return r.store.Write(ctx, func(tx *sqlstore.Tx) error { return drop(ctx, tx, e) })
}

// buildUntilDone builds what the start found missing, and tries again what fails, until ctx ends.
func (r *Runner) buildUntilDone(ctx context.Context, models []*model) {
	pause := r.cfg.backoff()
	for len(models) > 0 {
		space, err := r.buildRoom(ctx, models)
		var failed map[*model]error
		if err == nil {
			failed, err = r.build(ctx, models, space, nil)
		}
		if ctx.Err() != nil {
			return
		}
		if r.shared && errors.Is(err, errDeposed) {
			r.depose()
			return
		}
		var again []*model
		for _, m := range models {
			cause := failed[m]
			if cause == nil {
				cause = err
			}
			if cause == nil {
				continue
			}
			if failed[m] != nil && r.refuse(ctx, m, cause) {
				continue
			}
			again = append(again, m)
			m.mu.Lock()
			m.buildErr = cause
			noLive, g := m.live == nil, m.building
			m.mu.Unlock()
			at := g.position()
			if r.shared { // for those who only follow
				r.storeFailure(ctx, g, failureText(cause))
			}
			if noLive {
				m.mark.fail(&SetAsideError{Name: m.name, Position: at, Err: cause})
			}
			r.cfg.Logger.ErrorContext(ctx, "read model could not be built and will be tried again",
				slog.String("projection", m.name), slog.Uint64("position", uint64(at)), slog.Any("error", cause))
		}
		models = again
		if len(models) > 0 && delay.For(ctx, pause.pause()) != nil {
			return
		}
	}
}
