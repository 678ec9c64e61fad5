package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"letterhead/eventschemas"
	"letterhead/internal/broker/kafka"
	"letterhead/internal/config"
	"letterhead/internal/disk"
	"letterhead/internal/eventlog"
	"letterhead/internal/eventlog/esdb"
	"letterhead/internal/eventlog/sqlite"
	"letterhead/internal/searchindex/elastic"
	"letterhead/internal/sqlstore"
)

// lowDisk is the free space below which doctor complains: room for some hundred thousand events.
const lowDisk = disk.MaxReserve

func doctorCommand(e *environment) *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Check a node and its data folder", Args: exactArgs(),
		Long: "Check settings, disk, event schemas, event log, read models, search index and assets; say what to do about what is wrong. It changes nothing that the service stores."}
	asJSON := jsonFlag(c)
	examined := false
	node := e.looksAt(func(ctx context.Context, s *service, _ *cobra.Command, _ []string) error {
		examined = true
		return examine(ctx, e, s.checks(), *asJSON)
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		examined = false
		if e.service == nil {
			cfg, err := e.config()
			if err != nil {
				return err
			}
			if !cfg.Shared() && errors.Is(checkWritable(cfg.Data), errFolderReadOnly) {
				ctx := cmd.Context()
				return e.onStores(ctx, e.args, allShared, nil, func(s *service) error { return examine(ctx, e, s.checks(), *asJSON) })
			}
			if cfg.Shared() { // nothing can be opened while one of them is away, and which one is the question
				if err := examine(cmd.Context(), e, reachable(cfg), *asJSON); err != nil {
					return err
				}
			}
		}
		err := node(cmd, args)
		if !examined && errors.Is(err, eventlog.ErrLoss) {
			return examine(cmd.Context(), e, []check{{"event log", func(context.Context) (string, error) { return "", err }}}, *asJSON)
		}
		return err
	}
	return c
}

