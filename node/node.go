package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/dashboard/audit"
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
	"letterhead/internal/membudget"
	"letterhead/internal/ratelimit"
	"letterhead/internal/runs"
	"letterhead/internal/searchindex"
	"letterhead/internal/sqlstore"
	"letterhead/internal/stripeapi"
	"letterhead/internal/telemetry"
	"letterhead/node/datafolder"
	"letterhead/projections/accounts"
	"letterhead/projections/actions"
	"letterhead/projections/brands"
	"letterhead/projections/brandwatch"
	"letterhead/projections/checkpoints"
	"letterhead/projections/engine"
	"letterhead/projections/failures"
	"letterhead/projections/idempotency"
	"letterhead/projections/inbox"
	"letterhead/projections/keys"
	"letterhead/projections/ledger"
	"letterhead/projections/notices"
	"letterhead/projections/operators"
	"letterhead/projections/payments"
	"letterhead/projections/sessions"
	"letterhead/projections/usage"
	"letterhead/readapi/logo"
	"letterhead/workers/checkpoint"
	"letterhead/workers/signinmail"
)

// Node is a data folder, or the services that nodes share, with all parts connected. A command that finds no
// server opens a node for itself; Serve opens one, starts its roles and answers HTTP from it.
//
// A node of OpenReading or OpenStores has only a part of what follows; the rest is nil.
type Node struct {
	Config config.Config
	Plans  plan.Table

	Log       eventlog.Log
	Store     *sqlstore.Store
	Names     *accountnames.Table // names of accounts and keys
	Positions *sqlstore.Positions
	Assets    *assets.Store

	AccountWriter *commands.AccountWriter
	Billing       *commands.Billing
	Stripe        *stripeapi.Client
	Brands        *commands.Brands
	Notices       *commands.Notices
	SignIns       *commands.SignIns
	tokens        *commands.Operators

	Runner      *engine.Runner
	Accounts    *accounts.Model
	Keys        *keys.Directory
	Ledger      *ledger.Model
	Payments    *payments.Model
	Inbox       *inbox.Model
	Checkpoints *checkpoints.Model
	BrandReader *brands.Model
	Operators   *operators.Model
	Sessions    *sessions.Model

	release string
	lock    *datafolder.Lock
	logger  *slog.Logger
	metrics telemetry.Metrics

	roles         *roles.Meter
	logFile       *sqlite.Log // Log, if it is a file in the data folder
	eventStore    *esdb.Log   // what Log reads and writes, if nodes share it
	clock         *sqlstore.Clock
	runs          *runs.Runs
	charges       *runs.Charges // of this process
	snapshots     *sqlstore.Snapshots
	quotaWriter   *commands.QuotaWriter
	usageRecorder *commands.UsageRecorder
	usage         *usage.Model
	notices       *notices.Model
	actions       *actions.Model
	failures      *failures.Model
	idempotency   *idempotency.Model
	brandWatch    *brandwatch.Tail
	search        *searches
	memory        *membudget.Budget // memory for decoded images of crawls and logos
	vectors       *vectors          // nil until something is drawn, and with Parts.Vectors
	logos         *logo.Renderer    // nil until a logo is drawn
	probe         *probe            // nil if everything is in this process
	adminURL      string            // where the admin API is served; "" if it is not
	rebuilds      rebuilds
	bus           *broker.Bus      // nil without a role that uses it
	kafka         *kafka.Transport // the transport of the bus, if that is Kafka

	parts   Parts
	use     Use
	format  int  // of the data folder; 0 if nodes share the data
	reading bool // see OpenReading
	served  bool // by another process, while reading

	runID   string      // names this process among the runs
	answers atomic.Bool // the process answers requests, so its run is noted
	unclean atomic.Bool // the run ends with requests that were cut off, or with charges that were not reversed
	stopAPI func()      // announces to the API that its server is about to stop

	unnoted     atomic.Pointer[error]  // why the run could not be recorded; it points to nil once it is
	lost        atomic.Pointer[error]  // why the event store is rejected: it lost events
	accepted    atomic.Pointer[string] // the last acceptance of a loss when the log was opened
	ready       atomic.Bool
	starterSeen atomic.Bool // see filled
	audits      struct {
		sync.Mutex
		auditor *audit.Auditor // nil until it is needed
	}
	ledgerKeys  sync.Mutex // guards the files of the keys that sign checkpoints
	noticesKeys sync.Mutex // guards the file of the key that signs webhooks
	// hasCheckpoint is closed by checkpointed, when the ledger has a checkpoint. Only nodes that make one call it.
	hasCheckpoint chan struct{}
	checkpointed  func()
	// mailer sends links to sign in, and counters limits them. Without API both are nil; without a mail server, mailer is.
	mailer    *signinmail.Mailer
	counters  ratelimit.Counters
	proofTree checkpoint.Tree
	treeReads singleflight.Group // read proofTree
	proofs    atomic.Int32       // that are being made
	// alive ends when a part that must run has ended, with its error as the cause.
	alive  context.Context
	kill   context.CancelCauseFunc
	cancel context.CancelFunc
	// serving ends when the first of the groups of parts that start started is closed.
	serving     context.Context
	stopServing context.CancelFunc
	running     sync.WaitGroup
	drawing     sync.Mutex     // guards the opening of vectors and logos, which a command may ask for at any time
	closers     []func() error // in the order of opening
	closes      sync.Mutex     // guards closers
}

