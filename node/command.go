package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"

	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/stores"
	"letterhead/internal/sqlstore"
	"letterhead/node/admin"
	"letterhead/node/datafolder"
	"letterhead/operations"
	"letterhead/projections/engine"
	"letterhead/workers/loss"
)

// Command is the work of a command line on a node. A server that holds the data folder runs the command line itself;
// without one the command opens a node for itself.
type Command struct {
	Settings config.Config
	Options  Options
	Open     Opener
	Run      func(*Node) error
	Forward  func() error // has the server that holds the data folder run the command line
}

// Opener opens a node for a command. It releases the lock if it fails. A command that runs alongside a server has no
// lock.
type Opener func(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options) (*Node, error)

// Use is the way in which a command uses a data folder that no server holds.
type Use int

const (
	// ToWrite finishes an upgrade of the folder first, because the previous release may not be able to read what the
	// command writes.
	ToWrite Use = iota
	// ToRead leaves the folder to the previous release if that release wrote it.
	ToRead
)

// OpenCurrent is Open for a command. It waits until the read models have caught up with the log, and prints a warning
// if some cannot.
func OpenCurrent(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options) (*Node, error) {
	if cfg.Shared() {
		cfg.Roles = nil // the serving nodes do the work
	}
	n, err := Open(ctx, cfg, lock, o)
	if err != nil {
		return nil, err
	}
	if err := n.catchUp(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) catchUp(ctx context.Context) error {
	err := n.Operations.Reads.CatchUp(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, new(*engine.QuarantinedError)) && !errors.Is(err, operations.ErrBehind):
		return err
	}
	// A command that needs these read models fails by itself, and a command that repairs them must run. A command that
	// only reads shows those that are behind as they are.
	fmt.Fprintf(n.options.Logs, "warning: %v\n", err)
	if n.options.Use == ToRead && errors.Is(err, operations.ErrBehind) {
		n.Operations.Reads.AsTheyAre = n.warnBehind
	}
	return nil
}

// warnBehind prints how far read models are behind the log.
func (n *Node) warnBehind(ctx context.Context, names []string) {
	models, err := n.Runner.List(ctx)
	if err != nil {
		fmt.Fprintf(n.options.Logs, "warning: %v\n", err)
	}
	for _, m := range models {
		if slices.Contains(names, m.Name) && m.Lag > 0 {
			fmt.Fprintf(n.options.Logs, "warning: the read model %s is shown as it is, %s\n",
				m.Name, m.Late())
		}
	}
}

// Do runs the command: inside the server if one holds the data folder, otherwise on a node of its own.
func (c Command) Do(ctx context.Context) error {
	mode := datafolder.MustExist
	if c.Settings.Shared() {
		mode = datafolder.MayBeNew // it holds no data
	}
	lock, err := datafolder.Acquire(c.Settings.Data, mode, c.Options.Release)
	if errors.Is(err, datafolder.ErrInUse) {
		return c.Forward()
	}
	if err != nil {
		return err
	}
	return c.runOn(c.Open(ctx, c.Settings, lock, c.Options))
}

// DoReadOnly runs heavy work that only reads the stores, in this process:
//
//   - with its own connections if apart allows that, even while a node serves from the folder;
//   - on the files of a data folder that a server has open, or that cannot be written, as OpenReading opens them;
//   - otherwise as Do does.
//
// A node of OpenReading has only the parts that reading needs; the others are nil.
func (c Command) DoReadOnly(ctx context.Context, apart func(config.Config) bool) error {
	if apart(c.Settings) {
		yieldProcessor()
		return c.runOn(c.Open(ctx, c.Settings, nil, c.Options))
	}
	if !c.Settings.Shared() {
		if done, err := c.doReading(ctx); done || err != nil {
			return err
		}
	}
	return c.Do(ctx)
}

