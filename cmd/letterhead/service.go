package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"letterhead/commands"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/assets"
	"letterhead/internal/broker"
	"letterhead/internal/broker/inprocess"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/holders"
	"letterhead/internal/ratelimit"
	"letterhead/internal/safehttp"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/projections"
	"letterhead/projections/accounts"
	"letterhead/projections/brands"
	"letterhead/projections/changes"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/search"
	"letterhead/projections/usage"
	"letterhead/readapi"
	"letterhead/workers/crawl"
	"letterhead/workers/refresh"
	"letterhead/workers/relay"
	"letterhead/workers/sweep"
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
	logFile     *sqlite.Log // the same
	store       *sqlstore.Store
	holders     *holders.Holders
	positions   *sqlstore.Positions
	snapshots   *sqlstore.Snapshots
	assets      *assets.Store
	desk        *commands.Desk
	usageDesk   *commands.UsageDesk
	recorder    *commands.UsageRecorder
	brands      *commands.Brands
	runner      *projections.Runner
	accounts    *accounts.Model
	keys        *keys.Directory
	usage       *usage.Model
	ledger      *ledger.Model
	brandReader *brands.Model
	changes     *changes.Tail
	search      *search.Projection

	ready atomic.Bool
	// alive ends when a part that must run has ended, with its error as the cause.
	alive   context.Context
	kill    context.CancelCauseFunc
	cancel  context.CancelFunc
	running sync.WaitGroup
	closers []func() error // in the order of opening
}

type serviceOptions struct {
	logs     io.Writer
	logLevel string
}

// openService opens everything in a locked folder and starts what keeps the read models current. On an
// error all that was opened is closed again, the lock included.
func openService(ctx context.Context, cfg config.Config, lock *folderLock, options serviceOptions) (_ *service, err error) {
	s := &service{config: cfg, lock: lock}
	s.alive, s.kill = context.WithCancelCause(context.Background()) // of the process, not of whoever opens
	s.closing(lock.release)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
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
	for _, open := range []func(context.Context) error{s.openStorage, s.openReadModels, s.openCommands} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return s, s.follow(ctx)
}

// closing notes what close must do; it runs in the reverse order.
func (s *service) closing(f func() error) { s.closers = append(s.closers, f) }

func (s *service) openStorage(ctx context.Context) error {
	log, err := sqlite.Open(ctx, sqlite.Config{Path: s.config.EventsPath(), Logger: s.logger, Registerer: s.metrics})
	if err != nil {
		return err
	}
	s.log, s.logFile = log, log
	s.closing(log.Close)
	if s.store, err = sqlstore.Open(ctx, sqlstore.Config{Path: s.config.DatabasePath(), Logger: s.logger, Registerer: s.metrics}); err != nil {
		return err
	}
	s.closing(s.store.Close)
	if s.holders, err = holders.New(ctx, s.store); err != nil {
		return err
	}
	if s.positions, err = sqlstore.NewPositions(ctx, s.store); err != nil {
		return err
	}
	if s.snapshots, err = sqlstore.NewSnapshots(ctx, s.store); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.config.Data, "assets"), 0o700); err != nil {
		return fmt.Errorf("make the folder of assets: %w", err)
	}
	if s.assets, err = assets.Open(ctx, s.config.AssetsURL()); err != nil {
		return err
	}
	s.closing(s.assets.Close)
	return nil
}

func (s *service) openReadModels(ctx context.Context) error {
	var err error
	s.accounts, s.keys, s.ledger = accounts.New(s.store), keys.New(s.store), ledger.New(s.store)
	s.usage = usage.New(s.store, s.log)
	s.brandReader, err = brands.New(brands.Config{CacheBytes: s.config.BrandCacheBytes, Logger: s.logger, Registerer: s.metrics}, s.store)
	if err != nil {
		return err
	}
	s.closing(func() error { s.brandReader.Close(); return nil })
	s.runner, err = projections.New(projections.Config{Logger: s.logger, Registerer: s.metrics}, s.log, s.store,
		s.accounts, s.keys, s.usage, s.ledger, s.brandReader)
	if err != nil {
		return err
	}
	if err := s.runner.Start(ctx); err != nil {
		return err
	}
	// Keys are answered for once everything that the log held at the start is in force.
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	s.keys.Open(head, s.runner)
	if s.changes, err = changes.New(ctx, changes.Config{Logger: s.logger, Registerer: s.metrics}, s.log); err != nil {
		return err
	}
	return s.openSearch(ctx)
}

func (s *service) openCommands(context.Context) error {
	var err error
	if s.desk, err = commands.NewDesk(commands.DeskConfig{Logger: s.logger, Registerer: s.metrics}, s.log, s.snapshots); err != nil {
		return err
	}
	s.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // outlives whoever asked to stop
		defer cancel()
		return s.desk.Drain(ctx)
	})
	if s.usageDesk, err = commands.NewUsageDesk(commands.UsageConfig{Snapshots: s.snapshots, Logger: s.logger, Registerer: s.metrics}, s.log); err != nil {
		return err
	}
	s.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // as above
		defer cancel()
		return s.usageDesk.Drain(ctx)
	})
	if s.recorder, err = commands.NewUsageRecorder(commands.RecorderConfig{Logger: s.logger, Registerer: s.metrics}, s.log, s.config.Node); err != nil {
		return err
	}
	s.brands, err = commands.NewBrands(commands.BrandsConfig{}, s.log)
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
	s.run(ctx, "read models", s.runner.Run)
	s.run(ctx, "search", s.search.Run)
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

