package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/projections"
	"letterhead/projections/engine"
	"letterhead/projections/search"
)

// Index is the search index.
type Index interface {
	Status(ctx context.Context) (engine.Status, error)
	Rebuild(ctx context.Context) error
}

// Rebuilt is a read model with new tables.
type Rebuilt struct {
	projections.Comparison
	Compared bool   // there were live tables to compare with
	State    string // of the new tables: live, not live
}

// Object returns it for JSON.
func (r *Rebuilt) Object() map[string]any {
	object := map[string]any{"name": r.Name, "rebuilt": r.State, "compared": r.Compared && r.Err == nil}
	if r.Compared {
		object["version"], object["position"], object["same"], object["tables"] = r.Version, r.Position, r.Same(),
			append([]projections.TableComparison{}, r.Tables...)
	}
	if r.Err != nil {
		object["error"] = r.Err.Error()
	}
	return object
}

// Rebuild is a rebuild that a request has begun.
type Rebuild struct {
	Name       string            `json:"name"`
	Running    bool              `json:"running"`
	StartedAt  time.Time         `json:"started_at"`
	FinishedAt time.Time         `json:"finished_at,omitzero"` // zero while it runs
	Step       string            `json:"step"`                 // rebuild, compare or switch
	Events     int64             `json:"events"`               // that the step has read
	Position   eventlog.Position `json:"position"`
	Target     eventlog.Position `json:"target"`
	Error      string            `json:"error,omitempty"`
	Report     map[string]any    `json:"report,omitempty"` // as Rebuilt.Object; nil without new tables
}

// Models are the use cases of the read models and the search index.
type Models struct {
	Runner *engine.Runner
	Index  Index
	// Background starts work that continues until the context ends.
	Background func(work func(context.Context))
	Now        func() time.Time
	Logger     *slog.Logger

	turn sync.Mutex // one read model is rebuilt for requests at a time
	mu   sync.Mutex // guards last
	last map[string]*Rebuild
}

// List returns the state of every read model and of the search index.
func (o *Models) List(ctx context.Context) ([]engine.Status, error) {
	models, err := o.Runner.List(ctx)
	if err != nil {
		return nil, err
	}
	index, err := o.Index.Status(ctx)
	return append(models, index), err
}

// RebuildSteps report what a rebuild does. Progress returns what is called with the progress of a step: rebuild,
// compare or switch. Rebuilt is called with each read model whose new tables are complete; its errors do not end the
// rebuild.
type RebuildSteps struct {
	Progress func(step string) func(engine.Progress)
	Rebuilt  func(Rebuilt) error
}

// Rebuild rebuilds read models. If a read model has live tables, Rebuild compares the new ones with them before it
// makes the new ones live.
// Errors: as engine.Runner and steps.Rebuilt.
func (o *Models) Rebuild(ctx context.Context, names []string, steps RebuildSteps) error {
	list, err := o.Runner.List(ctx)
	if err != nil {
		return err
	}
	var alone []string
	compared := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		i := slices.IndexFunc(list, func(s engine.Status) bool { return s.Name == name })
		if i < 0 || list[i].State == engine.Live && list[i].Building == nil {
			return false
		}
		alone = append(alone, name)
		return true
	})
	var errs []error
	if len(alone) > 0 {
		if err := o.Runner.Rebuild(ctx, alone, steps.Progress("rebuild")); err != nil {
			return err
		}
		for _, name := range alone {
			errs = append(errs, steps.Rebuilt(Rebuilt{Comparison: projections.Comparison{Name: name}, State: "live"}))
		}
	}
	if len(compared) == 0 {
		return errors.Join(errs...)
	}
	found, err := o.Runner.Replace(ctx, compared, steps.Progress)
	for _, c := range found {
		state := "live"
		if !c.Live {
			state = "not live"
		}
		errs = append(errs, steps.Rebuilt(Rebuilt{Comparison: c.Comparison, Compared: true, State: state}))
	}
	return errors.Join(append(errs, err)...)
}

// begin records that a rebuild begins, unless the last one of the read model runs.
func (o *Models) begin(rebuild Rebuild) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := o.last[rebuild.Name]; last != nil && last.Running {
		return false
	}
	if o.last == nil {
		o.last = map[string]*Rebuild{}
	}
	o.last[rebuild.Name] = &rebuild
	return true
}

func (o *Models) change(name string, change func(*Rebuild)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o.last[name])
}

