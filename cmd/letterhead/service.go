package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/assets"
	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/roles"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/ratelimit"
	"letterhead/internal/room"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
	"letterhead/projections/engine"
	"letterhead/projections/idempotency"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/usage"
	"letterhead/readapi/logo"
)

// service is one opened data folder with every part wired together. A command that finds no server opens
// one for itself; `serve` opens one, runs its workers and answers HTTP from it.
type service struct {
	config  config.Config
	lock    *folderLock
	logger  *slog.Logger
	metrics telemetry.Metrics
	plans   plan.Table

	log         eventlog.Log
	roles       *roles.Meter
	logFile     *sqlite.Log // the same when it is a file in the data folder, else nil
	eventStore  *esdb.Log   // what it reads and writes when nodes share it, else nil
	store       *sqlstore.Store
	clock       *sqlstore.Clock
	names       *accountnames.Table
	runs        *runs.Runs
	positions   *sqlstore.Positions
	snapshots   *sqlstore.Snapshots
	assets      *assets.Store
	desk        *commands.AccountWriter
	usageDesk   *commands.QuotaWriter
	recorder    *commands.UsageRecorder
	brands      *commands.Brands
	runner      *engine.Runner
	accounts    *accounts.Model
	keys        *keys.Directory
	usage       *usage.Model
	idempotency *idempotency.Model
	ledger      *ledger.Model
	brandReader *brands.Model
	changes     *brandwatch.Tail
	search      *searches
	counters    ratelimit.Counters // nil without role api
	room        *room.Room         // that crawled pictures and drawn logos are decoded in
	vectors     *vectors           // nil until somebody draws
	logos       *logo.Renderer     // nil until somebody draws logos
	pulse       *pulse             // nil when everything is in this process
	bus         *broker.Bus        // nil without a role that uses it
	kafka       *kafka.Transport   // what the bus stands on, nil when that is in this process

	use     folderUse
	format  int  // of the data folder; 0 where nodes share the data
	reading bool // the stores were opened for reading only: what writes is nil
	served  bool // and a server holds the folder

	runID   string      // names this process among the runs
	answers atomic.Bool // it answers requests, so its run is noted
	unclean atomic.Bool // the run ends with requests that were cut off, or with charges that were not handed back
	stopAPI func()      // tells the API that its server is about to stop

	lost        atomic.Pointer[error]  // why the event store is not used: it lost events
	accepted    atomic.Pointer[string] // the last acceptance of a loss when the log was opened
	ready       atomic.Bool
	starterSeen atomic.Bool // see filled
	// alive ends when a part that must run has ended, with its error as the cause.
	alive   context.Context
	kill    context.CancelCauseFunc
	cancel  context.CancelFunc
	running sync.WaitGroup
	drawing sync.Mutex     // over the opening of vectors and logos, which a command may ask for at any time
	closers []func() error // in the order of opening
	closes  sync.Mutex     // over closers
}

type serviceOptions struct {
	logs     io.Writer
	logLevel string
	use      folderUse
}

// openService opens everything in a locked folder and starts what keeps the read models current. On an
// error all that was opened is closed again, the lock included.
func openService(ctx context.Context, cfg config.Config, lock *folderLock, options serviceOptions) (_ *service, err error) {
	s := &service{config: cfg, lock: lock, use: options.use, runID: uuid.NewString(), room: room.New(0), stopAPI: func() {}}
	s.alive, s.kill = context.WithCancelCause(context.Background()) // of the process, not of whoever opens
	s.closing(lock.release)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := refuseHalfRestored(cfg.Data); err != nil {
		return nil, err
	}
	if s.logger, err = telemetry.NewLogger(options.logs, options.logLevel, cfg.LogFormat); err != nil {
		return nil, err
	}
	s.metrics = telemetry.NewMetrics(version)
	s.plans = plan.Default()
	for id, n := range cfg.PlanCrawls {
		if _, err := s.plans.Get(plan.ID(id)); err != nil {
			return nil, fmt.Errorf("LETTERHEAD_PLAN_CRAWLS: %w", err)
		}
		s.plans = s.plans.WithCrawlsPerMinute(plan.ID(id), n)
	}
	if err := eventschemas.Check(); err != nil {
		return nil, err
	}
	if scratch := s.scratchPath(); scratch != "" {
		if err := engine.RemoveScratch(scratch); err != nil { // before anything needs its space
			return nil, err
		}
	}
	for _, open := range []func(context.Context) error{s.openStorage, s.raiseFolder, s.openReadModels, s.openCommands} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return s, s.follow(ctx)
}

// raiseFolder keeps older releases from a folder that holds the data, before anything is written that they cannot read.
// A folder of the release before that is only looked at stays as it is: this release can work with its format.
// The folder of a node of several holds no data: there the database says which format is in force.
func (s *service) raiseFolder(context.Context) error {
	if s.config.Shared() {
		return nil
	}
	s.format = s.lock.format
	if s.use == toRead && s.format == folderFormat-1 {
		return nil
	}
	s.format = folderFormat
	return s.lock.raise(folderFormat)
}

// closing notes what close must do; it runs in the reverse order.
func (s *service) closing(f func() error) {
	s.closes.Lock()
	defer s.closes.Unlock()
	s.closers = append(s.closers, f)
}

