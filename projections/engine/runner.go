package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"letterhead/internal/delay"
	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/projections"
)

// Errors of a Runner. Use errors.Is.
var (
	// ErrUnknown: there is no read model of that name.
	ErrUnknown = errors.New("there is no such read model")
	// ErrNotStarted: Start has not been called.
	ErrNotStarted = errors.New("projections have not been started")
	// ErrBuilding: the read model is being built already.
	ErrBuilding = errors.New("read model is being built already")
)

// Runner keeps read models current. Make it with New, call Start once, then Run.
type Runner struct {
	cfg    Config
	log    eventlog.Log
	store  *sqlstore.Store
	models []*model // in the order they were given
	// prefixes are those of the streams that the models fold; see projections.Event.Set.
	prefixes []string
	shared   bool // other processes may fold into the same tables
	// lead runs its argument while this node leads: Store.Lead, except in tests.
	lead func(ctx context.Context, name string, do func(context.Context) error) error

	// step is held by the live loop while it folds a batch, by a catch-up loop that has reached it, and during a poll
	// of a shared database. It guards inLive, the generations in it, and which generation of a model is live.
	step   gate
	inLive []*generation
	// leading is not nil while this node folds into shared tables; step guards it. leads is the same for callers that
	// only choose an interval.
	leading *leadership
	leads   atomic.Bool
	// pollsBegun counts polls of a shared database; pollsSeen is the number of the last successful one.
	pollsBegun, pollsSeen atomic.Uint64
	lastPoll              atomic.Pointer[time.Time] // when the last successful poll began
	// failing is not nil while polls fail; see Stale.
	failing atomic.Pointer[stale]
	// full is why the last batch could not be written, if the disk was full.
	full    atomic.Pointer[error]
	longest atomic.Int64 // nanoseconds for which one transaction of the present build has kept other writers waiting
	metrics *metrics
	// space is disk.At, except in tests.
	space func(folder string) (disk.Space, error)

	// identified reports whether projections_registry has the first event of the log; marked is when a later event was
	// last recorded there. step guards both.
	identified bool
	marked     time.Time

	// pollNow ends the pause before the next poll; its capacity is 1. waiting counts callers of WaitFor.
	pollNow chan struct{}
	waiting atomic.Int64
	// level is the position of the live loop.
	level atomic.Uint64

	// hurry ends the pause between two batches; its capacity is 1. There is no pause until the live loop has reached
	// wanted, the highest position that WaitFor was called for.
	hurry  chan struct{}
	wanted atomic.Uint64

	// scrubbing is the scratch generation of the pass of Scrub that runs, or nil.
	scrubbing atomic.Pointer[generation]

	// replacing is held by Replace.
	replacing sync.Mutex

	// format is the data format in force.
	format atomic.Int64

	started atomic.Bool
	// loops are the goroutines of Run other than the live loop; step guards spawn.
	loops sync.WaitGroup
	spawn func(func(context.Context)) // nil while Run is not running
}

// model is a read model with the state that the Runner keeps of it.
type model struct {
	r        *Runner
	p        projections.Projection
	name     string
	versions []projections.Version
	mark     watermark         // of the live generation
	cachedTo eventlog.Position // up to here its caches are valid; guarded by step
	next     *generation       // of a version that becomes live at the end of the upgrade; guarded by step
	withheld int               // generation that is not read, because rows could not be repaired, or 0; guarded by step

	// reading is the live generation as readers get it.
	reading atomic.Pointer[generation]

	mu       sync.Mutex
	blocked  error         // why the live tables must not be read: ErrNewerRelease, errWithheld
	stale    bool          // caches of the live tables must be dropped
	live     *generation   // folded and read
	building *generation   // will replace live
	busy     bool          // a loop fills building
	failure  *failure      // of the live generation
	buildErr error         // why building is stopped
	attempt  chan struct{} // closed when an attempt of a build since the start ends; nil without such a build
	lastGen  int           // the highest generation ever seen
	repaired int64         // rows repaired when the caches were filled; on a shared database
}

func (m *model) version(number int) *projections.Version {
	for i := range m.versions {
		if m.versions[i].Number == number {
			return &m.versions[i]
		}
	}
	return nil
}

