package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// join is Start on a shared database.
func (r *Runner) join(ctx context.Context) error {
	entries, err := r.registry(ctx)
	if err != nil {
		return err
	}
	if err := r.agree(ctx, entries); err != nil {
		return err
	}
	if err := r.refresh(ctx); err != nil {
		return err
	}
	for _, m := range r.models {
		if err := m.refusal(); errors.Is(err, projections.ErrNewerRelease) {
			return err
		}
	}
	return nil
}

// open is Start on a database that is only read: it lets readers in to the tables that are live at this moment.
func (r *Runner) open(ctx context.Context) error {
	entries, err := readRegistry(ctx, r.store.Read())
	if sqlstore.IsUndefinedTable(err) {
		return nil // nothing was ever folded
	}
	if err != nil {
		return sqlstore.Classify(err)
	}
	for _, m := range r.models {
		e := liveEntry(entries, m.name)
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
		g := m.known(v, *e)
		apply, err := r.reload(ctx, g)
		if err != nil {
			return err
		}
		g.publish(apply)
	}
	return nil
}

// registry reads the registry and makes it when it is missing.
func (r *Runner) registry(ctx context.Context) ([]entry, error) {
	entries, err := readRegistry(ctx, r.store.Read())
	if !sqlstore.IsUndefinedTable(err) {
		return entries, sqlstore.Classify(err)
	}
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		_, err := tx.ExecContext(ctx, r.store.DDL(createRegistry))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create the registry of projections: %w", err)
	}
	return nil, nil
}

// wake ends the pause before the next look at the registry.
func (r *Runner) wake() {
	select {
	case r.look <- struct{}{}:
	default: // has been said
	}
}

