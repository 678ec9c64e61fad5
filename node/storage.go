package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/fanout"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/node/datafolder"
	"letterhead/projections/engine"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
)

// openStorage opens the stores of the settings: files in the data folder, or services that nodes share. It fails with
// eventlog.ErrLoss if the log does not hold every event that the database remembers.
func (n *Node) openStorage(ctx context.Context) error {
	if err := n.openDatabase(ctx); err != nil {
		return err
	}
	if !n.Config.Shared() {
		if err := n.expectLogFile(ctx); err != nil {
			return err
		}
	}
	if err := n.openLog(ctx, n.admit); err != nil {
		return err
	}
	if n.parts.Log != nil {
		n.Log = n.parts.Log(n.Log)
	}
	if !n.Config.Shared() {
		if err := loss.Verify(ctx, n.Store, eventlog.Probe(n.Log)); err != nil {
			return err
		}
	}
	return n.openAssets(ctx)
}

// openUnverified is openStorage for a command that replaces the log.
func (n *Node) openUnverified(ctx context.Context) error {
	for _, open := range []func(context.Context) error{n.openDatabase, func(ctx context.Context) error { return n.openLog(ctx, nil) }, n.openAssets} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openLog opens the log. If admit is not nil, it checks a shared event store at each new connection.
func (n *Node) openLog(ctx context.Context, admit func(context.Context, eventlog.Prober, esdb.Seen) error) error {
	if n.Config.Shared() {
		log, err := esdb.Open(ctx, esdb.Config{ConnectionString: n.Config.EventStore, Admit: admit, Logger: n.logger, Registerer: n.metrics})
		if err != nil {
			return err
		}
		shared, err := fanout.New(log, fanout.Config{Logger: n.logger, Registerer: n.metrics})
		if err != nil {
			return errors.Join(err, log.Close())
		}
		n.Log, n.eventStore = shared, log
		n.closing(shared.Close)
		return nil
	}
	return n.openLogFile(ctx, false)
}

// openLogFile opens the log in the data folder. With acceptLoss it cuts off what cannot be read.
func (n *Node) openLogFile(ctx context.Context, acceptLoss bool) error {
	log, err := sqlite.Open(ctx, sqlite.Config{Path: n.Config.EventsPath(), AcceptLoss: acceptLoss, Logger: n.logger, Registerer: n.metrics})
	if err != nil {
		return err
	}
	n.Log, n.logFile = log, log
	n.closing(log.Close)
	return nil
}

func (n *Node) openDatabase(ctx context.Context) error {
	cfg := sqlstore.Config{Release: n.release, Format: eventschemas.Format, Node: n.Config.Node, Logger: n.logger, Registerer: n.metrics}
	if n.Config.Database == config.Embedded {
		cfg.Path = n.Config.DatabasePath()
	} else {
		cfg.URL = n.Config.Database
	}
	var err error
	if n.Store, err = sqlstore.Open(ctx, cfg); err != nil {
		return err
	}
	n.closing(n.Store.Close)
	if n.clock, err = sqlstore.NewClock(ctx, n.Store, sqlstore.ClockConfig{Local: n.machineClock, Logger: n.logger}); err != nil {
		return err
	}
	if err = n.openNames(ctx); err != nil {
		return err
	}
	if n.runs, err = runs.New(ctx, n.Store); err != nil {
		return err
	}
	if n.Positions, err = sqlstore.NewPositions(ctx, n.Store); err != nil {
		return err
	}
	n.snapshots, err = sqlstore.NewSnapshots(ctx, n.Store)
	return err
}

// openNames opens the table of the names of holders.
func (n *Node) openNames(ctx context.Context) (err error) {
	if n.Names, err = accountnames.New(ctx, n.Store); err != nil {
		return err
	}
	return n.Names.Observe(n.logger, n.metrics)
}

// sealedFormat is the first data format in which every row of the table of holders has a checksum.
const sealedFormat = 3

// namesMayBeSealed reports whether no node of a release that writes names without checksums can be running.
func (n *Node) namesMayBeSealed() bool { return n.Runner.Format() >= sealedFormat }

// machineClock returns the time of this machine's clock plus the skew of the settings.
func (n *Node) machineClock() time.Time {
	now := time.Now
	if n.parts.Now != nil {
		now = n.parts.Now
	}
	return now().Add(n.Config.ClockSkew)
}

func (n *Node) openAssets(ctx context.Context) error {
	if n.Config.Assets == "" {
		if err := os.MkdirAll(filepath.Join(n.Config.Data, "assets"), 0o700); err != nil {
			return fmt.Errorf("make the folder of assets: %w", err)
		}
	}
	var err error
	if n.Assets, err = assets.Open(ctx, n.Config.AssetsURL()); err != nil {
		return err
	}
	n.closing(n.Assets.Close)
	return n.Assets.Register(n.metrics)
}

// OpenStores opens the log, the database and the assets, and nothing that works on them. If it fails, the folder is
// released. Without a lock another process holds the folder.
func OpenStores(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options) (*Node, error) {
	return openPart(ctx, cfg, lock, o, (*Node).openStorage)
}

// openPart is OpenStores for the stores that open opens.
func openPart(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options, open func(*Node, context.Context) error) (_ *Node, err error) {
	n := &Node{Config: cfg, release: o.Release, lock: lock}
	if lock != nil {
		n.closing(lock.Release)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.logger, err = telemetry.NewLogger(o.Logs, "warn", cfg.LogFormat); err != nil {
		return nil, err
	}
	n.metrics = telemetry.NewMetrics(o.Release)
	return n, open(n, ctx)
}

// DataFormat returns the data format of the stored events.
func (n *Node) DataFormat(ctx context.Context) (int, error) {
	switch {
	case n.Config.Shared():
		return engine.ReadFormat(ctx, n.Store)
	case n.lock != nil:
		return n.lock.Format(), nil
	}
	return datafolder.ReadFormat(n.Config.Data, n.release) // another process holds the folder, or it cannot be written
}

// Backup copies events, names and assets to a folder or a bucket.
func (n *Node) Backup(ctx context.Context, cfg backup.Config, to string) (backup.Summary, error) {
	names, err := backup.NamesIn(ctx, n.Store)
	if err != nil {
		return backup.Summary{}, err
	}
	return backup.Run(ctx, cfg, backup.Source{Log: n.Log, Names: names, Assets: n.Assets, Format: n.DataFormat}, to)
}
