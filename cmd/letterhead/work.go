package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"letterhead/domain/account"
	"letterhead/domain/usage"
	"letterhead/internal/broker"
	"letterhead/internal/broker/inprocess"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/config"
	"letterhead/internal/ratelimit"
	"letterhead/internal/safehttp"
	"letterhead/internal/sqlstore"
	"letterhead/workers/crawl"
	"letterhead/workers/refresh"
	"letterhead/workers/relay"
	"letterhead/workers/sweep"
)

// part is something that runs for as long as a node serves. It returns nil when its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// work starts what a serving node does beside answering requests, by its roles.
func (s *service) work(ctx context.Context) error {
	var parts []part
	for _, r := range []struct {
		wanted bool
		open   func(context.Context) ([]part, error)
	}{
		{s.config.Shared(), s.openName}, // before anything is written under it
		{s.config.Has(config.RoleCrawler) || s.config.Has(config.RoleRelay), s.openBroker},
		{s.config.Shared(), s.openPulse},
		{s.config.Has(config.RoleAPI), s.openRun},
		{s.config.Has(config.RoleAPI), s.openAPI},
		{s.config.Has(config.RoleCrawler), s.openCrawler},
		{s.config.Has(config.RoleRelay), s.openRelay},
		{s.config.Has(config.RoleSweeper), s.openSweeper},
		{s.config.Has(config.RoleRefresher), s.openRefresher},
	} {
		if !r.wanted {
			continue
		}
		more, err := r.open(ctx)
		if err != nil {
			return err
		}
		parts = append(parts, more...)
	}
	if s.logFile != nil {
		parts = append(parts, part{"scrub", s.logFile.Scrub})
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var workers sync.WaitGroup
	s.closing(func() error {
		cancel()
		workers.Wait()
		return nil
	})
	for _, p := range parts {
		workers.Add(1)
		s.run(ctx, p.name, func(ctx context.Context) error {
			defer workers.Done()
			return p.run(ctx)
		})
	}
	return nil
}

// led returns a part that runs on one node at a time.
func (s *service) led(name string, run func(context.Context) error) part {
	return part{name, func(ctx context.Context) error { return s.store.Lead(ctx, name, run) }}
}

// errNodeName: two processes that serve have one name.
var errNodeName = errors.New("another process that serves on this database has the same LETTERHEAD_NODE; give each process a name of its own, or stop the other one")

// openName takes the node's name for as long as the service is open: usage is counted on a stream of that name, which
// one process writes. While the database is away the node goes on, and takes the name again afterwards.
func (s *service) openName(ctx context.Context) ([]part, error) {
	holding, stop := context.WithCancel(context.WithoutCancel(ctx))
	held, ended := make(chan struct{}, 1), make(chan error, 1)
	s.run(holding, "name of the node", func(ctx context.Context) error {
		err := s.store.Hold(ctx, "node "+s.config.Node, func() {
			select {
			case held <- struct{}{}:
			default:
			}
		})
		if errors.Is(err, sqlstore.ErrHeld) {
			err = fmt.Errorf("%s: %w", s.config.Node, errNodeName)
		}
		ended <- err
		return err
	})
	s.closing(func() error { stop(); return nil })
	select {
	case <-held:
		return nil, nil
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *service) openPulse(context.Context) (_ []part, err error) {
	if err := s.watchLoss(); err != nil {
		return nil, err
	}
	asks := map[string]func(context.Context) error{
		"event store": func(ctx context.Context) error {
			_, err := s.log.Head(ctx)
			return err
		},
		"database": func(ctx context.Context) error {
			var one int
			return s.store.Read().QueryRowContext(ctx, "SELECT 1").Scan(&one)
		},
		"registry of the read models": func(context.Context) error {
			_, err := s.runner.Stale()
			return err
		},
	}
	if s.config.Has(config.RoleAPI) || s.config.Has(config.RoleCrawler) { // others do not read or write pictures
		asks["object storage"] = s.assets.Reachable
	}
	if s.pulse, err = newPulse(s.metrics, asks); err != nil {
		return nil, err
	}
	return []part{{"pulse", s.pulse.run}}, nil
}

func (s *service) openBroker(ctx context.Context) ([]part, error) {
	transport, err := s.openTransport(ctx)
	if err != nil {
		return nil, err
	}
	s.bus, err = broker.New(broker.Config{Logger: s.logger, Registerer: s.metrics}, transport)
	if err != nil {
		return nil, errors.Join(err, transport.Close())
	}
	s.closing(s.bus.Close)
	return nil, nil
}

func (s *service) openTransport(ctx context.Context) (broker.Transport, error) {
	if s.config.Broker == config.Embedded {
		return inprocess.New(inprocess.Config{})
	}
	cfg, err := kafka.ParseURL(s.config.Broker)
	if err != nil {
		return nil, fmt.Errorf("LETTERHEAD_BROKER: %w", err)
	}
	cfg.Logger, cfg.Registerer = s.logger, s.metrics
	s.kafka, err = kafka.New(ctx, cfg)
	if errors.As(err, new(*fs.PathError)) { // a certificate that is not there does not come by waiting
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	return s.kafka, nil
}

func (s *service) openAPI(ctx context.Context) ([]part, error) {
	if _, err := s.openLogos(); err != nil {
		return nil, err
	}
	parts := []part{{"changes", s.changes.Run}, {"usage recorder", s.recorder.Run}}
	if s.config.Shared() && s.config.Starter {
		parts = append(parts, part{"starter index", func(ctx context.Context) error {
			s.awaitStarter(ctx, sharedMarker{s.positions, s.log})
			<-ctx.Done()
			return nil
		}})
	} else {
		s.starterSeen.Store(true) // begin loads it, or nobody does
	}
	if !s.store.Shared() {
		counters, err := ratelimit.NewMemory(ratelimit.Config{Now: s.clock.Now})
		s.counters = counters
		return parts, err
	}
	// Nodes that share a database share the minute windows.
	counters, err := ratelimit.NewShared(ctx, ratelimit.SharedConfig{Logger: s.logger, Registerer: s.metrics}, s.store)
	if err != nil {
		return nil, err
	}
	s.closing(func() error { counters.Close(); return nil })
	s.counters = counters
	holds := func(ctx context.Context) error { return s.keys.Hold(ctx, s.runner.Format) }
	return append(parts, part{"counters", counters.Run}, part{"key leases", holds}), nil
}

func (s *service) openCrawler(ctx context.Context) ([]part, error) {
	s.openDrawing()
	client, err := safehttp.New(safehttp.Config{UserAgent: s.config.UserAgent, Denied: s.config.CrawlDeny, Registerer: s.metrics})
	if err != nil {
		return nil, err
	}
	browser, err := openBrowser(s.config, client, s.logger)
	if err != nil {
		return nil, err
	}
	crawler, err := crawl.New(crawl.Config{Renderer: s.vectors, Browser: browser, Room: s.room, Logger: s.logger}, client, s.assets)
	if err != nil {
		return nil, err
	}
	attempts, err := crawl.NewAttempts(ctx, s.store, s.clock.Now)
	if err != nil {
		return nil, err
	}
	consumer, err := crawl.NewWorker(crawl.WorkerConfig{
		LiveWorkers: s.config.CrawlWorkers, RefreshWorkers: s.config.RefreshWorkers, Logger: s.logger, Registerer: s.metrics, Now: s.clock.Now,
	}, s.bus, s.brands, attempts, crawler)
	if err != nil {
		return nil, err
	}
	parts := []part{{"crawler", consumer.Run}}
	if s.config.Shared() && s.config.Starter {
		parts = append(parts, s.starterOnce()) // crawlers may write assets
	}
	return parts, nil
}

func (s *service) openRelay(context.Context) ([]part, error) {
	cfg := relay.Config{Topics: relay.CrawlTopics(), Lead: s.store.Lead, Logger: s.logger, Registerer: s.metrics}
	if s.kafka != nil { // in one process nobody reads the lanes of record: the log is there
		cfg.Topics = append(cfg.Topics, relay.RecordTopics(s.kafka.Records())...)
	}
	carrier, err := relay.New(cfg, s.roles.Log("relay"), s.bus, s.positions)
	if err != nil {
		return nil, err
	}
	return []part{{"relay", carrier.Run}}, nil
}

func (s *service) openSweeper(context.Context) ([]part, error) {
	sweeper, err := sweep.New(sweep.Config{Logger: s.logger, Registerer: s.metrics, Now: s.clock.Now}, s.roles.Log("sweeper"), s.desk, s.brands, s.snapshots)
	if err != nil {
		return nil, err
	}
	return []part{s.led("sweeper", sweeper.Run), {"stranded assets", s.removeStranded}, {"old snapshots", s.pruneSnapshots}}, nil
}

// pruneSnapshots deletes, once, the snapshots that neither this release nor the one before reads.
func (s *service) pruneSnapshots(ctx context.Context) error {
	for _, kind := range []struct {
		streams string
		oldest  int
	}{{account.StreamPrefix, account.OldestFoldVersion}, {usage.StreamPrefix, usage.OldestFoldVersion}} {
		pruned, err := s.snapshots.Prune(ctx, kind.streams, kind.oldest)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("old snapshots could not be deleted; the next start tries again", "error", err)
		}
		if pruned > 0 {
			s.logger.Info("old snapshots were deleted", "streams", kind.streams, "fold_versions_below", kind.oldest, "deleted", pruned)
		}
	}
	<-ctx.Done()
	return nil
}

func (s *service) openRefresher(context.Context) ([]part, error) {
	refresher, err := refresh.New(refresh.Config{
		Off: !s.config.Refresh, MaxOutstanding: s.config.RefreshWorkers, Logger: s.logger, Registerer: s.metrics, Now: s.clock.Now,
	}, s.roles.Log("refresher"), s.positions, s.brands, s.brandReader)
	if err != nil {
		return nil, fmt.Errorf("refresher: %w", err)
	}
	return []part{s.led("refresher", refresher.Run)}, nil
}