// Options say how a node is opened, in addition to its settings.
type Options struct {
	Release  string // of this binary
	Logs     io.Writer
	LogLevel string
	Use      Use
	Parts    Parts
}

// Parts replace or tune parts that a node otherwise opens by itself. The zero Parts is that of a server.
type Parts struct {
	Now        func() time.Time                // the machine's clock; nil = time.Now
	Log        func(eventlog.Log) eventlog.Log // wraps the event log that was opened; nil = unwrapped
	Index      searchindex.Index               // nil = that of the settings
	Vectors    logo.Vectors                    // draws SVG files for logos; nil = a renderer of the node's own
	LogoTime   time.Duration                   // maximum time to draw a logo; 0 = variants.DefaultMakeTimeout
	Writers    streamwriter.Config             // limits of the account writer and the quota writer
	FlushEvery time.Duration                   // of the usage recorder; 0 = its default
	Replays    *audit.Limits                   // of replays of accounts; nil = audit.DefaultLimits
}

// Open opens everything in a locked folder and starts what keeps the read models current. If it fails, everything is
// closed again and the folder is released.
func Open(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options) (_ *Node, err error) {
	n := &Node{
		Config: cfg, release: o.Release, lock: lock, use: o.Use, parts: o.Parts,
		runID: uuid.NewString(), charges: runs.NewCharges(time.Now), memory: membudget.New(0), stopAPI: func() {},
	}
	n.alive, n.kill = context.WithCancelCause(context.Background()) // of the process, not of the caller
	n.serving, n.stopServing = context.WithCancel(context.Background())
	n.hasCheckpoint = make(chan struct{})
	n.checkpointed = sync.OnceFunc(func() { close(n.hasCheckpoint) })
	n.closing(lock.Release)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if err := datafolder.CheckRestored(cfg.Data); err != nil {
		return nil, err
	}
	if n.logger, err = telemetry.NewLogger(o.Logs, o.LogLevel, cfg.LogFormat); err != nil {
		return nil, err
	}
	n.metrics = telemetry.NewMetrics(o.Release)
	n.Plans = plan.Default()
	for id, crawls := range cfg.PlanCrawls {
		if _, err := n.Plans.Get(plan.ID(id)); err != nil {
			return nil, fmt.Errorf("LETTERHEAD_PLAN_CRAWLS: %w", err)
		}
		n.Plans = n.Plans.WithCrawlsPerMinute(plan.ID(id), crawls)
	}
	if err := eventschemas.Check(); err != nil {
		return nil, err
	}
	if scratch := n.scratchPath(); scratch != "" {
		if err := engine.RemoveScratch(scratch); err != nil { // before anything needs its space
			return nil, err
		}
	}
	for _, open := range []func(context.Context) error{n.openStorage, n.raiseFolder, n.openReadModels, n.openCommands} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	return n, n.follow(ctx)
}

// raiseFolder makes older releases reject a data folder, before anything is written that they cannot read. It leaves a
// folder of the previous release alone if the command only reads: this release can work with that format. The folder of
// a node in a cluster holds no data; there the database says which format is in force.
func (n *Node) raiseFolder(context.Context) error {
	if n.Config.Shared() {
		return nil
	}
	n.format = n.lock.Format()
	if n.use == ToRead && n.format == datafolder.Format-1 {
		return nil
	}
	n.format = datafolder.Format
	return n.lock.Raise(datafolder.Format)
}

