package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/node/datafolder"
	"letterhead/workers/loss"
)

// Heavy commands (backup, verify) run in a process of their own even while a server holds the data folder. They read
// the folder's files at the lowest priority and write nothing to them. Folders that cannot be written are opened in the
// same way.

// OpenReading opens the log, the database, the assets and the read models of a data folder without writing anything
// to it. pace, if it is not nil, is called before each read of the log. On an error everything is closed again.
func OpenReading(ctx context.Context, cfg config.Config, o Options, pace func(context.Context) error) (_ *Node, err error) {
	n := &Node{Config: cfg, release: o.Release, reading: true, stopAPI: func() {}}
	n.alive, n.kill = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.format, err = datafolder.ReadFormat(cfg.Data, o.Release); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no letterhead data in %s; name the folder with --data", cfg.Data)
	} else if err != nil {
		return nil, err
	}
	if err := datafolder.CheckRestored(cfg.Data); err != nil {
		return nil, err
	}
	if n.logger, err = telemetry.NewLogger(o.Logs, "warn", cfg.LogFormat); err != nil {
		return nil, err
	}
	n.metrics = telemetry.NewMetrics(o.Release)
	log, err := sqlite.OpenReadOnly(ctx, sqlite.Config{Path: cfg.EventsPath(), Pace: pace, Logger: n.logger})
	if err != nil {
		return nil, err
	}
	n.Log, n.logFile = log, log.Log
	n.closing(log.Close)
	if n.Store, err = sqlstore.Open(ctx, sqlstore.Config{Path: cfg.DatabasePath(), ReadOnly: true, Logger: n.logger}); err != nil {
		return nil, err
	}
	n.closing(n.Store.Close)
	if n.clock, err = sqlstore.NewClock(ctx, n.Store, sqlstore.ClockConfig{Local: n.machineClock, Logger: n.logger}); err != nil {
		return nil, err
	}
	if err = n.openNames(ctx); err != nil {
		return nil, err
	}
	if n.Positions, err = sqlstore.NewPositions(ctx, n.Store); err != nil {
		return nil, err
	}
	if n.snapshots, err = sqlstore.NewSnapshots(ctx, n.Store); err != nil {
		return nil, err
	}
	if err := loss.Verify(ctx, n.Store, eventlog.Probe(n.Log)); err != nil {
		return nil, err
	}
	if n.Assets, err = assets.Open(ctx, cfg.AssetsURL()); err != nil {
		return nil, err
	}
	n.closing(n.Assets.Close)
	return n, n.openReadModels(ctx)
}

// Reading reports whether the node was opened by OpenReading.
func (n *Node) Reading() bool { return n.reading }

// Served reports whether another process serves the folder that is read.
func (n *Node) Served() bool { return n.served }

// alone reports whether a file was opened so that no other process can write it, because none had it open.
func (n *Node) alone() bool {
	log, reading := n.Log.(sqlite.ReadOnly)
	return reading && log.Alone() || n.Store.Alone()
}

// WarnBehind prints by how many events the read models of a read-only folder are behind the log.
func (n *Node) WarnBehind(ctx context.Context, w io.Writer) error {
	models, err := n.Runner.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range models {
		if m.Lag > 0 {
			fmt.Fprintf(w, "warning: %s is %d events behind the log; nothing can be folded in a folder that is only read\n", m.Name, m.Lag)
		}
	}
	return nil
}

// scratchPath returns the folder of the tables that verify makes: in the data folder, or "", the system's folder for
// temporary files, if the data folder cannot be written.
func (n *Node) scratchPath() string {
	if n.Config.Shared() || datafolder.CheckWritable(n.Config.Data) != nil {
		return ""
	}
	return filepath.Join(n.Config.Data, "scratch")
}

// readingBatch is how many events a verify alongside a server folds in one transaction: fewer than the server, as both
// share the memory of one machine.
const readingBatch = 4096

// batchEvents returns 0 for the default.
func (n *Node) batchEvents() int {
	if n.reading {
		return readingBatch
	}
	return 0
}
