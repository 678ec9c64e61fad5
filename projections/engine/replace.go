package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"letterhead/internal/sqlstore"
	"letterhead/projections"
)

// Replaced is a read model with complete new tables.
type Replaced struct {
	projections.Comparison
	Live bool // false if the new tables were dropped, or ctx ended and the next rebuild, start or leader continues
}

// Replace rebuilds read models as Rebuild does, but compares every row with a snapshot of the live tables before it
// makes the new ones live. It returns the read models whose new tables were compared, by name, also with an error. Live
// tables that cannot be read are replaced, too; the Comparison then has the reason. progress gets the name of each
// step: rebuild, compare, switch.
//
// This process fills the new tables, also on a shared database; there the leader makes them live, and Replace waits for
// it. An interrupted Replace is continued by the next one. Errors: as Rebuild, projections.ErrNotReady.
func (r *Runner) Replace(ctx context.Context, names []string,
	progress func(step string) func(Progress)) ([]Replaced, error) {
	models, err := r.choose(names)
	if err != nil {
		return nil, err
	}
	if !r.replacing.TryLock() {
		return nil, fmt.Errorf("rebuild: %w", ErrBuilding)
	}
	defer r.replacing.Unlock()
	p := &replacement{verifier: verifier{r: r, folder: r, results: map[string]*projections.Verification{}}}
	if err := p.fill(ctx, models, progress("rebuild")); err != nil {
		return nil, fmt.Errorf("rebuild: %w", p.interrupted(ctx, err))
	}
	failed := p.reject(ctx, func(g *generation) error { return p.c.failed[g] })
	if len(p.scratch) == 0 {
		return nil, failed
	}
	found, err := p.compare(ctx, progress("compare"))
	if err != nil {
		return nil, errors.Join(failed, fmt.Errorf("compare: %w", p.interrupted(ctx, err)))
	}
	failed = errors.Join(failed, p.reject(ctx, func(g *generation) error { return p.results[g.model.name].Err }))
	err = p.publish(ctx, progress("switch"))
	for i := range found {
		found[i].Live = err == nil &&
			slices.ContainsFunc(p.scratch, func(g *generation) bool { return g.model.name == found[i].Name })
	}
	return found, errors.Join(failed, err)
}

// replacement fills and compares new tables, which are the scratch tables of its verifier.
type replacement struct {
	verifier
	c *catchUp
}

// fill folds until the new tables are close to the live ones, and creates their indexes.
func (p *replacement) fill(ctx context.Context, models []*model, progress func(Progress)) error {
	r := p.r
	records, err := readGenerations(ctx, r.store.Read())
	if err != nil {
		return sqlstore.Classify(err)
	}
	space, err := r.spaceFor(ctx, models, "", func(m *model) *generation {
		if e := find(records, m.name, stateFilling); e != nil && m.version(e.version) != nil {
			return m.withoutFold(m.version(e.version), *e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		p.scratch = nil
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		for _, m := range models {
			version := r.target(m)
			if err := m.checkFree(records, version); err != nil {
				return err
			}
			if find(records, m.name, stateLive) == nil {
				return fmt.Errorf("%s: %w", m.name, projections.ErrNotReady)
			}
			e := find(records, m.name, stateFilling)
			if e != nil && e.version != version.Number { // it cannot become live
				if err := drop(ctx, tx, *e); err != nil {
					return err
				}
				e = nil
			}
			if e == nil {
				begun, err := m.begin(ctx, tx, version, m.nextNumber(records), stateFilling)
				if err != nil {
					return err
				}
				e = &begun
			}
			p.scratch = append(p.scratch, m.withFold(version, *e))
			p.results[m.name] = &projections.Verification{Name: m.name, Version: version.Number}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.c = &catchUp{r: r, units: slices.Clone(p.scratch), progress: progress, space: space}
	if err := p.approach(ctx, p.c); err != nil {
		return err
	}
	return r.index(ctx, p.c.units)
}

// interrupted explains why the tables could not be filled or compared, and drops them if the disk is full.
func (p *replacement) interrupted(ctx context.Context, err error) error {
	if errors.Is(err, sqlstore.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	switch {
	case errors.Is(err, errDeposed):
		return fmt.Errorf("%w: %w", ErrBuilding, err) // by another process
	case errors.Is(err, ErrNoSpace):
		return cmp.Or(p.reject(ctx, func(*generation) error { return err }), err)
	}
	return err
}

// reject drops the new tables that cannot become live, and returns the reasons.
func (p *replacement) reject(ctx context.Context, why func(*generation) error) error {
	var errs []error
	p.scratch = slices.DeleteFunc(p.scratch, func(g *generation) bool {
		cause := why(g)
		if cause == nil || repairs(cause) {
			return false
		}
		errs = append(errs, fmt.Errorf("rebuild %s: %w", g.model.name, cause), p.r.drop(ctx, g.record()))
		return true
	})
	if len(errs) > 0 && !p.r.shared {
		p.r.reclaim(ctx)
	}
	return errors.Join(errs...)
}

// repairs reports whether an error is that of live tables that new ones repair.
func repairs(err error) bool {
	return errors.Is(err, errLiveTables) || errors.As(err, new(*QuarantinedError))
}

// compare brings the new tables to the position of a snapshot of the live ones, and compares both.
func (p *replacement) compare(ctx context.Context, progress func(Progress)) ([]Replaced, error) {
	defer p.leave()
	p.c.progress = progress
	tables, err := p.verifier.compare(ctx, p.c, 0) // creating indexes took time, in which events were appended
	if err != nil && !errors.Is(err, errLiveTables) {
		return nil, err
	}
	var out []Replaced
	for _, g := range p.scratch {
		res := p.results[g.model.name]
		res.Err = cmp.Or(res.Err, err)
		out = append(out, Replaced{Comparison: projections.Comparison{
			Name: res.Name, Version: res.Version, Position: res.Position, Tables: tables[res.Name], Err: res.Err,
		}})
	}
	slices.SortFunc(out, func(a, b Replaced) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// publish hands the new tables to the loop that makes them live, and waits until they are.
func (p *replacement) publish(ctx context.Context, progress func(Progress)) error {
	if len(p.scratch) == 0 {
		return nil
	}
	r := p.r
	space, err := r.reserveSpace(ctx)
	if err == nil {
		err = p.release(ctx)
	}
	if err != nil {
		return fmt.Errorf("switch: %w", p.interrupted(ctx, err))
	}
	var models []*model
	var asked []record
	for _, g := range p.scratch {
		models, asked = append(models, g.model), append(asked, g.record())
	}
	if r.shared {
		return r.await(ctx, asked, models, progress)
	}
	return r.finish(ctx, models, space, progress)
}

func (p *replacement) release(ctx context.Context) error {
	p.r.step.Lock() // against a rebuild and the start of the loops
	defer p.r.step.Unlock()
	err := p.r.store.Setup(ctx, func(tx *sqlstore.Tx) error {
		records, err := readGenerations(ctx, tx)
		if err != nil {
			return err
		}
		for _, g := range p.scratch {
			if err := g.model.checkFree(records, g.version); err != nil {
				return err
			}
			if err := setState(ctx, tx, g, stateBuilding); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, g := range p.scratch {
		if g.state = stateBuilding; !p.r.shared {
			g.model.mu.Lock()
			g.model.building, g.model.busy = g, true
			g.model.mu.Unlock()
		}
	}
	return nil
}