// closing adds a function that Close calls. Close calls them in the reverse order.
func (n *Node) closing(f func() error) {
	n.closes.Lock()
	defer n.closes.Unlock()
	n.closers = append(n.closers, f)
}

func (n *Node) openReadModels(ctx context.Context) error {
	var err error
	if n.roles, err = roles.New(n.Log, roles.Config{Logger: n.logger, Registerer: n.metrics, Now: n.clock.Now}); err != nil {
		return err
	}
	n.Accounts, n.Keys, n.Ledger = accounts.New(n.Store), keys.New(keys.Config{Now: n.machineClock, Logger: n.logger}, n.Store), ledger.New(n.Store)
	n.usage, n.idempotency, n.Payments = usage.New(n.Store, n.Log), idempotency.New(n.Store), payments.New(n.Store)
	n.Checkpoints, n.Operators, n.notices = checkpoints.New(n.Store), operators.New(n.Store), notices.New(n.Store)
	n.Sessions, n.actions, n.Inbox, n.failures = sessions.New(n.Store), actions.New(n.Store), inbox.New(n.Store), failures.New(n.Store)
	n.BrandReader, err = brands.New(brands.Config{CacheBytes: n.Config.BrandCacheBytes, Logger: n.logger, Registerer: n.metrics}, n.Store)
	if err != nil {
		return err
	}
	n.closing(func() error { n.BrandReader.Close(); return nil })
	n.Runner, err = engine.New(engine.Config{FollowOnly: !n.Config.Has(config.RoleProjector), InForce: n.format, ReadOnly: n.reading, BatchEvents: n.batchEvents(), ScratchFolder: n.scratchPath(), Now: n.clock.Now, Logger: n.logger, Registerer: n.metrics}, n.roles.Log("projector"), n.Store,
		n.Accounts, n.Keys, n.usage, n.Ledger, n.Payments, n.idempotency, n.BrandReader, n.Checkpoints, n.Operators, n.notices, n.Sessions, n.actions, n.Inbox, n.failures)
	if err != nil {
		return err
	}
	if !n.reading {
		if err := errors.Join(n.Keys.Setup(ctx), n.Keys.Register(n.metrics)); err != nil {
			return err
		}
	}
	if err := n.Runner.Start(ctx); err != nil || n.reading {
		return err
	}
	if n.namesMayBeSealed() {
		if err := n.Names.Seal(ctx); err != nil {
			return err
		}
	}
	// The directory answers once it holds every key event that the log held at the start; the sessions, too.
	head, err := n.Log.Head(ctx)
	if err != nil {
		return err
	}
	n.Keys.Open(head, n.Runner)
	n.Sessions.Open(head)
	n.Operators.Open(head)
	if n.brandWatch, err = brandwatch.New(ctx, brandwatch.Config{Follower: n.BrandReader, Logger: n.logger, Registerer: n.metrics}, n.roles.Log("api")); err != nil {
		return err
	}
	return n.openSearch(ctx)
}

func (n *Node) openCommands(context.Context) error {
	var err error
	events := eventschemas.NewEncoder(n.Runner.Format)
	writers := n.parts.Writers
	writers.Shared, writers.Encoder, writers.Now, writers.Logger, writers.Registerer = n.Config.Shared(), events, n.clock.Now, n.logger, n.metrics
	n.Billing = commands.NewBilling(n.Log, events, n.clock.Now)
	n.Stripe = stripeapi.New(stripeapi.Config{Secrets: n.Config.StripeSecrets, Key: n.Config.StripeKey, URL: n.Config.StripeURL})
	cfg := commands.AccountWriterConfig{Config: writers, Keys: n.idempotency, Charges: n.charges}
	if n.AccountWriter, err = commands.NewAccountWriter(cfg, n.Log, n.snapshots); err != nil {
		return err
	}
	n.closing(n.endRun)
	n.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // independent of the request to stop
		defer cancel()
		err := n.AccountWriter.Drain(ctx)
		if err != nil {
			n.unclean.Store(true)
		}
		return err
	})
	if n.quotaWriter, err = commands.NewQuotaWriter(writers, n.Log, n.snapshots); err != nil {
		return err
	}
	n.closing(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout) // as above
		defer cancel()
		return n.quotaWriter.Drain(ctx)
	})
	if n.usageRecorder, err = commands.NewUsageRecorder(commands.RecorderConfig{FlushEvery: n.parts.FlushEvery, Events: events, Now: n.clock.Now, Logger: n.logger, Registerer: n.metrics}, n.Log, n.Config.Node); err != nil {
		return err
	}
	n.Notices = commands.NewNotices(n.Log, events, n.clock.Now, n.AccountWriter, n.Names)
	n.SignIns = commands.NewSignIns(n.Log, events, n.clock.Now, n.AccountWriter, n.Names)
	n.tokens = commands.NewOperators(n.Log, events, n.clock.Now)
	n.Brands, err = commands.NewBrands(commands.BrandsConfig{Events: events, Now: n.clock.Now}, n.Log)
	return err
}