func (s *service) openReadModels(ctx context.Context) error {
	var err error
	if s.roles, err = roles.New(s.log, roles.Config{Logger: s.logger, Registerer: s.metrics, Now: s.clock.Now}); err != nil {
		return err
	}
	s.accounts, s.keys, s.ledger = accounts.New(s.store), keys.New(keys.Config{Logger: s.logger}, s.store), ledger.New(s.store)
	s.usage, s.idempotency = usage.New(s.store, s.log), idempotency.New(s.store)
	s.brandReader, err = brands.New(brands.Config{CacheBytes: s.config.BrandCacheBytes, Logger: s.logger, Registerer: s.metrics}, s.store)
	if err != nil {
		return err
	}
	s.closing(func() error { s.brandReader.Close(); return nil })
	s.runner, err = engine.New(engine.Config{FollowOnly: !s.config.Has(config.RoleProjector), InForce: s.format, ReadOnly: s.reading, BatchEvents: s.batchEvents(), ScratchFolder: s.scratchPath(), Now: s.clock.Now, Logger: s.logger, Registerer: s.metrics}, s.roles.Log("projector"), s.store,
		s.accounts, s.keys, s.usage, s.ledger, s.idempotency, s.brandReader)
	if err != nil {
		return err
	}
	if !s.reading {
		if err := errors.Join(s.keys.Setup(ctx), s.keys.Register(s.metrics)); err != nil {
			return err
		}
	}
	if err := s.runner.Start(ctx); err != nil || s.reading {
		return err
	}
	// Keys are answered for once everything that the log held at the start is in force.
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	s.keys.Open(head, s.runner)
	if s.changes, err = brandwatch.New(ctx, brandwatch.Config{Follower: s.brandReader, Logger: s.logger, Registerer: s.metrics}, s.roles.Log("api")); err != nil {
		return err
	}
	return s.openSearch(ctx)
}

func (s *service) openCommands(context.Context) error {
	var err error
	events := eventschemas.NewEncoder(s.runner.Format)
	writers := streamwriter.Config{Shared: s.config.Shared(), Encoder: events, Now: s.clock.Now, Logger: s.logger, Registerer: s.metrics}
	if s.desk, err = commands.NewAccountWriter(commands.AccountWriterConfig{Config: writers, Keys: s.idempotency}, s.log, s.snapshots); err != nil {
		return err
	}
	s.closing(s.endRun)
	s.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // outlives whoever asked to stop
		defer cancel()
		err := s.desk.Drain(ctx)
		if err != nil {
			s.unclean.Store(true)
		}
		return err
	})
	if s.usageDesk, err = commands.NewQuotaWriter(writers, s.log, s.snapshots); err != nil {
		return err
	}
	s.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // as above
		defer cancel()
		return s.usageDesk.Drain(ctx)
	})
	if s.recorder, err = commands.NewUsageRecorder(commands.RecorderConfig{Events: events, Now: s.clock.Now, Logger: s.logger, Registerer: s.metrics}, s.log, s.config.Node); err != nil {
		return err
	}
	s.brands, err = commands.NewBrands(commands.BrandsConfig{Events: events, Now: s.clock.Now}, s.log)
	return err
}

// follow starts what keeps the read models current, for as long as the service is open.
func (s *service) follow(ctx context.Context) error {
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.closing(func() error {
		s.cancel()
		s.running.Wait()
		return nil
	})
	s.run(ctx, "clock", s.clock.Run)
	s.run(ctx, "read models", s.runner.Run)
	for _, e := range s.search.editions {
		s.run(ctx, "search", e.Run)
	}
	return nil
}

// run keeps a part going until the service closes. A part that ends before that takes the node down: the
// service must not look alive while it no longer moves.
func (s *service) run(ctx context.Context, name string, part func(context.Context) error) {
	s.running.Go(func() {
		err := part(ctx)
		if ctx.Err() != nil {
			return
		}
		s.logger.Error("a part of the service ended", "part", name, "error", err)
		s.kill(fmt.Errorf("%s ended: %w", name, err))
	})
}

// whileAlive returns a context that also ends when a part of the service has ended.
func (s *service) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.alive, func() { cancel(context.Cause(s.alive)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// errBehind: another node folds, and it is behind or none does.
var errBehind = errors.New("the read models are behind the event log; does a node with role projector run? \"letterhead projections list\" shows how far they are")

// catchUp waits until the named read models (all of them without names) and the search index hold what the
// log holds now. One that stands still does not keep the others waiting; the error then names it and is a
// *engine.QuarantinedError. Where another node folds, the wait is bounded, and its end is errBehind.
func (s *service) catchUp(ctx context.Context, names ...string) error {
	ctx, stop := s.whileAlive(ctx)
	defer stop()
	waiting, cancel := s.bounded(ctx)
	defer cancel()
	err := s.foldedTo(waiting, names...)
	if err == nil {
		var head eventlog.Position
		if head, err = s.log.Head(waiting); err == nil {
			err = s.cause(ctx, s.search.now().WaitFor(waiting, head))
		}
	}
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return errBehind
	}
	return err
}

// bounded bounds a wait for what another node does.
func (s *service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if !s.config.Shared() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, enforceTimeout)
}

// foldedTo is catchUp without the search index.
func (s *service) foldedTo(ctx context.Context, names ...string) error {
	ctx, stop := s.whileAlive(ctx)
	defer stop()
	if len(names) == 0 {
		names = []string{accounts.Name, keys.Name, usage.Name, ledger.Name, brands.Name}
	}
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	var aside error
	for _, name := range names {
		err := s.runner.WaitFor(ctx, name, head)
		if errors.As(err, new(*engine.QuarantinedError)) {
			aside = errors.Join(aside, err)
			continue
		}
		if err != nil {
			return s.cause(ctx, err)
		}
	}
	return aside
}

// cause is why a wait ended early: a part of the service that ended says more than the end of a context.
func (s *service) cause(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) != nil && s.alive.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// close ends everything in the reverse order of opening. It may be called once.
func (s *service) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}
