package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// join implements Start on a shared database.
func (r *Runner) join(ctx context.Context) error {
	if _, err := r.generations(ctx); err != nil {
		return err
	}
	if err := r.agree(ctx); err != nil {
		return err
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	for _, m := range r.models {
		if err := m.readError(); errors.Is(err, projections.ErrNewerRelease) {
			return err
		}
	}
	return nil
}

// open implements Start on a read-only database: it admits readers to the tables that are live at this moment.
func (r *Runner) open(ctx context.Context) error {
	records, err := readGenerations(ctx, r.store.Read())
	if sqlstore.IsUndefinedTable(err) {
		return nil // no read model was ever folded
	}
	if err != nil {
		return sqlstore.Classify(err)
	}
	for _, m := range r.models {
		e := find(records, m.name, stateLive)
		if e == nil {
			continue
		}
		v := m.version(e.version)
		if v == nil {
			if e.version > m.current().Number {
				return newerRelease(m, e)
			}
			continue
		}
		m.withheld = scrubbedOf(records, m.name).withheld
		g := m.withoutFold(v, *e)
		g.publish()
	}
	return nil
}

// generations reads projections_registry, and creates it if it is missing.
func (r *Runner) generations(ctx context.Context) ([]record, error) {
	records, err := readGenerations(ctx, r.store.Read())
	if !sqlstore.IsUndefinedTable(err) {
		return records, sqlstore.Classify(err)
	}
	return nil, sqlstore.Wrap(r.store.Create(ctx, createGenerations), "create projections_registry")
}

// poll polls projections_registry until ctx ends. Errors: ErrNewerRelease.
func (r *Runner) poll(ctx context.Context) error {
	failed := r.cfg.faultBackoff()
	busy := backoff{next: pollFirst, last: pollLast}
	s := &sweeper{r: r, seen: make(map[recordKey]sighting)}
	for {
		began := r.cfg.Now()
		look, cancel := context.WithTimeout(ctx, pollTimeout)
		err := r.refresh(look)
		cancel()
		pause, cutShort := pollPause, r.pollNow
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, projections.ErrNewerRelease):
			return err
		case err != nil:
			r.pollFailed(began, err)
			r.cfg.Logger.WarnContext(ctx, "reading the state of the read models failed; will retry",
				slog.Any("error", err))
			pause, cutShort = failed.pause(), nil
		case r.waiting.Load() > 0 && !r.leads.Load(): // a leader wakes waiters itself
			pause, cutShort = busy.pause(), nil // the waiters are known
		default:
			busy = backoff{next: pollFirst, last: pollLast}
		}
		if err == nil {
			r.failing.Store(nil)
			failed = r.cfg.faultBackoff()
			s.sweep(ctx)
		}
		_ = delay.Until(ctx, pause, cutShort) // the loop ends with ctx
	}
}

