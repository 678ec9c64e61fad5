package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/stores"
	"letterhead/internal/sqlstore"
	"letterhead/node/datafolder"
	"letterhead/workers/loss"
)

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
