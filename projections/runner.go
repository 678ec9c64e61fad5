package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
)

// Errors of a Runner. Use errors.Is.
var (
	// ErrUnknown: there is no read model of that name.
	ErrUnknown = errors.New("there is no such read model")
	// ErrNewerRelease: a newer release of Letterhead has written the read models.
	ErrNewerRelease = errors.New("read models were written by a newer release of Letterhead")
	// ErrNotStarted: Start has not been called.
	ErrNotStarted = errors.New("projections have not been started")
	// ErrBuilding: the read model is being built already.
	ErrBuilding = errors.New("read model is being built already")
)

// Runner keeps read models. Make it with New, call Start once, then Run.
type Runner struct {
	cfg    Config
	log    eventlog.Log
	store  *sqlstore.Store
	models []*model // in the order they were given

	// step is held while the main lane folds a batch, and by a lane that becomes level with it. It guards
	// main, each main unit, and which generation of a model is live.
	step sync.Mutex
	main []*generation
	// level is the position of the main lane.
	level atomic.Uint64

	// hurry ends the pause between two batches; it has room for one word. While wanted, the highest position
	// that WaitFor was asked for, is not reached, there is none.
	hurry  chan struct{}
	wanted atomic.Uint64

	started atomic.Bool
	// lanes are the goroutines of Run besides the main lane; spawn is guarded by step.
	lanes sync.WaitGroup
	spawn func(func(context.Context)) // nil while Run is not running
}

// model is a read model as the Runner sees it.
type model struct {
	p        Projection
	name     string
	versions []Version
	mark     watermark // of the live generation

	mu       sync.Mutex
	live     *generation // what is folded and read
	building *generation // beside it
	busy     bool        // a lane is at work on building
	failure  *failure    // of the live generation
	buildErr error       // why building does not go on
	lastGen  int         // the highest generation ever used
}

func (m *model) version(number int) *Version {
	for i := range m.versions {
		if m.versions[i].Number == number {
			return &m.versions[i]
		}
	}
	return nil
}

func (m *model) current() *Version { return &m.versions[0] }

func (m *model) liveGeneration() *generation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

// New checks the configuration and the read models. Errors say everything that is wrong.
func New(cfg Config, log eventlog.Log, store *sqlstore.Store, models ...Projection) (*Runner, error) {
	errs := []error{cfg.Validate()}
	r := &Runner{cfg: cfg.withDefaults(), log: log, store: store, hurry: make(chan struct{}, 1)}
	for _, p := range models {
		if err := validate(p); err != nil {
			errs = append(errs, err)
			continue
		}
		if r.model(p.Name()) != nil {
			errs = append(errs, fmt.Errorf("projection %q is given twice", p.Name()))
			continue
		}
		r.models = append(r.models, &model{p: p, name: p.Name(), versions: p.Versions()})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configuration of the projections: %w", err)
	}
	if err := r.register(cfg.Registerer); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Runner) model(name string) *model {
	for _, m := range r.models {
		if m.name == name {
			return m
		}
	}
	return nil
}

// Start finds or makes the tables and lets readers in where there is a live generation. Nothing is folded
// before Run. Errors: ErrNewerRelease, sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, those of the log,
// ctx.Err().
func (r *Runner) Start(ctx context.Context) error {
	if r.started.Load() {
		return errors.New("projections were started before")
	}
	head, err := r.log.Head(ctx)
	if err != nil {
		return fmt.Errorf("start projections: %w", err)
	}
	err = r.store.Write(ctx, func(tx *sqlstore.Tx) error { return r.recover(ctx, tx, head) })
	if err != nil {
		return fmt.Errorf("start projections: %w", err)
	}
	level := head // with nothing live there is nothing for the main lane to catch up with
	for i, g := range r.liveGenerations() {
		if i == 0 || g.position() > level {
			level = g.position()
		}
	}
	r.level.Store(uint64(level))
	for _, m := range r.models {
		g := m.liveGeneration()
		if g == nil {
			continue
		}
		apply, err := r.reload(ctx, g)
		if err != nil {
			return fmt.Errorf("start projections: %w", err)
		}
		g.publish(apply)
		if g.position() == level {
			m.failure = nil // it is tried again with the others
			r.main = append(r.main, g)
		}
	}
	r.started.Store(true)
	return nil
}

func (r *Runner) liveGenerations() []*generation {
	var all []*generation
	for _, m := range r.models {
		if g := m.liveGeneration(); g != nil {
			all = append(all, g)
		}
	}
	return all
}

// recover reads the registry, keeps what goes on, drops the rest and makes what is missing.
func (r *Runner) recover(ctx context.Context, tx *sqlstore.Tx, head eventlog.Position) error {
	if _, err := tx.ExecContext(ctx, createRegistry); err != nil {
		return fmt.Errorf("create the registry of projections: %w", err)
	}
	entries, err := readRegistry(ctx, tx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := r.recoverEntry(ctx, tx, e, head); err != nil {
			return err
		}
	}
	for _, m := range r.models {
		if m.building == nil && (m.live == nil || m.live.version.Number < m.current().Number) {
			g, err := m.begin(ctx, tx, m.current(), stateBuilding)
			if err != nil {
				return err
			}
			m.building = g
		}
	}
	return nil
}

