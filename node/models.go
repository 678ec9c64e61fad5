package node

import (
	"context"
	"errors"

	"letterhead/commands"
	"letterhead/eventschemas"
	"letterhead/internal/config"
	"letterhead/internal/eventlog/fanout"
	"letterhead/internal/eventlog/roles"
	"letterhead/internal/figures"
	"letterhead/projections"
	"letterhead/projections/accounts"
	"letterhead/projections/actions"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
	"letterhead/projections/checkpoints"
	"letterhead/projections/engine"
	"letterhead/projections/failures"
	"letterhead/projections/icons"
	"letterhead/projections/idempotency"
	"letterhead/projections/inbox"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/notices"
	"letterhead/projections/operators"
	"letterhead/projections/payments"
	"letterhead/projections/sessions"
	"letterhead/projections/usage"
	"letterhead/workers/crawl"
)

// Models are the read models of a node. To add one, add its field, and its constructor to the list of open.
type Models struct {
	Accounts    *accounts.Model
	Keys        *keys.Directory
	Usage       *usage.Model
	Ledger      *ledger.Model
	Payments    *payments.Model
	Idempotency *idempotency.Model
	Brands      *brands.Model
	Checkpoints *checkpoints.Model
	Operators   *operators.Model
	Notices     *notices.Model
	Sessions    *sessions.Model
	Actions     *actions.Model
	Inbox       *inbox.Model
	Failures    *failures.Model
	Icons       *icons.Model
}

// open opens the read models and returns all of them.
func (m *Models) open(n *Node) ([]projections.Projection, error) {
	db := n.Stores.Database
	index, err := brands.New(
		brands.Config{CacheBytes: n.Config.BrandCacheBytes, Logger: n.logger, Registerer: n.metrics}, db)
	if err != nil {
		return nil, err
	}
	n.life.closing(func() error { index.Close(); return nil })
	return []projections.Projection{
		set(&m.Accounts, accounts.New(db)),
		set(&m.Keys, keys.New(keys.Config{Now: n.Stores.machineClock, Logger: n.logger}, db)),
		set(&m.Usage, usage.New(db, n.Stores.Log)),
		set(&m.Ledger, ledger.New(db)),
		set(&m.Payments, payments.New(db)),
		set(&m.Idempotency, idempotency.New(db)),
		set(&m.Brands, index),
		set(&m.Checkpoints, checkpoints.New(db)),
		set(&m.Operators, operators.New(db)),
		set(&m.Notices, notices.New(db)),
		set(&m.Sessions, sessions.New(db)),
		set(&m.Actions, actions.New(db)),
		set(&m.Inbox, inbox.New(db)),
		set(&m.Failures, failures.New(db)),
		set(&m.Icons, icons.New(db)),
	}, nil
}

func set[M projections.Projection](field *M, model M) M {
	*field = model
	return model
}

func (n *Node) openReadModels(ctx context.Context) error {
	log := n.Stores.Log
	if !n.Config.Shared() {
		log = fanout.NewPast(log)
	}
	var err error
	if n.roles, err = roles.New(log,
		roles.Config{Logger: n.logger, Registerer: n.metrics, Now: n.Stores.clock.Now}); err != nil {
		return err
	}
	n.Models = &Models{}
	list, err := n.Models.open(n)
	if err != nil {
		return err
	}
	batch := 0 // the default
	if n.reading {
		batch = readingBatch
	}
	n.Runner, err = engine.New(engine.Config{
		Decode: eventschemas.Decode, Format: eventschemas.Format, FollowOnly: !n.Config.Has(config.RoleProjector),
		InForce: n.format, ReadOnly: n.reading, BatchEvents: batch, ScratchFolder: scratchPath(n.Config),
		Now: n.Stores.clock.Now, Logger: n.logger, Registerer: n.metrics,
	}, n.roles.Log("projector"), n.Stores.Database, list...)
	if err != nil {
		return err
	}
	n.health.runner, n.health.keys = n.Runner, n.Models.Keys
	if !n.reading {
		if err := errors.Join(n.Models.Keys.Setup(ctx), n.Models.Keys.Register(n.metrics)); err != nil {
			return err
		}
	}
	if err := n.Runner.Start(ctx); err != nil || n.reading {
		return err
	}
	// The directory answers once it holds every key event that the log held at the start; the sessions, too.
	head, err := n.Stores.Log.Head(ctx)
	if err != nil {
		return err
	}
	n.Models.Keys.Open(head, n.Runner)
	n.Models.Sessions.Open(head)
	n.Models.Operators.Open(head)
	if n.brandWatch, err = brandwatch.New(ctx,
		brandwatch.Config{Follower: n.Models.Brands, Logger: n.logger, Registerer: n.metrics},
		n.roles.Log("api")); err != nil {
		return err
	}
	n.Search, err = openSearch(ctx, n)
	return err
}

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