func (m *model) current() *projections.Version { return &m.versions[0] }

func (m *model) liveGeneration() *generation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live
}

func (m *model) buildingGeneration() *generation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.building
}

// New checks the read models, and reports all errors.
func New(cfg Config, log eventlog.Log, store *sqlstore.Store, models ...projections.Projection) (*Runner, error) {
	var errs []error
	r := &Runner{
		cfg: cfg.withDefaults(), log: log, store: store, shared: store.Shared(), lead: store.Lead, space: disk.At,
		metrics: newMetrics(), step: make(gate, 1), hurry: make(chan struct{}, 1), pollNow: make(chan struct{}, 1),
	}
	for _, p := range models {
		if err := validate(p, r.cfg.Format); err != nil {
			errs = append(errs, err)
			continue
		}
		if r.model(p.Name()) != nil {
			errs = append(errs, fmt.Errorf("projection %q is given twice", p.Name()))
			continue
		}
		if err := r.number(p); err != nil {
			errs = append(errs, err)
			continue
		}
		r.models = append(r.models, &model{r: r, p: p, name: p.Name(), versions: p.Versions()})
		r.metrics.scrubDiffers.WithLabelValues(p.Name()) // 0 until a row differs
	}
	r.format.Store(int64(cmp.Or(r.cfg.InForce, r.cfg.Format)))
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("configuration of the projections: %w", err)
	}
	if err := telemetry.Register(cfg.Registerer, collector{r}); err != nil {
		return nil, fmt.Errorf("register metrics of the projections: %w", err)
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

// Start admits readers to live generations. If the database is not shared, it finds or creates the tables for them; on
// a shared one it only reads projections_registry, because another node may be folding. Nothing is folded before Run.
// On a database that is not shared, Start fails with a *eventlog.LossError if the tables remember events that the log
// does not contain; on a shared one no node folds over such tables. Errors: projections.ErrNewerRelease,
// eventlog.ErrLoss, sqlstore.ErrUnavailable, sqlstore.ErrCorrupt, the errors of the log, ctx.Err().
func (r *Runner) Start(ctx context.Context) error {
	if r.started.Load() {
		return errors.New("projections were started before")
	}
	begin := r.takeOver
	switch {
	case r.cfg.ReadOnly:
		begin = r.open
	case r.shared:
		begin = r.join
	}
	if err := begin(ctx); err != nil {
		return fmt.Errorf("start projections: %w", err)
	}
	for _, m := range r.models {
		m.p.Handle().Bind(m)
	}
	r.started.Store(true)
	return nil
}

// publish makes a generation the live one, and drops what the model caches. Readers get it unless it is withheld. The
// caller holds step, or nothing runs yet.
func (g *generation) publish() {
	m := g.model
	m.mu.Lock()
	if before := m.reading.Load(); before != nil && before.number == g.number {
		g.readers = before.readers // the tables are the same
	}
	before := m.blocked
	m.live, m.blocked, m.stale = g, nil, false
	if g.number == m.withheld {
		m.blocked = errWithheld
		m.reading.Store(nil)
	} else {
		m.reading.Store(g)
	}
	if f, ok := m.p.(projections.Forgetter); ok {
		f.Forget()
	}
	now := m.blocked
	m.mu.Unlock()
	switch {
	case now != nil && before == nil:
		m.r.cfg.Logger.Error("read model is not read until its rows are repaired", slog.String("projection", m.name))
	case now == nil && before != nil:
		m.r.cfg.Logger.Info("read model is read again", slog.String("projection", m.name))
	}
	m.cachedTo = g.position()
	m.mark.reach(g.position(), nil)
}

// Run folds events until ctx ends, and returns nil after the current batch is committed. On a shared database it folds
// while this node leads (never with Config.FollowOnly), and follows otherwise. Errors: ErrNotStarted,
// eventlog.ErrCorrupt, eventlog.ErrClosed, and projections.ErrNewerRelease if an operator has finished the upgrade to a
// newer release.
func (r *Runner) Run(ctx context.Context) error {
	if !r.started.Load() {
		return ErrNotStarted
	}
	run := r.runLoops
	if r.shared {
		run = r.runNode
	}
	err := run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// runLoops folds until ctx ends, another node turns out to lead, or the log becomes unreadable. All loops have ended
// when it returns.
func (r *Runner) runLoops(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer r.loops.Wait()
	defer stop()
	r.step.Lock()
	r.spawn = func(loop func(context.Context)) { r.loops.Go(func() { loop(ctx) }) }
	r.startLoops()
	if live := slices.Clone(r.inLive); r.shared { // recoverRecord does it otherwise
		r.spawn(func(ctx context.Context) { r.indexLive(ctx, live) })
	}
	r.step.Unlock()
	defer func() {
		r.step.Lock()
		r.spawn = nil
		r.step.Unlock()
	}()
	return r.runLive(ctx)
}

// startLoops continues what the last process left: generations that are being built, and quarantined ones. The caller
// holds step.
func (r *Runner) startLoops() {
	var builds []*model
	for _, m := range r.models {
		m.mu.Lock()
		if m.building != nil && !m.busy {
			m.busy, m.attempt = true, make(chan struct{})
			builds = append(builds, m)
		}
		live := m.live
		m.mu.Unlock()
		if live != nil && !slices.Contains(r.inLive, live) {
			r.spawnRetry(live)
		}
	}
	if len(builds) > 0 {
		r.spawn(func(ctx context.Context) { r.buildUntilDone(ctx, builds) })
	}
	behind := slices.DeleteFunc(r.nextUnits(), func(g *generation) bool { return slices.Contains(r.inLive, g) })
	if len(behind) > 0 {
		r.spawn(func(ctx context.Context) { r.catchUpNext(ctx, behind) })
	}
}

// runLive is the live loop.
func (r *Runner) runLive(ctx context.Context) error {
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
		case r.shared && errors.Is(err, errDeposed):
			return err
		}
		r.cfg.Logger.ErrorContext(ctx, "following the event log failed; will retry", slog.Any("error", err))
		if err := delay.For(ctx, pause.pause()); err != nil {
			return err
		}
	}
}

