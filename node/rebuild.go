package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"letterhead/adminapi"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/search"
)

// RebuildSteps report what a rebuild does. Progress returns what is called with the progress of a step: rebuild, compare or
// switch. Rebuilt is called with each read model whose new tables are complete; its errors do not end the rebuild.
type RebuildSteps struct {
	Progress func(step string) func(engine.Progress)
	Rebuilt  func(adminapi.Rebuilt) error
}

// Rebuild rebuilds read models, and compares those that have live tables to compare with. It makes the new tables live,
// unless keep is set. Errors: those of engine.Runner and of steps.Rebuilt.
func (n *Node) Rebuild(ctx context.Context, names []string, keep bool, steps RebuildSteps) error {
	list, err := n.Runner.List(ctx)
	if err != nil {
		return err
	}
	var alone []string
	compared := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		i := slices.IndexFunc(list, func(s engine.Status) bool { return s.Name == name })
		if keep || i < 0 || list[i].State == engine.Live && list[i].Building == nil {
			return false
		}
		alone = append(alone, name)
		return true
	})
	var errs []error
	if len(alone) > 0 {
		if err := n.Runner.Rebuild(ctx, alone, steps.Progress("rebuild")); err != nil {
			return err
		}
		for _, name := range alone {
			errs = append(errs, steps.Rebuilt(adminapi.Rebuilt{Comparison: projections.Comparison{Name: name}, State: "live"}))
		}
	}
	if len(compared) == 0 {
		return errors.Join(errs...)
	}
	complete, failed := n.Runner.Keep(ctx, compared, steps.Progress("rebuild"))
	if len(complete) == 0 {
		return errors.Join(append(errs, failed)...)
	}
	return errors.Join(append(errs, failed, n.publishKept(ctx, complete, keep, steps))...)
}

// publishKept compares complete tables with the live ones, and makes them live, unless keep is set.
func (n *Node) publishKept(ctx context.Context, complete []string, keep bool, steps RebuildSteps) error {
	found, err := n.Runner.Compare(ctx, complete, steps.Progress("compare"))
	switch {
	case errors.Is(err, engine.ErrLiveTables): // a reason to rebuild them
		for _, name := range complete {
			found = append(found, projections.Comparison{Name: name, Err: err})
		}
	case err != nil:
		return fmt.Errorf("%w; the new tables are kept", err)
	}
	var fit []string
	var errs []error
	for _, c := range found {
		if keep || !switchable(c.Err) {
			errs = append(errs, steps.Rebuilt(adminapi.Rebuilt{Comparison: c, Compared: true, State: "kept"}))
			if !keep {
				errs = append(errs, fmt.Errorf("%s is not switched: %w", c.Name, c.Err))
			}
			continue
		}
		fit = append(fit, c.Name)
	}
	if len(fit) == 0 {
		return errors.Join(errs...)
	}
	state := "live"
	if err := n.Runner.Switch(ctx, fit, steps.Progress("switch")); err != nil {
		state, errs = "not live", append(errs, err)
	}
	for _, c := range found {
		if slices.Contains(fit, c.Name) {
			errs = append(errs, steps.Rebuilt(adminapi.Rebuilt{Comparison: c, Compared: true, State: state}))
		}
	}
	return errors.Join(errs...)
}

// switchable reports whether the error of a comparison is none, or one of live tables that a rebuild repairs.
func switchable(err error) bool {
	var quarantined *engine.QuarantinedError
	return err == nil || errors.Is(err, engine.ErrLiveTables) || errors.As(err, &quarantined)
}

// rebuilds are the last rebuilds that requests have begun, by read model.
type rebuilds struct {
	turn sync.Mutex // one is rebuilt at a time
	mu   sync.Mutex // guards last
	last map[string]*adminapi.Rebuild
}

func (r *rebuilds) begin(name string, rebuild adminapi.Rebuild) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.last[name]; last != nil && last.FinishedAt.IsZero() {
		return false
	}
	if r.last == nil {
		r.last = map[string]*adminapi.Rebuild{}
	}
	r.last[name] = &rebuild
	return true
}

func (r *rebuilds) change(name string, change func(*adminapi.Rebuild)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r.last[name])
}

// StartRebuild begins to rebuild a read model or the search index, until the node closes. The next rebuild of the same one
// continues one that was interrupted. Errors: engine.ErrUnknown, engine.ErrBuilding. LastRebuild has later ones.
func (n *Node) StartRebuild(name string) error {
	if name != search.Name && !slices.Contains(n.Runner.Names(), name) {
		return fmt.Errorf("%s: %w", name, engine.ErrUnknown)
	}
	if !n.rebuilds.begin(name, adminapi.Rebuild{StartedAt: n.clock.Now()}) {
		return fmt.Errorf("%s: %w", name, engine.ErrBuilding)
	}
	n.running.Go(func() {
		err := n.rebuildFor(name)
		if err != nil && n.serving.Err() == nil {
			n.logger.Error("a read model could not be rebuilt", "name", name, "error", err)
		}
		n.rebuilds.change(name, func(r *adminapi.Rebuild) {
			r.FinishedAt = n.clock.Now()
			if err != nil {
				r.Error = err.Error()
			}
		})
	})
	return nil
}

// rebuildFor rebuilds a read model or the search index for a request.
func (n *Node) rebuildFor(name string) error {
	if name == search.Name {
		return n.RebuildSearch(n.serving)
	}
	n.rebuilds.turn.Lock()
	defer n.rebuilds.turn.Unlock()
	steps := RebuildSteps{
		Progress: func(step string) func(engine.Progress) {
			return func(p engine.Progress) {
				n.rebuilds.change(name, func(r *adminapi.Rebuild) { r.Step, r.Position, r.Target = step, p.Position, p.Target })
			}
		},
		Rebuilt: func(done adminapi.Rebuilt) error {
			n.rebuilds.change(name, func(r *adminapi.Rebuild) { r.Rebuilt = &done })
			return nil
		},
	}
	err := n.Rebuild(n.serving, []string{name}, false, steps)
	if errors.Is(err, engine.ErrKept) { // a rebuild was interrupted after its tables were complete, or they were kept by hand
		err = n.publishKept(n.serving, []string{name}, false, steps)
	}
	return err
}

// LastRebuild returns the last rebuild that a request to this process has begun; false if there was none.
func (n *Node) LastRebuild(name string) (adminapi.Rebuild, bool) {
	n.rebuilds.mu.Lock()
	defer n.rebuilds.mu.Unlock()
	last := n.rebuilds.last[name]
	if last == nil {
		return adminapi.Rebuild{}, false
	}
	return *last, true
}