// Start begins to rebuild a read model or the search index, until the node closes. The next rebuild of the same one
// continues one that was interrupted. Errors: engine.ErrUnknown, engine.ErrBuilding. Last has later ones.
func (o *Models) Start(name string) error {
	if name != search.Name && !slices.Contains(o.Runner.Names(), name) {
		return fmt.Errorf("%s: %w", name, engine.ErrUnknown)
	}
	if !o.begin(Rebuild{Name: name, Running: true, StartedAt: o.Now().UTC()}) {
		return fmt.Errorf("%s: %w", name, engine.ErrBuilding)
	}
	o.Background(func(ctx context.Context) {
		err := o.rebuildFor(ctx, name)
		if err != nil && ctx.Err() == nil {
			o.Logger.Error("a read model could not be rebuilt", "name", name, "error", err)
		}
		o.change(name, func(r *Rebuild) {
			r.Running, r.FinishedAt = false, o.Now().UTC()
			if err != nil {
				r.Error = err.Error()
			}
		})
	})
	return nil
}

// rebuildFor rebuilds a read model or the search index for a request.
func (o *Models) rebuildFor(ctx context.Context, name string) error {
	if name == search.Name {
		return o.Index.Rebuild(ctx)
	}
	o.turn.Lock()
	defer o.turn.Unlock()
	steps := RebuildSteps{
		Progress: func(step string) func(engine.Progress) {
			return func(p engine.Progress) {
				o.change(name, func(r *Rebuild) {
					r.Step, r.Events, r.Position, r.Target = step, p.Events, p.Position, p.Target
				})
			}
		},
		Rebuilt: func(done Rebuilt) error {
			o.change(name, func(r *Rebuild) { r.Report = done.Object() })
			return nil
		},
	}
	return o.Rebuild(ctx, []string{name}, steps)
}

// Last returns the last rebuild that a request to this process has begun; false if there was none.
func (o *Models) Last(name string) (Rebuild, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.last[name]
	if last == nil {
		return Rebuild{}, false
	}
	return *last, true
}

// UpgradeState is the progress of an upgrade.
type UpgradeState struct {
	engine.Upgrade
	Search   eventlog.Position `json:"search"` // position of the search index of this release
	Finished bool              `json:"finished"`
	Level    bool              `json:"level"` // everything that this release reads after the upgrade is built
	// the upgrade can be finished: it is level, and no node of the previous release runs
	Ready bool               `json:"ready"`
	Nodes []sqlstore.Session `json:"nodes"`
}

// Upgrades are the use cases of the upgrade to this release.
type Upgrades struct {
	Reads    *Reads
	Log      eventlog.Log
	Runner   *engine.Runner
	Database *sqlstore.Store
	// Next returns the search index of this release.
	Next func() *search.Projection
}

// State returns how far the upgrade to this release is.
func (o *Upgrades) State(ctx context.Context) (UpgradeState, error) {
	u, err := o.Runner.Upgrade(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	nodes, err := o.Database.Sessions(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	at, err := o.Next().Current(ctx)
	if err != nil {
		return UpgradeState{}, err
	}
	state := UpgradeState{Upgrade: u, Search: at, Finished: u.Finished(), Level: u.Level(), Nodes: nodes}
	state.Ready = !state.Finished && state.Level && len(state.Older()) == 0
	return state, nil
}

// Older returns the names of the nodes of earlier releases.
func (u UpgradeState) Older() []string {
	var names []string
	for _, n := range u.Nodes {
		switch {
		case n.Format >= u.Release:
		case n.Node == "":
			names = append(names, "a node that does not give its name")
		default:
			names = append(names, n.Node)
		}
	}
	return names
}

// searchLevel waits until the search index of this release holds what the log holds now.
func (o *Upgrades) searchLevel(ctx context.Context) error {
	head, err := o.Log.Head(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := o.Reads.Bounded(ctx)
	defer cancel()
	err = o.Next().WaitFor(waiting, head)
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return errors.New("the search index of this release has not caught up with the log yet; try again later")
	}
	return err
}

// Finish ends the upgrade when the read models and the search index of this release are built.
func (o *Upgrades) Finish(ctx context.Context, progress func(engine.Progress)) error {
	if err := o.searchLevel(ctx); err != nil {
		return err
	}
	err := o.Runner.FinishUpgrade(ctx, progress)
	if errors.Is(err, engine.ErrNotFolded) {
		err = fmt.Errorf(
			"%w; does a node with role projector run this release? \"letterhead upgrade status\" lists the nodes", err)
	}
	return err
}