// follow starts the parts that keep the read models current until the node closes.
func (n *Node) follow(ctx context.Context) error {
	ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.closing(func() error {
		n.cancel()
		n.running.Wait()
		return nil
	})
	n.run(ctx, "clock", n.clock.Run)
	n.run(ctx, "read models", n.Runner.Run)
	for _, e := range n.search.editions {
		n.run(ctx, "search", e.Run)
	}
	return nil
}

// run runs a part until the node closes. A part that ends before that stops the node, which must not look alive while a
// part of it does nothing.
func (n *Node) run(ctx context.Context, name string, part func(context.Context) error) {
	n.running.Go(func() {
		err := part(ctx)
		if ctx.Err() != nil {
			return
		}
		n.logger.Error("a part of the service ended", "part", name, "error", err)
		n.kill(fmt.Errorf("%s ended: %w", name, err))
	})
}

// whileAlive returns a context that also ends when a part of the service has ended.
func (n *Node) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.alive, func() { cancel(context.Cause(n.alive)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// errBehind means that the node that folds is behind, or that no node folds.
var errBehind = errors.New("the read models are behind the event log; does a node with role projector run? \"letterhead projections list\" shows how far they are")

// CatchUp waits until the named read models (all of them if there are no names) and the search index hold what the log
// holds now. It does not wait for a quarantined read model, but returns a *engine.QuarantinedError with its name after
// the others have caught up. If another node folds, the wait is bounded, and CatchUp returns errBehind at its end.
func (n *Node) CatchUp(ctx context.Context, names ...string) error {
	ctx, stop := n.whileAlive(ctx)
	defer stop()
	waiting, cancel := n.bounded(ctx)
	defer cancel()
	err := n.FoldedTo(waiting, names...)
	if err == nil {
		var head eventlog.Position
		if head, err = n.Log.Head(waiting); err == nil {
			err = n.cause(ctx, n.search.now().WaitFor(waiting, head))
		}
	}
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return errBehind
	}
	return err
}

// bounded limits a wait for the work of another node.
func (n *Node) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if !n.Config.Shared() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, enforceTimeout)
}

// Folded is FoldedTo with a bound if another node folds.
func (n *Node) Folded(ctx context.Context, names ...string) error {
	ctx, cancel := n.bounded(ctx)
	defer cancel()
	return n.FoldedTo(ctx, names...)
}

// FoldedTo is CatchUp without the search index.
func (n *Node) FoldedTo(ctx context.Context, names ...string) error {
	ctx, stop := n.whileAlive(ctx)
	defer stop()
	if len(names) == 0 {
		names = n.Runner.Names()
	}
	head, err := n.Log.Head(ctx)
	if err != nil {
		return err
	}
	var aside error
	for _, name := range names {
		err := n.Runner.WaitFor(ctx, name, head)
		if errors.As(err, new(*engine.QuarantinedError)) {
			aside = errors.Join(aside, err)
			continue
		}
		if err != nil {
			return n.cause(ctx, err)
		}
	}
	return aside
}

// cause returns why a wait ended early. The error of a part that ended says more than the end of a context.
func (n *Node) cause(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) != nil && n.alive.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close ends everything in the reverse order of opening. It may be called once.
func (n *Node) Close() error {
	var errs []error
	for i := len(n.closers) - 1; i >= 0; i-- {
		errs = append(errs, n.closers[i]())
	}
	return errors.Join(errs...)
}
