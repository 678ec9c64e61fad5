package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Rebuild fills new tables of the named read models (of all without names) by reading the log once from its beginning,
// while the live tables are folded and read as before. Then it makes the new tables live in one step. progress may be
// nil.
//
// In a SQLite file, Rebuild starts only if there is space for the new tables, and drops them before they use the
// reserve of free space; the error is then ErrNoSpace.
//
// Read models that have been building since the start are not built again: Rebuild waits for them, and returns the error
// of an attempt that fails, although there will be another. It fails if Run ends first.
//
// If ctx ends first, the next Rebuild, or the next start, continues where this one stopped. If a fold fails, Rebuild
// drops the new tables of that read model and its old ones stay.
//
// On a shared database the leader rebuilds, whichever node was asked, and continues even if ctx ends; progress then
// counts no events. Without a leader, Rebuild waits for one.
//
// Errors: ErrNotStarted, ErrUnknown, ErrBuilding, ErrNoSpace, sqlstore.ErrUnavailable, the errors of the log and of the
// folds (only the text of another node's), ctx.Err().
func (r *Runner) Rebuild(ctx context.Context, names []string, progress func(Progress)) error {
	models, err := r.choose(names)
	if err != nil {
		return err
	}
	if r.shared {
		return r.request(ctx, models, progress)
	}
	for {
		models, err = awaitStart(ctx, models)
		if err != nil || len(models) == 0 {
			return err
		}
		space, err := r.spaceFor(ctx, models, "", (*model).buildingGeneration)
		if err == nil {
			err = r.beginBuild(ctx, models)
		}
		if errors.Is(err, errStarting) {
			continue
		}
		if err != nil {
			return fmt.Errorf("rebuild: %w", err)
		}
		return r.finish(ctx, models, space, progress)
	}
}

// errStarting: the loops have begun to build the read model after awaitStart.
var errStarting = errors.New("read model has been building since the start")

