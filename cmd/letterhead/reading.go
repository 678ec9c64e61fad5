package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"letterhead/internal/accountnames"
	"letterhead/internal/assets"
	"letterhead/internal/config"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/sqlstore"
	"letterhead/internal/telemetry"
	"letterhead/workers/loss"
)

// Heavy commands (backup, verify) run in a process of their own also while a server holds the data folder. They
// read the folder's files beside the server, at the lowest priority, and write nothing to them. The same way of
// opening the files serves folders that cannot be written.

// errFolderReadOnly: the data folder, or a file in it, cannot be written.
var errFolderReadOnly = errors.New("cannot be written")

// checkWritable returns errFolderReadOnly with the reason when this process cannot write what is in the folder.
func checkWritable(folder string) error {
	const write = 2 // W_OK
	for _, name := range []string{"", "events.db", "letterhead.db"} {
		path := filepath.Join(folder, name)
		err := syscall.Access(path, write)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return fmt.Errorf("the data folder %s %w (%s: %w); make it writable for this user to serve it or to change anything (\"letterhead ledger verify\", \"projections verify\", \"backup\" and \"doctor\" read it as it is)",
			folder, errFolderReadOnly, path, err)
	}
	return nil
}

// onStores runs heavy work that only reads the stores, in this process:
//
//   - where apart says so with connections of its own, also while a node serves from the folder;
//   - on the files of a data folder that a server has open, or that cannot be written, as openReading does;
//   - on a folder that is free as open does.
//
// Where the service was opened for reading, service.reading is set, and what is not needed for reading is nil.
func (e *environment) onStores(ctx context.Context, args []string, apart func(config.Config) bool, open func(config.Config, *folderLock) (*service, error), run func(*service) error) error {
	if e.service != nil {
		return run(e.service)
	}
	cfg, err := e.config()
	if err != nil {
		return err
	}
	if apart(cfg) {
		return runApart(cfg, open, run)
	}
	if !cfg.Shared() {
		why := checkWritable(cfg.Data)
		if why != nil || serverAnswers(ctx, cfg.Data) {
			if why == nil {
				stepBack()
			}
			s, err := openReading(ctx, cfg, e.stderr)
			switch {
			case err == nil && (why != nil || !s.alone()):
				s.served = why == nil
				return errors.Join(run(s), s.close())
			case err != nil && (why != nil || serverAnswers(ctx, cfg.Data)):
				return err
			case err == nil: // the server has just ended: without the folder's lock the next one would write under the reader
				if err := s.close(); err != nil {
					return err
				}
			}
		}
	}
	return e.onService(ctx, args, open, run)
}

// allShared reports whether a command can open everything while a node serves from the data folder: nothing is in that
// folder.
func allShared(cfg config.Config) bool { return cfg.Shared() && cfg.Search != config.Embedded }

func runApart(cfg config.Config, open func(config.Config, *folderLock) (*service, error), run func(*service) error) error {
	stepBack()
	s, err := open(cfg, nil)
	if err != nil {
		return err
	}
	return errors.Join(run(s), s.close())
}

// onFolderApart is onFolder, or looksAt, for heavy work. In the distributed shape it runs in a process of its own, also
// while a node serves from the folder.
func (e *environment) onFolderApart(use folderUse, run folderRun) func(*cobra.Command, []string) error {
	inside := e.withFolder(use, run)
	return func(cmd *cobra.Command, args []string) error {
		if e.service == nil {
			cfg, err := e.config()
			if err != nil {
				return err
			}
			if allShared(cfg) {
				ctx := cmd.Context()
				return runApart(cfg, e.openOwn(ctx, use), func(s *service) error { return run(ctx, s, cmd, args) })
			}
		}
		return inside(cmd, args)
	}
}

// folderUse is what a command does with a data folder that no server holds.
type folderUse int

const (
	// toWrite finishes an upgrade of the folder before anything else, because what is written may be of a kind that the
	// release before cannot read.
	toWrite folderUse = iota
	// toRead leaves the folder to the release before when that is the one that wrote it.
	toRead
)

// openOwn returns how onFolder opens a service.
func (e *environment) openOwn(ctx context.Context, use folderUse) func(config.Config, *folderLock) (*service, error) {
	return func(cfg config.Config, lock *folderLock) (*service, error) {
		if cfg.Shared() {
			cfg.Roles = nil // the serving nodes do the work
		}
		s, err := openService(ctx, cfg, lock, serviceOptions{logs: e.stderr, logLevel: "warn", use: use})
		if err != nil {
			return nil, err
		}
		if err := s.current(ctx, e); err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s, nil
	}
}