func (r *Runner) recoverEntry(ctx context.Context, tx *sqlstore.Tx, e entry, head eventlog.Position) error {
	m := r.model(e.name)
	if m == nil {
		return nil // of a release with more read models, or of one that is not run here
	}
	m.lastGen = max(m.lastGen, e.generation)
	v := m.version(e.version)
	switch {
	case e.version > m.current().Number && (e.state == stateLive || e.state == stateBuilding):
		return fmt.Errorf("%w: %s has version %d, this release has version %d", ErrNewerRelease, e.name, e.version, m.current().Number)
	case e.position > head:
		// Another log was put in the place of the one that was folded, such as an older backup.
		r.cfg.Logger.WarnContext(ctx, "read model is ahead of the event log and will be built anew",
			slog.String("projection", e.name), slog.Uint64("position", uint64(e.position)), slog.Uint64("head", uint64(head)))
	case e.state == stateLive && v != nil:
		m.live = m.generation(v, e.generation, e.position)
		if e.failure != "" {
			m.failure = &failure{err: errors.New(e.failure)}
		}
		return nil
	case e.state == stateBuilding && v == m.current() && m.building == nil:
		m.building = m.generation(v, e.generation, e.position)
		return nil
	}
	return drop(ctx, tx, e)
}

// begin makes the next generation of a model.
func (m *model) begin(ctx context.Context, tx *sqlstore.Tx, v *Version, state string) (*generation, error) {
	m.lastGen++
	g := m.generation(v, m.lastGen, 0)
	if err := g.create(ctx, tx, state); err != nil {
		return nil, err
	}
	return g, nil
}

// reload reads what a model keeps in memory from a generation's tables; see Reloader.
func (r *Runner) reload(ctx context.Context, g *generation) (apply func(), err error) {
	reloader, ok := g.model.p.(Reloader)
	if !ok {
		return func() {}, nil
	}
	apply, err = reloader.Reload(ctx, r.store.Read(), g.tables)
	if err != nil {
		return nil, fmt.Errorf("reload %s: %w", g.model.name, sqlstore.Classify(err))
	}
	return apply, nil
}

// publish makes a generation the one that is read. The caller holds step, or nothing runs yet.
func (g *generation) publish(apply func()) {
	m := g.model
	m.mu.Lock()
	m.live = g
	m.p.Handle().live.Store(g)
	apply()
	m.mu.Unlock()
	m.mark.reach(g.position())
}

// Run folds events until ctx ends, and then returns nil when the batch under way is committed. Errors:
// ErrNotStarted, eventlog.ErrCorrupt, eventlog.ErrClosed.
func (r *Runner) Run(ctx context.Context) error {
	if !r.started.Load() {
		return ErrNotStarted
	}
	ctx, stop := context.WithCancel(ctx)
	defer r.lanes.Wait()
	defer stop()
	r.step.Lock()
	r.spawn = func(lane func(context.Context)) { r.lanes.Go(func() { lane(ctx) }) }
	r.startLanes()
	r.step.Unlock()
	defer func() {
		r.step.Lock()
		r.spawn = nil
		r.step.Unlock()
	}()
	err := r.runMain(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// startLanes begins what the last process left: generations that are being built, and live ones that were
// set aside. The caller holds step.
func (r *Runner) startLanes() {
	var builds []*model
	for _, m := range r.models {
		m.mu.Lock()
		if m.building != nil && !m.busy {
			m.busy = true
			builds = append(builds, m)
		}
		live := m.live
		m.mu.Unlock()
		if live != nil && !slices.Contains(r.main, live) {
			r.spawnRetry(live)
		}
	}
	if len(builds) > 0 {
		r.spawn(func(ctx context.Context) { r.buildUntilDone(ctx, builds) })
	}
}

// runMain is the main lane.
func (r *Runner) runMain(ctx context.Context) error {
	pause := r.cfg.backoff()
	for {
		before := r.level.Load()
		err := r.follow(ctx)
		if r.level.Load() > before {
			pause = r.cfg.backoff()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, eventlog.ErrCorrupt), errors.Is(err, eventlog.ErrClosed):
			return fmt.Errorf("follow the event log: %w", err)
		}
		r.cfg.Logger.ErrorContext(ctx, "projections stopped following the event log and will try again", slog.Any("error", err))
		if err := sleep(ctx, pause.pause()); err != nil {
			return err
		}
	}
}

// follow folds from the main lane's position on until something fails.
func (r *Runner) follow(ctx context.Context) error {
	f := r.subscribe(ctx, eventlog.Position(r.level.Load()))
	defer f.stop()
	for {
		batch, more, err := f.next(ctx, r.cfg.BatchEvents)
		if err != nil || !more {
			return err
		}
		if err := r.stepMain(ctx, batch); err != nil {
			return err
		}
		// A full batch means that more is there already.
		small := len(batch.events) < min(pageEvents, r.cfg.BatchEvents)
		if small && r.wanted.Load() <= uint64(batch.upTo) {
			if err := r.gather(ctx); err != nil {
				return err
			}
		}
	}
}

// gather lets events come for the next batch, unless somebody waits to see them.
func (r *Runner) gather(ctx context.Context) error {
	pause := time.NewTimer(liveGather)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-r.hurry:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Runner) stepMain(ctx context.Context, batch batch) error {
	r.step.Lock()
	defer r.step.Unlock()
	failed, err := r.foldAndWrite(ctx, r.main, batch)
	if err != nil {
		return err
	}
	r.level.Store(uint64(batch.upTo))
	for _, g := range r.main {
		if err, bad := failed[g]; bad {
			r.setAside(ctx, g, err)
			continue
		}
		g.model.mark.reach(batch.upTo)
	}
	r.main = slices.DeleteFunc(r.main, func(g *generation) bool { return failed[g] != nil })
	return nil
}
