// Package node is the composition root: it opens stores, connects the parts of the service, starts the roles of a
// process, serves and shuts down. Only package main of the binary and tests import it.
//
// Open makes a Node of a locked data folder, or of the services that nodes share. Server serves one; a Command works on
// the node of a server, or opens a node for itself. A test may replace a few parts of a node, such as its clock
// (Parts).
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"letterhead/commands"
	"letterhead/commands/streamwriter"
	"letterhead/dashboard/audit"
	"letterhead/domain/plan"
	"letterhead/eventschemas"
	"letterhead/internal/broker"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/roles"
	"letterhead/internal/figures"
	"letterhead/internal/membudget"
	"letterhead/internal/runs"
	"letterhead/internal/searchindex"
	"letterhead/internal/telemetry"
	"letterhead/node/datafolder"
	"letterhead/operations"
	"letterhead/projections/brandwatch"
	"letterhead/projections/engine"
	"letterhead/readapi/logo"
	"letterhead/workers/crawl"
)

// Node is a data folder, or the services that nodes share, with all parts connected. A command that finds no
// server opens a node for itself; Serve opens one, starts its roles and answers HTTP from it.
//
// A node of OpenReading or OpenStores has only a part of what follows; the rest is nil.
type Node struct {
	Config     config.Config
	Plans      plan.Table
	Stores     *Stores
	Runner     *engine.Runner
	Models     *Models
	Search     *Searches
	Writers    *Writers
	Operations *operations.Operations

	options Options
	logger  *slog.Logger
	metrics telemetry.Metrics
	life    *lifecycle
	run     *processRun
	health  *health
	drawing *drawing

	roles      *roles.Meter
	brandWatch *brandwatch.Tail
	auditor    func() *audit.Auditor
	bus        *broker.Bus             // nil without a role that uses it
	kafka      *kafka.Transport        // the transport of the bus, if that is Kafka
	attempts   *crawl.Attempts         // crawls that crawlers have begun
	processes  *figures.Table          // figures of all processes; nil if this is the only one
	mail       *operations.MailedLinks // nil without API or a mail server
	adminURL   string                  // where the admin API is served; "" if it is not
	commandAPI http.Handler            // the admin API for the command line; nil until it is needed
	stopAPI    func()                  // announces to the API that its server is about to stop

	format  int  // of the data folder; 0 if nodes share the data
	reading bool // see OpenReading
	served  bool // by another process, while reading

	// hasCheckpoint is closed by checkpointed, when the ledger has a checkpoint. Only nodes that make one call it.
	hasCheckpoint chan struct{}
	checkpointed  func()
}

