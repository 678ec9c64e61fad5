package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// request asks the leader for a rebuild by inserting building generations, and waits until they are live or failed.
func (r *Runner) request(ctx context.Context, models []*model, progress func(Progress)) error {
	asked, err := r.insertRequests(ctx, models)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	return r.await(ctx, asked, models, progress)
}

// await waits until the leader has made requested generations live, or failed to.
func (r *Runner) await(ctx context.Context, asked []record, models []*model, progress func(Progress)) error {
	delay.Signal(r.pollNow) // this node may be the leader
	var errs []error
	for {
		records, err := readGenerations(ctx, r.store.Read())
		if err != nil && ctx.Err() == nil && errors.Is(sqlstore.Classify(err), sqlstore.ErrUnavailable) {
			err, records = nil, asked // the leader continues
		}
		if err != nil {
			return fmt.Errorf("wait for the rebuild: %w", errors.Join(err, ctx.Err()))
		}
		var failed []error
		asked, failed = r.outcomes(ctx, asked, records)
		errs = append(errs, failed...)
		if len(asked) == 0 {
			break
		}
		if err := r.report(ctx, asked, progress); err != nil {
			return errors.Join(append(errs, fmt.Errorf("rebuild: %w", err))...)
		}
		if err := delay.For(ctx, pollPause); err != nil {
			return errors.Join(append(errs, fmt.Errorf("stopped waiting for the rebuild, which continues: %w", err))...)
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

// insertRequests registers new generations.
func (r *Runner) insertRequests(ctx context.Context, models []*model) (asked []record, err error) {
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		asked = nil
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range models {
			if err := m.checkFree(records, r.target(m)); err != nil {
				return err
			}
			e, err := m.begin(ctx, tx, r.target(m), m.nextNumber(records), stateBuilding)
			if err != nil {
				return err
			}
			asked = append(asked, e)
		}
		return nil
	})
	return asked, err
}

// checkFree returns an error if no rebuild may begin.
func (m *model) checkFree(records []record, target *projections.Version) error {
	for i := range records {
		e := &records[i]
		if e.name != m.name {
			continue
		}
		switch {
		case e.state == stateBuilding:
			return fmt.Errorf("%s: %w", m.name, ErrBuilding)
		case e.state == stateLive && e.version > m.current().Number:
			return newerRelease(m, e)
		case e.state == stateLive && e.version < target.Number:
			return fmt.Errorf("%s: version %d of this release has not been built yet: %w",
				m.name, target.Number, ErrBuilding)
		}
	}
	return nil
}

// outcomes returns the requested generations that are still being built, and the errors of those that failed.
func (r *Runner) outcomes(ctx context.Context, asked, records []record) (open []record, failed []error) {
	for _, a := range asked {
		i := slices.IndexFunc(records, func(e record) bool { return e.name == a.name && e.generation == a.generation })
		switch {
		case i < 0:
			failed = append(failed, fmt.Errorf("rebuild %s: the new tables were dropped", a.name))
		case records[i].state == stateBuilding:
			open = append(open, records[i])
		case records[i].state == stateFailed:
			failed = append(failed, fmt.Errorf("rebuild %s: %s", a.name, records[i].failure))
			// Its tables are gone; if this fails, the leader drops the row.
			_ = r.store.Write(ctx, func(tx *sqlstore.Tx) error { return drop(ctx, tx, records[i]) })
		} // otherwise it is or was live
	}
	return open, failed
}

func (r *Runner) report(ctx context.Context, asked []record, progress func(Progress)) error {
	if progress == nil {
		return nil
	}
	head, err := r.log.Head(ctx)
	if errors.Is(err, eventlog.ErrUnavailable) {
		return nil // the leader waits for the log as well
	}
	if err != nil {
		return err
	}
	at := slices.MinFunc(asked, func(a, b record) int { return cmp.Compare(a.position, b.position) }).position
	progress(Progress{Position: at, Target: max(head, at)})
	return nil
}

// failRebuild ends a rebuild whose fold failed: it drops the tables and records the reason for the node that asked. It
// returns false if the read model is not being rebuilt but built for this release, which is retried instead.
func (r *Runner) failRebuild(ctx context.Context, m *model, cause error) bool {
	g, live := m.buildingGeneration(), m.liveGeneration()
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
		return dropTables(ctx, tx, g.record())
	})
	if err != nil {
		return false
	}
	m.mu.Lock()
	m.building, m.busy = nil, false
	m.mu.Unlock()
	return true
}