// work starts what only a serving node does: crawls, and what runs beside requests.
func (s *service) work(ctx context.Context) error {
	transport, err := inprocess.New(inprocess.Config{})
	if err != nil {
		return err
	}
	bus, err := broker.New(broker.Config{Logger: s.logger, Registerer: s.metrics}, transport)
	if err != nil {
		return err
	}
	s.closing(bus.Close)
	drawn := openVectors(filepath.Join(s.config.CachePath(), "resvg"), s.logger, s.kill)
	s.closing(drawn.close)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	s.closing(func() error {
		cancel()
		workers.Wait()
		return nil
	})
	client, err := safehttp.New(safehttp.Config{UserAgent: s.config.UserAgent, Registerer: s.metrics})
	if err != nil {
		return err
	}
	browser, err := openBrowser(s.config, client, s.logger)
	if err != nil {
		return err
	}
	crawler, err := crawl.New(crawl.Config{Renderer: drawn, Browser: browser, Logger: s.logger}, client, s.assets)
	if err != nil {
		return err
	}
	consumer, err := crawl.NewWorker(crawl.WorkerConfig{
		LiveWorkers: s.config.CrawlWorkers, RefreshWorkers: s.config.RefreshWorkers, Logger: s.logger, Registerer: s.metrics,
	}, bus, s.brands, crawler)
	if err != nil {
		return err
	}
	carrier, err := relay.New(relay.Config{Logger: s.logger, Registerer: s.metrics}, s.log, bus, s.positions)
	if err != nil {
		return err
	}
	sweeper, err := sweep.New(sweep.Config{Logger: s.logger, Registerer: s.metrics}, s.log, s.desk, s.brands, s.snapshots)
	if err != nil {
		return err
	}
	refresher, err := refresh.New(refresh.Config{Off: !s.config.Refresh, MaxOutstanding: s.config.RefreshWorkers, Logger: s.logger, Registerer: s.metrics}, s.log, s.positions, s.brands, s.brandReader)
	if err != nil {
		return err
	}
	parts := map[string]func(context.Context) error{
		"changes": s.changes.Run, "crawler": consumer.Run, "relay": carrier.Run, "sweeper": sweeper.Run,
		"refresher": refresher.Run, "usage recorder": s.recorder.Run,
	}
	for name, part := range parts {
		workers.Add(1)
		s.run(ctx, name, func(ctx context.Context) error {
			defer workers.Done()
			return part(ctx)
		})
	}
	return nil
}

// handler returns the API with the operators' endpoints.
func (s *service) handler() (http.Handler, error) {
	counters, err := ratelimit.NewMemory(ratelimit.Config{})
	if err != nil {
		return nil, err
	}
	api, err := readapi.New(readapi.Config{
		BaseURL: s.config.BaseURL, BillingURL: s.config.BillingURL, UserAgent: s.config.UserAgent, Plans: s.plans,
		CrawlTimeout: s.config.CrawlTimeout, CrawlsPerMinute: s.config.CrawlsPerMinute,
		Logger: s.logger, Registerer: s.metrics,
		Extra: map[string]http.Handler{
			"/healthz": http.HandlerFunc(s.healthz), "/readyz": http.HandlerFunc(s.readyz), "/metrics": s.metrics.Handler(),
		},
	}, readapi.Deps{
		Desk: s.desk, UsageDesk: s.usageDesk, Recorder: s.recorder, Brands: s.brands, Index: s.brandReader, Keys: s.keys,
		Usage: s.usage, Search: s.search, Assets: s.assets, Changes: s.changes, Counters: counters,
	})
	if err != nil {
		return nil, err
	}
	return api.Handler(), nil
}

// healthz says that the process answers.
func (s *service) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

// readyz says whether everything that was there at the start is served: read models caught up, the starter
// index searchable.
func (s *service) readyz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := s.runner.Ready(); err != nil || !s.ready.Load() {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "starting")
		return
	}
	fmt.Fprintln(w, "ready")
}

// catchUp waits until the named read models (all of them without names) and the search index hold what the
// log holds now. One that stands still does not keep the others waiting; the error then names it and is a
// *projections.SetAsideError.
func (s *service) catchUp(ctx context.Context, names ...string) error {
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
		if errors.As(err, new(*projections.SetAsideError)) {
			aside = errors.Join(aside, err)
			continue
		}
		if err != nil {
			return s.cause(ctx, err)
		}
	}
	if aside != nil {
		return aside
	}
	return s.cause(ctx, s.search.WaitFor(ctx, head))
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
