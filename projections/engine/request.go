package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// request asks the leader for a rebuild, through building generations in the registry, and waits for its end.
func (r *Runner) request(ctx context.Context, models []*model, progress func(Progress)) error {
	asked, err := r.ask(ctx, models)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	r.wake() // it may be this node
	var errs []error
	for {
		entries, err := readRegistry(ctx, r.store.Read())
		if err != nil && ctx.Err() == nil && errors.Is(sqlstore.Classify(err), sqlstore.ErrUnavailable) {
			err, entries = nil, asked // it goes on without us
		}
		if err != nil {
			return fmt.Errorf("rebuild: wait for its end: %w", errors.Join(err, ctx.Err()))
		}
		var failed []error
		asked, failed = r.answers(ctx, asked, entries)
		errs = append(errs, failed...)
		if len(asked) == 0 {
			break
		}
		if err := r.report(ctx, asked, progress); err != nil {
			return errors.Join(append(errs, fmt.Errorf("rebuild: %w", err))...)
		}
		if err := delay.For(ctx, pollPause); err != nil {
			return errors.Join(append(errs, fmt.Errorf("rebuild goes on without being waited for: %w", err))...)
		}
	}
	// Readers of this node see the new tables when Rebuild returns.
	if err := r.refresh(ctx); err != nil {
		errs = append(errs, fmt.Errorf("rebuild: find the new tables: %w", err))
	}
	if progress != nil && len(errs) == 0 {
		at := models[0].status().Position
		progress(Progress{Position: at, Target: at})
	}
	return errors.Join(errs...)
}

// ask registers new generations.
func (r *Runner) ask(ctx context.Context, models []*model) (asked []entry, err error) {
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		asked = nil
		entries, err := readRegistry(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range models {
			if err := m.free(entries, r.target(m)); err != nil {
				return err
			}
			e, err := m.begin(ctx, tx, r.target(m), m.following(entries), stateBuilding)
			if err != nil {
				return err
			}
			asked = append(asked, e)
		}
		return nil
	})
	return asked, err
}

// free returns why no rebuild may be begun, or nil.
func (m *model) free(entries []entry, target *projections.Version) error {
	for i := range entries {
		e := &entries[i]
		if e.name != m.name {
			continue
		}
		switch {
		case e.state == stateBuilding:
			return fmt.Errorf("%s: %w", m.name, ErrBuilding)
		case e.state == stateLive && e.version > m.current().Number:
			return newerRelease(m, e)
		case e.state == stateLive && e.version < target.Number:
			return fmt.Errorf("%s: version %d of this release has not been built yet: %w", m.name, target.Number, ErrBuilding)
		}
	}
	return nil
}

// answers returns those that are still being built, as they stand, and why others failed.
func (r *Runner) answers(ctx context.Context, asked, entries []entry) (open []entry, failed []error) {
	for _, a := range asked {
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == a.name && e.generation == a.generation })
		switch {
		case i < 0:
			failed = append(failed, fmt.Errorf("rebuild %s: the new tables were dropped", a.name))
		case entries[i].state == stateBuilding:
			open = append(open, entries[i])
		case entries[i].state == stateFailed:
			failed = append(failed, fmt.Errorf("rebuild %s: %s", a.name, entries[i].failure))
			// Its tables are gone; who leads drops the row if this fails.
			_ = r.store.Write(ctx, func(tx *sqlstore.Tx) error { return drop(ctx, tx, entries[i]) })
		} // else it is live, or was
	}
	return open, failed
}

func (r *Runner) report(ctx context.Context, asked []entry, progress func(Progress)) error {
	if progress == nil {
		return nil
	}
	head, err := r.log.Head(ctx)
	if errors.Is(err, eventlog.ErrUnavailable) {
		return nil // the leader waits for it too
	}
	if err != nil {
		return err
	}
	at := asked[0].position
	for _, e := range asked[1:] {
		at = min(at, e.position)
	}
	progress(Progress{Position: at, Target: max(head, at)})
	return nil
}

// refuse ends a rebuild whose fold failed: its tables are dropped and the reason is left for who asked for it.
// It returns false when there is nobody to tell, because the read model is being built for want of a better:
// then it is tried again.
func (r *Runner) refuse(ctx context.Context, m *model, cause error) bool {
	m.mu.Lock()
	g, live := m.building, m.live
	m.mu.Unlock()
	if !r.shared || live == nil || live.version.Number != g.version.Number {
		return false
	}
	err := r.store.Write(ctx, func(tx *sqlstore.Tx) error {
		if err := setFailure(ctx, tx, g, failureText(cause)); err != nil {
			return err
		}
		if err := setState(ctx, tx, g, stateFailed); err != nil {
			return err
		}
		return dropTables(ctx, tx, g.entry())
	})
	if err != nil {
		return false
	}
	m.mu.Lock()
	m.building, m.busy = nil, false
	m.mu.Unlock()
	return true
}
