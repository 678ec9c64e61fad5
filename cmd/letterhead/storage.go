package main

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
	"letterhead/workers/loss"
)

// openStorage opens what the settings name: files in the data folder, or services that nodes share. It fails with
// eventlog.ErrLoss when the log does not hold what the database remembers of it.
func (s *service) openStorage(ctx context.Context) error {
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	if !s.config.Shared() {
		if err := s.expectLogFile(ctx); err != nil {
			return err
		}
	}
	if err := s.openLog(ctx, s.admit); err != nil {
		return err
	}
	if !s.config.Shared() {
		if err := loss.Verify(ctx, s.store, eventlog.Probe(s.log)); err != nil {
			return err
		}
	}
	return s.openAssets(ctx)
}

// openUnverified is openStorage for a command that replaces the log.
func (s *service) openUnverified(ctx context.Context) error {
	for _, open := range []func(context.Context) error{s.openDatabase, func(ctx context.Context) error { return s.openLog(ctx, nil) }, s.openAssets} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openLog opens the log. Admit, if it is not nil, compares a shared event store with the database at each connection.
func (s *service) openLog(ctx context.Context, admit func(context.Context, eventlog.Prober, esdb.Seen) error) error {
	if s.config.Shared() {
		log, err := esdb.Open(ctx, esdb.Config{ConnectionString: s.config.EventStore, Admit: admit, Logger: s.logger, Registerer: s.metrics})
		if err != nil {
			return err
		}
		shared, err := fanout.New(log, fanout.Config{Logger: s.logger, Registerer: s.metrics})
		if err != nil {
			return errors.Join(err, log.Close())
		}
		s.log, s.eventStore = shared, log
		s.closing(shared.Close)
		return nil
	}
	return s.openLogFile(ctx, false)
}

// openLogFile opens the log in the data folder. With acceptLoss it cuts off what cannot be read.
func (s *service) openLogFile(ctx context.Context, acceptLoss bool) error {
	log, err := sqlite.Open(ctx, sqlite.Config{Path: s.config.EventsPath(), AcceptLoss: acceptLoss, Logger: s.logger, Registerer: s.metrics})
	if err != nil {
		return err
	}
	s.log, s.logFile = log, log
	s.closing(log.Close)
	return nil
}

func (s *service) openDatabase(ctx context.Context) error {
	cfg := sqlstore.Config{Release: version, Format: eventschemas.Format, Node: s.config.Node, Logger: s.logger, Registerer: s.metrics}
	if s.config.Database == config.Embedded {
		cfg.Path = s.config.DatabasePath()
	} else {
		cfg.URL = s.config.Database
	}
	var err error
	if s.store, err = sqlstore.Open(ctx, cfg); err != nil {
		return err
	}
	s.closing(s.store.Close)
	if s.clock, err = sqlstore.NewClock(ctx, s.store, sqlstore.ClockConfig{Local: s.machineClock, Logger: s.logger}); err != nil {
		return err
	}
	if s.names, err = accountnames.New(ctx, s.store); err != nil {
		return err
	}
	if s.runs, err = runs.New(ctx, s.store); err != nil {
		return err
	}
	if s.positions, err = sqlstore.NewPositions(ctx, s.store); err != nil {
		return err
	}
	s.snapshots, err = sqlstore.NewSnapshots(ctx, s.store)
	return err
}

// machineClock is this machine's clock, and what the settings add to it.
func (s *service) machineClock() time.Time { return time.Now().Add(s.config.ClockSkew) }

func (s *service) openAssets(ctx context.Context) error {
	if s.config.Assets == "" {
		if err := os.MkdirAll(filepath.Join(s.config.Data, "assets"), 0o700); err != nil {
			return fmt.Errorf("make the folder of assets: %w", err)
		}
	}
	var err error
	if s.assets, err = assets.Open(ctx, s.config.AssetsURL()); err != nil {
		return err
	}
	s.closing(s.assets.Close)
	return s.assets.Register(s.metrics)
}
