package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"letterhead/domain/account"
	domain "letterhead/domain/notices"
	"letterhead/domain/usage"
	"letterhead/internal/broker"
	"letterhead/internal/broker/inprocess"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/config"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/safehttp"
	"letterhead/internal/sqlstore"
	"letterhead/operations"
	"letterhead/workers/billing"
	"letterhead/workers/checkpoint"
	"letterhead/workers/crawl"
	"letterhead/workers/figures"
	worker "letterhead/workers/notices"
	"letterhead/workers/refresh"
	"letterhead/workers/relay"
	"letterhead/workers/sweep"
)

// work lists what a serving node opens for its roles, in this order; each returns the parts that run then. What only
// the API uses is opened by API.
var work = []struct {
	wanted func(config.Config) bool
	open   func(context.Context, *Node) ([]part, error)
}{
	{config.Config.Shared, holdName}, // before anything is written under it
	{has(config.RoleCrawler, config.RoleRelay), openBroker},
	{config.Config.Shared, openProbe},
	{config.Config.Shared, noteFigures},
	{has(config.RoleAPI), openRun},
	{has(config.RoleCrawler), openCrawler},
	{has(config.RoleRelay), openRelay},
	{has(config.RoleSweeper), openSweeper},
	{has(config.RoleSweeper), openCheckpoints},
	{has(config.RoleSweeper), openBilling},
	{has(config.RoleSweeper), openNotices},
	{func(c config.Config) bool { return c.Has(config.RoleSweeper) && c.BooksMetrics }, openFigures},
	{has(config.RoleRefresher), openRefresher},
	{has(config.RoleProjector), scrubReadModels},
	{func(config.Config) bool { return true }, watchStores},
}

// has returns a function that reports whether a process has one of some roles.
func has(roles ...config.Role) func(config.Config) bool {
	return func(c config.Config) bool { return slices.ContainsFunc(roles, c.Has) }
}

// startRoles starts the parts of the roles of a serving node, except those that API starts.
func (n *Node) startRoles(ctx context.Context) error {
	var parts []part
	for _, w := range work {
		if !w.wanted(n.Config) {
			continue
		}
		more, err := w.open(ctx, n)
		if err != nil {
			return err
		}
		parts = append(parts, more...)
	}
	n.life.start(parts)
	return nil
}

func scrubReadModels(_ context.Context, n *Node) ([]part, error) {
	return []part{{"scrub of the read models", func(ctx context.Context) error {
		return n.Runner.Scrub(ctx, n.Config.ScrubPercent)
	}}}, nil
}

func watchStores(_ context.Context, n *Node) ([]part, error) {
	parts := []part{{"names", n.Stores.Names.Watch}}
	if file := n.Stores.log.File; file != nil {
		parts = append(parts, part{"scrub", file.Scrub})
	}
	return parts, nil
}

// led returns a part that runs on one node at a time.
func (s *Stores) led(name string, run func(context.Context) error) part {
	return part{name, func(ctx context.Context) error { return s.Database.Lead(ctx, name, run) }}
}

// errNodeName means that two serving processes have the same name.
var errNodeName = errors.New("another process that serves on this database has the same LETTERHEAD_NODE; give each process its own name, or stop the other process")

