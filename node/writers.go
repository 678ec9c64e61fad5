package node

import (
	"context"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/internal/figures"
	"letterhead/workers/crawl"
)

// Writers decide and append events.
type Writers struct {
	Accounts  *commands.AccountWriter
	Quotas    *commands.QuotaWriter
	Usage     *commands.UsageRecorder
	Billing   *commands.Billing
	Brands    *commands.Brands
	Notices   *commands.Notices
	SignIns   *commands.SignIns
	Operators *commands.Operators
}

func (n *Node) openCommands(ctx context.Context) error {
	var err error
	events := eventschemas.NewEncoder(n.Runner.Format)
	writers := n.options.Parts.Writers
	writers.Shared, writers.Encoder, writers.Now, writers.Logger, writers.Registerer = n.Config.Shared(), events,
		n.Stores.clock.Now, n.logger, n.metrics
	n.Writers.Billing = commands.NewBilling(n.Stores.Log, events, n.Stores.clock.Now)
	cfg := commands.AccountWriterConfig{Config: writers, Keys: n.Models.Idempotency, Charges: n.run.charges}
	if n.Writers.Accounts, err = commands.NewAccountWriter(cfg, n.Stores.Log, n.Stores.snapshots); err != nil {
		return err
	}
	n.life.closing(n.run.end)
	n.life.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // independent of the request to stop
		defer cancel()
		err := n.Writers.Accounts.Drain(ctx)
		if err != nil {
			n.run.unclean.Store(true)
		}
		return err
	})
	if n.Writers.Quotas, err = commands.NewQuotaWriter(writers, n.Stores.Log, n.Stores.snapshots); err != nil {
		return err
	}
	n.life.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // as above
		defer cancel()
		return n.Writers.Quotas.Drain(ctx)
	})
	if n.Writers.Usage, err = commands.NewUsageRecorder(commands.RecorderConfig{FlushEvery: n.options.Parts.FlushEvery,
		Events: events, Now: n.Stores.clock.Now, Logger: n.logger, Registerer: n.metrics}, n.Stores.Log,
		n.Config.Node); err != nil {
		return err
	}
	n.Writers.Notices = commands.NewNotices(n.Stores.Log, events, n.Stores.clock.Now,
		n.Writers.Accounts, n.Stores.Names)
	n.Writers.SignIns = commands.NewSignIns(n.Stores.Log, events, n.Stores.clock.Now,
		n.Writers.Accounts, n.Stores.Names)
	n.Writers.Operators = commands.NewOperators(n.Stores.Log, events, n.Stores.clock.Now)
	if n.Config.Shared() {
		if n.processes, err = figures.New(ctx, n.Stores.Database, n.Stores.clock.Now); err != nil {
			return err
		}
	}
	if n.attempts, err = crawl.NewAttempts(ctx, n.Stores.Database, n.Stores.clock.Now); err != nil {
		return err
	}
	n.Writers.Brands, err = commands.NewBrands(commands.BrandsConfig{Events: events, Now: n.Stores.clock.Now,
		Begun: n.attempts.Begun}, n.Stores.Log)
	return err
}