// reads is onStores for a command whose work needs the read models.
func (e *environment) reads(run folderRun) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return e.onStores(ctx, e.args, allShared, e.openOwn(ctx, toRead), func(s *service) error { return run(ctx, s, cmd, args) })
	}
}

// openReading opens the log, the database, the assets and the read models of a data folder without writing anything
// to it. On an error everything is closed again.
func openReading(ctx context.Context, cfg config.Config, logs io.Writer) (_ *service, err error) {
	s := &service{config: cfg, reading: true, stopAPI: func() {}}
	s.alive, s.kill = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	folder := folderLock{path: cfg.Data}
	if err := folder.readFormat(); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no letterhead data in %s; name the folder with --data", cfg.Data)
	} else if err != nil {
		return nil, err
	}
	s.format = folder.format
	if err := refuseHalfRestored(cfg.Data); err != nil {
		return nil, err
	}
	if s.logger, err = telemetry.NewLogger(logs, "warn", cfg.LogFormat); err != nil {
		return nil, err
	}
	s.metrics = telemetry.NewMetrics(version)
	log, err := sqlite.OpenReadOnly(ctx, sqlite.Config{Path: cfg.EventsPath(), Logger: s.logger})
	if err != nil {
		return nil, err
	}
	s.log, s.logFile = log, log.Log
	s.closing(log.Close)
	if s.store, err = sqlstore.Open(ctx, sqlstore.Config{Path: cfg.DatabasePath(), ReadOnly: true, Logger: s.logger}); err != nil {
		return nil, err
	}
	s.closing(s.store.Close)
	if s.clock, err = sqlstore.NewClock(ctx, s.store, sqlstore.ClockConfig{Local: s.machineClock, Logger: s.logger}); err != nil {
		return nil, err
	}
	if s.names, err = accountnames.New(ctx, s.store); err != nil {
		return nil, err
	}
	if s.positions, err = sqlstore.NewPositions(ctx, s.store); err != nil {
		return nil, err
	}
	if s.snapshots, err = sqlstore.NewSnapshots(ctx, s.store); err != nil {
		return nil, err
	}
	if err := loss.Verify(ctx, s.store, eventlog.Probe(s.log)); err != nil {
		return nil, err
	}
	if s.assets, err = assets.Open(ctx, cfg.AssetsURL()); err != nil {
		return nil, err
	}
	s.closing(s.assets.Close)
	return s, s.openReadModels(ctx)
}

// alone reports whether a file was opened in a way that lets no process write it, because none had it open.
func (s *service) alone() bool {
	log, reading := s.log.(sqlite.ReadOnly)
	return reading && log.Alone() || s.store.Alone()
}

// warnBehind says how much of the log the read models of a folder that is only read do not hold.
func (s *service) warnBehind(ctx context.Context, w io.Writer) error {
	models, err := s.runner.List(ctx)
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

// scratchPath is where verify puts its tables: beside the database, or, when the folder cannot be written, in the
// system's folder for temporary files ("").
func (s *service) scratchPath() string {
	if s.config.Shared() || checkWritable(s.config.Data) != nil {
		return ""
	}
	return filepath.Join(s.config.Data, "scratch")
}

// readingBatch is what a verify beside a server folds in one transaction: less than the server itself would, because
// both share one machine's memory.
const readingBatch = 4096

// batchEvents is 0 for the usual.
func (s *service) batchEvents() int {
	if s.reading {
		return readingBatch
	}
	return 0
}

// lowestPriority is that of setpriority(2).
const lowestPriority = 19

// stepBack lets servers on this machine go first: this process gets what they leave of the processors, and half of
// them at most.
func stepBack() {
	runtime.GOMAXPROCS(max(1, runtime.GOMAXPROCS(0)/2))
	threads, err := os.ReadDir("/proc/self/task") // on Linux a thread has a priority of its own, which those that it starts inherit
	if err != nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowestPriority) // a courtesy: the work is the same without it
		return
	}
	for _, thread := range threads {
		var id int
		if _, err := fmt.Sscan(thread.Name(), &id); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowestPriority)
		}
	}
}