// Options say how a node is opened, in addition to its settings.
type Options struct {
	Release  string // of this binary
	Logs     io.Writer
	LogLevel string
	Use      Use
	Parts    Parts

	lost *atomic.Pointer[error] // why the process rejected the event store before; nil without one
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

// newNode returns a node in which nothing is open. Without a lock another process holds the folder. If newNode fails,
// the folder is released.
func newNode(cfg config.Config, lock *datafolder.Lock, o Options, logLevel string) (*Node, error) {
	life := newLifecycle()
	if lock != nil {
		life.closing(lock.Release)
	}
	logger, err := telemetry.NewLogger(o.Logs, logLevel, cfg.LogFormat)
	if err != nil {
		return nil, errors.Join(err, life.close())
	}
	life.logger = logger
	metrics := telemetry.NewMetrics(o.Release)
	n := &Node{
		Config: cfg, options: o, logger: logger, metrics: metrics, life: life, Writers: &Writers{}, stopAPI: func() {},
		Stores: &Stores{lock: lock, config: cfg, options: o, logger: logger, metrics: metrics, life: life},
	}
	n.run = &processRun{id: uuid.NewString(), charges: runs.NewCharges(time.Now), stores: n.Stores, logger: logger}
	n.health = &health{stores: n.Stores, run: n.run, metrics: metrics}
	n.drawing = &drawing{config: cfg, parts: o.Parts, stores: n.Stores, memory: membudget.New(0), logger: logger,
		metrics: metrics, life: life}
	n.drawing.built = func(ctx context.Context) {
		if !cfg.Shared() { // in a cluster other nodes build
			_ = n.Operations.Reads.CatchUp(ctx) // a stopped read model or node is not waited for
		}
	}
	n.auditor = sync.OnceValue(n.newAuditor)
	n.hasCheckpoint = make(chan struct{})
	n.checkpointed = sync.OnceFunc(func() { close(n.hasCheckpoint) })
	return n, nil
}

// Open opens everything in a locked folder and starts what keeps the read models current. If it fails, everything is
// closed again and the folder is released.
func Open(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options) (*Node, error) {
	n, err := newNode(cfg, lock, o, o.LogLevel)
	if err != nil {
		return nil, err
	}
	for _, open := range []func(context.Context) error{
		n.check, n.Stores.open, n.raiseFolder, n.openReadModels, n.openCommands, n.openOperations, n.follow,
	} {
		if err := open(ctx); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// check checks the settings and the folder before anything is opened.
func (n *Node) check(context.Context) error {
	if err := datafolder.CheckRestored(n.Config.Data); err != nil {
		return err
	}
	n.Plans = plan.Default()
	for id, crawls := range n.Config.PlanCrawls {
		if _, err := n.Plans.Get(plan.ID(id)); err != nil {
			return fmt.Errorf("LETTERHEAD_PLAN_CRAWLS: %w", err)
		}
		n.Plans = n.Plans.WithCrawlsPerMinute(plan.ID(id), crawls)
	}
	if err := eventschemas.Check(); err != nil {
		return err
	}
	if scratch := scratchPath(n.Config); scratch != "" {
		return engine.RemoveScratch(scratch) // before anything needs its space
	}
	return nil
}

// raiseFolder makes older releases reject a data folder, before anything is written that they cannot read. It leaves a
// folder of the previous release alone if the command only reads: this release can work with that format. The folder of
// a node in a cluster holds no data; there the database says which format is in force.
func (n *Node) raiseFolder(context.Context) error {
	if n.Config.Shared() {
		return nil
	}
	n.format = n.Stores.lock.Format()
	if n.options.Use == ToRead && n.format == datafolder.Format-1 {
		return nil
	}
	n.format = datafolder.Format
	return n.Stores.lock.Raise(datafolder.Format)
}

// follow starts the parts that keep the read models current until the node closes.
func (n *Node) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.life.closing(func() error {
		cancel()
		n.life.stopServing() // work in the background of a node that does not serve
		n.life.running.Wait()
		return nil
	})
	n.life.run(ctx, "clock", n.Stores.clock.Run)
	n.life.run(ctx, "read models", n.Runner.Run)
	for _, e := range n.Search.editions {
		n.life.run(ctx, "search", e.Run)
	}
	return nil
}

// Close ends everything in the reverse order of opening. It may be called once.
func (n *Node) Close() error { return n.life.close() }

// Operator returns the request of an operator at the command line.
func (n *Node) Operator() commands.Request { return commandLine() }

func commandLine() commands.Request {
	return commands.Request{ID: uuid.NewString(), Actor: "operator:cli"}
}

// Now returns the time by which the node records events.
func (n *Node) Now() time.Time { return n.Stores.clock.Now() }

// lifecycle runs the parts of a node, and ends them.
type lifecycle struct {
	logger *slog.Logger
	// alive ends when a part that must run has ended, with its error as the cause.
	alive context.Context
	kill  context.CancelCauseFunc
	// serving ends when the first of the groups of parts that start started is closed.
	serving     context.Context
	stopServing context.CancelFunc
	running     sync.WaitGroup

	mu      sync.Mutex     // guards closers
	closers []func() error // in the order of opening
}

func newLifecycle() *lifecycle {
	l := &lifecycle{}
	l.alive, l.kill = context.WithCancelCause(context.Background()) // of the process, not of the caller
	l.serving, l.stopServing = context.WithCancel(context.Background())
	return l
}

func (l *lifecycle) closing(f func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, f)
}

// close ends everything in the reverse order of opening.
func (l *lifecycle) close() error {
	var errs []error
	for _, v := range slices.Backward(l.closers) {
		errs = append(errs, v())
	}
	return errors.Join(errs...)
}

// background starts work that continues until the node closes.
func (l *lifecycle) background(work func(context.Context)) {
	l.running.Go(func() { work(l.serving) })
}

// part runs for as long as a node serves. It returns nil when its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// run runs a part until the node closes. A part that ends before that stops the node, which must not look alive while a
// part of it does nothing.
func (l *lifecycle) run(ctx context.Context, name string, part func(context.Context) error) {
	l.running.Go(func() {
		err := part(ctx)
		if ctx.Err() != nil {
			return
		}
		l.logger.Error("a part of the service ended", "part", name, "error", err)
		l.kill(fmt.Errorf("%s ended: %w", name, err))
	})
}

// start starts parts, which then run until the node closes. All parts are stopped together, whichever call started
// them.
func (l *lifecycle) start(parts []part) {
	var workers sync.WaitGroup
	l.closing(func() error {
		l.stopServing()
		workers.Wait()
		return nil
	})
	for _, p := range parts {
		workers.Add(1)
		l.run(l.serving, p.name, func(ctx context.Context) error {
			defer workers.Done()
			return p.run(ctx)
		})
	}
}