// doReading runs the command on the files of a folder that a server has open or that cannot be written. It reports
// false if the folder is neither.
func (c Command) doReading(ctx context.Context) (done bool, err error) {
	readOnly := datafolder.CheckWritable(c.Settings.Data)
	var pace func(context.Context) error
	if readOnly == nil {
		if !admin.Answers(ctx, c.Settings.Data) {
			return false, nil
		}
		yieldProcessor()
		pace = newPacer(cpuDelay).rest
	}
	n, err := OpenReading(ctx, c.Settings, c.Options, pace)
	switch {
	case err == nil && (readOnly != nil || !n.alone()):
		n.served = readOnly == nil
		return true, c.runOn(n, nil)
	case err == nil: // the server has just ended: without the folder's lock the next one would write under the reader
		return false, n.Close()
	case readOnly != nil || admin.Answers(ctx, c.Settings.Data):
		return true, err
	}
	return false, nil
}

func (c Command) runOn(n *Node, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(c.Run(n), n.Close())
}

// AllShared reports whether a command can open everything while a node serves from the data folder, because nothing is
// in that folder.
func AllShared(cfg config.Config) bool { return cfg.Shared() && cfg.Search != config.Embedded }

// yieldProcessor gives servers on this machine precedence: this process gets only CPU time that they do not need, on at
// most half of the CPUs.
func yieldProcessor() {
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	lowerPriority()
}

// Heavy commands (backup, verify) run in a process of their own even while a server holds the data folder. They read
// the folder's files at the lowest priority and write nothing to them. Folders that cannot be written are opened in the
// same way.

// OpenReading opens the log, the database, the assets and the read models of a data folder without writing anything
// to it. pace, if it is not nil, is called before each read of the log. On an error everything is closed again.
func OpenReading(ctx context.Context, cfg config.Config, o Options, pace func(context.Context) error) (*Node, error) {
	n, err := newNode(cfg, nil, o, "warn")
	if err != nil {
		return nil, err
	}
	n.reading = true
	if err := n.openReading(ctx, pace); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) openReading(ctx context.Context, pace func(context.Context) error) (err error) {
	if n.format, err = datafolder.ReadFormat(n.Config.Data, n.options.Release); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no letterhead data in %s; name the folder with --data", n.Config.Data)
	} else if err != nil {
		return err
	}
	if err := datafolder.CheckRestored(n.Config.Data); err != nil {
		return err
	}
	if err := n.Stores.openReading(ctx, pace); err != nil {
		return err
	}
	if err := n.openReadModels(ctx); err != nil {
		return err
	}
	return n.openOperations(ctx)
}

// openReading is open for a data folder that is not written.
func (s *Stores) openReading(ctx context.Context, pace func(context.Context) error) (err error) {
	s.log, err = stores.Of(s.config.EventStore).OpenReading(ctx,
		stores.Options{Path: s.config.EventsPath(), Pace: pace, Logger: s.logger})
	if err != nil {
		return err
	}
	s.Log = s.log.Log
	s.life.closing(s.Log.Close)
	if s.Database, err = sqlstore.Open(ctx,
		sqlstore.Config{Path: s.config.DatabasePath(), ReadOnly: true, Logger: s.logger}); err != nil {
		return err
	}
	if err := s.openTables(ctx); err != nil {
		return err
	}
	if err := loss.Verify(ctx, s.Database, eventlog.Probe(s.Log)); err != nil {
		return err
	}
	if s.Assets, err = assets.Open(ctx, s.config.AssetsURL()); err != nil {
		return err
	}
	s.life.closing(s.Assets.Close)
	return nil
}

// Reading reports whether the node was opened by OpenReading.
func (n *Node) Reading() bool { return n.reading }

// Served reports whether another process serves the folder that is read.
func (n *Node) Served() bool { return n.served }

// alone reports whether a file was opened so that no other process can write it, because none had it open.
func (n *Node) alone() bool {
	return n.Stores.log.Alone || n.Stores.Database.Alone()
}

// scratchPath returns the folder of the tables that verify makes: in the data folder, or "", the system's folder for
// temporary files, if the data folder cannot be written.
func scratchPath(cfg config.Config) string {
	if cfg.Shared() || datafolder.CheckWritable(cfg.Data) != nil {
		return ""
	}
	return filepath.Join(cfg.Data, "scratch")
}

// readingBatch is how many events a verify alongside a server folds in one transaction: fewer than the server, as both
// share the memory of one machine.
const readingBatch = 4096