// refresh reads projections_registry once. A follower adopts what it says. A leader compares it with what it holds: if
// they differ, it no longer leads, and requests in it are started. A poll that began after this call suffices.
//
// On a database that is not shared, refresh only waits for a swap to end.
func (r *Runner) refresh(ctx context.Context) error {
	before := r.pollsBegun.Load()
	for {
		if err := r.step.lock(ctx); err != nil {
			return err
		}
		if !r.shared || r.pollsSeen.Load() > before {
			r.step.Unlock()
			return nil
		}
		l := r.leading
		err := r.pollOnce(ctx)
		if l != nil && errors.Is(err, errDeposed) {
			l.stop(err)
		}
		r.step.Unlock()
		if l == nil || !errors.Is(err, errDeposed) {
			return err
		}
		select { // then refresh as a follower
		case <-l.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pollOnce polls once. The caller holds step.
func (r *Runner) pollOnce(ctx context.Context) error {
	number, began := r.pollsBegun.Add(1), time.Now()
	f, records, err := r.readState(ctx)
	if err == nil && f.inForce != 0 {
		err = r.adoptFormat(f.inForce)
	}
	if err != nil {
		return err
	}
	if r.leading != nil {
		if err = r.inspect(records); err == nil {
			err = r.finishIfAsked(ctx, f)
		}
	} else {
		for _, m := range r.models {
			err = errors.Join(err, r.adopt(ctx, m, records))
		}
	}
	if err == nil {
		r.pollsSeen.Store(number)
		r.lastPoll.Store(&began)
	}
	return err
}

// adopt adopts the state of one model on a follower.
func (r *Runner) adopt(ctx context.Context, m *model, records []record) error {
	live, building := find(records, m.name, stateLive), find(records, m.name, stateBuilding)
	m.mu.Lock()
	if before := m.building; building != nil && (before == nil || before.number != building.generation) {
		defer r.cfg.Logger.DebugContext(ctx, "read model is built by another node", slog.String("projection", m.name),
			slog.Int("generation", building.generation))
	}
	m.building, m.buildErr = nil, nil
	if building != nil {
		m.building = m.withoutFold(&projections.Version{Number: building.version}, *building)
		if building.failure != "" {
			m.buildErr = errors.New(building.failure)
		}
	}
	buildErr := m.buildErr
	if s := scrubbedOf(records, m.name); s.Repaired != m.repaired || s.withheld != m.withheld {
		m.repaired, m.withheld, m.stale = s.Repaired, s.withheld, true // rows differ at the same position
	}
	m.mu.Unlock()
	if live == nil || m.version(live.version) == nil {
		m.lose(live)
		if buildErr != nil {
			m.mark.fail(&QuarantinedError{Name: m.name, Position: building.position, Err: buildErr})
		}
		return nil
	}
	return r.adoptLive(ctx, m, live)
}

// lose takes the live tables away from readers, because there are none or this release cannot read them.
func (m *model) lose(live *record) {
	m.mu.Lock()
	had := m.live != nil || m.blocked != nil
	m.live, m.blocked, m.failure = nil, nil, nil
	if live != nil && live.version > m.current().Number {
		m.blocked = newerRelease(m, live)
	}
	blocked := m.blocked
	m.reading.Store(nil)
	m.mu.Unlock()
	if had {
		m.mark.clear()
	}
	if blocked != nil {
		m.mark.fail(blocked)
	}
}

func (r *Runner) adoptLive(ctx context.Context, m *model, e *record) error {
	m.mu.Lock()
	g, stale := m.live, m.stale
	if news := failureOf(m.failure) != e.failure || g == nil || g.number != e.generation; news {
		defer r.cfg.Logger.DebugContext(ctx, "read model is folded by another node", slog.String("projection", m.name),
			slog.Int("generation", e.generation), slog.Uint64("position", uint64(e.position)),
			slog.String("failure", e.failure))
	}
	m.failure = nil
	var standing error
	if e.failure != "" {
		m.failure = &failure{err: errors.New(e.failure)}
		standing = &QuarantinedError{Name: m.name, Position: e.position, Err: m.failure.err}
	}
	m.mu.Unlock()
	switch inv, caches := m.p.(projections.Invalidator); {
	case g == nil || g.number != e.generation || stale:
		g = m.withoutFold(m.version(e.version), *e)
		g.publish()
	case caches && e.position != m.cachedTo:
		if err := inv.Invalidate(ctx, r.store.Read(), g.tables, m.cachedTo, e.position); err != nil {
			return fmt.Errorf("invalidate caches of %s: %w", m.name, sqlstore.Classify(err))
		}
	}
	m.cachedTo = e.position
	g.at.Store(uint64(e.position))
	m.mark.reach(e.position, standing)
	return nil
}

// stale records since when polls fail, and why.
type stale struct {
	since time.Time
	err   error
}

func (r *Runner) pollFailed(began time.Time, err error) {
	r.metrics.pollFailures.Inc()
	if before := r.failing.Load(); before != nil {
		began = before.since
	}
	r.failing.Store(&stale{since: began, err: err})
}

// Stale returns since when this node has been unable to poll projections_registry on a shared database, and why. It
// returns zero values if the last poll succeeded or there was none yet. In the meantime its readers may use tables that
// are no longer live, and its caches get older.
func (r *Runner) Stale() (since time.Time, err error) {
	if f := r.failing.Load(); f != nil {
		return f.since, fmt.Errorf("poll projections_registry: %w", f.err)
	}
	return time.Time{}, nil
}

func failureOf(f *failure) string {
	if f == nil {
		return ""
	}
	return f.err.Error()
}

// inspect compares what a leader holds with projections_registry, and starts the requested rebuilds. Errors:
// errDeposed. The caller holds step.
func (r *Runner) inspect(records []record) error {
	var asked []*model
	for _, m := range r.models {
		m.mu.Lock()
		live, building, busy := m.live, m.building, m.busy
		m.mu.Unlock()
		if e := find(records, m.name, stateBuilding); e != nil && building == nil && !busy &&
			e.version == r.target(m).Number && r.spawn != nil {
			m.mu.Lock()
			m.building, m.busy = m.withFold(r.target(m), *e), true
			m.mu.Unlock()
			asked = append(asked, m)
		}
		same := live == nil
		if e := find(records, m.name, stateLive); e != nil {
			same = live != nil && live.number == e.generation && !r.movedElsewhere(live, e.position)
		}
		if !same {
			return fmt.Errorf("%s: %w", m.name, errDeposed)
		}
	}
	if len(asked) > 0 {
		r.spawn(func(ctx context.Context) { r.buildUntilDone(ctx, asked) })
	}
	return nil
}

// movedElsewhere reports whether a generation of the live loop is not at the position where this node left it. Other
// generations are moved by separate loops, even while step is held.
func (r *Runner) movedElsewhere(live *generation, at eventlog.Position) bool {
	return slices.Contains(r.inLive, live) && live.position() != at
}
