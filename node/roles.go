package node

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
	"letterhead/internal/safehttp"
	"letterhead/internal/sqlstore"
	"letterhead/workers/crawl"
	"letterhead/workers/figures"
	"letterhead/workers/refresh"
	"letterhead/workers/relay"
	"letterhead/workers/sweep"
)

// part runs for as long as a node serves. It returns nil when its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// startRoles starts the parts of the roles of a serving node, except those that API starts.
func (n *Node) startRoles(ctx context.Context) error {
	var parts []part
	for _, r := range []struct {
		wanted bool
		open   func(context.Context) ([]part, error)
	}{
		{n.Config.Shared(), n.openName}, // before anything is written under it
		{n.Config.Has(config.RoleCrawler) || n.Config.Has(config.RoleRelay), n.openBroker},
		{n.Config.Shared(), n.openProbe},
		{n.Config.Has(config.RoleAPI), n.openRun},
		{n.Config.Has(config.RoleCrawler), n.openCrawler},
		{n.Config.Has(config.RoleRelay), n.openRelay},
		{n.Config.Has(config.RoleSweeper), n.openSweeper},
		{n.Config.Has(config.RoleSweeper), n.openCheckpoints},
		{n.Config.Has(config.RoleSweeper), n.openBilling},
		{n.Config.Has(config.RoleSweeper), n.openNotices},
		{n.Config.Has(config.RoleSweeper) && n.Config.BooksMetrics, n.openFigures},
		{n.Config.Has(config.RoleRefresher), n.openRefresher},
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
	if n.logFile != nil {
		parts = append(parts, part{"scrub", n.logFile.Scrub})
	}
	if n.Config.Has(config.RoleProjector) {
		parts = append(parts, part{"scrub of the read models", func(ctx context.Context) error {
			return n.Runner.Scrub(ctx, n.Config.ScrubPercent)
		}})
	}
	parts = append(parts, part{"names", func(ctx context.Context) error {
		return n.Names.Watch(ctx, n.namesMayBeSealed)
	}})
	n.start(parts)
	return nil
}

// start starts parts, which then run until the node closes. All parts are stopped together, whichever call started them.
func (n *Node) start(parts []part) {
	var workers sync.WaitGroup
	n.closing(func() error {
		n.stopServing()
		workers.Wait()
		return nil
	})
	for _, p := range parts {
		workers.Add(1)
		n.run(n.serving, p.name, func(ctx context.Context) error {
			defer workers.Done()
			return p.run(ctx)
		})
	}
}

// led returns a part that runs on one node at a time.
func (n *Node) led(name string, run func(context.Context) error) part {
	return part{name, func(ctx context.Context) error { return n.Store.Lead(ctx, name, run) }}
}

// errNodeName means that two serving processes have the same name.
var errNodeName = errors.New("another process that serves on this database has the same LETTERHEAD_NODE; give each process its own name, or stop the other process")

// openName reserves the node's name until the node closes, because only one process may write the stream of that name,
// on which usage is counted. While the database is unavailable the node continues, and reserves the name again afterwards.
func (n *Node) openName(ctx context.Context) ([]part, error) {
	holding, stop := context.WithCancel(context.WithoutCancel(ctx))
	held, ended := make(chan struct{}, 1), make(chan error, 1)
	n.run(holding, "name of the node", func(ctx context.Context) error {
		err := n.Store.Hold(ctx, "node "+n.Config.Node, func() {
			select {
			case held <- struct{}{}:
			default:
			}
		})
		if errors.Is(err, sqlstore.ErrHeld) {
			err = fmt.Errorf("%s: %w", n.Config.Node, errNodeName)
		}
		ended <- err
		return err
	})
	n.closing(func() error { stop(); return nil })
	select {
	case <-held:
		return nil, nil
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *Node) openProbe(context.Context) (_ []part, err error) {
	if err := n.watchLoss(); err != nil {
		return nil, err
	}
	checks := map[string]func(context.Context) error{
		serviceEventStore: func(ctx context.Context) error {
			_, err := n.Log.Head(ctx)
			return err
		},
		serviceDatabase: func(ctx context.Context) error {
			var one int
			return n.Store.Read().QueryRowContext(ctx, "SELECT 1").Scan(&one)
		},
		serviceRegistry: func(context.Context) error {
			_, err := n.Runner.Stale()
			return err
		},
	}
	if n.Config.Has(config.RoleAPI) || n.Config.Has(config.RoleCrawler) { // other roles do not use assets
		checks[serviceAssets] = n.Assets.Reachable
	}
	if n.probe, err = newProbe(n.metrics, checks); err != nil {
		return nil, err
	}
	return []part{{"dependency probe", n.probe.run}}, nil
}

func (n *Node) openBroker(ctx context.Context) ([]part, error) {
	transport, err := n.openTransport(ctx)
	if err != nil {
		return nil, err
	}
	n.bus, err = broker.New(broker.Config{Logger: n.logger, Registerer: n.metrics}, transport)
	if err != nil {
		return nil, errors.Join(err, transport.Close())
	}
	n.closing(n.bus.Close)
	return nil, nil
}

func (n *Node) openTransport(ctx context.Context) (broker.Transport, error) {
	if n.Config.Broker == config.Embedded {
		return inprocess.New(inprocess.Config{})
	}
	cfg, err := kafka.ParseURL(n.Config.Broker)
	if err != nil {
		return nil, fmt.Errorf("LETTERHEAD_BROKER: %w", err)
	}
	cfg.Logger, cfg.Registerer = n.logger, n.metrics
	n.kafka, err = kafka.New(ctx, cfg)
	if errors.As(err, new(*fs.PathError)) { // waiting does not help against a missing certificate
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	return n.kafka, nil
}

func (n *Node) openCrawler(ctx context.Context) ([]part, error) {
	n.openDrawing()
	client, err := safehttp.New(safehttp.Config{UserAgent: n.Config.UserAgent, Denied: n.Config.CrawlDeny, Registerer: n.metrics})
	if err != nil {
		return nil, err
	}
	browser, err := openBrowser(n.Config, client, n.logger)
	if err != nil {
		return nil, err
	}
	crawler, err := crawl.New(crawl.Config{Renderer: n.vectors, Browser: browser, MemoryBudget: n.memory, Logger: n.logger}, client, n.Assets)
	if err != nil {
		return nil, err
	}
	attempts, err := crawl.NewAttempts(ctx, n.Store, n.clock.Now)
	if err != nil {
		return nil, err
	}
	consumer, err := crawl.NewWorker(crawl.WorkerConfig{
		LiveWorkers: n.Config.CrawlWorkers, RefreshWorkers: n.Config.RefreshWorkers, Logger: n.logger, Registerer: n.metrics, Now: n.clock.Now,
	}, n.bus, n.Brands, attempts, crawler)
	if err != nil {
		return nil, err
	}
	parts := []part{{"crawler", consumer.Run}}
	if n.Config.Shared() && n.Config.Starter {
		parts = append(parts, n.starterOnce()) // crawlers may write assets
	}
	return parts, nil
}

func (n *Node) openRelay(context.Context) ([]part, error) {
	cfg := relay.Config{Topics: relay.CrawlTopics(), Lead: n.Store.Lead, Logger: n.logger, Registerer: n.metrics}
	if n.kafka != nil { // in one process no consumer needs the record topics
		cfg.Topics = append(cfg.Topics, relay.RecordTopics(n.kafka.Records())...)
	}
	carrier, err := relay.New(cfg, n.roles.Log("relay"), n.bus, n.Positions)
	if err != nil {
		return nil, err
	}
	return []part{{"relay", carrier.Run}}, nil
}

func (n *Node) openSweeper(context.Context) ([]part, error) {
	sweeper, err := sweep.New(sweep.Config{Logger: n.logger, Registerer: n.metrics, Now: n.clock.Now}, n.roles.Log("sweeper"), n.AccountWriter, n.Brands, n.snapshots)
	if err != nil {
		return nil, err
	}
	return []part{n.led("sweeper", sweeper.Run), {"stranded assets", n.removeStranded}, {"old snapshots", n.pruneSnapshots}}, nil
}

// openFigures starts the part that exports metrics of the books.
func (n *Node) openFigures(context.Context) ([]part, error) {
	worker, err := figures.New(figures.Config{Logger: n.logger, Registerer: n.metrics}, n.roles.Log("figures"))
	if err != nil {
		return nil, err
	}
	return []part{n.led("figures", worker.Run)}, nil
}

// pruneSnapshots deletes, once, the snapshots that neither this release nor the one before reads.
func (n *Node) pruneSnapshots(ctx context.Context) error {
	for _, kind := range []struct {
		streams string
		oldest  int
	}{{account.StreamPrefix, account.OldestFoldVersion}, {usage.StreamPrefix, usage.OldestFoldVersion}} {
		pruned, err := n.snapshots.Prune(ctx, kind.streams, kind.oldest)
		if err != nil && ctx.Err() == nil {
			n.logger.Warn("old snapshots could not be deleted; the next start tries again", "error", err)
		}
		if pruned > 0 {
			n.logger.Info("old snapshots were deleted", "streams", kind.streams, "fold_versions_below", kind.oldest, "deleted", pruned)
		}
	}
	<-ctx.Done()
	return nil
}

func (n *Node) openRefresher(context.Context) ([]part, error) {
	refresher, err := refresh.New(refresh.Config{
		Off: !n.Config.Refresh, MaxOutstanding: n.Config.RefreshWorkers, Logger: n.logger, Registerer: n.metrics, Now: n.clock.Now,
	}, n.roles.Log("refresher"), n.Positions, n.Brands, n.BrandReader)
	if err != nil {
		return nil, fmt.Errorf("refresher: %w", err)
	}
	return []part{n.led("refresher", refresher.Run)}, nil
}