// examine runs checks and prints what each finds.
func examine(ctx context.Context, e *environment, checks []check, asJSON bool) error {
	var failed []error
	for _, check := range checks {
		detail, err := check.run(ctx)
		word := "ok"
		if err != nil {
			word, detail = "FAIL", err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", check.name, err))
		}
		if asJSON {
			err = printJSON(e.stdout, map[string]any{"check": check.name, "ok": err == nil, "detail": detail})
		} else {
			_, err = fmt.Fprintf(e.stdout, "%-4s %-14s %s\n", word, check.name, detail)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

type check struct {
	name string
	run  func(context.Context) (detail string, err error)
}

func (s *service) checks() []check {
	search := check{"search", func(ctx context.Context) (string, error) {
		status, err := s.searchStatus(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("index at position %d, %d behind", status.Position, status.Lag), nil
	}}
	if s.reading {
		search.run = func(context.Context) (string, error) { return "not looked at: the data folder cannot be written", nil }
	}
	folder := check{"data folder", func(context.Context) (string, error) {
		if err := checkWritable(s.config.Data); err != nil {
			return err.Error(), nil // a copy that is only looked at is not wrong
		}
		return s.config.Data, nil
	}}
	return []check{
		folder,
		{"schemas", func(context.Context) (string, error) {
			return fmt.Sprintf("%d event types, every version readable", len(eventschemas.Types())), eventschemas.Check()
		}},
		{"disk", func(context.Context) (string, error) { return diskSpace(s.config.Data) }},
		{"event log", s.checkLog},
		{"database", s.checkDatabase},
		{"read models", func(ctx context.Context) (string, error) {
			models, err := s.runner.List(ctx)
			if err != nil {
				return "", err
			}
			var lag uint64
			for _, m := range models {
				if m.Error != "" {
					return "", fmt.Errorf("%s stands still: %s; \"letterhead projections rebuild %s\" builds it anew", m.Name, m.Error, m.Name)
				}
				lag = max(lag, m.Lag)
			}
			return fmt.Sprintf("%d live, at most %d positions behind", len(models), lag), nil
		}},
		search,
		{"broker", s.checkBroker},
		{"assets", func(ctx context.Context) (string, error) {
			for _, err := range s.assets.List(ctx) {
				if err != nil {
					return "", err
				}
				break // one file, or none, shows that the bucket answers
			}
			return s.config.AssetsURL(), nil
		}},
	}
}

// checkLog verifies all of a log in the data folder, and asks a shared one for its end.
func (s *service) checkLog(ctx context.Context) (string, error) {
	head, err := s.log.Head(ctx)
	if err != nil {
		return "", err
	}
	if s.eventStore != nil {
		version, err := s.eventStore.ServerVersion(ctx)
		return fmt.Sprintf("EventStoreDB %s answers, head at position %d", version, head), err
	}
	info, err := os.Stat(s.config.EventsPath())
	if err != nil {
		return "", err
	}
	if err := s.verifyLog(ctx); err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s, head at position %d, %d MiB, every checksum and the digest hold", filepath.Base(s.config.EventsPath()), head, info.Size()>>20)
	if s.ready.Load() { // a server's, which scrubs
		scrub := s.logFile.LastScrub()
		if scrub.Problem != nil {
			return "", fmt.Errorf("%s; but %s", detail, scrub)
		}
		detail += "; " + scrub.String()
	}
	return detail, nil
}

// verifyLog verifies all of a log in the data folder. A shared event store verifies itself.
func (s *service) verifyLog(ctx context.Context) error {
	if s.logFile == nil {
		return nil
	}
	if log, reading := s.log.(sqlite.ReadOnly); reading {
		return log.Check(ctx, nil)
	}
	return s.logFile.Check(ctx, nil)
}

// maxClockOffset is how wrong this machine's clock may be before doctor complains. Nothing depends on it:
// nodes follow the database's clock. But logs are hard to read together.
const maxClockOffset = 2 * time.Second

func (s *service) checkDatabase(ctx context.Context) (string, error) {
	var one int
	if err := s.store.Read().QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return "", err
	}
	if !s.store.Shared() {
		return filepath.Base(s.config.DatabasePath()), nil
	}
	offset, bound := s.clock.Offset()
	if offset.Abs() > maxClockOffset {
		return "", fmt.Errorf("answers; this machine's clock is %s away from the database's: let it follow a time server", offset.Round(time.Millisecond))
	}
	return fmt.Sprintf("answers; this machine's clock is %s away from the database's, give or take %s", offset.Round(time.Millisecond), bound.Round(time.Microsecond)), nil
}

func (s *service) checkBroker(ctx context.Context) (string, error) {
	if s.config.Broker == config.Embedded {
		return "in this process", nil
	}
	cfg, err := kafka.ParseURL(s.config.Broker)
	if err != nil {
		return "", err
	}
	cfg.Logger = s.logger
	report, err := kafka.Inspect(ctx, cfg)
	if err != nil {
		return "", err
	}
	if problems := report.Problems(); len(problems) > 0 {
		return "", errors.New(strings.Join(problems, "; "))
	}
	var behind int64
	for _, g := range report.Groups {
		behind = max(behind, g.Messages)
	}
	return fmt.Sprintf("%d brokers, %d topics, %d consumer groups, at most %d messages behind", len(report.Brokers), len(report.Topics), len(report.Groups), behind), nil
}

// reachTimeout bounds one attempt to reach a service that nodes share.
const reachTimeout = 10 * time.Second

// reachable are the checks of what nodes share, each for itself.
func reachable(cfg config.Config) []check {
	quiet := slog.New(slog.DiscardHandler)
	within := func(run func(context.Context) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, reachTimeout)
			defer cancel()
			return run(ctx)
		}
	}
	return []check{
		{"event store", within(func(ctx context.Context) (string, error) {
			log, err := esdb.Open(ctx, esdb.Config{ConnectionString: cfg.EventStore, Logger: quiet, ConnectTimeout: reachTimeout})
			if err != nil {
				return "", err
			}
			version, err := log.ServerVersion(ctx)
			head, headErr := log.Head(ctx)
			return fmt.Sprintf("EventStoreDB %s is reached, head at position %d", version, head), errors.Join(err, headErr, log.Close())
		})},
		{"database", within(func(ctx context.Context) (string, error) {
			store, err := sqlstore.Open(ctx, sqlstore.Config{URL: cfg.Database, Logger: quiet})
			if err != nil {
				return "", err
			}
			return "is reached", store.Close()
		})},
		{"search", within(func(ctx context.Context) (string, error) {
			if cfg.Search == config.Embedded {
				return "in the data folder", nil
			}
			index, err := elastic.Open(ctx, elastic.Config{URL: cfg.Search, Logger: quiet})
			if err != nil {
				return "", err
			}
			_, err = index.Checkpoint(ctx)
			return "is reached", errors.Join(err, index.Close())
		})},
	}
}

func diskSpace(folder string) (string, error) {
	space, err := disk.At(folder)
	if err != nil {
		return "", err
	}
	if space.Free < lowDisk {
		return "", fmt.Errorf("only %d MiB are free in %s; appends will be refused when it is full, nothing will be lost; make room", space.Free>>20, folder)
	}
	return fmt.Sprintf("%d MiB free", space.Free>>20), nil
}