// awaitStart waits for builds that began at the start, and returns the other models.
func awaitStart(ctx context.Context, models []*model) (others []*model, err error) {
	var errs []error
	for _, m := range models {
		m.mu.Lock()
		attempt := m.attempt
		m.mu.Unlock()
		if attempt == nil {
			others = append(others, m)
			continue
		}
		select {
		case <-attempt:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		m.mu.Lock()
		if m.buildErr != nil {
			errs = append(errs, fmt.Errorf("rebuild %s: %w", m.name, m.buildErr))
		}
		m.mu.Unlock()
	}
	return others, errors.Join(errs...)
}

// endAttempt lets callers of Rebuild continue. cause is nil if the model is live.
func (m *model) endAttempt(cause error, again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.buildErr = cause
	if m.attempt == nil {
		return // a leader builds what another node has asked for
	}
	close(m.attempt)
	m.attempt = nil
	if again {
		m.attempt = make(chan struct{})
	}
}

// finish fills the models' building generations and makes them live.
func (r *Runner) finish(ctx context.Context, models []*model, space freeSpace, progress func(Progress)) error {
	failed, err := r.build(ctx, models, space, progress)
	if errors.Is(err, sqlstore.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	errs := []error{err}
	for _, m := range models {
		if cause := failed[m]; cause != nil {
			errs = append(errs, fmt.Errorf("rebuild %s: %w", m.name, cause))
			errs = append(errs, r.abandon(ctx, m))
		} else if errors.Is(err, ErrNoSpace) {
			errs = append(errs, r.abandon(ctx, m))
		} else if err != nil {
			m.mu.Lock()
			m.busy = false
			m.mu.Unlock()
		}
	}
	if len(failed) > 0 || errors.Is(err, ErrNoSpace) {
		r.reclaim(ctx)
	}
	return errors.Join(errs...)
}

// abandon drops what a rebuild could not fill. Without live tables it keeps them, and the next start retries.
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
	return r.drop(ctx, g.record())
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

// beginBuild creates the models' building generations, or takes over the generations of an interrupted build.
func (r *Runner) beginBuild(ctx context.Context, models []*model) error {
	r.step.Lock() // against another Rebuild and the start of the loops
	defer r.step.Unlock()
	var fresh []*model
	for _, m := range models {
		m.mu.Lock()
		busy, building, starting := m.busy, m.building, m.attempt != nil
		m.mu.Unlock()
		if starting {
			return errStarting
		}
		if busy {
			return fmt.Errorf("%s: %w", m.name, ErrBuilding)
		}
		if building == nil {
			fresh = append(fresh, m)
		}
	}
	made := make([]record, len(fresh))
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		for i, m := range fresh {
			if made[i], err = m.begin(ctx, tx, r.target(m), m.nextNumber(records), stateBuilding); err != nil {
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
		m.building = m.withFold(r.target(m), made[i])
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
func (r *Runner) build(ctx context.Context, models []*model, space freeSpace,
	progress func(Progress)) (failed map[*model]error, err error) {
	c := &catchUp{r: r, progress: progress, space: space}
	for _, m := range models {
		c.units = append(c.units, m.buildingGeneration())
	}
	err = c.run(ctx,
		func(ctx context.Context) error { return r.index(ctx, c.units) },
		func(ctx context.Context) error { return r.swap(ctx, c.units, nil) })
	failed = make(map[*model]error, len(c.failed))
	for g, cause := range c.failed {
		failed[g.model] = cause
	}
	return failed, err
}

func (r *Runner) index(ctx context.Context, units []*generation) error {
	for _, g := range units {
		// One transaction each, so that the live loop can write in between. Two nodes that both take themselves for the
		// leader take turns: otherwise CREATE INDEX IF NOT EXISTS fails in one of them.
		if err := r.store.Setup(ctx, func(tx *sqlstore.Tx) error { return g.index(r.within(ctx), tx) }); err != nil {
			return err
		}
	}
	return nil
}

// indexLive creates the indexes that a release has added to live generations.
func (r *Runner) indexLive(ctx context.Context, live []*generation) {
	if err := r.index(ctx, live); err != nil && ctx.Err() == nil {
		r.cfg.Logger.WarnContext(ctx, "indexes of read models were not created; the next leader retries",
			slog.Any("error", err))
	}
}

// swap makes generations that have caught up live in one transaction, which also runs also. The caller holds step.
func (r *Runner) swap(ctx context.Context, units []*generation, also func(*sqlstore.Tx) error) error {
	old := make([]*generation, len(units))
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		for i, g := range units {
			if old[i] = g.model.liveGeneration(); old[i] != nil {
				if err := setState(ctx, tx, old[i], stateRetired); err != nil {
					return err
				}
			}
			if err := setFailure(ctx, tx, g, ""); err != nil { // of an earlier attempt
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
		g.publish()
		r.inLive = slices.DeleteFunc(r.inLive, func(u *generation) bool { return u == old[i] || u == g })
		r.inLive = append(r.inLive, g)
		if old[i] != nil && !r.shared { // else the sweeper drops it
			r.retire(ctx, old[i])
		}
		r.cfg.Logger.InfoContext(ctx, "new tables of a read model are live", slog.String("projection", m.name),
			slog.Int("version", g.version.Number), slog.Int("generation", g.number),
			slog.Duration("longest_write", time.Duration(r.longest.Load())))
	}
	r.longest.Store(0)
	return nil
}

// retire drops a generation when its last reader has left, or leaves that to the next start.
func (r *Runner) retire(ctx context.Context, g *generation) {
	e := g.record()
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

func (r *Runner) dropLogged(ctx context.Context, e record) {
	if err := r.drop(ctx, e); err != nil && ctx.Err() == nil {
		r.cfg.Logger.WarnContext(ctx, "tables could not be dropped; the next start, or the leader, will retry",
			slog.String("projection", e.name), slog.Int("generation", e.generation), slog.Any("error", err))
		return
	}
	r.cfg.Logger.DebugContext(ctx, "dropped tables", slog.String("projection", e.name),
		slog.Int("generation", e.generation))
	if !r.shared {
		r.reclaim(ctx)
	}
}

func (g *generation) record() record {
	return record{name: g.model.name, version: g.version.Number, generation: g.number, state: g.state,
		position: g.position()}
}

// drop deletes a generation's tables. If ctx ends first, the next start drops them.
func (r *Runner) drop(ctx context.Context, e record) error {
	return r.store.Write(ctx, func(tx *sqlstore.Tx) error { return drop(ctx, tx, e) })
}

// buildUntilDone builds what was missing at the start and retries what fails, until ctx ends.
func (r *Runner) buildUntilDone(ctx context.Context, models []*model) {
	defer func() {
		for _, m := range models {
			m.endAttempt(ctx.Err(), false)
		}
	}()
	pause := r.cfg.backoff()
	for len(models) > 0 {
		space, err := r.buildSpace(ctx, models)
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
		if err == nil && len(failed) < len(models) { // tables were written
			r.full.Store(nil)
		}
		var again []*model
		for _, m := range models {
			cause := cmp.Or(failed[m], err)
			if cause == nil {
				m.endAttempt(nil, false)
				continue
			}
			if errors.Is(cause, sqlstore.ErrFull) {
				r.full.Store(&cause)
			}
			if failed[m] != nil && r.failRebuild(ctx, m, cause) {
				m.endAttempt(nil, false)
				continue
			}
			again = append(again, m)
			m.endAttempt(cause, true)
			g := m.buildingGeneration()
			at := g.position()
			if r.shared { // for followers
				r.storeFailure(ctx, g, failureText(cause))
			}
			if m.liveGeneration() == nil {
				m.mark.fail(&QuarantinedError{Name: m.name, Position: at, Err: cause})
			}
			r.cfg.Logger.ErrorContext(ctx, "building a read model failed; will retry",
				slog.String("projection", m.name), slog.Uint64("position", uint64(at)), slog.Any("error", cause))
		}
		models = again
		if len(models) > 0 && delay.For(ctx, pause.pause()) != nil {
			return
		}
	}
}