// followRegistry looks at the registry until ctx ends. Errors: ErrNewerRelease.
func (r *Runner) followRegistry(ctx context.Context) error {
	failed := r.cfg.faultBackoff()
	busy := backoff{next: pollFirst, last: pollLast}
	s := &sweeper{r: r, seen: make(map[entryKey]sighting)}
	for {
		began := r.cfg.Now()
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		err := r.refresh(look)
		cancel()
		pause, cutShort := pollPause, r.look
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, projections.ErrNewerRelease):
			return err
		case err != nil:
			r.lookFailed(began, err)
			r.cfg.Logger.WarnContext(ctx, "state of the read models could not be read", slog.Any("error", err))
			pause, cutShort = failed.pause(), nil
		case r.waiting.Load() > 0 && !r.leads.Load(): // who leads tells those who wait by itself
			pause, cutShort = busy.pause(), nil // who waits has been heard
		default:
			busy = backoff{next: pollFirst, last: pollLast}
		}
		if err == nil {
			r.failing.Store(nil)
			failed = r.cfg.faultBackoff()
			s.sweep(ctx)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-cutShort:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// refresh looks at the registry once and makes what it says so here. While this node leads it is the other
// way around: what does not agree means that it does not lead any more, and what it is asked for is begun.
// A look that somebody else began after this call will do.
//
// On a database of this process alone there is nothing to look for but the end of a swap that is under way.
func (r *Runner) refresh(ctx context.Context) error {
	before := r.looks.Load()
	for {
		if err := r.step.lock(ctx); err != nil {
			return err
		}
		if !r.shared || r.seen.Load() > before {
			r.step.Unlock()
			return nil
		}
		l := r.leading
		err := r.lookOnce(ctx)
		if l != nil && errors.Is(err, errDeposed) {
			l.stop(err)
		}
		r.step.Unlock()
		if l == nil || !errors.Is(err, errDeposed) {
			return err
		}
		select { // and then as one that follows
		case <-l.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookOnce is for who holds step.
func (r *Runner) lookOnce(ctx context.Context) error {
	number, began := r.looks.Add(1), time.Now()
	entries, err := readRegistry(ctx, r.store.Read())
	if err != nil {
		return sqlstore.Classify(err)
	}
	if inForce := formatOf(entries); inForce != 0 {
		if err := r.adoptFormat(inForce); err != nil {
			return err
		}
	}
	if r.leading != nil {
		if err = r.inspect(entries); err == nil {
			err = r.finishIfAsked(ctx, entries)
		}
	} else {
		err = r.adoptAll(ctx, entries)
	}
	if err == nil {
		r.seen.Store(number)
		r.looked.Store(&began)
	}
	return err
}

// adoptAll makes what the registry says so on a node that follows.
func (r *Runner) adoptAll(ctx context.Context, entries []entry) error {
	var errs []error
	for _, m := range r.models {
		errs = append(errs, r.adopt(ctx, m, entries))
	}
	return errors.Join(errs...)
}

// adopt is adoptAll for one model.
func (r *Runner) adopt(ctx context.Context, m *model, entries []entry) error {
	var live, building *entry
	for i := range entries {
		switch e := &entries[i]; {
		case e.name != m.name:
		case e.state == stateLive:
			live = e
		case e.state == stateBuilding:
			building = e
		}
	}
	m.mu.Lock()
	if before := m.building; building != nil && (before == nil || before.number != building.generation) {
		defer r.cfg.Logger.DebugContext(ctx, "read model is built by another node", slog.String("projection", m.name),
			slog.Int("generation", building.generation))
	}
	m.building, m.buildErr = nil, nil
	if building != nil {
		m.building = m.known(&projections.Version{Number: building.version}, *building)
		if building.failure != "" {
			m.buildErr = errors.New(building.failure)
		}
	}
	buildErr := m.buildErr
	m.mu.Unlock()
	if live == nil || m.version(live.version) == nil {
		m.lose(live)
		if buildErr != nil {
			m.mark.fail(&SetAsideError{Name: m.name, Position: building.position, Err: buildErr})
		}
		return nil
	}
	return r.adoptLive(ctx, m, live)
}

// lose takes the live tables from the readers: there are none, or none that this release can read.
func (m *model) lose(live *entry) {
	m.mu.Lock()
	had := m.live != nil || m.refused != nil
	m.live, m.refused, m.failure = nil, nil, nil
	if live != nil && live.version > m.current().Number {
		m.refused = newerRelease(m, live)
	}
	refused := m.refused
	m.reading.Store(nil)
	m.mu.Unlock()
	if had {
		m.mark.vanish()
	}
	if refused != nil {
		m.mark.fail(refused)
	}
}

func (r *Runner) adoptLive(ctx context.Context, m *model, e *entry) error {
	m.mu.Lock()
	g, stale := m.live, m.stale
	if news := failureOf(m.failure) != e.failure || g == nil || g.number != e.generation; news {
		defer r.cfg.Logger.DebugContext(ctx, "read model is folded by another node", slog.String("projection", m.name),
			slog.Int("generation", e.generation), slog.Uint64("position", uint64(e.position)), slog.String("failure", e.failure))
	}
	m.failure = nil
	var standing error
	if e.failure != "" {
		m.failure = &failure{err: errors.New(e.failure)}
		standing = &SetAsideError{Name: m.name, Position: e.position, Err: m.failure.err}
	}
	m.mu.Unlock()
	switch inv, caches := m.p.(projections.Invalidator); {
	case g == nil || g.number != e.generation || stale:
		g = m.known(m.version(e.version), *e)
		apply, err := r.reload(ctx, g)
		if err != nil {
			return err
		}
		g.publish(apply)
	case caches && e.position != m.told:
		if err := inv.Invalidate(ctx, r.store.Read(), g.tables, m.told, e.position); err != nil {
			return fmt.Errorf("invalidate what is kept of %s: %w", m.name, sqlstore.Classify(err))
		}
	}
	m.told = e.position
	g.at.Store(uint64(e.position))
	m.mark.stand(e.position, standing)
	return nil
}

// stale is since when looks at the registry fail, and why.
type stale struct {
	since time.Time
	err   error
}

func (r *Runner) lookFailed(began time.Time, err error) {
	r.metrics.lookFailures.Inc()
	if before := r.failing.Load(); before != nil {
		began = before.since
	}
	r.failing.Store(&stale{since: began, err: err})
}

// Stale returns since when this node cannot look at the registry of a shared database, and why; a zero time and
// nil: it can, or has not tried yet. So long its readers may be led to tables that are not live any more, and
// what it keeps in memory of them grows old.
func (r *Runner) Stale() (since time.Time, err error) {
	if f := r.failing.Load(); f != nil {
		return f.since, fmt.Errorf("look at the registry of projections: %w", f.err)
	}
	return time.Time{}, nil
}

func failureOf(f *failure) string {
	if f == nil {
		return ""
	}
	return f.err.Error()
}

// inspect compares what a leader holds with the registry, and begins the rebuilds that it is asked for.
// Errors: errDeposed. The caller holds step.
func (r *Runner) inspect(entries []entry) error {
	var asked []*model
	for _, m := range r.models {
		m.mu.Lock()
		live, building, busy := m.live, m.building, m.busy
		m.mu.Unlock()
		same := live == nil
		for i := range entries {
			e := &entries[i]
			if e.name != m.name {
				continue
			}
			switch e.state {
			case stateLive:
				same = live != nil && live.number == e.generation && !r.overtook(live, e.position)
			case stateBuilding:
				if building == nil && !busy && e.version == r.target(m).Number && r.spawn != nil {
					m.mu.Lock()
					m.building, m.busy = m.generation(r.target(m), *e), true
					m.mu.Unlock()
					asked = append(asked, m)
				}
			}
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

// overtook says that a unit of the main lane stands elsewhere than this node left it. The others are moved by
// lanes of their own, also while step is held.
func (r *Runner) overtook(live *generation, at eventlog.Position) bool {
	for _, g := range r.main {
		if g == live {
			return g.position() != at
		}
	}
	return false
}