// holdName reserves the node's name until the node closes, because only one process may write the stream of that name,
// on which usage is counted. While the database is unavailable the node continues, and reserves the name again
// afterwards.
func holdName(ctx context.Context, n *Node) ([]part, error) {
	holding, stop := context.WithCancel(context.WithoutCancel(ctx))
	held, ended := make(chan struct{}, 1), make(chan error, 1)
	n.life.run(holding, "name of the node", func(ctx context.Context) error {
		err := n.Stores.Database.Hold(ctx, "node "+n.Config.Node, func() {
			delay.Signal(held)
		})
		if errors.Is(err, sqlstore.ErrHeld) {
			err = fmt.Errorf("%s: %w", n.Config.Node, errNodeName)
		}
		ended <- err
		return err
	})
	n.life.closing(func() error { stop(); return nil })
	select {
	case <-held:
		return nil, nil
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func openProbe(_ context.Context, n *Node) (_ []part, err error) {
	if err := n.Stores.guard.watch(n.metrics); err != nil {
		return nil, err
	}
	checks := map[string]func(context.Context) error{
		serviceEventStore: n.Stores.probeLog,
		serviceDatabase:   n.Stores.guard.checkLogID, // which also finds a replacement that breaks no connection
		serviceRegistry: func(context.Context) error {
			_, err := n.Runner.Stale()
			return err
		},
	}
	if n.Config.Has(config.RoleAPI) || n.Config.Has(config.RoleCrawler) { // other roles do not use assets
		checks[serviceAssets] = atMostEvery(assetsEvery, n.Stores.Assets.Reachable)
	}
	if n.health.probe, err = newProbe(n.metrics, checks); err != nil {
		return nil, err
	}
	return []part{{"dependency probe", n.health.probe.run}}, nil
}

// atMostEvery returns a check that repeats the success of one that was made less than d ago. Its calls must not overlap.
func atMostEvery(d time.Duration, check func(context.Context) error) func(context.Context) error {
	var asked time.Time
	return func(ctx context.Context) error {
		if time.Since(asked) < d {
			return nil
		}
		began := time.Now()
		err := check(ctx)
		if err == nil {
			asked = began
		}
		return err
	}
}

// probeLog reads the end of a shared log. It fails with errSilent if no server of the event store answers anything.
func (s *Stores) probeLog(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, probeTimeout-time.Second) // the rest is for the servers
	defer cancel()
	_, err := s.Log.Head(reading)
	if err != nil && s.log.Answers != nil && !s.log.Answers(ctx) {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

func openBroker(ctx context.Context, n *Node) ([]part, error) {
	transport, err := openTransport(ctx, n)
	if err != nil {
		return nil, err
	}
	n.bus, err = broker.New(broker.Config{Logger: n.logger, Registerer: n.metrics}, transport)
	if err != nil {
		return nil, errors.Join(err, transport.Close())
	}
	n.life.closing(n.bus.Close)
	return nil, nil
}

func openTransport(ctx context.Context, n *Node) (broker.Transport, error) {
	if n.Config.Broker == config.Embedded {
		return inprocess.New(inprocess.Config{}), nil
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

func openCrawler(_ context.Context, n *Node) ([]part, error) {
	n.drawing.open()
	client, err := safehttp.New(safehttp.Config{UserAgent: n.Config.UserAgent, Denied: n.Config.CrawlDeny,
		Registerer: n.metrics})
	if err != nil {
		return nil, err
	}
	browser, err := openBrowser(n.Config, client, n.logger)
	if err != nil {
		return nil, err
	}
	crawler, err := crawl.New(
		crawl.Config{Renderer: n.drawing.vectors, Browser: browser, MemoryBudget: n.drawing.memory, Logger: n.logger},
		client, n.Stores.Assets)
	if err != nil {
		return nil, err
	}
	consumer, err := crawl.NewWorker(crawl.WorkerConfig{
		LiveWorkers: n.Config.CrawlWorkers, RefreshWorkers: n.Config.RefreshWorkers, Logger: n.logger,
		Registerer: n.metrics, Now: n.Stores.clock.Now, IsStock: n.Models.Icons.IsStock,
	}, n.bus, n.Writers.Brands, n.attempts, crawler)
	if err != nil {
		return nil, err
	}
	parts := []part{{"crawler", func(ctx context.Context) error {
		if err := n.drawing.await(ctx); err != nil { // a crawl that cannot draw vectors would choose worse logos
			return err
		}
		return consumer.Run(ctx)
	}}}
	if n.Config.Shared() && n.Config.Starter {
		parts = append(parts, n.starterOnce()) // crawlers may write assets
	}
	return parts, nil
}

func openRelay(_ context.Context, n *Node) ([]part, error) {
	cfg := relay.Config{Topics: relay.CrawlTopics(), Lead: n.Stores.Database.Lead, Logger: n.logger,
		Registerer: n.metrics}
	if n.kafka != nil { // in one process no consumer needs the record topics
		cfg.Topics = append(cfg.Topics, relay.RecordTopics(n.kafka.Records())...)
	}
	carrier, err := relay.New(cfg, n.roles.Log("relay"), n.bus, n.Stores.Positions)
	if err != nil {
		return nil, err
	}
	return []part{{"relay", carrier.Run}}, nil
}

func openSweeper(_ context.Context, n *Node) ([]part, error) {
	sweeper, err := sweep.New(sweep.Config{Logger: n.logger, Registerer: n.metrics, Now: n.Stores.clock.Now},
		n.roles.Log("sweeper"), n.Writers.Accounts, n.Writers.Brands, n.Stores.snapshots)
	if err != nil {
		return nil, err
	}
	return []part{n.Stores.led("sweeper", sweeper.Run), {"stranded assets", n.Stores.removeStranded}, {"old snapshots",
		n.Stores.pruneSnapshots}}, nil
}

// openFigures starts the part that exports metrics of the books.
func openFigures(_ context.Context, n *Node) ([]part, error) {
	worker, err := figures.New(figures.Config{Logger: n.logger, Registerer: n.metrics}, n.roles.Log("figures"))
	if err != nil {
		return nil, err
	}
	return []part{n.Stores.led("figures", worker.Run)}, nil
}

// pruneSnapshots deletes, once, the snapshots that neither this release nor the one before reads.
func (s *Stores) pruneSnapshots(ctx context.Context) error {
	for _, kind := range []struct {
		streams string
		oldest  int
	}{{account.StreamPrefix, account.OldestFoldVersion}, {usage.StreamPrefix, usage.OldestFoldVersion}} {
		pruned, err := s.snapshots.Prune(ctx, kind.streams, kind.oldest)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("old snapshots could not be deleted; the next start tries again", "error", err)
		}
		if pruned > 0 {
			s.logger.Info("old snapshots were deleted", "streams", kind.streams, "fold_versions_below", kind.oldest,
				"deleted", pruned)
		}
	}
	<-ctx.Done()
	return nil
}

func openRefresher(_ context.Context, n *Node) ([]part, error) {
	refresher, err := refresh.New(refresh.Config{
		Off: !n.Config.Refresh, MaxOutstanding: n.Config.RefreshWorkers, Logger: n.logger, Registerer: n.metrics,
		Warming: n.Stores.warming, WarmEvery: time.Minute / time.Duration(n.Config.WarmPerMinute),
		Now: n.Stores.clock.Now,
	}, n.roles.Log("refresher"), n.Stores.Positions, n.Writers.Brands, n.Models.Brands)
	if err != nil {
		return nil, fmt.Errorf("refresher: %w", err)
	}
	return []part{n.Stores.led("refresher", refresher.Run)}, nil
}

// openCheckpoints starts the part that makes checkpoints of a ledger. Every node ensures that there is a first one,
// because it waits for it; the later ones are made on one node at a time.
func openCheckpoints(_ context.Context, n *Node) ([]part, error) {
	maker := n.Operations.Checkpoints.Maker(eventlog.Metadata{Actor: "system:checkpoint"})
	regular := n.Stores.led("checkpoints",
		(&checkpoint.Regular{Maker: *maker, Logger: n.logger, Registerer: n.metrics}).Run)
	return []part{{regular.name, func(ctx context.Context) error {
		switch err := n.Operations.Checkpoints.First(ctx, maker); {
		case err == nil, errors.Is(err, checkpoint.ErrChanged), errors.Is(err, checkpoint.ErrLacks):
			n.checkpointed()
		case errors.Is(err, operations.ErrNoLedgerKey): // settings do not change while a node runs
			<-ctx.Done()
			return nil
		}
		return regular.run(ctx)
	}}}, nil
}

// openBilling starts the part that applies the events of payment processors.
func openBilling(_ context.Context, n *Node) ([]part, error) {
	catalog, err := n.Operations.Billing.Catalog()
	if err != nil {
		return nil, err
	}
	worker, err := billing.New(billing.Config{Catalog: catalog, Logger: n.logger, Registerer: n.metrics},
		n.roles.Log("billing"), n.Writers.Accounts, n.Writers.Notices, n.Writers.Billing)
	if err != nil {
		return nil, err
	}
	return []part{n.Stores.led("billing", worker.Run)}, nil
}

func openNotices(_ context.Context, n *Node) ([]part, error) {
	client, err := safehttp.New(safehttp.Config{UserAgent: "Letterhead-Webhook/1.0 (+" + n.Config.BaseURL + ")",
		Denied: n.Config.CrawlDeny, Now: n.Stores.clock.Now})
	if err != nil {
		return nil, err
	}
	n.life.closing(func() error { client.Close(); return nil })
	senders := map[string]worker.Sender{domain.Webhook: &worker.Webhook{Client: client,
		Key: n.Operations.Notices.SigningKey, Now: n.Stores.clock.Now}}
	if n.Config.SMTP.IsSet() {
		senders[domain.Email] = &worker.Mail{Server: n.Config.SMTP, From: n.Config.MailFrom,
			BillingURL: n.Config.BillingURL, Now: n.Stores.clock.Now}
	}
	w, err := worker.New(
		worker.Config{Senders: senders, Now: n.Stores.clock.Now, Logger: n.logger, Registerer: n.metrics},
		n.Models.Notices, n.Writers.Notices)
	if err != nil {
		return nil, err
	}
	return []part{n.Stores.led("notices", w.Run)}, nil
}