// follow folds from the position of the live loop until an error occurs.
func (r *Runner) follow(ctx context.Context) error {
	f := r.subscribe(ctx, eventlog.Position(r.level.Load()))
	defer f.stop()
	for {
		batch, more, err := f.next(ctx, r.cfg.BatchEvents)
		if err != nil || !more {
			return err
		}
		if err := r.stepLive(ctx, batch); err != nil {
			return err
		}
		// After a full batch more events are available.
		small := len(batch.events) < min(pageEvents, r.cfg.BatchEvents)
		if small && r.wanted.Load() <= uint64(batch.upTo) {
			if err := delay.Until(ctx, gatherAfter(len(batch.events)), r.hurry); err != nil {
				return err
			}
		}
	}
}

// gatherAfter returns the pause after a small batch, in which events of the next one come. A caller of WaitFor ends it.
func gatherAfter(events int) time.Duration {
	return min(max(liveGather, liveGather*time.Duration(events)/gatherEvents), liveGatherMost)
}

func (r *Runner) stepLive(ctx context.Context, batch batch) error {
	r.step.Lock()
	defer r.step.Unlock()
	failed, err := r.foldAndWrite(ctx, r.inLive, batch)
	if err != nil {
		return err
	}
	r.level.Store(uint64(batch.upTo))
	r.mark(ctx, batch)
	for _, g := range r.inLive {
		err, bad := failed[g]
		switch {
		case g.state == stateNext && !bad:
			continue // it has no readers
		case g.state == stateNext:
			r.nextFailed(ctx, g, err)
			r.spawn(func(ctx context.Context) { r.catchUpNext(ctx, []*generation{g}) })
			continue
		case bad:
			r.noteFailure(ctx, g, err, 0, 0)
			r.spawnRetry(g)
			continue
		}
		g.model.mark.reach(batch.upTo, nil)
	}
	r.inLive = slices.DeleteFunc(r.inLive, func(g *generation) bool { return failed[g] != nil })
	return nil
}
