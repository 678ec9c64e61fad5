package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"letterhead/eventschemas"
	"letterhead/internal/accountnames"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/delay"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/stores"
	"letterhead/internal/runs"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/internal/warming"
	"letterhead/node/datafolder"
	"letterhead/projections/engine"
	"letterhead/workers/backup"
	"letterhead/workers/loss"
)

// Stores hold all data of a node: files in the data folder, or services that nodes share.
type Stores struct {
	Log       eventlog.Log
	Database  *sqlstore.Store
	Names     *accountnames.Table // names of accounts and keys
	Positions *sqlstore.Positions
	Assets    *assets.Store

	lock      *datafolder.Lock // nil if another process holds the folder
	log       *stores.Store    // the opened log, which Log may wrap
	guard     *lossGuard
	clock     *sqlstore.Clock
	runs      *runs.Runs
	warming   *warming.Table
	snapshots *sqlstore.Snapshots

	config  config.Config
	options Options
	logger  *slog.Logger
	metrics telemetry.Metrics
	life    *lifecycle
}

// open opens the stores of the settings: files in the data folder, or services that nodes share. It fails with
// eventlog.ErrLoss if the log does not hold every event that the database remembers.
func (s *Stores) open(ctx context.Context) error {
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if !s.config.Shared() {
		if err := s.expectLogFile(ctx); err != nil {
			return err
		}
	}
	if err := s.openLog(ctx, s.guard.admit, false); err != nil {
		return err
	}
	if s.options.Parts.Log != nil {
		s.Log = s.options.Parts.Log(s.Log)
	}
	if !s.config.Shared() {
		if err := loss.Verify(ctx, s.Database, eventlog.Probe(s.Log)); err != nil {
			return err
		}
	}
	return s.openAssets(ctx)
}

// openUnverified is openStorage for a command that replaces the log.
func (s *Stores) openUnverified(ctx context.Context) error {
	for _, open := range []func(context.Context) error{s.openDatabase,
		func(ctx context.Context) error { return s.openLog(ctx, nil, false) }, s.openAssets} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openLog opens the log. admit, unless it is nil, checks a service at each new connection.
func (s *Stores) openLog(ctx context.Context, admit func(context.Context, eventlog.Prober, eventlog.Mark) error,
	acceptLoss bool) (err error) {
	s.log, err = stores.Of(s.config.EventStore).Open(ctx, stores.Options{
		Address: s.config.EventStore, Path: s.config.EventsPath(), Admit: admit, AcceptLoss: acceptLoss,
		KeepFormat: s.options.Use == ToRead, Logger: s.logger, Registerer: s.metrics,
	})
	if err != nil {
		return err
	}
	s.Log = s.log.Log
	s.life.closing(s.Log.Close)
	return nil
}

func (s *Stores) openDatabase(ctx context.Context) error {
	cfg := sqlstore.Config{Release: s.options.Release, Format: eventschemas.Format, Node: s.config.Node,
		Logger: s.logger, Registerer: s.metrics}
	if s.config.Database == config.Embedded {
		cfg.Path = s.config.DatabasePath()
	} else {
		cfg.URL = s.config.Database
	}
	var err error
	if s.Database, err = sqlstore.Open(ctx, cfg); err != nil {
		return err
	}
	if err := s.openTables(ctx); err != nil {
		return err
	}
	if s.warming, err = warming.New(ctx, s.Database); err != nil {
		return err
	}
	s.runs, err = runs.New(ctx, s.Database)
	return err
}

// openTables opens the tables of the database that are no read models.
func (s *Stores) openTables(ctx context.Context) (err error) {
	s.life.closing(s.Database.Close)
	s.guard = &lossGuard{database: s.Database, logID: s.Database.LogID(), serves: len(s.config.Roles) > 0,
		logger: s.logger, kill: s.life.kill, lost: cmp.Or(s.options.lost, &atomic.Pointer[error]{})}
	s.clock, err = sqlstore.NewClock(ctx, s.Database, sqlstore.ClockConfig{Local: s.machineClock, Logger: s.logger})
	if err != nil {
		return err
	}
	if s.Names, err = accountnames.New(ctx, s.Database); err != nil {
		return err
	}
	if err := s.Names.Observe(s.logger, s.metrics); err != nil {
		return err
	}
	if s.Positions, err = sqlstore.NewPositions(ctx, s.Database); err != nil {
		return err
	}
	s.snapshots, err = sqlstore.NewSnapshots(ctx, s.Database)
	return err
}

// machineClock returns the time of this machine's clock plus the skew of the settings.
func (s *Stores) machineClock() time.Time {
	now := time.Now
	if s.options.Parts.Now != nil {
		now = s.options.Parts.Now
	}
	return now().Add(s.config.ClockSkew)
}

func (s *Stores) openAssets(ctx context.Context) error {
	if s.config.Assets == "" {
		if err := os.MkdirAll(filepath.Join(s.config.Data, "assets"), 0o700); err != nil {
			return fmt.Errorf("make the folder of assets: %w", err)
		}
	}
	var err error
	if s.Assets, err = assets.Open(ctx, s.config.AssetsURL()); err != nil {
		return err
	}
	s.life.closing(s.Assets.Close)
	return s.Assets.Register(s.metrics)
}

// OpenStores opens the log, the database and the assets, and nothing that works on them. If it fails, the folder is
// released. Without a lock another process holds the folder.
func OpenStores(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options) (*Node, error) {
	return openPart(ctx, cfg, lock, o, (*Stores).open)
}

// openPart is OpenStores for the stores that open opens.
func openPart(ctx context.Context, cfg config.Config, lock *datafolder.Lock, o Options,
	open func(*Stores, context.Context) error) (*Node, error) {
	n, err := newNode(cfg, lock, o, "warn")
	if err != nil {
		return nil, err
	}
	if err := open(n.Stores, ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// DataFormat returns the data format of the stored events.
func (s *Stores) DataFormat(ctx context.Context) (int, error) {
	switch {
	case s.config.Shared():
		return engine.ReadFormat(ctx, s.Database, eventschemas.Format)
	case s.lock != nil:
		return s.lock.Format(), nil
	}
	// another process holds the folder, or it cannot be written
	return datafolder.ReadFormat(s.config.Data, s.options.Release)
}

// Backup copies events, names and assets to a folder or a bucket.
func (s *Stores) Backup(ctx context.Context, cfg backup.Config, to string) (backup.Summary, error) {
	return backup.Run(ctx, cfg, backup.Source{Log: s.Log, Names: s.Names, Assets: s.Assets, Format: s.DataFormat}, to)
}

const (
	// strandedAge is much longer than writing a file takes, so that no file is deleted while it is written.
	strandedAge = 24 * time.Hour
	// strandedEvery is the pause between two searches. Each kill leaves a few small files at most.
	strandedEvery = 24 * time.Hour
)

// removeStranded deletes unfinished asset files that killed processes left, at the start and once a day. It logs a
// failure and tries again the next day.
func (s *Stores) removeStranded(ctx context.Context) error {
	for {
		removed, err := s.Assets.RemoveStranded(ctx, s.clock.Now().Add(-strandedAge))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.logger.Warn("unfinished asset files could not be removed", "error", err)
		case removed > 0:
			s.logger.Info("removed unfinished asset files", "files", removed)
		}
		if delay.For(ctx, strandedEvery) != nil {
			return nil
		}
	}
}
